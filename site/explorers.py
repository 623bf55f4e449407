"""Explorers: drawings that a reader can move, in the place of a picture. A Sphinx extension.

A cell that draws a picture gets the tag `explorer-NAME`; its page loads the scripts
`_static/explorers/frame.js` and `_static/explorers/NAME.js`, and no other page does. Where no
script runs, on paper, and in JupyterLab the picture stands as the cell drew it.
"""

import re
from pathlib import Path

from sphinx.util import logging

TAG = re.compile(r'<div class="cell [^"]*\btag_explorer-([\w-]+)')
SCRIPT = re.compile(r"(?:^|/)explorers/(?:data/)?([\w-]+)\.js$")  # data are loaded on use
FRAME = "frame"  # what all of them share
LOG = logging.getLogger(__name__)


def is_needed(script: str | None, body: str) -> bool:
    """Whether a page needs this script; of others than those of explorers nothing is said."""
    found = SCRIPT.search(script or "")
    names = TAG.findall(body)
    return not found or found[1] in names or (found[1] == FRAME and bool(names))


def unknown(body: str, folder: Path) -> list[str]:
    """The explorers that a page names, and that there are not."""
    there = {path.stem for path in folder.glob("*.js")} - {FRAME}
    return [
        f"expected an explorer for the tag explorer-{name}, found no {name}.js; mend the tag: "
        f"there are {', '.join(sorted(there))}"
        for name in TAG.findall(body)
        if name not in there
    ]


def choose(app, page: str, template: str, context: dict, doctree) -> None:
    body, scripts = context.get("body", ""), context["script_files"]
    context["script_files"] = [js for js in scripts if is_needed(js.filename, body)]
    for line in unknown(body, Path(app.srcdir, "_static", "explorers")):
        LOG.warning(line, location=page)


def setup(app) -> dict:
    app.connect("html-page-context", choose)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
