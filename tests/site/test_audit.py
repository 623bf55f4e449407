"""What the audit says of the scores that it was given; the scores come from a quiet machine."""

import audit
import pytest

GOOD = {"performance": 0.97, "lost": [], "axe": []}


@pytest.mark.parametrize(
    ("page", "planted", "said"),
    [
        ("chapters/rms-norm", {}, []),
        ("chapters/ledger", {"performance": 0.9}, []),
        ("chapters/rms-norm", {"performance": 0.96}, ["performance 96, asked 97"]),
        ("chapters/rms-norm", {"lost": ["label"]}, ["lost label"]),
        ("chapters/rms-norm", {"axe": ["label (dark): 1"]}, ["axe label (dark): 1"]),
    ],
)
def test_what_falls_short_is_named_and_nothing_else(page, planted, said):
    assert audit.short(page, GOOD | planted) == [f"{page}: {line}" for line in said]
