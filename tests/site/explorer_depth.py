"""What the explorer of depth has to compute: the rates of the page, and powers of them."""

import numpy as np

from normbook.studies import stacks

FUNCTION = "both"


def factors(activation, b, weights):
    return {"none": weights**2, "batch": stacks.RATES[activation](b), "layer": 1}


def cases(_):
    for activation in stacks.RATES:
        for b, weights, layers in ((4, 0.5, 3), (8, 0.9, 40), (64, 1.1, 100)):
            found = factors(activation, b, weights)
            expected = {key: (value, max(1, value)) for key, value in found.items()}
            bottom = [np.log10(np.prod([factor] * layers)) / 2 for factor in found.values()]
            yield (activation, b, weights, layers), expected | {"bottom": (bottom, layers)}


def row(factor):
    return [factor, 99 * np.log10(factor) / 2]


SHOWN = {
    "": {"batch norm": row(stacks.RATES["ReLU"](32))},
    "&size=6&weights=0.2": {"no norm": row(2**0.4), "batch norm": row(stacks.RATES["ReLU"](6))},
}
PLANTED = {
    "the factor is not squared": ("none: weights ** 2", "none: weights"),
    "one sample too many": ("const c = -1 / (b - 1)", "const c = -1 / b"),
    "squares in the place of lengths": ("Math.log10(factor)) / 2", "Math.log10(factor))"),
    "ReLU without the mean it leaves": ("(b - 3) * (1 - j)", "(b - 3)"),
}
