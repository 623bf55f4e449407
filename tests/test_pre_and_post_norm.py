"""The small transformer has the properties that the theory of Xiong et al. (2020) uses."""

import numpy as np
import pytest
import torch
from torch.nn import functional
from twins import twin

from normbook.lab import data
from normbook.studies import pre_and_post_norm as transformer

RNG = np.random.default_rng(0)
DIGITS = data.digits(np.random.default_rng(0))
D, DEPTH = 16, 3


def setting():
    x = transformer.tokens(DIGITS.x_train[:6], D, np.random.default_rng(1))
    return x, transformer.random_layers(DEPTH, D, np.random.default_rng(2))


def normalizes_every_token(model):
    """Mean 0 and mean square 1 at the output, at eps = 0."""
    y, _ = model(*setting())
    mean, square = y.mean(dim=-1).abs().max(), (y * y).mean(dim=-1)
    return mean < 1e-12 and (square - 1).abs().max() < 1e-9


@pytest.mark.parametrize(
    ("model", "shipped", "changed"),
    [
        (transformer.post_norm, "norm(stream[-1])", "stream[-1]"),
        (transformer.pre_norm, "last(x)", "x"),
    ],
)
def test_the_output_is_normalized_token_by_token(model, shipped, changed):
    assert normalizes_every_token(model)
    assert not normalizes_every_token(twin(model, shipped, changed))


def adds_to_a_stream(pre_norm):
    """A branch sees the stream normalized: three times the stream gets the same addition, and
    three times its last matrix adds three times as much."""
    x, ((value, inward, outward), *_) = setting()

    def added(scale, factor):
        return pre_norm(scale * x, [[0 * value, inward, factor * outward]])[1][0] - scale * x

    return torch.allclose(added(3, 1), added(1, 1)) and torch.allclose(added(1, 3), 3 * added(1, 1))


def test_before_the_norms_of_pre_norm_runs_a_plain_sum():
    assert adds_to_a_stream(transformer.pre_norm)
    for error in (("ffn(norm(x), *pair)", "ffn(x, *pair)"), ("x = x + ffn", "x = ffn")):
        assert not adds_to_a_stream(twin(transformer.pre_norm, *error)), error


def looks_at_all_tokens_alike(attention):
    x, ((value, *_), *_) = setting()
    y, again = attention(x, value), attention(x.flip(1), value)
    mean = (x @ value).mean(dim=1, keepdim=True)
    return torch.allclose(y, mean.expand_as(y)) and torch.allclose(y, again)


def test_attention_takes_the_mean_over_the_tokens_of_an_image():
    assert looks_at_all_tokens_alike(transformer.attention)
    for error in (("mean(dim=1", "mean(dim=0"), ("x.mean(dim=1, keepdim=True)", "x[:, :1]")):
        assert not looks_at_all_tokens_alike(twin(transformer.attention, *error)), error


def are_as_drawn(random_layers, tokens):
    sizes = [(w.var() * 200).item() for w in random_layers(1, 200, RNG)[0]]
    x = tokens(DIGITS.x_train[:9], D, RNG)
    return np.allclose([*sizes, (x * x).mean()], 1, rtol=0.03) and x.shape == (9, 8, D)


def test_weights_have_the_variance_1_over_d_and_tokens_the_mean_square_1():
    assert are_as_drawn(transformer.random_layers, transformer.tokens)
    wide = twin(transformer.random_layers, "np.sqrt(d)", "d")
    loud = twin(transformer.tokens, "np.sqrt((x * x).mean())", "(x * x).mean()")
    assert not are_as_drawn(wide, transformer.tokens)
    assert not are_as_drawn(transformer.random_layers, loud)


