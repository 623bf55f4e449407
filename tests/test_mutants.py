"""The tool that changes the library notices what a test notices, and nothing else; its table and
its list of mutants that compute the same are in order."""

import json
import sys
from collections import Counter

import mutants
import pytest
from project import ROOT, run

pytestmark = pytest.mark.programs

TABLE = json.loads(mutants.TARGET.read_text(encoding="utf-8"))


def test_a_fixed_few_are_noticed_and_one_that_computes_the_same_is_not():
    said = run(sys.executable, ROOT / "tools" / "mutants.py", "sample")
    assert said.returncode == 0, said.stderr
    listed = [*mutants.listed("sample")]
    lines = said.stdout.splitlines()[-len(listed) - 1 :]
    for (*_, mutated), line in zip(listed, lines, strict=False):
        assert line.startswith(f"{mutated}: tests/test_")
    assert lines[-1].endswith(": unnoticed")


@pytest.mark.parametrize("kind", ["sample", "equivalent"])
def test_every_listed_mutant_has_its_place(kind):
    found = [*mutants.placed(kind)]
    assert found and max(Counter(mutants.listed(kind)).values()) == 1
    for mutant, entry in zip(found, mutants.listed(kind), strict=True):
        assert mutants.name(mutant) == entry


def test_no_mutant_is_unexplained():
    assert {"layers"} <= set(TABLE)
    for part, row in TABLE.items():
        assert row["unexplained"] == 0, part
        assert row["tried"] == row["noticed"] + row["equivalent"]
        for total in ("tried", "noticed", "equivalent"):
            assert row[total] == sum(kind[total] for kind in row["operators"].values())
    assert TABLE["layers"]["tried"] == TABLE["layers"]["mutants"] > 1500


TEXT = '''"""A module with an é."""

LIMIT = 2


def twice(x, *, by=2):
    if x < 0:
        raise ValueError(f"x must be positive, but got {-x}")
    return x * by


class Twice:
    @staticmethod
    def of(x):
        return x + x
'''


def mutant(before: str, after: str) -> mutants.Mutant:
    start = TEXT.index(before)
    line = TEXT.count("\n", 0, start) + 1
    return mutants.Mutant("m.py", "", "", line, (start, start + len(before), after))


def test_what_is_inside_a_message_is_known():
    (span,) = mutants.messages(TEXT)
    assert TEXT[slice(*span)] == 'f"x must be positive, but got {-x}"'


def test_a_mutant_is_named_by_its_line_before_and_after():
    changed = mutant("x * by", "x - by")
    assert changed.lines(TEXT) == ("return x * by", "return x - by")
    assert mutants.is_python(changed.applied(TEXT))
    assert not mutants.is_python(mutant("*, by", "+, by").applied(TEXT))


@pytest.mark.parametrize(
    ("before", "after", "inside"),
    [("by=2", "by=3", True), ("x + x", "x - x", True), ("LIMIT = 2", "LIMIT = 1", False)],
)
def test_loaded_functions_get_the_code_and_the_defaults_of_the_changed_file(
    before, after, inside, tmp_path, monkeypatch
):
    path = tmp_path / "changed_here.py"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import changed_here

    twice, of = changed_here.twice, changed_here.Twice.of
    assert (twice(5), of(5)) == (10, 10)
    changed = mutant(before, after)
    assert mutants.is_inside_function(TEXT, changed.line) is inside
    path.write_text(changed.applied(TEXT), encoding="utf-8")
    mutants.give_code(path, "changed_here")
    assert ((twice(5), of(5)) != (10, 10)) is inside
    del sys.modules["changed_here"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_dies_has_been_noticed_and_one_that_cannot_start_stops_the_tool():
    assert mutants.in_child(lambda: "tests/test_it.py::test") == "tests/test_it.py::test"
    assert mutants.in_child(lambda: mutants.os._exit(9)) == "a limit of time or memory"
    with pytest.raises(SystemExit, match="expected a test to pass or to fail, got ZeroDivision"):
        mutants.in_child(lambda: 1 / 0)


def test_a_result_holds_as_long_as_its_test_is_the_same(tmp_path):
    test = tmp_path / "test_it.py"
    test.write_text("def test_it(): pass")
    kept = mutants.file_digest(tmp_path, "test_it.py::test_it")
    assert mutants.still_holds(tmp_path, "test_it.py::test_it", kept)
    assert not mutants.still_holds(tmp_path, "", "")
    test.write_text("def test_it(): assert False")
    assert not mutants.still_holds(tmp_path, "test_it.py::test_it", kept)


def test_a_listed_mutant_that_has_lost_its_place_is_named(monkeypatch):
    lost = ("normlib/layers/core.py", "average", "return x.median()", "return 0")
    monkeypatch.setattr(mutants, "listed", lambda kind: [lost])
    with pytest.raises(ValueError, match=r"expected 'return x.median\(\)' in average of .*core.py"):
        list(mutants.placed("equivalent"))
