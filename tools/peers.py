"""Ask PyTorch, Keras, Flax and ONNX for their conventions, and write normbook/data/peers.json:
make peers. Some minutes and 2 GB the first time, two minutes later.

They live in an environment of their own, _build/peers, made from tools/peers.txt when it is not
there or a pin has changed; the book's own environment does not have them. Every answer comes from a
run: normbook/studies/frameworks.py asks, tools/peers_run.py shows it the frameworks.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS, HOME = ROOT / "tools" / "peers.txt", ROOT / "_build" / "peers"
TARGET = ROOT / "normbook" / "data" / "peers.json"


def is_ready(home: Path, pins: Path) -> bool:
    """The stamp is a copy of the pins, written last: a half-made environment never counts."""
    stamp = home / "ready"
    return stamp.exists() and stamp.read_text(encoding="utf-8") == pins.read_text(encoding="utf-8")


def make(home: Path, pins: Path) -> None:
    """Errors: SystemExit with what pip said."""
    print(
        f"Installing the packages of {pins.name} into {home}, once; this takes minutes.", flush=True
    )
    venv.create(home, clear=True, with_pip=True)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*pip, "install", "-r", pins], capture_output=True, text=True)
    if done.returncode:
        said = re.search(r"ERROR.*", done.stderr)
        sys.exit(
            f"{pins.stem}: expected the packages of {pins.name}, pip said: "
            f"{said[0][:150] if said else done.returncode}; check the network and run this again"
        )
    (home / "ready").write_text(pins.read_text(encoding="utf-8"), encoding="utf-8")


def main() -> None:
    if not is_ready(HOME, PINS):
        make(HOME, PINS)
    command = [HOME / "bin" / "python", "-W", "ignore", ROOT / "tools" / "peers_run.py", TARGET]
    if subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode:
        sys.exit("peers: expected an answer to every question; nothing was written")
    print(f"The answers are in {TARGET}; see them: make refresh CHAPTER=frameworks")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("peers: interrupted; nothing was written")
