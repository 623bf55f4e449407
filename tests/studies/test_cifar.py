"""CIFAR-10's binary version is read, trained on and drawn; what is not it ends in one line."""

import json

import cifar as command
import numpy as np
import pytest
import torch

from normbook.studies import cifar

RECORD = 3073
FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


def records(images, rng):
    """Bytes of the format, written down here once more, image by image: the label, then red row by
    row, then green, then blue."""
    pixels = rng.integers(0, 256, (images, 3, 32, 32), dtype=np.uint8)
    labels = rng.permutation(np.arange(images) % 10).astype(np.uint8)
    rows = [bytes([label]) + image.tobytes() for label, image in zip(labels, pixels, strict=True)]
    return b"".join(rows), pixels, labels


@pytest.fixture
def folder(tmp_path):
    """Six files of six images of noise."""
    rng = np.random.default_rng(0)
    for name in FILES:
        (tmp_path / name).write_bytes(records(6, rng)[0])
    return tmp_path


def test_every_file_is_read_in_order_and_no_byte_is_lost(folder):
    rng = np.random.default_rng(0)
    _, pixels, labels = (list(part) for part in zip(*(records(6, rng) for _ in FILES), strict=True))
    ours = [np.concatenate(part) for part in zip(*cifar.load(folder), strict=True)]
    assert all(map(np.array_equal, ours, map(np.concatenate, (pixels, labels))))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "found 0 bytes"),
        (bytes(2 * RECORD - 1), "found 6145 bytes; the file may be truncated"),
        (bytes(RECORD), "found 1 in data_batch_3.bin and 6 in another; it may be truncated"),
        (bytes([11]) * (6 * RECORD), "expected labels from 0 to 9"),
    ],
    ids=["empty", "cut within an image", "cut between two images", "no label"],
)
def test_a_file_that_is_cut_off_or_something_else_is_named(folder, content, says):
    (folder / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(ValueError, match="expected") as error:
        cifar.load(folder)
    assert says in str(error.value) and "data_batch_3.bin" in str(error.value)


def test_the_scale_is_the_mean_and_deviation_of_each_colour(folder):
    train, _ = cifar.load(folder)
    mean, deviation = cifar.scale_of(train)
    colours = train.pixels.swapaxes(0, 1).reshape(3, -1)
    assert np.allclose(mean, colours.mean(axis=1), rtol=1e-12)
    assert np.allclose(deviation, colours.std(axis=1), rtol=1e-12)
    x = cifar.apply_scale(torch.tensor(train.pixels), cifar.scale_of(train))
    assert x.dtype == torch.float32
    assert x.mean(dim=(0, 2, 3)).abs().max() < 1e-5  # float32


def build_in_torch(params, norm):
    """The same net from torch's own modules."""
    layers, number = [], 0
    for stage in ((0,), (1,), (2, 3), (4, 5), (6, 7)):
        for _ in stage:
            w = params[f"w{number}"]
            conv = torch.nn.Conv2d(w.shape[1], w.shape[0], 3, padding=1, bias=False)
            conv.weight.data = w
            layers += [conv, *([torch.nn.BatchNorm2d(w.shape[0])] if norm else []), torch.nn.ReLU()]
            number += 1
        layers.append(torch.nn.MaxPool2d(2))
    dense = torch.nn.Linear(*params["w_out"].shape)
    dense.weight.data, dense.bias.data = params["w_out"].T, params["bias"]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), dense).double()


@pytest.mark.parametrize("name", cifar.NORMS)
def test_the_vgg_is_what_torchs_own_modules_compute(name):
    x = torch.tensor(np.random.default_rng(1).standard_normal((5, 3, 32, 32)))
    params = {n: value.double() for n, value in cifar.vgg(0, width=4).items()}
    params["bias"] = torch.arange(10.0).double()
    theirs = build_in_torch(params, name == "batch norm")(x)
    ours = cifar.forward(params, x, cifar.NORMS[name])
    assert ours.shape == (5, 10) and (ours - theirs).abs().max() < 1e-9 * theirs.abs().max()


def test_the_command_trains_both_nets_and_writes_three_pictures_and_numbers(
    monkeypatch, folder, tmp_path
):
    options = "--steps", "3", "--width", "2", "--out", str(tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["cifar.py", str(folder), *options])
    command.main()
    pictures = sorted(path.name for path in tmp_path.glob("out/*.png"))
    assert pictures == ["changes.png", "loss.png", "smoothness.png"]
    results = json.loads((tmp_path / "out" / "cifar.json").read_text())
    assert results["steps"] == 3 and results["rate"] == 0.1
    for name, norm in cifar.NORMS.items():
        again = command.summary(cifar.run(*cifar.load(folder), norm, 3, width=2))
        assert results[name] == again  # to the last digit
        assert again["probed steps"] == [0, 1, 2] and len(again["last losses"]) == 3
    assert results["without"]["loss to"] != results["batch norm"]["loss to"]


def test_the_accuracy_counts_every_image_once():
    """With a last batch that is not full; without a norm the batches do not matter."""
    rng, params = np.random.default_rng(0), cifar.vgg(0, width=2)
    pixels = rng.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
    scale, norm = cifar.Scale(np.full(3, 128.0), np.full(3, 70.0)), cifar.NORMS["without"]
    answers = cifar.forward(params, cifar.apply_scale(torch.tensor(pixels), scale), norm).argmax(
        dim=1
    )
    labels = (answers.numpy() + (np.arange(12) % 4 > 0)) % 10
    assert cifar.accuracy(params, cifar.Images(pixels, labels), scale, norm, batch=5) == 0.25
