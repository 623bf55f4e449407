"""What the explorer of the gap between training and evaluation has to compute."""

import numpy as np

from normlib import batch_norm, batch_norm_inference, update_running

FUNCTION = "outputs"
ONE = np.ones(1), np.zeros(1)


def running(batches, weight):
    mean, var = np.zeros(1), np.ones(1)
    for k, batch in enumerate(batches):
        momentum = weight if weight is not None else 1 / (k + 1)  # the plain mean of all
        mean, var = update_running(mean, var, batch[:, None], momentum=momentum)
    return mean, var


def cases(rng):
    for size in (2, 3, 8):
        value, momentum = 3 + rng.standard_normal(), rng.uniform()
        training, now = 3 + 2 * rng.standard_normal((2, 5, size))
        others = 3 + 2 * rng.standard_normal((4, size - 1))
        alone = np.array([[value]])
        stored, anew = (
            batch_norm_inference(alone, *running(batches, weight), *ONE)[0].item()
            for batches, weight in ((training, momentum), (now, None))
        )
        batches = [np.r_[value, rest][:, None] for rest in others]
        batch = [batch_norm(x, *ONE)[0][0, 0] for x in batches]
        expected = {"batch": (batch, 10), "stored": (stored, 10), "anew": (anew, 10)}
        yield (value, others, training, now, momentum), expected


PLANTED = {
    "a biased variance is stored": (
        "momentum * unbiased(variance, batch.length)",
        "momentum * variance",
    ),
    "momentum as others have it": (
        "(1 - momentum) * running + momentum * mean",
        "momentum * running + (1 - momentum) * mean",
    ),
    "the sample is not in its batch": ("statistics([value, ...rest])", "statistics(rest)"),
}