def measures_the_gradient(ffn_gradients, layer=1, step=1e-5):
    """The steepest slope of the loss in the outward matrix of a layer, by central differences."""
    (x, layers), head = setting(), np.random.default_rng(3).standard_normal((D, 10))
    labels = DIGITS.labels_train[:6]

    def loss(matrices):
        logits = transformer.pre_norm(x, matrices)[0] @ torch.tensor(head)
        return functional.cross_entropy(logits.flatten(0, 1), torch.tensor(np.repeat(labels, 8)))

    (slope,) = torch.autograd.grad(loss(layers), layers[layer][2])
    values = []
    for sign in (1, -1):
        moved = [list(matrices) for matrices in layers]
        moved[layer][2] = layers[layer][2] + sign * step * slope / slope.norm()
        values.append(loss(moved).item())
    found, sizes = ffn_gradients(transformer.pre_norm, layers, x, labels, head)
    stream = transformer.pre_norm(x, layers)[1]
    right = np.isclose(found[layer], (values[0] - values[1]) / (2 * step), rtol=1e-5)
    return right and np.allclose(sizes, [(s * s).mean().item() for s in stream])


def test_the_gradient_measured_is_the_steepest_slope_of_the_loss():
    assert measures_the_gradient(transformer.ffn_gradients)
    for error in (
        ("layer[2] for", "layer[1] for"),
        ("repeat_interleave(x.shape[1])", "repeat(x.shape[1])"),
        ("(s * s).mean()", "s.abs().mean()"),
    ):
        assert not measures_the_gradient(twin(transformer.ffn_gradients, *error)), error


def test_an_exponent_is_that_of_the_power_law():
    assert np.isclose(transformer.slope(3 / np.sqrt(transformer.DEPTHS)), -0.5)


def test_the_printed_jacobian_falls_short_by_the_mean_of_a_token():
    x = torch.tensor(RNG.standard_normal((2, 3, D)))
    x = x - x.mean(dim=-1, keepdim=True)
    deviation = x.pow(2).mean(dim=-1, keepdim=True).sqrt()
    assert np.isclose(transformer.too_small(x), 1)
    assert np.isclose(transformer.too_small(x + 3 * deviation), np.sqrt(10))


def test_the_last_gradient_falls_with_depth_if_a_norm_stands_at_the_end():
    def ratio(name):
        ends = (2, 32)
        model = transformer.MODELS[name]
        runs = [[transformer.measure(DIGITS, model, d, s)[0][-1] for s in range(3)] for d in ends]
        return np.mean(runs[1]) / np.mean(runs[0])

    assert ratio("pre-norm") < 0.5 < min(ratio("post-norm"), ratio("pre-norm, no norm at the end"))


def test_along_a_net_a_gradient_is_a_power_and_a_factor_of_its_layer(monkeypatch):
    index = np.arange(1, 17)
    monkeypatch.setattr(transformer, "measure", lambda *_: (3 * index**-0.5, 1.0 * index))
    found = transformer.along(0)
    assert np.isclose(found["pre-norm, power"], -0.5) and found["pre-norm, factor"] < -0.05
    assert np.isclose(found["pre-norm, times the stream, power"], 0)
    monkeypatch.setattr(transformer, "measure", lambda *_: (np.exp(index / 5), 1.0 + 0 * index))
    assert np.isclose(transformer.along(0)["post-norm, factor"], 0.2)


def stream_by_torch(place, depth, rng, d):
    """The same net in torch, with torch's gradients."""
    x = torch.tensor(rng.standard_normal((64, d)), requires_grad=True)
    stream = [x]
    for pair in torch.tensor(rng.standard_normal((depth, 2, d, d)) / np.sqrt(d)):
        x = stream[-1]
        if place == "pre":
            stream.append(x + transformer.ffn(transformer.norm(x), *pair))
        else:
            stream.append(transformer.norm(x + transformer.ffn(x, *pair)))
    out = transformer.norm(stream[-1]) if place == "pre" else stream[-1]
    upstream = torch.tensor(rng.standard_normal((64, d)))
    grads = torch.autograd.grad((out * upstream).sum(), stream)
    return np.array([float(g.square().sum()) for g in grads]) / float(upstream.square().sum())


@pytest.mark.parametrize("place", ["pre", "post"])
def test_the_gradients_of_the_stream_are_torchs(place):
    def agrees(stream_gradients):
        found = stream_gradients(place, 4, np.random.default_rng(5), d=12)
        return np.allclose(found, stream_by_torch(place, 4, np.random.default_rng(5), 12))

    assert agrees(transformer.stream_gradients)
    for error in (("* active", ""), ("g = g + through", "g = through")):
        assert not agrees(twin(transformer.stream_gradients, *error)), error
