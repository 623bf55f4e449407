"""JupyterLab, as `make lab` starts it, opens a notebook without changing it."""

import asyncio

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbformat.v4 import new_code_cell, new_notebook
from project import ROOT
from refresh import KERNEL
from traitlets.config import PyFileConfigLoader

LAB = ROOT / "tools" / "lab"


@pytest.fixture
def config():
    return PyFileConfigLoader("config.py", path=str(LAB)).load_config()


@pytest.fixture
def manager(config, tmp_path, monkeypatch):
    """What hands out and stores the notebooks of a folder with one page."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))  # not among the reader's own
    page = new_notebook(cells=[new_code_cell("1 + 1", id="a")], metadata=KERNEL)
    (tmp_path / "page.ipynb").write_text(nbformat.writes(page) + "\n")
    return config.ServerApp.contents_manager_class(root_dir=str(tmp_path))


def open_page(manager):
    return asyncio.run(manager.get("page.ipynb"))


def ask_kernel():
    """What JupyterLab writes into a notebook that it opens: what a kernel says of itself."""
    kernel, client = start_new_kernel(kernel_name="python3")
    try:
        language = client.kernel_info(reply=True, timeout=60)["content"]["language_info"]
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    spec = kernel.kernel_spec
    names = {"name": "python3", "display_name": spec.display_name, "language": spec.language}
    return {"kernelspec": names, "language_info": language}


def test_a_notebook_is_handed_out_as_its_kernel_would_complete_it(manager):
    metadata = open_page(manager)["content"]["metadata"]
    assert metadata == ask_kernel() and metadata != KERNEL


def test_a_notebook_that_was_only_opened_is_stored_as_it_was(manager, tmp_path):
    before = (tmp_path / "page.ipynb").read_text()
    asyncio.run(manager.save(open_page(manager), "page.ipynb"))
    assert (tmp_path / "page.ipynb").read_text() == before
