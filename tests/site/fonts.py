"""Another machine's fonts: the browser sees the fonts of one folder and no others."""

from pathlib import Path

import matplotlib
from fontTools.ttLib import TTFont

# In matplotlib's wheel: the fonts that Debian's Chromium brings along, and wide ones.
DEJAVU = Path(matplotlib.get_data_path(), "fonts", "ttf")
CONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}</dir><cachedir>{folder}/cache</cachedir></fontconfig>
"""


def wide(folder, factor=1.15):
    """Put DejaVu, its letters so much farther apart, into a folder; return a fontconfig file for
    this folder alone."""
    for path in DEJAVU.glob("DejaVu*.ttf"):
        with TTFont(path) as font:
            metrics = font["hmtx"].metrics
            for glyph, (advance, bearing) in metrics.items():
                metrics[glyph] = round(factor * advance), bearing
            font.save(folder / path.name)
    config = folder / "fonts.conf"
    config.write_text(CONFIG.format(folder=folder), encoding="utf-8")
    return config
