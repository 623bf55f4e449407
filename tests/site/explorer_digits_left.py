"""What the explorer of the digits left has to compute: the formulas of the page, step by step."""

import numpy as np
import torch

from normbook.studies import floating_point as fp

FUNCTION = "variance"


class Rows(torch.Tensor):
    """Numbers of which a mean adds one after the other, in their own format."""

    def mean(self, axis=0):
        total = 0 * self[0]
        for value in self:
            total = total + value
        return total / len(self)


def cases(rng):
    for format in ("float64", "float32", "bfloat16", "float16"):
        for power in (0.5, 1.5, 2.2):
            x = rng.standard_normal(12) + 10**power
            stored = fp.store(x, format).as_subclass(Rows)
            wide, tiny = np.array(stored.tolist()), 1e-3 * x
            exact = (wide - wide[0]).var()
            for name, formula in fp.FORMULAS.items():
                found = float(formula(stored))
                expected = {"stored": (wide, 100), "finite": (np.isfinite(found), 1)}
                if np.isfinite(found):
                    expected |= {"found": (found, 1), "exact": (exact, 1)}
                yield (x, name, format), expected
            small = fp.store(tiny**2, format)  # in float16 these are subnormal
            yield (tiny**2, "two_pass", format), {"stored": (small.double().numpy(), 1e-5)}


PLANTED = {
    "halves go up": ("(scaled - down === 0.5 && down % 2 !== 0)", "scaled - down === 0.5"),
    "no overflow": ("found) > largest", "found) > 9 * largest"),
    "a digit too many": ("bfloat16: roundedTo(8,", "bfloat16: roundedTo(9,"),
    "no subnormal numbers": ("roundedTo(11, -14,", "roundedTo(11, -99,"),
    "the mean is not rounded": ("mean = round(mean +", "mean = (mean +"),
    "the square is not rounded": ("round(m * m)", "m * m"),
}
