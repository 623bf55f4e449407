"""The committed chapters are whole: executed in order, nothing hidden, every figure described."""

from collections import Counter

import hygiene
import nbformat
import notebooks
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from project import CHAPTERS, NOTEBOOKS, ROOT, TOC, listed


def mismatches(toc, pages):
    """Return the pages that only the contents, or only the folder, know."""
    named = {page for page in listed(toc) if page.startswith("chapters/")}
    pages = set(pages)
    return [f"in _toc.yml, not in chapters/: {page}" for page in sorted(named - pages)] + [
        f"in chapters/, not in _toc.yml: {page}" for page in sorted(pages - named)
    ]


def shared_names(pages):
    """Return the names that more than one page has, whatever its folder."""
    counts = Counter(page.rsplit("/", 1)[-1] for page in pages)
    return [name for name, count in counts.items() if count > 1]


def test_the_book_has_chapters_and_claims_pages():
    assert any("/" in name for name in NOTEBOOKS) and any("/" not in name for name in NOTEBOOKS)


def test_no_two_pages_have_the_same_name_even_in_different_folders():
    assert shared_names(listed(TOC)) == []
    assert shared_names(["a", "claims/b", "claims/a"]) == ["a"]


def test_copies_that_jupyter_keeps_are_not_pages(tmp_path, monkeypatch):
    for name in ("a", "claims/b", ".ipynb_checkpoints/a-checkpoint", "claims/.hidden/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / f"{name}.ipynb").touch()
    monkeypatch.setattr(notebooks, "CHAPTERS", tmp_path)
    assert [*notebooks.notebooks()] == ["a", "claims/b"]


def test_the_table_of_contents_names_exactly_the_chapters():
    pages = [path.relative_to(ROOT).with_suffix("").as_posix() for path in CHAPTERS]
    assert mismatches(TOC, pages) == []


def test_a_page_missing_on_either_side_is_reported():
    toc = {"root": "intro", "parts": [{"chapters": [{"file": "chapters/a"}]}]}
    assert len(mismatches(toc, ["chapters/b"])) == 2
    assert mismatches(toc, ["chapters/a"]) == []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_notebook_is_valid_nbformat(path):
    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))


