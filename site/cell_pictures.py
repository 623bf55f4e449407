"""A picture that a notebook drew, shown on a page that is none. A Sphinx extension.

    ```{cell-picture} chapters/batch-norm.ipynb training-picture
    What it shows.
    ```

The picture is the stored output of the cell with that id, which the tests compare with a new run;
its description for those who do not see it is the cell's own.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def picture(notebook: Path, name: str) -> tuple[str, str]:
    """The PNG of a cell as it is stored, in base 64, and its description."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    cells = {cell["id"]: cell for cell in cells}
    shown = [output.get("data", {}) for output in cells.get(name, {}).get("outputs", ())]
    drawn = [data["image/png"] for data in shown if "image/png" in data]
    if len(drawn) != 1:
        ids = [key for key, c in cells.items() if "image" in c["metadata"].get("mystnb", {})]
        raise ValueError(
            f"expected a cell that drew one picture, got {name} with {len(drawn)} in "
            f"{notebook.name}; it has: {', '.join(ids) or 'none'}"
        )
    return "".join(drawn[0].split()), cells[name]["metadata"]["mystnb"]["image"]["alt"]


class CellPicture(SphinxDirective):
    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        page, name = self.arguments
        notebook = Path(self.env.srcdir, page)
        self.env.note_dependency(str(notebook))
        try:
            data, alt = picture(notebook, name)
        except (OSError, ValueError) as problem:
            raise self.error(str(problem)) from problem
        caption = nodes.caption()
        caption += self.parse_inline("\n".join(self.content))[0]
        image = nodes.image(uri=f"data:image/png;base64,{data}", alt=alt)
        return [nodes.figure("", image, caption, classes=["cell-picture"])]


def setup(app) -> dict:
    app.add_directive("cell-picture", CellPicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
