"""A picture of a notebook on a page that is none. A Sphinx extension.

    ```{cell-picture} chapters/batch-norm.ipynb training-picture
    What it shows.
    ```

It is the stored output of the cell with that id, which the tests compare with a new run; the
description of a picture for those who do not see it is the cell's own.
"""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

PNG = "image/png"


def stored(notebook: Path, name: str) -> tuple[str, dict[str, Any]]:
    """The one picture that a cell has stored, and what the cell says of itself."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]

    def found(cell):
        return [o["data"][PNG] for o in cell.get("outputs", ()) if PNG in o.get("data", ())]

    cell = next((cell for cell in cells if cell["id"] == name), {})
    if len(found(cell)) != 1:
        ids = [cell["id"] for cell in cells if found(cell)]
        raise ValueError(
            f"expected a cell with one picture, got {name} with {len(found(cell))} in "
            f"{notebook.name}; it has: {', '.join(ids) or 'none'}"
        )
    return "".join(found(cell)[0]), cell["metadata"]


class CellPicture(SphinxDirective):
    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        page, name = self.arguments
        notebook = Path(self.env.srcdir, page)
        self.env.note_dependency(str(notebook))
        try:
            output, about = stored(notebook, name)
        except (OSError, ValueError) as problem:
            raise self.error(str(problem)) from problem
        caption = nodes.caption()
        caption += self.parse_inline("\n".join(self.content))[0]
        data = "".join(output.split())
        image = nodes.image(
            uri=f"data:image/png;base64,{data}", alt=about["mystnb"]["image"]["alt"]
        )
        return [nodes.figure("", image, caption, classes=["cell-picture"])]


def setup(app) -> dict:
    app.add_directive("cell-picture", CellPicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