@pytest.mark.parametrize("rule", hygiene.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_notebook_keeps_every_rule(path, rule):
    broken = list(rule(nbformat.read(path, as_version=4)))
    assert not broken, "\n".join(broken)


KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def healthy():
    """Return a small notebook that keeps every rule."""
    figure = {"image": {"alt": "a dot"}, "figure": {"caption": "A dot."}}
    printed = new_output("stream", name="stdout", text="ok, 1/2 of https://a.org/tmp/x\n")
    picture = new_output("display_data", data={"image/png": "aGk="})
    cells = [
        new_code_cell("assert True\nprint('ok')", execution_count=1, outputs=[printed]),
        new_markdown_cell("Prose."),
        new_code_cell("plot()", execution_count=2, outputs=[picture], metadata={"mystnb": figure}),
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def unexecuted(notebook):
    notebook.cells[0].execution_count = None


def executed_twice(notebook):
    notebook.cells[0].execution_count = 3


def without_code(notebook):
    notebook.cells = notebook.cells[1:2]


def without_outputs(notebook):
    for cell in (notebook.cells[0], notebook.cells[2]):
        cell.outputs = []


def with_error(notebook):
    error = new_output("error", ename="ValueError", evalue="no", traceback=[])
    notebook.cells[0].outputs.append(error)


def with_stderr(notebook):
    notebook.cells[0].outputs.append(new_output("stream", name="stderr", text="Warning"))


def with_comment_exemption(notebook):
    notebook.cells[0].source = "# NBVAL_IGNORE_OUTPUT\n" + notebook.cells[0].source


def with_tag_exemption(notebook):
    notebook.cells[0].metadata["tags"] = ["nbval-skip"]


def with_expected_exception(notebook):
    notebook.cells[0].metadata["tags"] = ["raises-exception"]


def with_path_in_source(notebook):
    notebook.cells[2].source = "open('/home/ada/data.csv')"


def with_path_in_output(notebook):
    notebook.cells[0].outputs[0].text = "saved to /tmp/figure.png"


def with_windows_path(notebook):
    notebook.cells[1].source = r"See C:\Users\ada."


def with_times(notebook):
    notebook.cells[0].metadata["execution"] = {"iopub.status.busy": "2024-01-01T00:00:00Z"}


def with_own_kernel(notebook):
    notebook.metadata.kernelspec["name"] = "my-env"


def with_python_version(notebook):
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}


def folded_on_the_site_alone(notebook):
    notebook.cells[0].metadata["tags"] = ["hide-input"]


def folded_in_jupyterlab_alone(notebook):
    notebook.cells[2].metadata["jupyter"] = {"outputs_hidden": True}


def folded_by_half(notebook):
    notebook.cells[0].metadata.update(tags=["hide-cell"], jupyter={"source_hidden": True})


def without_assert(notebook):
    notebook.cells[0].source = "print('we assert nothing')"


def with_long_cell(notebook):
    notebook.cells[0].source += "\nx = 1" * 11


def with_long_folded_cell(notebook):
    notebook.cells[0].metadata = {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    with_long_cell(notebook)


def with_removed_input(notebook):
    notebook.cells[0].metadata["tags"] = ["remove-input"]


def with_removed_cell(notebook):
    notebook.cells[1].metadata["tags"] = ["remove_cell"]


def with_sources_removed(notebook):
    notebook.metadata["mystnb"] = {"remove_code_source": True}


def with_scrolling_output(notebook):
    notebook.cells[0].metadata["tags"] = ["scroll-output"]


def with_fold_on_the_site_alone(notebook):
    notebook.cells[0].metadata["tags"] = ["hide-input"]


def with_fold_in_jupyterlab_alone(notebook):
    notebook.cells[0].metadata["jupyter"] = {"outputs_hidden": True}


def with_half_a_fold_in_jupyterlab(notebook):
    notebook.cells[0].metadata = {"tags": ["hide-cell"], "jupyter": {"source_hidden": True}}


def without_prose(notebook):
    del notebook.cells[1]


def without_alt_text(notebook):
    del notebook.cells[2].metadata.mystnb["image"]


def without_caption(notebook):
    del notebook.cells[2].metadata.mystnb["figure"]


PLANTED = {
    unexecuted: "executed_in_order",
    executed_twice: "executed_in_order",
    without_code: "executed_in_order",
    without_outputs: "has_outputs",
    with_error: "no_error",
    with_stderr: "no_stderr",
    with_comment_exemption: "no_exemption",
    with_tag_exemption: "no_exemption",
    with_expected_exception: "no_exemption",
    with_path_in_source: "no_absolute_path",
    with_path_in_output: "no_absolute_path",
    with_windows_path: "no_absolute_path",
    with_times: "no_timing",
    with_own_kernel: "generic_kernel",
    with_python_version: "generic_kernel",
    folded_on_the_site_alone: "folds_agree",
    folded_in_jupyterlab_alone: "folds_agree",
    folded_by_half: "folds_agree",
    without_assert: "has_assert",
    with_long_cell: "short_cells",
    with_long_folded_cell: "short_cells",
    with_removed_input: "nothing_removed",
    with_removed_cell: "nothing_removed",
    with_sources_removed: "nothing_removed",
    with_scrolling_output: "nothing_removed",
    with_fold_on_the_site_alone: "folds_everywhere",
    with_fold_in_jupyterlab_alone: "folds_everywhere",
    with_half_a_fold_in_jupyterlab: "folds_everywhere",
    without_prose: "prose_between",
    without_alt_text: "figures_described",
    without_caption: "figures_described",
}


def test_a_healthy_notebook_has_no_problems():
    assert hygiene.problems(healthy()) == []


def test_comments_and_blank_lines_do_not_make_a_cell_long():
    notebook = healthy()
    notebook.cells[0].source += "\n\n# why" * 20
    assert hygiene.problems(notebook) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_every_planted_fault_is_reported_by_its_rule(plant):
    notebook = healthy()
    plant(notebook)
    rule = getattr(hygiene, PLANTED[plant])
    assert list(rule(notebook)) and hygiene.problems(notebook)


def test_every_rule_has_a_planted_fault():
    assert {rule.__name__ for rule in hygiene.RULES} == set(PLANTED.values())
