"""Planted errors: wrong twins of a shipped layer, made by editing the code that it runs.

An edit names a function and an expression or statement of it, which must stand there exactly once,
or planting raises: a plant cannot vanish because a line was rewritten. What is compared is the
syntax tree, so line breaks, parentheses and the order of the operands of + and * do not matter.
"""

import ast
import copy
import inspect
import math
import textwrap
from collections import Counter
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import NamedTuple

import numpy as np

from normlib.verify.pair import as_tuple, with_one_output
from normlib.verify.run import WITNESSES
from normlib.verify.run import backward as verify_backward


class Edit(NamedTuple):
    function: str  # the name of the function in which it is planted
    shipped: str  # an expression or a statement that stands there once
    planted: str


class Plant(NamedTuple):
    """One error; it takes more than one edit where forward and backward go wrong alike."""

    name: str
    edits: tuple[Edit, ...]


class PlantingError(ValueError):
    """A plant has lost its place."""


def plant(name: str, function: str, shipped: str, planted: str) -> Plant:
    """Return an error of a single edit."""
    return Plant(name, (Edit(function, shipped, planted),))


def operands(node: ast.BinOp) -> list[ast.expr]:
    """a, b and c of a + b + c, and likewise of a product."""
    found = []
    for side in (node.left, node.right):
        same = isinstance(side, ast.BinOp) and type(side.op) is type(node.op)
        found += operands(side) if same else [side]
    return found


