"""The network that trains in a page does what the library does, and shows what its scenes say."""

import json
import re
from functools import partial
from itertools import product

import exploring
import numpy as np
import pytest
from project import ROOT
from test_explorers import ALL, PHONE, SMALL, THEME, WIDE

import normlib
from normbook.lab import data

pytestmark = pytest.mark.programs

BOUND = 1e-11  # after three steps, relative to the largest entry; rounding leaves 1e-15
BLOCK = re.search(r"```\{raw\} html\n(.*?)```", (ROOT / "intro.md").read_text("utf-8"), re.S)[1]
DIGITS = exploring.text("data/digits.js")


rms_norm = partial(normlib.rms_norm, eps=1e-5)


def on_channels(z, gamma, beta):
    y, cache = normlib.group_norm(z[:, :, None], gamma, beta, groups=4)
    return y[:, :, 0], cache


NORMS = {
    "none": (
        lambda z, g, b: (g * z + b, (z, g)),
        lambda d, c: (d * c[1], (d * c[0]).sum(0), d.sum(0)),
    ),
    "batch": (normlib.batch_norm, normlib.batch_norm_backward),
    "layer": (normlib.layer_norm, normlib.layer_norm_backward),
    "RMS": (
        lambda z, g, b: (rms_norm(z, g)[0] + b, rms_norm(z, g)[1]),
        lambda d, cache: (*normlib.rms_norm_backward(d, cache), d.sum(0)),
    ),
    "group": (
        on_channels,
        lambda d, cache: [np.squeeze(g) for g in normlib.group_norm_backward(d[:, :, None], cache)],
    ),
}
ACTS = {
    "ReLU": (lambda y: np.maximum(y, 0), lambda a: a > 0),
    "tanh": (np.tanh, lambda a: 1 - a * a),
}


def descend(layers, x, labels, norm, activation, rate):
    """One step in place: the loss before it."""
    forward, backward = NORMS[norm]
    act, slope = ACTS[activation]
    kept, h = [], x
    for layer in layers[:-1]:
        z = h @ layer["w"]
        y, cache = forward(z, layer["gamma"], layer["beta"])
        if norm == "batch":
            layer["mean"], layer["power"] = normlib.update_running(layer["mean"], layer["power"], z)
        kept.append((h, cache))
        h = act(y)
    logits = h @ layers[-1]["w"] + layers[-1]["beta"]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    d = (shares - np.eye(10)[labels]) / len(x)
    slopes = [{"w": h.T @ d, "beta": d.sum(axis=0)}]
    for after, (before, cache) in zip(layers[:0:-1], kept[::-1], strict=True):
        dz, dgamma, dbeta = backward((d @ after["w"].T) * slope(h), cache)
        slopes.append({"w": before.T @ dz, "gamma": dgamma, "beta": dbeta})
        d, h = dz, before
    for layer, slope_of in zip(layers[::-1], slopes, strict=True):
        for name, value in slope_of.items():
            layer[name] = layer[name] - rate * value
    return -np.log(shares[np.arange(len(x)), labels]).mean()


TRAIN = """([script, settings, pixels, labels]) => {
  const explorers = {};
  new Function('explorers', script)(explorers);
  const { begin, random, step } = explorers.training;
  return JSON.stringify(settings.map(setting => {
    const layers = begin(setting, random(3).normal), x = Float64Array.from(pixels);
    const listed = (_, v) => v.buffer ? [...v] : v;
    const plain = () => layers.map(layer => JSON.parse(JSON.stringify(layer, listed)));
    const start = plain(), losses = [1, 2, 3].map(() => step(layers, x, labels, setting).loss);
    return { start, losses, end: plain() };
  }));
}"""
SETTINGS = [
    {"norm": n, "activation": a, "depth": 3, "scale": 1, "rate": 0.1}
    for n, a in product(NORMS, ACTS)
]


def shaped(layers):
    wide = [64, *[32] * (len(layers) - 1), 10]
    arrays = [{name: np.array(v, float) for name, v in layer.items()} for layer in layers]
    return [a | {"w": a["w"].reshape(wide[i], -1)} for i, a in enumerate(arrays)]


