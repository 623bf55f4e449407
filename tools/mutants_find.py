"""Cosmic Ray's mutants of some files, as JSON: each an edit of the text, and what it is called.

It runs in the environment of tools/mutants.txt, for tools/mutants.py, which tries them. What Cosmic
Ray itself would do, a run of all tests in a new process for each mutant, takes a day.
"""

import json
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


def alike(one: str, other: str) -> int:
    """How many characters two texts have in common from their start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def edit(before: str, after: str) -> tuple[int, int, str]:
    """The one stretch in which two texts differ: where it begins and ends, and what comes in."""
    start = alike(before, after)
    same = alike(before[start:][::-1], after[start:][::-1])
    return start, len(before) - same, after[start : len(after) - same]


def mutants(text: str) -> Iterator[dict]:
    """Every mutant of a module by every operator that takes no settings."""
    nodes = list(ast_nodes(get_ast(text)))
    for name in sorted(operator_names()):
        kind = get_operator(name)
        if kind.arguments():
            continue
        places = ((node, at) for node in nodes for at in kind().mutation_positions(node))
        for occurrence, (node, (start, _)) in enumerate(places):
            first, last, new = edit(text, mutate_code(text, kind(), occurrence))
            yield {
                "operator": name.partition("/")[2],
                "function": ASTQuery(node).get_definition_name() or "",
                "line": start[0],
                "edit": [first, last, new],
            }


if __name__ == "__main__":
    found = {path: list(mutants(Path(path).read_text(encoding="utf-8"))) for path in sys.argv[1:]}
    print(json.dumps(found))