def normal_form(node) -> str:
    """A text in which code that differs only in layout, or in the order of the operands of + and
    *, is the same. Whether a name is read or written is left out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        return f"{type(node.op).__name__}({', '.join(sorted(map(normal_form, operands(node))))})"
    if isinstance(node, ast.AST):
        fields = (normal_form(value) for name, value in ast.iter_fields(node) if name != "ctx")
        return f"{type(node).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(normal_form, node))}]" if isinstance(node, list) else repr(node)


def parse_source(text: str) -> ast.expr | ast.stmt:
    (statement,) = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


class Replaced(ast.NodeTransformer):
    """Puts the planted node wherever the shipped one stands, and counts the places."""

    def __init__(self, shipped: str, planted: str):
        self.shipped, self.planted, self.places = (
            normal_form(parse_source(shipped)),
            parse_source(planted),
            0,
        )

    def visit(self, node: ast.AST) -> ast.AST:
        if normal_form(node) == self.shipped:
            self.places += 1
            return self.planted
        return self.generic_visit(node)


@cache
def tree_of(function: Callable) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def key_of(function: Callable) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def find_called(*pair: Callable) -> dict[tuple[str, str], Callable]:
    """The functions of the pair and every function that they call, directly or not."""
    found: dict[tuple[str, str], Callable] = {}
    queue = list(pair)
    while queue:
        f = queue.pop()
        if key_of(f) not in found:
            found[key_of(f)] = f
            names = (f.__globals__.get(name) for name in f.__code__.co_names)
            queue += [g for g in names if inspect.isfunction(g)]
    return found


def check_placed(error: Plant, edit: Edit, places: list[int]) -> None:
    """places: how often the text stands in each function of this name."""
    if sum(places) == 1:
        return
    found = f"it stands there {sum(places)} times" if places else "no such function is called"
    raise PlantingError(
        f"the planted error {error.name!r} has lost its place: expected {edit.shipped!r} once in "
        f"{edit.function}, but {found}; correct the edit, or take the error from the list"
    )


def plant_in(forward: Callable, backward: Callable, error: Plant) -> tuple[Callable, Callable]:
    """The pair, rebuilt from its source with the error in it, each module with its own names.

    Errors: PlantingError if an edit does not find its text exactly once.
    """
    functions = find_called(forward, backward)
    trees = {key: tree_of(function) for key, function in functions.items()}
    for edit in error.edits:
        places = []
        for key, function in functions.items():
            if function.__name__ == edit.function:
                replaced = Replaced(edit.shipped, edit.planted)
                edited = replaced.visit(copy.deepcopy(trees[key]))
                trees[key] = ast.fix_missing_locations(edited)
                places.append(replaced.places)
        check_placed(error, edit, places)
    names = {module: {"bessel": bessel, "others": others} for module, _ in functions}
    twins = {}
    for key, function in functions.items():
        inside = names[key[0]]
        inside |= {n: v for n, v in function.__globals__.items() if n not in inside}
        exec(compile(trees[key], "<planted>", "exec"), inside)
        twins[key] = inside[function.__name__]
    for inside in names.values():  # one module may call a function of another
        for name, value in inside.items():
            if inspect.isfunction(value) and functions.get(key_of(value)) is value:
                inside[name] = twins[key_of(value)]
    return twins[key_of(forward)], twins[key_of(backward)]


# What planted text may call.


def bessel(x, axes: tuple[int, ...]) -> float:
    """n / (n - 1): from the biased variance to the unbiased one."""
    n = math.prod(x.shape[axis] for axis in axes)
    return n / (n - 1)


def others(x, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.ndim) if axis not in axes)


# Errors that any layer can have: what a right layer returns is spoilt afterwards.


def first_changed(backward: Callable, change: Callable) -> Callable:
    """The same backward, with its first gradient changed."""

    def changed(dy, cache):
        dx, *rest = as_tuple(backward(dy, cache))
        return (change(dx), *rest)

    return changed


def one_wrong_entry(dx):
    dx = dx.copy()
    dx.flat[-1] *= 1.01
    return dx


def stale(forward: Callable) -> Callable:
    """A forward that hands on the cache of other data: of the samples in another order."""

    @wraps(forward)
    def with_stale_cache(x, *rest, **keywords):
        order = [*range(1, x.shape[0]), 0]
        return forward(x, *rest, **keywords)[0], forward(x[order], *rest, **keywords)[1]

    return with_stale_cache


class Planted(NamedTuple):
    """A wrong twin of a layer."""

    name: str
    forward: Callable
    backward: Callable
    edits: tuple[Edit, ...] = ()  # none where a right result is spoilt


def planted_errors(
    forward: Callable, backward: Callable, plants: tuple[Plant, ...] = ()
) -> list[Planted]:
    """Return a wrong twin for each of the plants, and the four that any layer can have.

    `forward` may be a functools.partial that binds keywords; the wrong twins bind them too.
    Errors: PlantingError if a plant does not find its place; ValueError if two share a name.
    """
    check_names(plants)
    keywords = forward.keywords if isinstance(forward, partial) else {}
    shipped = forward.func if isinstance(forward, partial) else forward
    twins = []
    for error in plants:
        wrong_forward, wrong_backward = plant_in(shipped, backward, error)
        wrong_forward = partial(wrong_forward, **keywords)
        twins.append(Planted(error.name, wrong_forward, wrong_backward, error.edits))
    return [
        *twins,
        Planted("dx with the wrong sign", forward, first_changed(backward, lambda dx: -dx)),
        Planted("dx times 2.001", forward, first_changed(backward, lambda dx: 2.001 * dx)),
        Planted("one wrong entry of dx", forward, first_changed(backward, one_wrong_entry)),
        Planted("stale cache", partial(stale(shipped), **keywords), backward),
    ]


def check_names(plants: tuple[Plant, ...]) -> None:
    twice = [name for name, times in Counter(p.name for p in plants).items() if times > 1]
    if twice:
        raise ValueError(
            f"expected a name of its own for each planted error, got {twice} more than once; "
            f"rename them"
        )


class Falsification(NamedTuple):
    """Planted errors × witnesses: who caught what."""

    errors: list[str]
    caught: np.ndarray  # (errors, witnesses) of bool
    without_effect: list[str]  # edits that change nothing in this layer, to the last bit
    witnesses: tuple[str, ...] = WITNESSES


def has_effect(twin: Planted, forward: Callable, backward: Callable, args: tuple) -> bool:
    """Whether the twin computes anything else than the shipped pair, at these arguments."""
    results = []
    for pair in ((forward, backward), (twin.forward, twin.backward)):
        f, b = with_one_output(*pair)
        y, cache = f(*args)
        dy = np.random.default_rng(0).standard_normal(y.shape)
        results.append((y, *as_tuple(b(dy, cache))))
    return not all(np.array_equal(one, other) for one, other in zip(*results, strict=True))


def catchers(twin: Planted, args: tuple, options: dict) -> tuple[str, ...]:
    """The witnesses that disagree with this twin."""
    return verify_backward(
        twin.forward, twin.backward, args, **options | {"raises": False}
    ).caught_by


def falsify(
    forward: Callable,
    backward: Callable,
    args: tuple,
    *,
    plants: tuple[Plant, ...] = (),
    settings: dict | None = None,
    seed: int = 0,
    **options,
) -> Falsification:
    """Plant errors in a layer, one at a time, and return which of the eight witnesses caught which.

    `plants` are edits of the source that the pair runs; four errors more are those that any layer
    can have. The options are those of `check`.
    Errors: PlantingError if a plant does not find its place; ValueError if two share a name.
    Source: chapter "Gradient checking".
    """
    forward = partial(forward, **settings) if settings else forward
    options = {"rng": np.random.default_rng(seed)} | options
    twins = planted_errors(forward, backward, plants)
    errors = [twin for twin in twins if has_effect(twin, forward, backward, args)]
    found = [catchers(twin, args, options) for twin in errors]
    caught = np.array([[witness in row for witness in WITNESSES] for row in found])
    idle = [twin.name for twin in twins if twin not in errors]
    return Falsification([twin.name for twin in errors], caught, idle)
