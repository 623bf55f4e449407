"""Stacks of random layers pass samples and gradients as PyTorch does."""

import re

import numpy as np
import pytest
import torch

from normbook.lab import data
from normbook.studies import stacks

X = data.digits(np.random.default_rng(0), "raw").x_train[:16]

TORCHED = {
    "batch norm": lambda h: torch.nn.functional.batch_norm(h, None, None, training=True, eps=1e-30),
    "layer norm": lambda h: torch.nn.functional.layer_norm(h, h.shape[1:], eps=0),
    "RMS norm": lambda h: torch.nn.functional.rms_norm(h, h.shape[1:], eps=0),
    "no norm": lambda h: h,
}


def by_autograd(h, weights, gradient, arm):
    """What `through` finds, by PyTorch's own norms and its autograd."""
    options, norm = stacks.KEPT[arm], TORCHED[re.match("(no|batch|layer|RMS) norm", arm)[0]]
    states = [torch.tensor(h, requires_grad=True)]
    weights = [torch.tensor(w, requires_grad=True) for w in weights]
    for w in weights:
        parts = {"W": lambda out, w=w: out @ w, "N": norm, "A": torch.relu}
        out = states[-1]
        for part in options.get("order", "WNA"):
            out = parts[part](out)
        states.append(states[-1] + out if options.get("skip") else out)
    found = torch.autograd.grad(states[-1], [*states, *weights], torch.tensor(gradient))
    sizes = [float((g**2).sum()) for g in found]
    return [s.detach().numpy() for s in states], sizes[: len(states)], sizes[len(states) :]


@pytest.mark.parametrize("arm", stacks.KEPT)
def test_samples_and_gradients_pass_as_they_do_in_pytorch(arm):
    rng = np.random.default_rng(4)
    h, weights = stacks.bring_to_width(X, rng, width=32), stacks.draw(rng, depth=5, width=32)
    gradient = rng.standard_normal(h.shape)
    ours = stacks.through(h, weights, gradient, **stacks.KEPT[arm])
    theirs = by_autograd(h, weights, gradient, arm)
    for our, their in zip(ours, theirs, strict=True):
        assert np.allclose(our, their, rtol=1e-8)
    # and a backward that forgets how the variance moves would be seen
    if arm == "batch norm":
        wrong = stacks.through(h, weights, gradient, norm=stacks.forgetful())
        assert not np.allclose(wrong.gradients, theirs[1], rtol=0.05)


def test_the_measures_of_what_is_kept_are_right_where_the_answer_is_known():
    one = np.ones((6, 1)) @ np.arange(1.0, 5)[None]  # six samples that are one
    apart = np.vstack([np.eye(3), -np.eye(3)])  # three directions, all the energy in them
    line = np.outer([-2.0, -1, 1, 2], [3.0, 4])  # one direction
    assert np.isclose([stacks.cosine(one), stacks.share_differing(one)], [1, 0]).all()
    assert np.isclose(stacks.cosine(apart), -3 / 15) and np.isclose(
        stacks.share_differing(apart), 1
    )
    assert np.isclose(stacks.effective_rank(line), 1)
    assert np.isclose(stacks.share_differing(np.add(apart, [1, 0, 0])), 1 / 2)
    assert np.isclose(stacks.resemblance(3 * X + 1, X), 1)
    assert stacks.resemblance(np.roll(X, 1, axis=0), X) < 0.3
