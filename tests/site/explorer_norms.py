"""What the explorer of the map has to compute."""

import numpy as np

from normbook.claims import interval
from normbook.studies import where_it_helps as where

FUNCTION = "both"
COLUMNS = [*dict.fromkeys(setting[:5] for setting in where.settings())]


def cell(column, norm):
    """A cell, its numbers with the digits that the script has."""
    found = where.cells()[where.Setting(*column, norm)]
    return found | {key: np.round(found[key], 3) for key in ("log loss", "errors")}


def cases(_):
    for column in COLUMNS:
        none, batch = cell(column, "none"), cell(column, "batch")
        loss, errors = (where.lead(batch, none, what) for what in ("log loss", "errors"))
        yield (
            (where.column_name(column), "batch"),
            {
                "rate": (batch["rate"], 1),
                "learns": (batch["learns"], 1),
                "loss": (np.exp(batch["log loss"].mean()), 10),
                "errors": (batch["errors"].mean(), 100),
                "loss_lead": (interval(loss / np.log(10)), 10),
                "errors_lead": (interval(errors), 100),
            },
        )


PLANTED = {
    "the deviation of all seeds": ("(effects.length - 1)", "effects.length"),
    "the norm less none": ("without - other[place][seed]", "other[place][seed] - without"),
    "errors in the place of losses": ("loss: [2,", "loss: [3,"),
}
