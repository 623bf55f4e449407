"""What the pages that are not notebooks say, held against the notebooks."""

import json
import re

from index_words import glossary
from project import ROOT, read_cells

from normbook.claims import register


def list_printed():
    """Everything that the chapters have printed as text, white space folded."""
    outputs = (output for _, cell in read_cells() for output in cell.outputs)
    texts = (output.get("data", {}).get("text/plain", "") for output in outputs)
    return {" ".join(line.split()) for text in texts for line in text.splitlines()}


def verdict_rows(page):
    """The rows of the table of a verdict, as a verdict prints them."""
    table = page.split("| argument | witness |", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in row.strip("| ").split("|")] for row in table.splitlines()[2:]]
    return [" ".join(row) for row in rows]


def test_the_verdict_that_explains_how_to_read_one_was_printed_by_a_chapter():
    page = (ROOT / "how-to-read.md").read_text(encoding="utf-8")
    assert len(verdict_rows(page)) >= 4 and {*verdict_rows(page)} <= list_printed()


def test_every_dependency_is_explained_in_the_readme():
    names = re.findall(r"^[a-z][\w-]*", (ROOT / "requirements.txt").read_text(), re.M)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.split("## Dependencies", 1)[1]
    assert len(names) > 10 and not [name for name in names if name not in table]


def test_the_kernels_were_measured_with_the_pinned_versions():
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    found = json.loads((ROOT / "normbook/data/kernels.json").read_text("utf-8"))["versions"]
    assert found == {n: re.search(rf"^{n}==(\S+)", pins, re.M)[1] for n in found}
    assert found.keys() == {"numpy", "numba", "torch"}


def find_citations():
    """The keys that the pages cite, each with the pages that do."""
    pages = {}
    texts = [(name, cell.source) for name, cell in read_cells("markdown")]
    texts += [(path.stem, path.read_text("utf-8")) for path in ROOT.glob("*.md")]
    for name, text in texts:
        for keys in re.findall(r"\{cite[:a-z]*\}`([^`]+)`", text):
            for key in keys.split(","):
                pages.setdefault(key.strip(), set()).add(name)
    return pages


def test_every_paper_of_the_bibliography_is_cited_where_it_is_used():
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text("utf-8"), re.M))
    assert len(keys) > 30 and keys == set(find_citations())


def test_every_paper_whose_claims_are_decided_is_cited_on_the_page_that_decides_them():
    pages = find_citations()
    claims = [c for c in register().claims.values() if not c.id[0].isdigit() and c.page]
    assert [c.id for c in claims if c.page not in pages.get(c.id.rsplit("-", 1)[0], ())] == []


def terms_used():
    """The terms of the glossary that the chapters mark, in lower case."""
    marked = (re.findall(r"\{term\}`([^`]+)`", c.source) for _, c in read_cells("markdown"))
    return {re.sub(r".*<(.*)>", r"\1", term).lower() for found in marked for term in found}


def test_every_word_of_the_glossary_is_marked_somewhere_in_the_text():
    words = glossary(ROOT / "glossary.md")
    assert len(words) > 50 and not set(words) - terms_used()
