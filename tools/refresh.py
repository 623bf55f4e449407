"""Run notebooks in place and store their outputs: python tools/refresh.py [NAME].

A notebook is replaced in one step, after its last cell: an interrupt or an error leaves it whole.
"""

import asyncio
import signal
import sys
from pathlib import Path

import nbformat
import store
from jupyter_client.manager import AsyncKernelManager
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


def chosen(names):
    """Return the notebooks of these names, all of them when no name is given.

    batch-norm, chapters/batch-norm.ipynb, or in a folder of chapters/: claims/batch-normalization.
    """
    known = notebooks()
    found = {name: named(name, known) for name in names or known}
    unknown = " ".join(name for name, path in found.items() if path is None)
    if unknown or not known:
        sys.exit(
            f"refresh: expected the name of a notebook in chapters/, got {unknown or 'none'};"
            f" there are: {', '.join(known) or 'no notebooks'}"
        )
    return list(found.values())


def named(name, known):
    """Return the notebook whose path ends like this name, or None."""
    wanted = Path(name.removesuffix(".ipynb")).parts
    ends = (p for p in known.values() if p.with_suffix("").parts[-len(wanted) :] == wanted)
    return next(ends, None)


class BrokenCell(Exception):
    """A cell that did not end well: its number and the reason."""


def first_line(error):
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def reason(error):
    """Say in one line why a cell failed."""
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {first_line(error.evalue)}"
    return f"{type(error).__name__}: {first_line(error)}"


def runs(cell):
    """Tell whether nbclient runs this cell: code, and not empty."""
    return cell.cell_type == "code" and bool(cell.source.strip())


def shown(path):
    return path.relative_to(CHAPTERS.parent)


def end_if_interrupted():
    """Cancel again what was cancelled: nbclient takes that for a dead kernel, and asyncio.wait_for
    of Python 3.11 forgets it if what it waits for is there at the same moment."""
    if asyncio.current_task().cancelling():
        raise asyncio.CancelledError


async def run_cells(client, step):
    """Run the cells in order, calling `step` after each; an error names the cell, from 1."""
    cells = [(i, cell) for i, cell in enumerate(client.nb.cells) if runs(cell)]
    for number, (index, cell) in enumerate(cells, start=1):
        end_if_interrupted()
        try:
            await client.async_execute_cell(cell, index, execution_count=number)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            end_if_interrupted()
            raise BrokenCell(number, reason(error)) from error
        step()


async def execute(notebook, folder, step):
    """Run `notebook` in `folder` on a kernel of its own, which ends with it in any case.

    NotebookClient.execute would do, but for its handlers of signals: they call Ctrl-C an error.
    """
    kernel = AsyncKernelManager(kernel_name="python3")
    client = NotebookClient(notebook, km=kernel, timeout=CELL_TIMEOUT, record_timing=False)
    try:
        # Only errors: a kernel warns that its connection on loopback is not encrypted.
        await kernel.start_kernel(cwd=str(folder), extra_arguments=["--log-level=40"])
        client.kc = kernel.client()
        client.kc.start_channels()
        await client.kc.wait_for_ready(timeout=60)
        await run_cells(client, step)
    finally:
        if client.kc:
            client.kc.stop_channels()
        await kernel.shutdown_kernel(now=True)


def run_with_bar(notebook, path):
    """Run `notebook` behind a progress bar over its cells."""
    total = sum(map(runs, notebook.cells))
    with tqdm(total=total, desc=path.stem, unit="cell") as bar:
        asyncio.run(execute(notebook, path.parent, bar.update))


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
    try:
        notebook = nbformat.read(path, as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        sys.exit(f"refresh: expected a notebook in {shown(path)}, got: {first_line(error)}")
    try:
        run_with_bar(notebook, path)
    except BrokenCell as broken:
        number, why = broken.args
        sys.exit(f"refresh: {shown(path)} left as it was: code cell {number} ended in {why}")
    tidy(notebook)
    store.write(path, nbformat.writes(notebook) + "\n")


def main(names):
    """Refresh the notebooks of these names; a signal to end is an interrupt like Ctrl-C."""
    # Set here, since a job in the background of a script starts with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        for path in chosen(names):
            refresh(path)
    except KeyboardInterrupt:
        print("refresh: interrupted; every notebook is whole, old or new", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
