"""How `make lab` starts JupyterLab; the settings of its windows stand in overrides.json."""

import sys
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE)]
from references import ROOT, close_references, contents, open_references  # noqa: E402
from refresh import KERNEL, tidy  # noqa: E402


def as_reported() -> dict:
    """What this machine's kernel will say of itself, with its version."""
    name = KERNEL["kernelspec"]["name"]
    shown = KernelSpecManager().get_kernel_spec(name).display_name
    return {
        "kernelspec": KERNEL["kernelspec"] | {"display_name": shown},
        "language_info": IPythonKernel.language_info,
    }


class Notebooks(AsyncLargeFileManager):
    """Hands notebooks out as their kernel will complete them, or opening one would change it.

    Its references are links then. Stores notebooks as make refresh does, with the references as
    they were, and without what depends on the machine.
    """

    async def get(self, path, *args, **options):
        model = await super().get(path, *args, **options)
        if model["type"] == "notebook" and model["content"]:
            model["content"]["metadata"].update(as_reported())
            for cell in model["content"]["cells"]:
                if cell["cell_type"] == "markdown":
                    open_references(cell, Path(path.strip("/")).parent.as_posix())
        return model

    async def save(self, model, path=""):
        if model["type"] == "notebook":
            model["content"] = nbformat.from_dict(model["content"])
            for cell in model["content"]["cells"]:
                close_references(cell)
            tidy(model["content"])
        return await super().save(model, path)


c = get_config()  # noqa: F821
c.LabApp.app_settings_dir = str(HERE)
c.ServerApp.contents_manager_class = Notebooks

# The entrance: the pages in the order of the book, not of the alphabet.
ENTRANCE = ROOT / "_build" / "contents.md"
ENTRANCE.parent.mkdir(exist_ok=True)
ENTRANCE.write_text(contents(), encoding="utf-8")
c.LabApp.default_url = f"/lab/tree/{ENTRANCE.relative_to(ROOT)}"
c.ServerApp.root_dir = str(ROOT)
