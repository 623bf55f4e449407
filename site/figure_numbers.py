"""Figures count from 1 on every page: a chapter is read by itself. A Sphinx extension."""


def count_by_page(app, env) -> None:
    """Sphinx has counted through the whole book, in the order of the contents."""
    for kinds in env.toc_fignumbers.values():
        for numbers in kinds.values():
            in_order = sorted(numbers, key=numbers.get)
            numbers.update({name: (count,) for count, name in enumerate(in_order, 1)})


def setup(app) -> dict:
    # The last moment before the pages are written: what Sphinx keeps for its next build has been
    # stored by then, with its own numbers, or it would take every page for a changed one.
    app.connect("env-check-consistency", count_by_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