def gaps(page, script):
    """How far losses, parameters and averages are off after three steps, by setting."""
    split = data.digits(np.random.default_rng(0))
    x, labels = split.x_train[:24], split.labels_train[:24]
    told = json.loads(page.evaluate(TRAIN, [script, SETTINGS, x.ravel().tolist(), labels.tolist()]))
    found = []
    for setting, seen in zip(SETTINGS, told, strict=True):
        layers = shaped(seen["start"])
        given = setting["norm"], setting["activation"], setting["rate"]
        losses = [descend(layers, x, labels, *given) for _ in range(3)]
        pairs = [(losses, seen["losses"])]
        for ours, theirs in zip(layers, shaped(seen["end"]), strict=True):
            pairs += [(ours[name], theirs[name]) for name in ours]
        found.append(
            max(
                np.abs(np.subtract(*pair)).max() / np.abs(pair[0]).max().clip(1e-9)
                for pair in pairs
            )
        )
    return np.array(found)


@pytest.fixture(scope="module")
def blank(browser):
    with browser.new_context() as context:
        yield context.new_page()


@pytest.fixture(scope="module")
def opened(browser):
    with browser.new_context(reduced_motion="reduce", has_touch=True) as context:
        body = f"<style>a {{ color: inherit }}</style><p>Text.</p>{BLOCK}"
        yield exploring.open_page(context, body, exploring.text("training.js"))


def test_its_first_steps_are_those_of_the_library(blank):
    assert gaps(blank, exploring.text("training.js")).max() < BOUND


PLANTED = {
    "no term of the variance": ("(d[p] - mean - xhat[p] * along)", "(d[p] - mean)"),
    "the variance by which it divided is kept": (
        "(kept[i].power[c] * n) / (n - 1)",
        "kept[i].power[c]",
    ),
    "the slope of tanh": ("1 - a * a", "1 - a"),
    "RMSNorm with the term of the mean": ('if (kind === "RMS") mean = 0;', ""),
    "groups of another size": ("GROUPS = 4", "GROUPS = 8"),
    "gamma stays": ("gamma[c] -= rate * v", "gamma[c] -= 0 * v"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_an_error_in_its_script_is_seen(blank, error):
    assert not gaps(blank, exploring.planted("training", *PLANTED[error])).max() < BOUND


def test_its_digits_are_those_of_the_book():
    split = data.digits(np.random.default_rng(0), "raw")
    said = dict(re.findall(r'(labels|pixels): "(\w+)"', DIGITS))
    pixels = np.frombuffer(said["pixels"].encode(), np.uint8).reshape(-1, 64) - 97.0
    assert (pixels == 16 * np.vstack([split.x_train, split.x_test])).all()
    assert [*map(int, said["labels"])] == [*split.labels_train, *split.labels_test]


def run_scene(page, name):
    """What it says after its 300 steps, or where it broke off: loss, and test digits read."""
    page.get_by_role("button", name=name).click()
    page.wait_for_function("document.querySelector('.training [role=status]').innerText")
    status = page.locator(".training [role=status]")
    page.get_by_role("button", name="Train").wait_for()
    text = status.inner_text()
    numbers = re.search(r"loss ([\d.]+).* (\d+) %", text)
    return [float(n) for n in numbers.groups()] if numbers else text


def test_a_scene_shows_what_it_says_and_its_cure_helps(opened):
    assert "no number" in run_scene(opened, "Exploding")
    assert run_scene(opened, "Vanishing")[0] > 2.2
    assert run_scene(opened, "A batch of two")[1] < 25
    assert run_scene(opened, "Saturated")[1] < 85
    uncentred = run_scene(opened, "Uncentred inputs")
    assert "no number" in uncentred or uncentred[1] < 75
    sorted_by_kind = run_scene(opened, "Forgotten eval()")
    opened.get_by_label("the test is judged").select_option("eval")
    assert sorted_by_kind[1] < 50
    opened.wait_for_function(
        "/9\\d %/.test(document.querySelector('.training [role=status]').innerText)"
    )
    assert opened.said == []


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_it_fits_and_everything_is_as_large_as_a_finger(opened, width):
    opened.set_viewport_size({"width": width, "height": 900})
    drawn = (
        "w => (document.querySelector('.training svg').viewBox.baseVal.width < 400) === (w < 500)"
    )
    opened.wait_for_function(drawn, arg=width)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    for theme in ("light", "dark"):
        opened.evaluate(THEME, theme)
        looks = (*ALL, SMALL.replace(".explorer", ".training"))
        assert [line for look in looks for line in opened.evaluate(look)] == []
