"""The data that the tools write: a line for each run."""

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
