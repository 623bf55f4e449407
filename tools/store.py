"""Write a file in one step: whoever reads it sees the former one or the new one, never a part."""

import json
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


def table(runs: list[dict]) -> str:
    """A list of runs as JSON, a line each, so that a change is seen where it happened."""
    return "[\n" + ",\n".join(f"  {json.dumps(run)}" for run in runs) + "\n]"
