"""A picture on a page without code is one that a verified notebook drew."""

import base64
import re

import cell_pictures
import nbformat
import pytest
from project import CHAPTERS, ROOT
from sphinx.cmd.build import build_main

PAGES = [page for page in ROOT.glob("*.md") if page.name not in ("README.md", "CHANGELOG.md")]
USED = [
    found
    for page in PAGES
    for found in re.findall(r"^```\{cell-picture\} (\S+) (\S+)$", page.read_text("utf-8"), re.M)
]
PNG = base64.b64encode(b"a picture").decode()


@pytest.fixture
def notebook(tmp_path):
    """Of three cells the second drew a picture."""
    cells = [nbformat.v4.new_code_cell("x", id=name) for name in ("before", "drawn", "after")]
    cells[1].outputs = [nbformat.v4.new_output("display_data", {"image/png": PNG})]
    cells[1].metadata["mystnb"] = {"image": {"alt": "A line."}}
    path = tmp_path / "drawing.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.mark.parametrize(("page", "name"), USED)
def test_every_picture_comes_from_a_notebook_that_the_tests_run(page, name):
    assert ROOT / page in CHAPTERS
    data, alt = cell_pictures.picture(ROOT / page, name)
    assert base64.b64decode(data).startswith(b"\x89PNG") and alt


def test_the_landing_page_shows_one():
    assert len(USED) == 1 and "{cell-picture}" in (ROOT / "intro.md").read_text("utf-8")


def test_a_cell_without_a_picture_is_refused_with_the_names_of_those_that_have_one(notebook):
    with pytest.raises(ValueError, match=r"got before with 0 in drawing.ipynb; it has: drawn"):
        cell_pictures.picture(notebook, "before")


def test_the_page_holds_the_picture_and_a_wrong_name_stops_the_build(notebook, tmp_path):
    settings = 'extensions = ["myst_parser", "cell_pictures"]\nexclude_patterns = ["*.ipynb"]\n'
    (tmp_path / "conf.py").write_text(settings)

    def built(name):
        text = f"# Page\n\n```{{cell-picture}} drawing.ipynb {name}\nWhat *it* shows.\n```\n"
        (tmp_path / "index.md").write_text(text)
        return build_main(["-q", "-W", str(tmp_path), str(tmp_path / "out")])

    assert built("drawn") == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert f"base64,{PNG}" in page and 'alt="A line."' in page and "What <em>it</em>" in page
    assert built("after") != 0
