"""Where the project lies, what its pages are, and how its commands are run from a test."""

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import yaml
from notebooks import notebooks

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = notebooks()  # by name: batch-norm, claims/batch-normalization
CHAPTERS = list(NOTEBOOKS.values())
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
# What an outer run of pytest or make tells its children must not reach an inner one.
PRIVATE = ("PYTEST_", "MAKE", "MFLAGS")


@cache
def read_cells(kind="code"):
    """The cells of this kind in all notebooks, each with the name of its page."""
    books = {name: nbformat.read(path, as_version=4) for name, path in NOTEBOOKS.items()}
    return [(n, c) for n, book in books.items() for c in book.cells if c.cell_type == kind]


def listed(toc):
    """Return every page that a table of contents names, at any depth."""
    if isinstance(toc, dict):
        own = [toc[key] for key in ("root", "file") if key in toc]
        return own + [page for value in toc.values() for page in listed(value)]
    return [page for item in toc for page in listed(item)] if isinstance(toc, list) else []


def environment(**changes):
    """Return this process's environment without its private part, and with `changes`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    return kept | changes


def run(*command, cwd=ROOT, **changes):
    """Run a command to its end and return what it said."""
    command, env = [str(part) for part in command], environment(**changes)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def make(tree, *arguments, **changes):
    """Run make in `tree`, in the environment of this test."""
    python = f"PY={shlex.quote(sys.executable)}"  # the folder's name may have a space
    return run("make", "-o", ".venv/ready", python, *arguments, cwd=tree, **changes)
