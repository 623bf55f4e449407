"""All parts together run every test once, fairly shared, and their records make one report."""

import json
import shutil
import sys
from types import SimpleNamespace

import parts
import pytest
import records
import small
import verification
from project import ROOT, run

import conftest

pytestmark = pytest.mark.programs

FILES = [f"tests/test_{name}.py" for name in "abcdefg"]
SECONDS = dict(zip(FILES, (1, 5, 5, 10, 20, 30, 40), strict=True))  # the last is the longest


@pytest.mark.parametrize("number", range(1, 10))
def test_every_file_is_in_one_share(number):
    found = parts.shares(FILES, SECONDS, number)
    assert len(found) == number and sorted(file for share in found for file in share) == FILES


def test_shares_are_fair_by_the_seconds_that_were_measured():
    def longest(seconds):
        return max(sum(SECONDS[f] for f in share) for share in parts.shares(FILES, seconds, 3))

    assert longest(SECONDS) == 40 < longest({})
    unknown = dict.fromkeys(FILES[1:], 2.0)
    assert parts.expected(unknown, FILES[0]) == 2


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "a/b", "1/2/3", "-1/2"])
def test_a_part_that_is_none_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="expected a part such as 2/4"):
        parts.part(text)
    assert parts.part("2/4") == (2, 4)


@pytest.fixture
def measured(tmp_path):
    """A folder that holds the seconds of the files."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / parts.SECONDS).write_text(json.dumps(SECONDS))
    return tmp_path


def chosen(root, nodeids, part, **worker):
    """What is left of these tests, in this order, when a run of this part has collected them."""
    config = SimpleNamespace(rootpath=root, option=SimpleNamespace(part=part), **worker)
    left = []
    config.hook = SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
    items = [SimpleNamespace(nodeid=nodeid) for nodeid in nodeids]
    conftest.pytest_collection_modifyitems(config, items)
    assert len(items) + len(left) == len(nodeids)
    return [item.nodeid for item in items]


def test_every_test_is_in_one_part_and_a_file_is_never_split(measured):
    nodeids = [f"{file}::test_{i}" for file in [*FILES, "new.py", "a.ipynb"] for i in range(3)]
    found = [chosen(measured, nodeids, f"{k}/4") for k in (1, 2, 3, 4)]
    assert sorted(n for share in found for n in share) == sorted(nodeids) and all(found)
    assert all(len(share) % 3 == 0 for share in found)
    assert chosen(measured, nodeids, None) == nodeids


def test_a_worker_takes_the_longest_file_first_and_keeps_the_order_within_it(measured):
    nodeids = [f"{file}::{i}" for file in FILES for i in "12"]
    found = chosen(measured, nodeids, None, workerinput={})
    longest_first = [FILES[k] for k in (6, 5, 4, 3, 1, 2, 0)]
    assert found == [f"{file}::{i}" for file in longest_first for i in "12"]


def test_a_part_that_is_none_ends_a_run_in_one_line():
    with pytest.raises(pytest.UsageError, match="--part: expected a part such as 2/4"):
        conftest.pytest_configure(SimpleNamespace(option=SimpleNamespace(part="5/4")))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A small project with one page, and with the machinery of this one."""
    root = small.build(tmp_path_factory.mktemp("project"))
    for page in small.PAGES - {"chapters/claims/topic"}:
        (root / f"{page}.ipynb").unlink()
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "tools", root / "tools", dirs_exist_ok=True)
    return root


def python(root, *arguments):
    said = run(sys.executable, *arguments, cwd=root, PYTHONPATH=str(root))
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


SOME = ("-n", "1", "--part", "1/1", "tests", "chapters/claims/topic.ipynb::Cell 0")


@pytest.fixture(scope="module")
def verified(project, tmp_path_factory):
    """The same after two runs, as on two machines: of all tests and one cell, and of the page."""
    merged = tmp_path_factory.mktemp("merged")
    for name, options in (("tests", SOME), ("pages", ["chapters"])):
        python(project, "-m", "pytest", "-q", *options)
        (project / records.FOLDER).rename(merged / name)
    merged.rename(project / records.FOLDER)
    return project


def test_a_run_of_one_cell_writes_no_record_of_its_page(verified):
    tests = verified / records.FOLDER / "tests"
    assert [*tests.rglob("*.json")] and not (tests / "chapters").exists()


def test_the_records_of_several_machines_make_one_report_of_everything(verified):
    found = records.latest(verified)
    assert len(records.read(verified)) == len(found) == 7
    assert verification.verdict([*found.values()]) == (verification.GOOD, "good")


def test_the_seconds_of_the_last_records_are_stored_unless_one_is_missing(
    verified, tmp_path, capsys
):
    parts.main(verified)
    assert "2 parts: " in capsys.readouterr().out
    stored = json.loads((verified / parts.SECONDS).read_text())
    assert len(stored) == 5 and stored["chapters/claims/topic.ipynb"] > 0
    with pytest.raises(SystemExit, match="expected a record of every page"):
        parts.main(small.build(tmp_path))


def test_where_nothing_is_stale_nothing_runs(verified):
    assert python(verified, "tools/check.py") == "Nothing is stale.\n"
