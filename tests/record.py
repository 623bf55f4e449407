"""What is kept of the verdict on one layer, for the report on the site."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from normlib.verify.run import WITNESSES
from normlib.verify.verdict import Verdict

LAYER = "layer"  # the property under which a test hands this over to tools/recorder.py


def layer(name: str, args: Iterable[np.ndarray], verdict: Verdict, caught: np.ndarray) -> dict:
    """The worst error of each argument and witness, and how many planted errors were caught.

    caught: planted errors × witnesses, as `verify.falsify` returns it.
    """
    worst: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for c in verdict.checks:
        kept = worst[c.argument].get(c.witness, {"error": 0.0, "bound": c.bound, "failures": []})
        kept["error"] = max(kept["error"], float(c.error))
        kept["failures"] += [c.failure] * bool(c.failure)
        worst[c.argument][c.witness] = kept
    hits = [int(row.sum()) for row in caught]
    return {
        "name": name,
        "witnesses": [w for w in WITNESSES if any(w in row for row in worst.values())],
        "shapes": [list(a.shape) for a in args],
        "arguments": dict(worst),
        "not run": [list(pair) for pair in verdict.not_run],
        "planted": len(hits),
        "caught": sum(hit > 0 for hit in hits),
        "fewest": min(hits, default=0),
    }
