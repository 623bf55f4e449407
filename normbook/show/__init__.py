"""Views for pages: shipped source, derivations step by step, pictures, tables."""

try:
    import matplotlib
except ImportError:
    raise ImportError(
        "expected matplotlib for normbook.show, found none; install it with: pip install matplotlib"
    ) from None

from normbook.show.blackboard import Blackboard
from normbook.show.examples import EXAMPLES
from normbook.show.pictures import (
    edges,
    factors,
    graph,
    planted_picture,
    spreads,
    transformer_block,
    with_and_without,
)
from normbook.show.sheet import Sheet
from normbook.show.source import (
    CheatSheet,
    Documentation,
    Entry,
    Reference,
    Source,
    entry,
    listed,
)
from normbook.show.steps import Mean, StepError, Steps, equation, mean
from normbook.show.table import Grid, Table
