"""Train a VGG on CIFAR-10 with and without batch norm, and draw the landscape along its gradient:
python tools/cifar.py FOLDER [--device cpu|cuda] [--steps N].

FOLDER holds the binary version (data_batch_1.bin to data_batch_5.bin, test_batch.bin), unpacked
from cifar-10-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html. Three pictures and
cifar.json go into _build/cifar. The paper took 15,000 steps; that many need a GPU. One core takes
two to three seconds for a gradient, and two hours for the 1,000 steps that are the default: think
of --steps 100, --width 16 and --threads.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import store
import torch
from tqdm import tqdm

from normbook.studies import cifar, landscape

TARGET = Path(__file__).resolve().parents[1] / "_build" / "cifar"
LOOKS = {"without": ("C1", "--"), "batch norm": ("C0", "-")}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="", help="with the .bin files")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=1000, help="of SGD; the paper: 15000")
    parser.add_argument("--width", type=int, default=64, help="of the first layer; VGG-11: 64")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="on the CPU")
    parser.add_argument("--out", type=Path, default=TARGET, help="where the results go")
    return parser.parse_args()


def summary(run: cifar.Run) -> dict:
    seen = run.seen
    rows = {
        "loss from": seen.losses.min(axis=1),
        "loss to": seen.losses.max(axis=1),
        "change from": seen.changes.min(axis=1),
        "change to": seen.changes.max(axis=1),
        "smoothness": seen.smoothness,
        "last losses": run.losses[-20:],
    }
    numbers = {name: list(map(store.kept, row)) for name, row in rows.items()}
    return {"test accuracy": run.accuracy, "probed steps": seen.steps.tolist()} | numbers


def draw(runs: dict[str, cifar.Run], out: Path) -> None:
    plt.style.use("normbook.page")
    for what in landscape.PICTURES:
        figure, ax = plt.subplots()
        for name, run in runs.items():
            landscape.draw(ax, run.seen, what, *LOOKS[name], name)
        ax.legend()
        figure.savefig(out / f"{what}.png")
        plt.close(figure)


def main() -> None:
    options = arguments()
    if not options.folder:
        sys.exit("cifar: expected a folder with CIFAR-10's binary version: make cifar FOLDER=…")
    torch.set_num_threads(options.threads)
    data = cifar.load(Path(options.folder))
    chosen = {name: getattr(options, name) for name in ("seed", "width", "device")}
    runs = {}
    for name, norm in cifar.NORMS.items():
        watch = partial(tqdm, desc=name, total=options.steps, disable=None)
        runs[name] = cifar.run(*data, norm, options.steps, watch=watch, **chosen)
    options.out.mkdir(parents=True, exist_ok=True)
    draw(runs, options.out)
    settings = chosen | {"steps": options.steps, "rate": cifar.RATE, "factors": cifar.FACTORS}
    results = settings | {name: summary(run) for name, run in runs.items()}
    store.write_json(options.out / "cifar.json", results)
    print(f"Three pictures and cifar.json are in {options.out}")


if __name__ == "__main__":
    main()
