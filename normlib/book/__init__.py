"""What the pages show: shipped source, derivations step by step, pictures."""

try:
    import matplotlib
except ImportError:
    raise ImportError(
        "expected matplotlib for normlib.book, found none; "
        "install it with: pip install 'normlib[book]'"
    ) from None

from normlib.book.pictures import edges, graph, planted_picture, spreads
from normlib.book.source import CheatSheet, Entry, Reference, Source, entry
from normlib.book.steps import Mean, StepError, Steps, equation, mean
from normlib.book.table import Grid, Table
