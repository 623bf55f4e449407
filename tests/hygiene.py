"""What a committed notebook must look like; nbval compares outputs, and sees none of this."""

import re

MOST_LINES = 15  # about a dozen: nothing is squeezed to save a line
PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|Users)/\w|\b[A-Z]:\\\\?\w")
REMOVAL = re.compile("remove|scroll")  # an output that scrolls in a box shows its beginning alone
# How a cell folds in JupyterLab, and the tags that fold it on the site.
FOLDS = {
    "source_hidden": {"hide-input", "hide-cell"},
    "outputs_hidden": {"hide-output", "hide-cell"},
}
EXEMPTION = re.compile(r"NBVAL_|nbval-|raises-exception|PYTEST_VALIDATE_")


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [output for cell in code(notebook) for output in cell.outputs]


def texts(output):
    """Yield every piece of text that an output holds."""
    yield output.get("text", "")
    yield from (str(v) for kind, v in output.get("data", {}).items() if "image/" not in kind)


def lines(cell):
    """Count the lines that are neither blank nor a comment."""
    rows = map(str.strip, cell.source.splitlines())
    return sum(bool(row) and not row.startswith("#") for row in rows)


def has_image(cell):
    return any(kind.startswith("image/") for o in cell.outputs for kind in o.get("data", {}))


def executed_in_order(notebook):
    counts = [cell.execution_count for cell in code(notebook)]
    if counts != list(range(1, len(counts) + 1)) or not counts:
        yield f"cells are executed 1, 2, 3, … in order: the counts are {counts}"


def has_outputs(notebook):
    if not outputs(notebook):
        yield "a chapter has outputs: there are none"


def no_error(notebook):
    for output in outputs(notebook):
        if output.output_type == "error":
            yield f"no cell ends in an error: {output.ename}: {output.evalue}"


def no_stderr(notebook):
    for output in outputs(notebook):
        if output.get("name") == "stderr":
            yield f"nothing is printed to stderr: {output.text[:80]!r}"


def no_exemption(notebook):
    for cell in notebook.cells:
        if EXEMPTION.search(" ".join([cell.source, *cell.metadata.get("tags", [])])):
            yield f"no cell is exempt from the comparison: {cell.source[:60]!r}"


def no_absolute_path(notebook):
    found = [cell.source for cell in notebook.cells]
    found += [text for output in outputs(notebook) for text in texts(output)]
    for path in filter(None, map(PATH.search, found)):
        yield f"no path of one machine: {path[0]!r}"


def no_timing(notebook):
    if any("execution" in cell.metadata for cell in notebook.cells):
        yield "no times in the metadata: make refresh leaves them out"


def generic_kernel(notebook):
    kernel = notebook.metadata.get("kernelspec", {})
    if kernel.get("name") != "python3" or "version" in notebook.metadata.get("language_info", {}):
        yield f"the kernel is python3 of any version: {kernel}; make refresh writes it"


def folds_agree(notebook):
    """A tag folds a cell on the site, another mark in JupyterLab."""
    for cell in code(notebook):
        tags, marks = cell.metadata.get("tags", []), cell.metadata.get("jupyter", {})
        for tag, mark in (("hide-input", "source_hidden"), ("hide-output", "outputs_hidden")):
            if (tag in tags or "hide-cell" in tags) != marks.get(mark, False):
                yield f"{tag} goes with jupyter.{mark}: {cell.source[:60]!r}; try make refresh"


def has_assert(notebook):
    if not any(re.search(r"^\s*assert\b", cell.source, re.M) for cell in code(notebook)):
        yield "a chapter asserts something: no cell has an assert"


def short_cells(notebook):
    for cell in code(notebook):
        if lines(cell) > MOST_LINES:
            yield (
                f"a cell, open or folded, has at most {MOST_LINES} lines, not {lines(cell)}; "
                f"what is longer belongs in normlib: {cell.source[:60]!r}"
            )


def nothing_removed(notebook):
    for part in [notebook, *notebook.cells]:
        settings = [*part.metadata.get("tags", []), *part.metadata.get("mystnb", {})]
        for name in filter(REMOVAL.search, settings):
            yield f"what a notebook has is shown or folded, never removed: {name}; try hide-input"


def folds_everywhere(notebook):
    for cell in code(notebook):
        for key, tags in FOLDS.items():
            folds = bool(tags & set(cell.metadata.get("tags", [])))
            if folds != cell.metadata.get("jupyter", {}).get(key, False):
                yield (
                    f"what folds on the site, and nothing else, folds in JupyterLab too: expected "
                    f"jupyter.{key} to be {folds}, as the tags say: {cell.source[:60]!r}"
                )


def prose_between(notebook):
    for before, after in zip(notebook.cells, notebook.cells[1:], strict=False):
        if before.cell_type == after.cell_type == "code":
            yield f"prose stands between two code cells: none before {after.source[:60]!r}"


def figures_described(notebook):
    for cell in filter(has_image, code(notebook)):
        settings = cell.metadata.get("mystnb", {})
        if not settings.get("image", {}).get("alt"):
            yield f"a figure has mystnb.image.alt: {cell.source[:60]!r}"
        if not settings.get("figure", {}).get("caption"):
            yield f"a figure has mystnb.figure.caption: {cell.source[:60]!r}"


RULES = (
    executed_in_order,
    has_outputs,
    no_error,
    no_stderr,
    no_exemption,
    no_absolute_path,
    no_timing,
    generic_kernel,
    folds_agree,
    has_assert,
    short_cells,
    nothing_removed,
    folds_everywhere,
    prose_between,
    figures_described,
)


def problems(notebook):
    """Return one line for everything that is wrong with a notebook."""
    return [line for rule in RULES for line in rule(notebook)]
