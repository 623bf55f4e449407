"""A reader of one chapter meets its figures as the first, the second, the third."""

import re

import pytest
from sphinx.cmd.build import build_main

FIGURE = ".. figure:: picture.svg\n\n   {0}\n\n"
PAGE = "Page\n====\n\n" + FIGURE.format("One") + ".. _second:\n\n" + FIGURE.format("Two")


@pytest.fixture
def book(tmp_path):
    """A book of two pages with two figures each, and the numbers that a build gives them."""
    (tmp_path / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "index.rst").write_text("Book\n====\n\n.. toctree::\n\n   a\n   b\n")
    (tmp_path / "a.rst").write_text(PAGE)
    (tmp_path / "b.rst").write_text(PAGE.replace("second", "other") + "See :numref:`other`.\n")

    def numbers(*extensions):
        settings = f"extensions = {[*extensions]}\nnumfig = True\n"
        (tmp_path / "conf.py").write_text(settings)
        assert build_main(["-q", "-W", str(tmp_path), str(tmp_path / "out")]) == 0
        pages = (tmp_path / "out" / name for name in ("a.html", "b.html"))
        return [re.findall(r"Fig\. (\d)", page.read_text()) for page in pages]

    return numbers


def test_figures_count_from_one_on_every_page_and_so_do_references_to_them(book):
    assert book("figure_numbers") == [["1", "2"], ["1", "2", "2"]]


def test_a_page_that_is_built_again_keeps_its_numbers(book, tmp_path):
    book("figure_numbers")
    (tmp_path / "a.rst").write_text(PAGE + FIGURE.format("Three"))
    assert book("figure_numbers") == [["1", "2", "3"], ["1", "2", "2"]]


def test_without_that_they_count_through_the_whole_book(book):
    assert book() == [["1", "2"], ["3", "4", "4"]]
