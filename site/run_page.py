"""How to run a page, from the page itself: its notebook, the code as two wheels, and three lines.
Ways to the repository appear where its address is configured. A Sphinx extension.

The addresses are settings of _config.yml: repository_url, html_baseurl.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
HOUSES = ("normlib", "normbook")  # the library, and what the book uses beside it
PARTS = ("pyproject.toml", "README.md", "LICENSE")  # what the library's wheel is made from, with it
# These pages are about all the others, whose notebooks they read.
OF_THE_WHOLE = {"chapters/ledger", "chapters/problems"}
GITHUB = "https://github.com/"
BINDER = "https://mybinder.org/v2/gh"
CARD = re.compile(r'<div class="decision" id="claim-([^"]+)"><a [^>]*>[^<]*</a> ')


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wheel_names() -> list[str]:
    return [f"{house}-{project()['version']}-py3-none-any.whl" for house in HOUSES]


def build_wheels(folder: Path) -> list[Path]:
    """Both houses for pip, as its back end makes them, from a copy: that leaves files behind."""
    with tempfile.TemporaryDirectory() as copy:
        for house in HOUSES:
            shutil.copytree(ROOT / house, Path(copy, house))
        for name in PARTS:
            shutil.copy(ROOT / name, copy)
        asked = f"from setuptools.build_meta import build_wheel as b; b({str(folder.resolve())!r})"
        # The same bytes from the same files: no time of day in them.
        bytewise = os.environ | {"SOURCE_DATE_EPOCH": "315532800"}
        command = [sys.executable, "-W", "ignore", "-c", asked]
        for place in (copy, f"{copy}/normbook"):
            subprocess.run(command, cwd=place, check=True, env=bytewise, capture_output=True)
    return [folder / name for name in wheel_names()]


def lines(notebook: str, wheels: list[str]) -> list[str]:
    """The commands, in a folder that holds the notebook. wheels: files there, or addresses."""
    asked = " ".join(wheel if "://" in wheel else f"./{wheel}" for wheel in wheels)
    return [
        "python3 -m venv book",
        f"book/bin/python -m pip install {asked}",
        f"book/bin/python -m jupyterlab {notebook}",
    ]


def links(repository: str, branch: str, source: str) -> dict[str, str]:
    """What can be done with a page where its source is kept: in words, with the address."""
    if not repository:
        return {}
    found = {"edit this page": f"{repository}/edit/{branch}/{source}"}
    if repository.startswith(GITHUB) and source.endswith(".ipynb"):
        place = repository.removeprefix(GITHUB)
        found["run it in the browser"] = f"{BINDER}/{place}/{branch}?urlpath=lab/tree/{source}"
    return found


def disputable(body: str, repository: str) -> str:
    """Every card of a claim with a link that opens an issue on it."""

    def with_link(card: re.Match) -> str:
        title = quote(f"Dispute of claim {card[1]}")
        address = f"{repository}/issues/new?title={title}"
        return f'{card[0]}<a class="dispute" href="{address}">dispute this verdict</a> '

    return CARD.sub(with_link, body) if repository else body


def run_page(app, page, template, context, doctree) -> None:
    options = app.config.html_theme_options
    repository = options.get("repository_url", "").rstrip("/")
    source = Path(app.env.doc2path(page, False)).as_posix() if doctree else ""
    context["repository_links"] = doctree and links(
        repository, options.get("repository_branch") or "main", source
    )
    if source.endswith(".ipynb") and page not in OF_THE_WHOLE:
        base = app.config.html_baseurl.rstrip("/")
        wheels = [f"{base}/{name}" if base else name for name in wheel_names()]
        context["run"] = {
            "python": project()["requires-python"].removeprefix(">="),
            "notebook": context["pathto"](f"_sources/{source}", 1),
            "wheels": [] if base else [context["pathto"](name, 1) for name in wheel_names()],
            "lines": lines(Path(source).name, wheels),
        }
    context["body"] = disputable(context.get("body", ""), repository)


def add_wheels(app, exception) -> None:
    if not exception and app.builder.name == "html":
        build_wheels(Path(app.outdir))


def setup(app) -> dict:
    app.connect("html-page-context", run_page)
    app.connect("build-finished", add_wheels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
