"""How to run a page, from the page itself: its notebook, the library as a wheel, and three lines.
Ways to the repository appear where its address is configured. A Sphinx extension.

In _config.yml: `repository: {url: …, branch: …}`, and `html: {baseurl: …}` for the site's own.
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
PARTS = ("pyproject.toml", "README.md", "LICENSE")  # what a wheel is made from, with the package
# These pages are about all the others, whose notebooks they read.
OF_THE_WHOLE = {"chapters/ledger"}
GITHUB = "https://github.com/"
BINDER = "https://mybinder.org/v2/gh"
CARD = re.compile(r'<div class="decision" id="claim-([^"]+)"><a [^>]*>[^<]*</a> ')


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wheel_name() -> str:
    return f"{project()['name']}-{project()['version']}-py3-none-any.whl"


def build_wheel(folder: Path) -> Path:
    """The library with its data, for pip, from a copy: building leaves files behind."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(ROOT / "normlib", Path(copy, "normlib"))
        for name in PARTS:
            shutil.copy(ROOT / name, copy)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
        asked = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), copy]
        # The same bytes from the same files: no time of day in them.
        subprocess.run(asked, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": "315532800"})
    return folder / wheel_name()


def lines(notebook: str, wheel: str) -> list[str]:
    """The commands, in a folder that holds the notebook. wheel: its file there, or its address."""
    asked = f"normlib[book] @ {wheel}" if "://" in wheel else f"./{wheel}[book]"
    return [
        "python3 -m venv book",
        f'book/bin/python -m pip install "{asked}"',
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
        wheel = f"{base}/{wheel_name()}" if base else wheel_name()
        context["run"] = {
            "python": project()["requires-python"].removeprefix(">="),
            "notebook": context["pathto"](f"_sources/{source}", 1),
            "wheel": "" if base else context["pathto"](wheel_name(), 1),
            "lines": lines(Path(source).name, wheel),
        }
    context["body"] = disputable(context.get("body", ""), repository)


def add_wheel(app, exception) -> None:
    if not exception and app.builder.name == "html":
        build_wheel(Path(app.outdir))


def setup(app) -> dict:
    app.connect("html-page-context", run_page)
    app.connect("build-finished", add_wheel)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
