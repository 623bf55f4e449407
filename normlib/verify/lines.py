"""A layer as lines in the notation of its page, and every small slip that can be made in them.

A line is a name and a formula: ``"xhat": "(x - mu) * r"``. A formula knows names, numbers,
+ - * / **, sqrt, and three functions that average and add up: mean(a) and sum(a) run over the
values that share a statistic, total(a) over those that share a parameter. The reader of a page
types the same notation; what is said of a slip there is made here.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import combinations
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

Array = Any
NAME = re.compile(r"[a-z_]\w*")


class Layout(NamedTuple):
    """The arguments as they stand beside x, and what the functions of the notation do."""

    values: dict[str, Array]  # each argument in a shape that broadcasts, and what else is named
    mean: Callable[[Array], Array]  # over a statistic, as many entries as what is averaged
    total: Callable[[Array], Array]  # over all that share a parameter, in its own shape
    others: Callable[[Array], Array]  # the mean over the axes that a statistic does not span
    m: float  # how many values a statistic has


class Lines(NamedTuple):
    """A layer, forward and backward; `layout` is given the arguments and the settings."""

    formulas: Mapping[str, str]
    layout: Callable[..., Layout]
    arguments: tuple[str, ...]  # their names in the formulas; that of dx is the gradient of x
    upstream: str = "dy"
    output: str = "y"


class Slip(NamedTuple):
    """One line with a mistake in it, and what the mistake is."""

    line: str
    formula: str
    says: str
    kind: str


@cache
def compiled(formula: str) -> CodeType:
    return compile(formula, "<line>", "eval")


def evaluate(
    lines: Lines, layout: Layout, upstream: Array, slips: tuple[Slip, ...] = ()
) -> dict[str, Array]:
    """Return the value of every line, with the slips in their places."""
    formulas = dict(lines.formulas) | {slip.line: slip.formula for slip in slips}
    names = {"mean": layout.mean, "total": layout.total, "sqrt": np.sqrt, "m": layout.m}
    names |= {"sum": lambda a: layout.m * layout.mean(a), "others": layout.others}
    names |= layout.values | {lines.upstream: upstream, "__builtins__": {}}
    with np.errstate(all="ignore"):  # a slip may divide by zero
        for name, formula in formulas.items():
            names[name] = eval(compiled(formula), names)
    return {name: names[name] for name in formulas}


# Formulas taken apart, and put together again with one thing changed.


def parse(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def summands(node: ast.expr, sign: int = 1) -> list[tuple[int, str]]:
    """a - b is (1, "a"), (-1, "b"); what is no sum is one summand."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        second = sign if isinstance(node.op, ast.Add) else -sign
        return [*summands(node.left, sign), *summands(node.right, second)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return summands(node.operand, -sign)
    return [(sign, ast.unparse(node))]


def factors(node: ast.expr, power: int = 1) -> list[tuple[int, str]]:
    """a / b is (1, "a"), (-1, "b"); what is no product is one factor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        second = power if isinstance(node.op, ast.Mult) else -power
        return [*factors(node.left, power), *factors(node.right, second)]
    return [(power, ast.unparse(node))]


def in_brackets(text: str) -> str:
    return text if isinstance(parse(text), ast.Name | ast.Call | ast.Constant) else f"({text})"


def add_up(parts: list[tuple[int, str]]) -> str:
    text = "".join(f" {'+' if sign > 0 else '-'} {in_brackets(part)}" for sign, part in parts)
    return text.removeprefix(" + ").strip() or "0"


def multiply(parts: list[tuple[int, str]]) -> str:
    above = " * ".join(in_brackets(part) for power, part in parts if power > 0)
    below = "".join(f" / {in_brackets(part)}" for power, part in parts if power < 0)
    return (above or "1") + below


# What is put in the place of what.
CONFUSED = {
    "xhat": ("x", "x - mu", "y"),
    "x": ("xhat", "x - mu"),
    "y": ("xhat",),
    "d": ("dy",),
    "dy": ("gamma * dy",),
    "r": ("r**2", "r**3", "1 / r", "sqrt(r)"),
    "var": ("sqrt(var)", "var * m / (m - 1)", "var * (m - 1) / m"),
    "q": ("sqrt(q)",),
    "uv": ("wbar",),
    "n": ("v", "w"),
}
ROOTS = {
    "ε stands outside the root": "1 / (sqrt({0}) + eps)",
    "the root is not taken": "1 / ({0} + eps)",
    "ε is left out": "1 / sqrt({0})",
    "the variance is divided by m - 1": "1 / sqrt({0} * m / (m - 1) + eps)",
}


def split_terms(formula: str) -> list[tuple[str, str]]:
    """The terms of a sum, or of the sum among the factors of a product: each as it stands there,
    and the formula with this term alone."""
    inside = factors(parse(formula))
    sums = [summands(parse(part)) if power > 0 else [] for power, part in inside]
    at, parts = max(enumerate(sums), key=lambda pair: len(pair[1]))
    alone = [[*inside[:at], (1, add_up([part])), *inside[at + 1 :]] for part in parts]
    return [(part, multiply(one)) for (_, part), one in zip(parts, alone, strict=True)]


def replace_each(parts: list[tuple[int, str]], join: Callable) -> Iterator[tuple[str, str, str]]:
    """The slips inside of each part, the others left alone."""
    for place, (how, part) in enumerate(parts):
        for changed, says, kind in changes(part):
            yield join([*parts[:place], (how, changed), *parts[place + 1 :]]), says, kind


def changes(formula: str) -> Iterator[tuple[str, str, str]]:
    """Every small slip in a formula: the new formula, what it is, and of what kind."""
    node = parse(formula)
    added, multiplied = summands(node), factors(node)
    if len(added) > 1 or added[0][0] < 0:
        for place, (sign, part) in enumerate(added):
            rest = added[:place], added[place + 1 :]
            if len(added) > 1:
                yield add_up(rest[0] + rest[1]), f"the term {part} is missing", "term"
            flipped = add_up([*rest[0], (-sign, part), *rest[1]])
            yield flipped, f"the term {part} has the wrong sign", "sign of a term"
        yield from replace_each(added, add_up)
    elif len(multiplied) > 1:
        for place, (power, part) in enumerate(multiplied):
            if part == "1":
                continue
            rest = multiplied[:place] + multiplied[place + 1 :]
            what = f"the factor {part}" if power > 0 else f"the divisor {part}"
            yield multiply(rest), f"{what} is missing in {formula}", "factor"
            twice = multiply([*multiplied, (power, part)])
            yield twice, f"{what} stands twice in {formula}", "factor"
            turned = "divides where it should multiply" if power > 0 else "multiplies"
            yield multiply([*rest, (-power, part)]), f"{part} {turned} in {formula}", "factor"
        yield from replace_each(multiplied, multiply)
    elif isinstance(node, ast.Call):
        name, inner = node.func.id, ast.unparse(node.args[0])
        if name == "mean":
            yield f"sum({inner})", f"sum({inner}) stands in place of mean({inner})", "mean or sum"
            yield f"others({inner})", f"mean({inner}) runs over the wrong axis", "axis"
            yield f"({inner})", f"the mean of {inner} is not taken", "mean or sum"
        if name == "sum":
            yield f"mean({inner})", f"mean({inner}) stands in place of sum({inner})", "mean or sum"
        if name == "total":
            yield f"sum({inner})", f"total({inner}) runs over the wrong axis", "axis"
            yield f"({inner})", f"total({inner}) is not added up", "not summed"
        yield from ((f"{name}({new})", *rest) for new, *rest in changes(inner))
    elif isinstance(node, ast.BinOp):  # a power
        base, power = ast.unparse(node.left), ast.unparse(node.right)
        yield from ((f"({new}) ** {power}", *rest) for new, *rest in changes(base))
    elif isinstance(node, ast.Name):
        for other in CONFUSED.get(formula, ()):
            yield other, f"{other} stands in place of {formula}", "name"


def list_used(lines: Lines, names: list[str]) -> set[str]:
    """These lines, and all that they are made of."""
    used, queue = set(), list(names)
    while queue:
        line = queue.pop()
        if line in lines.formulas and line not in used:
            used.add(line)
            queue += re.findall(r"\w+", lines.formulas[line])
    return used


def replace_some(formula: str, name: str, other: str) -> Iterator[str]:
    """The formula with two or more places of a name, but not all, taken by another."""
    at = [match.start() for match in re.finditer(rf"\b{name}\b", formula)]
    for count in range(2, len(at)):
        for places in combinations(at, count):
            new = formula
            for place in reversed(places):
                new = new[:place] + other + new[place + len(name) :]
            yield new


def list_roots(lines: Lines) -> Iterator[Slip]:
    """What can be wrong with 1 / sqrt(var + eps): in its own line, or where it is used."""
    root = lines.formulas.get("r", "")
    if not root.endswith("+ eps)"):
        return
    inside = root.removeprefix("1 / sqrt(").removesuffix(" + eps)")
    for says, form in ROOTS.items():
        kind = "variance" if "divided" in says else "epsilon"
        new = form.format(inside)
        yield Slip("r", new, f"{says} in r", kind)
        for line, formula in lines.formulas.items():
            if line[0] == "d" and re.search(r"\br\b", formula):
                used = re.sub(r"\br\b", f"({new})", formula)
                yield Slip(line, used, f"{says} in the r of {line} = {formula}", kind)


def list_gains(lines: Lines) -> Iterator[Slip]:
    """What can be wrong with d = gamma * dy where it is used, and with a mean that is not there."""
    for line, formula in lines.formulas.items():
        where = f"in {line} = {formula}"
        if "d" not in lines.formulas or not re.search(r"\bd\b", formula):
            continue
        outside = re.sub(r"\bd\b", "dy", formula)
        says = f"gamma stands in front, and belongs inside of the means {where}"
        yield Slip(line, f"gamma * ({outside})", says, "factor")
        for part, _ in split_terms(formula):
            if re.search(r"\bd\b", part):
                new = formula.replace(part, f"gamma * {part}", 1)
                yield Slip(line, new, f"gamma stands twice in the term {part} {where}", "factor")
        for new in replace_some(formula, "d", "dy"):
            yield Slip(line, new, f"dy stands in place of d, twice {where}", "name")
        if "(d - " in formula and "mean(d)" not in formula:
            new = formula.replace("(d - ", "(d - mean(d) - ", 1)
            yield Slip(line, new, f"the term mean(d) does not belong there {where}", "term")


def list_slips(lines: Lines) -> list[Slip]:
    """Every small slip in every line. A gradient stays linear in the upstream gradient."""
    found, linear = [*list_roots(lines)], {lines.upstream}
    for line, formula in lines.formulas.items():
        for new, says, kind in changes(formula):
            part = says.partition(" in ")[0]
            if kind == "factor" and linear & set(re.findall(r"\w+", part)):
                continue
            if says.endswith("in place of r") and line not in linear and line[0] != "d":
                continue  # a power of r is confused where a gradient is written
            says = says.removesuffix(f" in {formula}")
            found.append(Slip(line, new, f"{says} in {line} = {formula}", kind))
        if linear & set(re.findall(r"\w+", formula)):
            linear.add(line)
    order = [*lines.formulas]
    every = {(slip.line, slip.formula): slip for slip in reversed([*found, *list_gains(lines)])}
    text = " ".join([*order, *lines.formulas.values()])
    known = {*NAME.findall(text), "m", "mean", "sum", "total", "others", "sqrt"}
    return [
        slip
        for slip in reversed(every.values())
        if not {*NAME.findall(slip.formula)} & {*order[order.index(slip.line) :]}
        and known.issuperset(NAME.findall(slip.formula))
    ]
