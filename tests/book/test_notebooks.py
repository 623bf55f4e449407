"""The committed chapters are whole: executed in order, nothing hidden, every figure described.

nbval compares the outputs, and sees none of this.
"""

import inspect
import re
from itertools import pairwise

import nbformat
import pytest
from project import NOTEBOOKS, TOC, listed

MOST_LINES = 15  # about a dozen: nothing is squeezed to save a line
PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|Users)/\w|\b[A-Z]:\\\\?\w")
REMOVAL = re.compile("remove|scroll")  # an output that scrolls in a box shows its beginning alone
# How a cell folds in JupyterLab, and the tags that fold it on the site.
FOLDS = {
    "source_hidden": {"hide-input", "hide-cell"},
    "outputs_hidden": {"hide-output", "hide-cell"},
}
EXEMPTION = re.compile(r"NBVAL_|nbval-|raises-exception|PYTEST_VALIDATE_")
BOOK = {name: nbformat.read(path, nbformat.NO_CONVERT) for name, path in NOTEBOOKS.items()}


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code(notebook) for output in cell.outputs]


def tags(cell):
    return set(cell.metadata.get("tags", []))


def cells_are_executed_in_order(notebook):
    counts = [cell.execution_count for cell in code(notebook)]
    if counts != list(range(1, len(counts) + 1)) or not counts:
        yield f"the counts are {counts}"


def a_chapter_has_outputs_and_none_of_them_is_an_error(notebook):
    if not outputs(notebook):
        yield "there are none"
    for output in outputs(notebook):
        if output.output_type == "error" or output.get("name") == "stderr":
            yield str(output)[:80]


def no_cell_is_exempt_from_the_comparison(notebook):
    for cell in notebook.cells:
        if EXEMPTION.search(" ".join([cell.source, *tags(cell)])):
            yield cell.source


def no_path_of_one_machine_is_there(notebook):
    found = [cell.source for cell in notebook.cells]
    for output in outputs(notebook):
        data = output.get("data", {}).items()
        found += [output.get("text", ""), *(str(v) for kind, v in data if "image/" not in kind)]
    yield from (path[0] for path in map(PATH.search, found) if path)


def no_time_and_no_version_is_in_the_metadata(notebook):
    yield from (cell.source for cell in notebook.cells if "execution" in cell.metadata)
    kernel = notebook.metadata.get("kernelspec", {})
    if kernel.get("name") != "python3" or "version" in notebook.metadata.get("language_info", {}):
        yield f"the kernel is {kernel}"


def a_chapter_asserts_something(notebook):
    if not any(re.search(r"^\s*assert\b", cell.source, re.M) for cell in code(notebook)):
        yield "no cell has an assert"


def a_cell_is_short(notebook):
    """What is longer belongs in the library, or beside it; a cell that folds is no exception."""
    for cell in code(notebook):
        rows = [row for row in map(str.strip, cell.source.splitlines()) if row]
        if sum(not row.startswith("#") for row in rows) > MOST_LINES:
            yield cell.source


def what_a_notebook_has_is_shown_or_folded_and_never_removed(notebook):
    for part in [notebook, *notebook.cells]:
        yield from filter(REMOVAL.search, [*tags(part), *part.metadata.get("mystnb", {})])


def what_folds_on_the_site_and_nothing_else_folds_in_jupyterlab(notebook):
    for cell in code(notebook):
        for key, folding in FOLDS.items():
            if bool(folding & tags(cell)) != cell.metadata.get("jupyter", {}).get(key, False):
                yield f"{key}: {cell.source}"


def unseen(cell):
    """Whether a cell is a fold with nothing below it: a reader meets its mark alone."""
    return "hide-input" in tags(cell) and not cell.outputs


def prose_stands_before_what_is_seen_of_a_code_cell(notebook):
    for before, after in pairwise(notebook.cells):
        if before.cell_type == after.cell_type == "code" and not unseen(after):
            yield after.source


def a_colon_leads_to_what_is_seen(notebook):
    prose = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "markdown"]
    for at, end in pairwise([*prose, len(notebook.cells)]):
        between = notebook.cells[at + 1 : end]
        if (
            between
            and all(map(unseen, between))
            and re.search(r"[^:]:$", notebook.cells[at].source.rstrip())
        ):
            yield notebook.cells[at].source[-60:]


def a_figure_has_a_caption_and_a_text_for_who_does_not_see_it(notebook):
    for cell in code(notebook):
        settings = cell.metadata.get("mystnb", {})
        alt, caption = (settings.get(key, {}) for key in ("image", "figure"))
        image = any(kind.startswith("image/") for o in cell.outputs for kind in o.get("data", {}))
        if image and not (alt.get("alt") and caption.get("caption")):
            yield cell.source


RULES = [rule for name, rule in globals().items() if inspect.isgeneratorfunction(rule)]
assert len(RULES) == 12


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_in_every_notebook(rule):
    broken = [f"{name}: {line[:60]!r}" for name, book in BOOK.items() for line in rule(book)]
    assert not broken, "\n".join([*broken, "try make refresh"])


def test_every_notebook_is_valid_nbformat():
    for name, notebook in BOOK.items():
        nbformat.validate(notebook)
        assert notebook.nbformat == 4, name


# The contents.


def test_the_table_of_contents_names_exactly_the_chapters_and_no_two_pages_alike():
    pages = listed(TOC)
    chapters = {f"chapters/{name}" for name in NOTEBOOKS}
    assert {page for page in pages if page.startswith("chapters/")} == chapters
    assert len({page.rsplit("/", 1)[-1] for page in pages}) == len(pages)
    assert {"/" in name for name in NOTEBOOKS} == {True, False}  # claims pages, and others
