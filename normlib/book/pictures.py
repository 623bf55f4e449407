"""Pictures that more than one page draws."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from normlib.verify.planted import Falsification


def planted_picture(table: Falsification) -> Axes:
    """Planted errors down, witnesses across; a filled cell is a catch."""
    _, ax = plt.subplots(figsize=(7.2, 0.26 * len(table.errors) + 1.5))
    ax.pcolormesh(table.caught, cmap="Blues", vmin=0, vmax=1.4, edgecolors="white", linewidth=2)
    for row, column in np.ndindex(table.caught.shape):
        mark = "✓" if table.caught[row, column] else "·"
        color = "white" if table.caught[row, column] else "black"
        ax.text(column + 0.5, row + 0.5, mark, ha="center", va="center", color=color)
    ax.set_xticks([c + 0.5 for c in range(len(table.witnesses))], table.witnesses)
    ax.set_yticks([r + 0.5 for r in range(len(table.errors))], table.errors)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.tick_params("x", labelrotation=35, pad=0)
    plt.setp(ax.get_xticklabels(), ha="left", va="bottom", rotation_mode="anchor")
    ax.invert_yaxis()
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax
