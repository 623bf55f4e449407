"""Run notebooks in place and store their outputs: python tools/refresh.py [NAME].

A notebook is replaced in one step, after its last cell: an interrupt or an error leaves it whole.
"""

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import store
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from notebooks import CHAPTERS, notebooks
from tqdm import tqdm

CELL_TIMEOUT = 600
# The generic kernel, without a version: the same bytes on every Python.
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def choose_notebooks(names):
    """Return the notebooks of these names, all of them when no name is given.

    batch-norm, chapters/batch-norm.ipynb, or in a folder of chapters/: claims/batch-normalization.
    """
    known = notebooks()
    found = {name: find_notebook(name, known) for name in names or known}
    unknown = " ".join(name for name, path in found.items() if path is None)
    if unknown or not known:
        sys.exit(
            f"refresh: expected the name of a notebook in chapters/, got {unknown or 'none'};"
            f" there are: {', '.join(known) or 'no notebooks'}"
        )
    return list(found.values())


def find_notebook(name, known):
    """Return the notebook whose path ends like this name, or None."""
    wanted = Path(name.removesuffix(".ipynb")).parts
    ends = (p for p in known.values() if p.with_suffix("").parts[-len(wanted) :] == wanted)
    return next(ends, None)


def run_cells(notebook, path):
    """Run the cells in order, behind a progress bar.

    In a thread nbclient sets no handlers of signals: they would call Ctrl-C an error.
    Errors: SystemExit for a cell that did not end well, counted from 1, with the reason in a line.
    """
    cells = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in notebook.cells)
    with tqdm(total=cells, desc=path.stem, unit="cell") as bar:
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT,
            record_timing=False,
            resources={"metadata": {"path": str(path.parent)}},
            # Only errors: a kernel warns that its connection on loopback is not encrypted. Pictures
            # get twice the dots, for the screens of phones.
            extra_arguments=["--log-level=40", "--InlineBackend.figure_formats={'retina'}"],
            on_cell_executed=lambda **_: bar.update(),
        )
        try:
            ThreadPoolExecutor(1).submit(asyncio.run, client.async_execute()).result()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            broke = isinstance(error, CellExecutionError)
            why = f"{error.ename}: {error.evalue}" if broke else repr(error)
            sys.exit(
                f"refresh: {path.relative_to(CHAPTERS.parent)} left as it was: code cell "
                f"{client.code_cells_executed} ended in {why.splitlines()[0]}"
            )


def fold(cell):
    """Fold in JupyterLab, which reads no tags, what the tags fold on the site."""
    tags = cell.metadata.get("tags", [])
    folds = {
        "source_hidden": "hide-input" in tags or "hide-cell" in tags,
        "outputs_hidden": "hide-output" in tags or "hide-cell" in tags,
    }
    for mark in ("jupyter", "collapsed"):  # JupyterLab writes both
        cell.metadata.pop(mark, None)
    if any(folds.values()):
        cell.metadata["jupyter"] = {name: True for name, hidden in folds.items() if hidden}


def tidy(notebook):
    """Drop what depends on the machine, the kernel's version and timings; fold as the tags say."""
    for key in ("kernelspec", "language_info", "widgets"):
        notebook.metadata.pop(key, None)
    notebook.metadata.update(KERNEL)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        fold(cell)


def refresh(path):
    """Run the notebook at `path` and store what it printed."""
    notebook = nbformat.read(path, as_version=4)
    run_cells(notebook, path)
    tidy(notebook)
    store.write(path, nbformat.writes(notebook) + "\n")


def main(names):
    """Refresh the notebooks of these names; a signal to end is an interrupt like Ctrl-C."""
    # Set here, since a job in the background of a script starts with Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        for path in choose_notebooks(names):
            refresh(path)
    except KeyboardInterrupt:
        print("refresh: interrupted; every notebook is whole, old or new", file=sys.stderr)
        for kernel in psutil.Process().children(recursive=True):
            kernel.kill()
        os._exit(130)  # without waiting for the thread that waits for a kernel


if __name__ == "__main__":
    main(sys.argv[1:])
