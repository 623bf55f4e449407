"""What is chosen is trained as torch's Adam does; that the rest stays is counted on the page."""

import numpy as np
import torch

from normbook.lab import data, networks, training
from normbook.studies import only_gamma_beta as parts
from normlib.layers import batch_norm

DIGITS = data.digits(np.random.default_rng(0), "raw")
ON = DIGITS.x_train, DIGITS.labels_train
RATE, STEPS = 0.03, 6


def start():
    rng = np.random.default_rng(1)
    params = networks.dense((64, 12, 12, 10), rng)
    return params, list(training.batches(1437, 64, STEPS, rng))


def test_with_everything_chosen_the_losses_are_those_of_torchs_adam():
    params, order = start()
    everything = parts.whole(params, list(params))
    net = networks.torch_twin(params)
    optimizer, theirs = torch.optim.Adam(net.parameters(), lr=RATE), []
    x, labels = map(torch.tensor, ON)
    for rows in order:
        loss = torch.nn.functional.cross_entropy(net(x[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    assert np.allclose(parts.train(params, everything, *ON, order, rate=RATE)[0], theirs, rtol=1e-6)


def test_a_class_is_predicted_with_the_statistics_of_the_training_set():
    params, _ = start()
    x = DIGITS.x_train[:300]
    by_training = networks.forward(params, x, batch_norm)[0].argmax(axis=1)
    assert np.array_equal(parts.predict(params, x, x[:40]), by_training[:40])
    alone = networks.forward(params, x[:40], batch_norm)[0].argmax(axis=1)
    assert not np.array_equal(alone, by_training[:40])
