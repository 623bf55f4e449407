"""What the explorer of the two landscapes has to compute."""

import nbformat
import numpy as np
import torch
from project import NOTEBOOKS

from normbook.studies import ics, landscape, scale_invariance
from normlib import batch_norm, batch_norm_inference

FUNCTION = "ray"


def says(x, w, v, normed, places):
    """What the network says at some places, with the statistics of its own points."""
    sums, there = (torch.stack([at, at * at], dim=1) @ w for at in (x, places))
    plain = torch.ones_like(v), torch.zeros_like(v)
    if normed and places is x:
        there = batch_norm(sums, *plain, eps=0.0)[0]
    elif normed:
        statistics = sums.mean(dim=0), sums.var(dim=0, correction=0)
        there = batch_norm_inference(there, *statistics, *plain, eps=0.0)[0]
    return torch.tanh(there) @ v


def cases(rng):
    for trial in range(60):
        yield case(rng, trial % 3 > 0)


def case(rng, normed):
    n, units = rng.integers(4, 10), rng.integers(1, 5)
    network = [torch.tensor(rng.standard_normal(shape)) for shape in (n, n, (2, units), units)]
    places, rates = torch.tensor(rng.standard_normal(5)), np.sort(rng.uniform(0.1, 4, 3))
    seen, shifts, length = measured(*network, normed, rates)
    x, _, w, v = network
    # Centring cancels, and what is lost is lost again in the gradient.
    sums = torch.stack([x, x * x], dim=1) @ w
    lost = 1 + (sums.abs().max() / sums.std(dim=0, correction=0).min()).item()
    high = lost * max(seen.start, *seen.losses)
    steep = lost**2 * (1 + high / length)
    names = "x", "target", "w", "v"
    arguments = {name: a.tolist() for name, a in zip(names, network, strict=True)}
    return (arguments, rates, normed, places.tolist()), {
        "curve": (says(x, w, v, normed, places).numpy(), lost * v.abs().sum().item()),
        "losses": (np.append(seen.start, seen.losses), high),
        "size": (length, steep * length),
        "smoothness": (seen.smoothness, steep * (1 + seen.smoothness)),
        "shifts": (shifts, steep * (1 + max(shifts))),
    }


def measured(x, target, w, v, normed, rates):
    """What the gradient ray of w meets, the shifts of the gradient of v, and the length of dw."""

    def loss(params, _):
        off = says(x, params["w"], params.get("v", v), normed, x) - target
        return (off**2).mean() / 2

    seen = landscape.probe({"w": w}, loss, None, rates)
    before, dw = (ics.slope({"w": w, "v": v}, loss, None, name) for name in ("v", "w"))
    moved = [{"w": w - rate * dw, "v": v} for rate in rates.tolist()]
    after = [ics.slope(params, loss, None, "v") for params in moved]
    return seen, [ics.Shift(before, later).relative for later in after], dw.norm().item()


def network_of_the_page():
    """As the cell of the chapter has it."""
    cells = nbformat.read(NOTEBOOKS["scale-invariance"], as_version=4).cells
    (source,) = (cell.source for cell in cells if cell.id == "small-network")
    names = {"np": np, "scale": scale_invariance}
    exec(source, names)
    return [torch.tensor(names[name]) for name in ("x", "target", "w_small", "v_small")]


def rows(factor, normed, times):
    x, target, w, v = network_of_the_page()
    columns = []
    for c in (1, factor):
        rates = np.arange(1, 161) / 20 * (c * c if times else 1)
        seen, shifts, length = measured(x, target, c * w, v, normed, rates)
        columns.append((seen.start, length, seen.smoothness, shifts[19]))
    heads = "Loss", "Gradient", "Smoothness β", f"Shift, step {'c²' if times else '1'}"
    return dict(zip(heads, np.transpose(columns), strict=True))


SHOWN = {
    "": rows(2, True, False),
    "&factor=-1&norm=no norm": rows(0.5, False, False),
    "&factor=1.5&step=times c²": rows(2**1.5, True, True),
}
PLANTED = {
    "no variance term": ("mean(d) + along * xhat[i]", "mean(d)"),
    "uphill": ("v - rate * b[i][j]", "v + rate * b[i][j]"),
    "the statistics of the places": ("normed ? mean(sums(x))", "normed ? mean(sums(places))"),
}
