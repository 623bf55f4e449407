"""A page is called by the title that it has, wherever another page or a docstring names it."""

import pytest
from project import ROOT, TOC, listed
from titles import path_of, target, texts, titles, wrong_links, wrong_quotes

KNOWN = titles()
PAGES = listed(TOC)
FOLDERS = ("normlib", "normbook", "tools", "site", "tests")
FILES = [p for f in FOLDERS for kind in ("py", "toml") for p in (ROOT / f).rglob(f"*.{kind}")]
FILES = [*ROOT.glob("*.md"), *(path for path in FILES if path.name != "test_titles.py")]


def test_every_page_has_a_title_of_its_own():
    assert set(KNOWN) == set(PAGES) and len({*KNOWN.values()}) == len(PAGES)


def test_every_title_is_a_short_name():
    assert [
        title for title in KNOWN.values() if len(title) > 45 or title.endswith(("?", "."))
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_calls_the_others_by_their_titles(page):
    said = texts(path_of(page))
    assert [title for text in said for title in wrong_quotes(text, KNOWN)] == []
    assert [line for text in said for line in wrong_links(page, text, KNOWN)] == []


def test_code_and_documents_quote_titles_that_pages_have():
    found = {str(p): wrong_quotes(text, KNOWN) for p in FILES for text in texts(p)}
    assert len(found) > 60 and {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_quoted_title_that_no_page_has_is_seen_also_where_a_line_breaks():
    assert not wrong_quotes('see chapter "RMSNorm"', KNOWN)
    assert wrong_quotes('the chapters\n    "RMSnorm" and', KNOWN) == ["RMSnorm"]
    assert wrong_quotes('# Chapter\n# "Normalize a batch"', KNOWN) == ["Normalize a batch"]


@pytest.mark.parametrize(
    ("link", "is_wrong"),
    [
        ("[RMSNorm](rms-norm)", False),
        ("[its chapter](rms-norm.ipynb#code)", False),
        ("[The chapter on RMSNorm](rms-norm)", False),
        ("[Glossary](../glossary)", False),
        ("[RMSNorm](layer-norm)", True),
        ("[Divide by the root mean square](rms-norm)", True),
        ("[A paper](https://a.org/rms-norm)", False),
    ],
)
def test_a_link_under_the_title_of_another_page_is_seen(link, is_wrong):
    assert any(wrong_links("chapters/batch-norm", f"See {link}.", KNOWN)) == is_wrong


def test_a_link_is_followed_from_the_folder_of_its_page():
    assert target("chapters/claims/a", "../batch-norm.ipynb") == "chapters/batch-norm"
    assert target("intro", "chapters/batch-norm.md") == "chapters/batch-norm"
    assert target("chapters/a", "../glossary") == "glossary"
