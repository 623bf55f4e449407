"""What a page, a layer or a test file rests on turns its record stale, and nothing else does."""

import check
import pytest
import records
import rests
import small
from project import CHAPTERS, ROOT
from test_report import LAYERS

import normlib

READERS = {"chapters/ledger", "tests/test_files.py"}  # they may read any file
EVERYTHING = small.PAGES | small.LAYERS | small.TESTS
CHANGES = {
    "chapters/norm.ipynb": {"chapters/norm"},
    "chapters/claims/topic.ipynb": {"chapters/claims/topic"},
    "normlib/evidence/rms.py": EVERYTHING,
    "requirements.lock": EVERYTHING,
    "tests/cases.py": small.LAYERS | small.TESTS,
    "tests/test_report.py": small.LAYERS,
    "tests/test_layers.py": {"tests/test_layers.py", "tests/test_more.py"},
    "tools/made.py": small.TESTS,
    "README.md": set(),
}


def turned(root, known):
    """The units that no longer count as verified."""
    judged = records.judged(rests.read(root), known)
    return {unit for unit, found in judged.items() if found.state != records.VERIFIED}


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_turns_what_rests_on_it_and_nothing_else(tmp_path, path):
    root = small.build(tmp_path)
    tree = rests.read(root)
    passed = {"date": "2026-01-01T00:00:00+00:00", "passed": 1, "failed": 0, "skipped": 0}
    known = [{"unit": u, "rests": rests.of(tree, u)} | passed for u in rests.units(tree)]
    assert {one["unit"] for one in known} == EVERYTHING and not turned(root, known)
    for name in ("normlib/__pycache__/x.pyc", "chapters/.ipynb_checkpoints/norm.ipynb", ".env"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("built or hidden, nothing to rest on")
    assert not turned(root, known)
    small.edit(root, path)
    assert turned(root, known) == CHANGES[path] | READERS


def test_every_page_has_its_record_and_every_layer_has_one():
    found = rests.units(rests.read(ROOT))
    pages = sorted(page.relative_to(ROOT).with_suffix("").as_posix() for page in CHAPTERS)
    assert [unit for unit in found if not unit.endswith(".py")] == [
        *pages,
        *(f"layers/{name}" for name in LAYERS),
    ]


def test_every_layer_of_the_library_is_examined():
    pairs = {n for n in normlib.__all__ if f"{n}_backward" in normlib.__all__}
    assert pairs - {"standardize"} == {name.split(",")[0] for name in LAYERS}


def test_a_file_with_the_marker_is_left_to_make_test_and_others_are_not():
    _, left = check.sorted_out(rests.read(ROOT), [])
    assert "tests/test_explorers.py" in left
    assert not {"tests/test_fused.py", "tests/test_any_layer.py"} & {*left}
