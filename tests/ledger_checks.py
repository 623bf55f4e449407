"""Every claim of the register is decided by one cell, and every decision stands in the register."""

import ast
from typing import NamedTuple

from hygiene import code, texts
from project import ROOT, run

from normbook.claims import OPEN, Claim

MEASURED = ("given", "planted", "beyond", "inside", "outside")


class Call(NamedTuple):
    """One call of `decide` in a notebook."""

    page: str
    claim: str | None  # None if the name is not written out
    node: ast.Call
    shown: str  # all that the cell has printed or displayed
    cell: str  # its id


def calls(page, notebook):
    """Return every call of `decide`, in order."""
    found = []
    for cell in code(notebook):
        shown = "\n".join(text for output in cell.outputs for text in texts(output))
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "decide":
                first = node.args[0] if node.args else None
                named = first.value if isinstance(first, ast.Constant) else None
                found.append(Call(page, named, node, shown, cell.id))
    return found


def undecided(claims: dict[str, Claim], found: list[Call]):
    decided = [call.claim for call in found]
    for claim in claims.values():
        times = decided.count(claim.id)
        if times != (claim.verdict != OPEN):
            yield f"claim {claim.id}, {claim.verdict}: decided by {times} cells"


def unregistered(claims: dict[str, Claim], found: list[Call]):
    for call in found:
        if call.claim not in claims:
            yield f"{call.page} decides {call.claim}, which the register does not hold"
        elif claims[call.claim].page != call.page:
            yield f"{call.page} decides {call.claim}, the register says {claims[call.claim].page}"


def unshown(claims: dict[str, Claim], found: list[Call]):
    for call in found:
        if f'id="claim-{call.claim}"' not in call.shown:
            yield f"{call.page} does not show its decision on {call.claim}: make it the last line"


def misnamed(claims: dict[str, Claim], found: list[Call]):
    """On a page of claims a cell has the id of its claim, by which links find it in JupyterLab."""
    for call in found:
        if "/" in call.page and call.cell != f"claim-{call.claim}":
            yield f"{call.page}: expected the cell id claim-{call.claim}, got {call.cell}"


def bindings(notebook):
    """Name: every expression that the cells bind to it alone."""
    bound = {}
    for cell in code(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                bound.setdefault(node.targets[0].id, []).append(node.value)
    return bound


def is_constant(expression: ast.expr):
    return isinstance(getattr(expression, "operand", expression), ast.Constant)  # 1, or -1


def written_down(expression: ast.expr, bound):
    """Whether a number or a text is meant, rather than something that was measured."""
    if isinstance(expression, ast.Name):
        values = bound.get(expression.id, [])
        return bool(values) and all(map(is_constant, values))
    if isinstance(expression, ast.Tuple | ast.List):
        return all(written_down(part, bound) for part in expression.elts)
    if isinstance(expression, ast.Call) and getattr(expression.func, "id", "") == "interval":
        return all(written_down(part, bound) for part in expression.args)
    return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(expression))


def literals(notebook, found: list[Call]):
    bound = bindings(notebook)
    for call in found:
        for keyword in call.node.keywords:
            if keyword.arg in MEASURED and written_down(keyword.value, bound):
                yield f"{call.page}, {call.claim}: {keyword.arg} is written down, not computed"


def problems(claims: dict[str, Claim], notebooks: dict):
    """Return one line for everything in which register and chapters differ."""
    by_page = {page: calls(page, notebook) for page, notebook in notebooks.items()}
    found = [call for page in by_page.values() for call in page]
    rules = undecided, unregistered, unshown, misnamed
    lines = [line for rule in rules for line in rule(claims, found)]
    return lines + [line for page, nb in notebooks.items() for line in literals(nb, by_page[page])]


def committed(path):
    """Return the text of a file at every commit that changed it, none where there is no history."""
    commits = run("git", "log", "--format=%H", "--", path).stdout.split()
    name = path.relative_to(ROOT).as_posix()
    found = (run("git", "show", f"{commit}:{name}") for commit in commits)
    return [shown.stdout for shown in found if shown.returncode == 0]
