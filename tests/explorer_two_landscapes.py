"""What the explorer of the two landscapes has to compute."""

import numpy as np
import torch

from normlib import batch_norm, batch_norm_inference
from normlib.experiments import ics, landscape

FUNCTION = "ray"


def features(x):
    return torch.stack([x, x * x], dim=1)


def standardized(sums, normed):
    ones, zeros = torch.ones_like(sums[0]), torch.zeros_like(sums[0])
    return batch_norm(sums, ones, zeros, eps=0.0)[0] if normed else sums


def curve(x, w, v, normed, places):
    sums, there = features(x) @ w, features(places) @ w
    if normed:
        ones, zeros = torch.ones_like(v), torch.zeros_like(v)
        middle, variance = sums.mean(dim=0), sums.var(dim=0, correction=0)
        there = batch_norm_inference(there, middle, variance, ones, zeros, eps=0.0)[0]
    return torch.tanh(there) @ v


def cases(rng):
    for trial in range(60):
        n, units, normed = rng.integers(4, 10), rng.integers(1, 5), trial % 3 > 0
        x, target = (torch.tensor(a) for a in rng.standard_normal((2, n)))
        w, v = torch.tensor(rng.standard_normal((2, units))), torch.tensor(rng.normal(size=units))
        places, rates = torch.tensor(rng.standard_normal(5)), np.sort(rng.uniform(0.1, 4, 3))

        def loss(params, _):
            out = torch.tanh(standardized(features(x) @ params["w"], normed)) @ params["v"]
            return ((out - target) ** 2).mean() / 2

        def hidden(params, rows):
            return loss(params | {"v": v}, rows)

        seen = landscape.probe({"w": w}, hidden, None, rates)
        before, dw = (ics.slope({"w": w, "v": v}, loss, None, name) for name in ("v", "w"))
        after = [
            ics.slope({"w": w - rate * dw, "v": v}, loss, None, "v") for rate in rates.tolist()
        ]
        network = {"x": x, "target": target, "w": w, "v": v}
        arguments = {name: t.tolist() for name, t in network.items()}
        sums = features(x) @ w
        # Centring cancels, and what is lost is lost again in the gradient.
        lost = 1 + (sums.abs().max() / sums.std(dim=0, correction=0).min()).item()
        high = lost * max(seen.start, *seen.losses)
        shifts = [ics.Shift(before, later).relative for later in after]
        steep = lost**2 * (1 + high / dw.norm().item())
        yield (
            (arguments, rates, bool(normed), places.tolist()),
            {
                "curve": (curve(x, w, v, normed, places).numpy(), lost * v.abs().sum().item()),
                "losses": (np.append(seen.start, seen.losses), high),
                "size": (dw.norm().item(), steep * dw.norm().item()),
                "smoothness": (seen.smoothness, steep * (1 + seen.smoothness)),
                "shifts": (shifts, steep * (1 + max(shifts))),
            },
        )


PLANTED = {
    "no variance term": ("mean(d) + along * xhat[i]", "mean(d)"),
    "the output layer moves, too": ("{ ...network, w: less(network.w, dw, rate) }", "{ ...network, w: less(network.w, dw, rate), v: network.v.map((u, j) => u - rate * dv[j]) }"),
    "the way is not divided by": ("/ (rates[i] * length(dw))", "/ rates[i]"),
    "uphill": ("v - rate * b[i][j]", "v + rate * b[i][j]"),
    "the shift is not relative": ("/ length([dv])", "/ 1"),
    "the statistics of the places": ("const middle = normed ? mean(sums(x)) : 0;", "const middle = normed ? mean(sums(places)) : 0;"),
    "half the loss": ("dot(off, off) / 2 / x.length", "dot(off, off) / x.length"),
}
