"""What the tools write: a line for each run, no number that JSON does not have, never a part."""

import json

import pytest
import store
from project import ROOT

FILES = sorted(ROOT.glob("normbook/data/*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_committed_files_are_as_the_tools_write_them(path, tmp_path):
    document = json.loads(path.read_text(encoding="utf-8"))
    store.write_json(tmp_path / "again.json", document)
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("value", ["a [{ b", float("nan"), float("inf")])
def test_what_would_not_come_back_is_refused_and_nothing_is_written(value, tmp_path):
    with pytest.raises(ValueError):
        store.write_json(tmp_path / "odd.json", {"runs": [{"value": value}]})
    assert not list(tmp_path.iterdir())
