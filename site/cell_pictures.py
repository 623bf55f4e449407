"""What a notebook shows, on a page that is none: a picture, or a table. A Sphinx extension.

    ```{cell-picture} chapters/batch-norm.ipynb training-picture
    What it shows.
    ```

    ```{cell-table} chapters/where-normalization-helps.ipynb errors-table
    ```

It is the stored output of the cell with that id, which the tests compare with a new run; the
description of a picture for those who do not see it is the cell's own.
"""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def stored(notebook: Path, name: str, kind: str) -> tuple[str, dict[str, Any]]:
    """The one output of this kind that a cell has stored, and what the cell says of itself."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]

    def found(cell):
        return [o["data"][kind] for o in cell.get("outputs", ()) if kind in o.get("data", ())]

    cell = next((cell for cell in cells if cell["id"] == name), {})
    if len(found(cell)) != 1:
        ids = [cell["id"] for cell in cells if found(cell)]
        raise ValueError(
            f"expected a cell with one output of {kind}, got {name} with {len(found(cell))} in "
            f"{notebook.name}; it has: {', '.join(ids) or 'none'}"
        )
    return "".join(found(cell)[0]), cell["metadata"]


class Cell(SphinxDirective):
    required_arguments = 2
    has_content = True
    kind: str

    def run(self) -> list[nodes.Node]:
        page, name = self.arguments
        notebook = Path(self.env.srcdir, page)
        self.env.note_dependency(str(notebook))
        try:
            return self.shown(*stored(notebook, name, self.kind))
        except (OSError, ValueError) as problem:
            raise self.error(str(problem)) from problem

    def shown(self, output: str, about: dict[str, Any]) -> list[nodes.Node]:
        raise NotImplementedError


class CellPicture(Cell):
    kind = "image/png"

    def shown(self, output: str, about: dict[str, Any]) -> list[nodes.Node]:
        caption = nodes.caption()
        caption += self.parse_inline("\n".join(self.content))[0]
        data = "".join(output.split())
        image = nodes.image(
            uri=f"data:image/png;base64,{data}", alt=about["mystnb"]["image"]["alt"]
        )
        return [nodes.figure("", image, caption, classes=["cell-picture"])]


class CellTable(Cell):
    kind = "text/markdown"

    def shown(self, output: str, about: dict[str, Any]) -> list[nodes.Node]:
        box = nodes.container()
        self.state.nested_parse(StringList(output.splitlines()), 0, box)
        return box.children


def setup(app) -> dict:
    app.add_directive("cell-picture", CellPicture)
    app.add_directive("cell-table", CellTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
