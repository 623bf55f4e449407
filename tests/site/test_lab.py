"""JupyterLab, as `make lab` starts it, opens a notebook without changing it; its links lead on."""

import asyncio
import re

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebooks import CHAPTERS, notebooks
from project import ROOT
from references import close_references, open_references
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


def list_dead(cell, folder):
    """The references of a cell that lead to no file, or to no cell of it."""
    dead = re.findall(r"\{(?!download)[a-z:]+\}`[^`]*`", cell["source"])
    for link, name, place in re.findall(
        r"\]\(((?!https?:)([\w./-]+)(?:#cell-id=([\w-]+))?)\)", cell["source"]
    ):
        there = folder / name
        found = there.is_file() and (not place or f'"id": "{place}"' in there.read_text())
        dead += [] if found else [link]
    return dead


@pytest.mark.parametrize("name", notebooks())
def test_references_are_links_that_lead_somewhere_and_are_stored_as_they_were(name):
    path = notebooks()[name]
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            written = cell.source
            open_references(cell, path.parent.relative_to(ROOT).as_posix())
            assert not list_dead(cell, path.parent)
            cell.source += " What a reader adds."
            close_references(cell)
            assert cell.source == f"{written} What a reader adds."
            assert "references" not in cell.metadata


def test_a_reference_that_nobody_knows_is_seen():
    cell = new_markdown_cell("{doc}`batch-nrom`, [text](no-such-label), {term}`batch`")
    open_references(cell, "chapters")
    assert list_dead(cell, CHAPTERS) == ["{doc}`batch-nrom`", "no-such-label"]
