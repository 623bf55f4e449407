"""How `make lab` starts JupyterLab; the settings of its windows stand in overrides.json."""

import sys
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
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

    Stores them as make refresh does, without what depends on the machine.
    """

    async def get(self, *args, **options):
        model = await super().get(*args, **options)
        if model["type"] == "notebook" and model["content"]:
            model["content"]["metadata"].update(as_reported())
        return model

    async def save(self, model, path=""):
        if model["type"] == "notebook":
            model["content"] = nbformat.from_dict(model["content"])
            tidy(model["content"])
        return await super().save(model, path)


c = get_config()  # noqa: F821
c.LabApp.app_settings_dir = str(HERE)
c.ServerApp.contents_manager_class = Notebooks
