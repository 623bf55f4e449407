"""Which notebooks the book has."""

from pathlib import Path

CHAPTERS = Path(__file__).resolve().parents[1] / "chapters"


def notebooks() -> dict[str, Path]:
    """Every notebook by its name, its path in chapters/ without the ending: claims/rms-norm."""
    found = {path.relative_to(CHAPTERS): path for path in sorted(CHAPTERS.rglob("*.ipynb"))}
    return {
        name.with_suffix("").as_posix(): path
        for name, path in found.items()
        if not any(part.startswith(".") for part in name.parts)  # copies that JupyterLab keeps
    }
