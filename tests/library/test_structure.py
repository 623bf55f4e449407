"""The parts of the library depend on each other in one direction only."""

import ast
from sys import stdlib_module_names

import pytest
from project import ROOT

# What each part may import of the two houses.
LIBRARY = {"evidence", "verify", "distributed", "fused", "layers", "html"}
MAY_IMPORT = {
    "layers": {"layers"},
    "fused": {"fused", "layers"},
    "verify": {"verify", "html"},
    "distributed": {"distributed", "layers"},
    "evidence": {"evidence", "verify", "distributed", "layers"},
    "claims": {"claims", "html"},
    "show": {"show"} | LIBRARY,
    "lab": {"lab"} | LIBRARY,
    "studies": {"studies", "lab"} | LIBRARY,
}
HOUSES = ("normlib", "normbook")


def list_imports(source):
    """The full names of what a module imports: `a.b` for `from a import b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_forbidden(part, source):
    """What a module of this part imports of the two houses, and must not."""
    own = (name.split(".") for name in list_imports(source) if name.startswith(HOUSES))
    # `from normlib import batch_norm` reaches the layers
    parts = {p[1] if len(p) > 1 and p[1] in {*MAY_IMPORT, "html"} else "layers" for p in own}
    return parts - MAY_IMPORT[part]


def read(path):
    return path.read_text(encoding="utf-8")


def list_modules(part):
    return sorted(path for house in HOUSES for path in (ROOT / house / part).rglob("*.py"))


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_every_arrow_points_one_way(part):
    assert list_modules(part)
    for path in list_modules(part):
        found = find_forbidden(part, read(path))
        assert not found, f"{path.relative_to(ROOT)} imports {sorted(found)}"


def list_packages(source):
    """What a module imports beside the standard library and this one."""
    return {name.split(".")[0] for name in list_imports(source)} - stdlib_module_names - {*HOUSES}
