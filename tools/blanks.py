"""Run the solved labs, and make those with blanks from them: python tools/blanks.py.

A cell of labs/solved/ that a reader is to write has the code with dots in its metadata: "blank".
"""

import json
from pathlib import Path

import refresh
import store

LABS = Path(__file__).resolve().parents[1] / "labs"


def make_blank(solved: dict) -> dict:
    """The same notebook with the blanks in their places, and nothing run."""
    cells = []
    for cell in solved["cells"]:
        blank = cell["metadata"].get("blank")
        if cell["cell_type"] == "code":
            source = blank.splitlines(True) if blank else cell["source"]
            cell = cell | {"source": source, "outputs": [], "execution_count": None}
        cells.append(cell | {"metadata": {}})
    return solved | {"cells": cells}


def main() -> None:
    for path in sorted(LABS.glob("solved/*.ipynb")):
        refresh.refresh(path)
        blank = make_blank(json.loads(path.read_text(encoding="utf-8")))
        store.write(LABS / path.name, json.dumps(blank, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
