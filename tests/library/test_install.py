"""The wheels in environments of their own: the layers with NumPy alone, the rest by its extra, and
a page by the lines that it shows.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import run_page
from project import ROOT, environment, run
from test_structure import list_packages, read

pytestmark = pytest.mark.programs

PROJECT = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
NAMES = {"scikit-learn": "sklearn"}  # a package that is imported under another name
README = read(ROOT / "README.md")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an empty environment, in which the library is installed and NumPy is found: as
    `make dist` packs it, the wheel made from the source archive."""
    folder = tmp_path_factory.mktemp("install")
    packed = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    assert packed.returncode == 0, packed.stdout + packed.stderr
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "empty"], check=True)
    own = next((folder / "empty").glob("*/python"), folder / "empty" / "Scripts" / "python.exe")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", own]
    offline = ["install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run([*pip, *offline], check=True, env=environment())
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([own, "-I", "-c", where], check=True, capture_output=True, text=True)
    numpy = Path(np.__file__).parent
    for package in (numpy, numpy.with_name("numpy.libs")):
        if package.is_dir():
            os.symlink(package, Path(done.stdout.strip(), package.name))
    return own


def test_a_release_has_one_version():
    version = PROJECT["version"]
    stated = {
        "normbook/pyproject.toml": f'version = "{version}"',
        "normlib/__init__.py": f'__version__ = "{version}"',
        "CITATION.cff": f"version: {version}\n",
        "CHANGELOG.md": f"# Changelog\n\n## {version}\n",
    }
    assert [name for name, line in stated.items() if line not in read(ROOT / name)] == []


def run_there(python, *arguments, cwd):
    """Isolated: neither this folder nor PYTHONPATH is seen."""
    command = [python, "-I", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment())


def test_the_wheel_and_numpy_are_enough_for_the_layers(python, tmp_path):
    checked = SNIPPETS[0] + "\nimport normlib, sys\nprint(normlib.__file__, 'sympy' in sys.modules)"
    done = run_there(python, "-c", checked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file, loaded = done.stdout.split()
    assert str(ROOT) not in file and "site-packages" in file and loaded == "False"


def test_there_the_witnesses_and_their_command_say_what_to_install(python, tmp_path):
    for words in (["-c", SNIPPETS[1]], ["-m", "normlib.verify", "mine:f", "--shapes", "3"]):
        done = run_there(python, *words, cwd=tmp_path)
        assert done.returncode != 0
        assert "pip install 'normlib[verify]'" in done.stderr.splitlines()[-1]


def test_the_wheel_holds_the_library_and_nothing_of_the_book(python, tmp_path):
    listed = (
        "from importlib.metadata import files, requires\n"
        "print(*files('normlib'), sep='\\n'); print('---', *requires('normlib'), sep='\\n')"
    )
    held, _, needed = run_there(python, "-c", listed, cwd=tmp_path).stdout.partition("---")
    assert "normlib/verify/__main__.py" in held
    assert "normlib/py.typed" in held  # what a type checker looks for
    assert all(name.startswith("normlib") for name in held.split())
    assert not [word for word in ("data/", "claims/", "studies/") if word in held]
    assert [line for line in needed.split("\n") if line and "extra" not in line] == ["numpy"]


# How to run a page.

RUN = """
import jupyterlab, nbformat, normbook, normlib
assert "elsewhere" in normlib.__file__ and "elsewhere" in normbook.__file__
cells = nbformat.read("only-gamma-beta.ipynb", 4).cells
exec(next(cell.source for cell in cells if "import" in cell.source))
print(*trials.kept("data/gamma_beta.json"))
"""


def test_a_notebook_alone_in_a_folder_finds_all_that_it_needs_by_the_lines_of_its_page(tmp_path):
    """What pip would fetch is there already, borrowed from this environment."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(ROOT / "chapters" / "only-gamma-beta.ipynb", folder)
    wheels = [wheel.name for wheel in run_page.build_wheels(folder)]
    first, second, third = run_page.lines("only-gamma-beta.ipynb", wheels)
    alone = {"cwd": folder, "PYTHONPATH": "", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    for line in (first, second):
        result = run("bash", "-c", line, **alone)
        assert result.returncode == 0, result.stdout + result.stderr
    (there,) = folder.glob("book/lib/python*/site-packages")
    (there / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    python, *words = shlex.split(third)
    assert words == ["-m", "jupyterlab", "only-gamma-beta.ipynb"]
    result = run(python, "-c", RUN, **alone)
    assert result.stdout.split()[:2] == ["seeds", "runs"], result.stderr


# What an extra brings is what its parts import.


@cache
def list_brought(extra=""):
    """The packages by the names under which they are imported."""
    extras = PROJECT["optional-dependencies"]
    names = {*PROJECT["dependencies"], *(extras[extra] if extra else ())}
    for inner in [n for n in names if n.startswith("normlib[")]:
        names = names - {inner}
        names = names.union(*map(list_brought, inner[len("normlib[") : -1].split(",")))
    return {NAMES.get(name, name) for name in names}


def list_imported(*folders):
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    paths = [path for path in paths if path.name != "fixtures.py"]  # for who has pytest anyway
    return set().union(*(list_packages(read(path)) for path in paths))


@pytest.mark.parametrize(
    ("extra", "parts"),
    [
        ("", ["layers"]),
        ("verify", ["layers", "verify", "evidence"]),
        ("distributed", ["layers", "distributed"]),
        ("fused", ["layers", "fused"]),
    ],
)
def test_an_extra_brings_what_its_parts_import(extra, parts):
    assert list_imported(*(f"normlib/{part}" for part in parts)) <= list_brought(extra)


def test_what_the_book_needs_beside_the_library_is_what_its_package_brings():
    project = tomllib.loads(read(ROOT / "normbook" / "pyproject.toml"))["project"]
    library, *needs = project["dependencies"]
    assert library == "normlib[verify,fused]"
    brought = list_brought("verify") | list_brought("fused") | {NAMES.get(n, n) for n in needs}
    assert list_imported("normbook") <= brought
    assert "jupyterlab" in needs  # the lines of every page start it
