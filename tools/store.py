"""Write a file in one step: whoever reads it sees the former one or the new one, never a part."""

import json
import math
import shutil
import tempfile
from pathlib import Path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            shutil.copymode(path, name)
        else:
            Path(name).chmod(0o644)  # a temporary file is for its owner alone
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise


BREAKS = {"[{": "[\n  {", "}, {": "},\n  {", "}], ": "}\n],\n", "}]": "}\n]"}


def write_json(path: Path, document: dict) -> None:
    """JSON in which each dictionary of a list has a line, so that a change is seen where it
    happened."""
    line = text = json.dumps(document, allow_nan=False)
    for before, after in BREAKS.items():
        text = text.replace(before, after)
    if json.loads(text, strict=False) != json.loads(line):
        raise ValueError(f"expected no string with one of {list(BREAKS)} in it; try other words")
    write(path, text + "\n")


def kept(number: float) -> float | None:
    """Four significant digits, and null for what JSON does not have."""
    return float(f"{number:.4g}") if math.isfinite(number) else None
