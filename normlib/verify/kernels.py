"""Put a kernel before the witnesses as it is used: in 16 bits or float32, on its own device.

A right kernel computes in float32, and rounds each result once, when it is stored. So a result
lies within half of the spacing of its numbers from the exact one. That is the bound here, with a
small allowance for what float32 loses on the way; it is sharp enough to see a mean or an rstd that
was kept in 16 bits. What is exact a reference says, in float64.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from normlib.verify.layouts import laid_out, worst
from normlib.verify.pair import as_tuple
from normlib.verify.problem import reason
from normlib.verify.run import draw
from normlib.verify.signature import argument_names, as_called, unwrap
from normlib.verify.torch_layer import from_torch
from normlib.verify.verdict import Check, Verdict, VerificationError, compare, skip

KINDS = torch.bfloat16, torch.float16, torch.float32
NOISE = 16  # errors of the reference in float32 that a kernel's own order of sums may cost
SLACK = 1 / 16  # of a rounding: the same where a sum of many terms is large
EARLIER = 3  # by calibration: how many of the largest changes such a rounding may cost
SINGLE = torch.finfo(torch.float32).eps / 2


class Pair(NamedTuple):
    """A layer on tensors, and the names of its arguments."""

    forward: Callable  # y, cache; y is a tensor or a tuple of them
    backward: Callable | None  # None: torch passes back through the forward
    names: list[str]


class Question(NamedTuple):
    """A kernel at some arguments, and what is right there."""

    pair: Pair
    reference: Pair
    args: list[Tensor]
    dy: list[Tensor]
    how: str  # what it is compared with
    roundings: int
    zero: tuple[str, ...]


def gradients_of(pair: Pair, y, cache, dy: list[Tensor], tensors: list[Tensor]) -> list:
    """One gradient for each argument of floats; None where there is none."""
    floats = [t for t in tensors if t.is_floating_point()]
    if pair.backward is None:
        known = [(part, d) for part, d in zip(as_tuple(y), dy, strict=True) if part.requires_grad]
        if not known:
            raise ValueError(
                "the layer must return tensors that torch can differentiate, but y has no graph; "
                "give its backward, or wrap both in a torch.autograd.Function"
            )
        ys, dys = zip(*known, strict=True)
        return [*torch.autograd.grad(ys, floats, dys, allow_unused=True)]
    upstream = type(y)(dy) if type(y) in (tuple, list) else dy[0]
    found = as_tuple(pair.backward(upstream, cache))
    if len(found) == len(tensors):
        found = [g for g, t in zip(found, tensors, strict=True) if t.is_floating_point()]
    if len(found) != len(floats):
        raise ValueError(
            f"backward must return a tuple with one gradient for each of {pair.names}, "
            f"but got {len(found)}; return them in the order of forward's arguments"
        )
    return [*found]


def name_outputs(y) -> list[str]:
    parts = as_tuple(y)
    return [f"y{n}" for n in range(len(parts))] if len(parts) > 1 else ["y"]


def name_upstream(q: Question) -> list[str]:
    return [f"dy{n}" for n in range(len(q.dy))] if len(q.dy) > 1 else ["dy"]


def results(pair: Pair, args: Iterable[Tensor], dy: list[Tensor]) -> dict[str, Tensor | None]:
    """The outputs and the gradients, by name."""
    by_torch = pair.backward is None
    tensors = [a.detach().requires_grad_(by_torch and a.is_floating_point()) for a in args]
    with torch.set_grad_enabled(by_torch):
        y, cache = pair.forward(*tensors)
        gradients = gradients_of(pair, y, cache, dy, tensors)
    names = [n for n, t in zip(pair.names, tensors, strict=True) if t.is_floating_point()]
    found = dict(zip(name_outputs(y), (part.detach() for part in as_tuple(y)), strict=True))
    return found | {f"d{n}": g for n, g in zip(names, gradients, strict=True)}


def exact(q: Question, args, dy, kind=torch.float64) -> dict[str, Tensor | None]:
    """What is right at these arguments, computed in float64, whatever strides they have."""
    sides = [[a.contiguous() for a in side] for side in (args, dy)]
    wide = [[a.to(kind) if a.is_floating_point() else a for a in side] for side in sides]
    return results(q.reference, *wide)


def spacing(a: Tensor, kind: torch.dtype) -> Tensor:
    """Half of the distance between the numbers of a type, at each entry: what one rounding does."""
    info = torch.finfo(kind)
    exponent = torch.frexp(a.abs().clamp(min=info.smallest_normal)).exponent - 1
    return info.eps / 2 * torch.exp2(exponent.double())


def shaken(a: Tensor, numbers: torch.Generator) -> Tensor:
    """Other numbers, as far away as one rounding can move each of them."""
    if not a.is_floating_point():
        return a
    along = torch.rand(a.shape, generator=numbers, dtype=torch.float64).to(a.device) * 2 - 1
    return a.double() * (1 + torch.finfo(a.dtype).eps / 2 * along)


def tolerances(q: Question, args, dy, right: dict) -> dict[str, Callable]:
    """For each result how far it may be from the exact one: half of the spacing of its numbers.

    And for what sums in float32 lose, some of what the reference loses in float32; for each
    rounding before the last, what one of the arguments and of dy would do.
    """
    single = exact(q, args, dy, torch.float32)
    moved, numbers = right, torch.Generator().manual_seed(0)
    if q.roundings > 1:
        moved = exact(q, *([shaken(a, numbers) for a in side] for side in (args, dy)))

    def allow(name: str, kind: torch.dtype) -> np.ndarray:
        a = right[name]
        largest, lost, by_one = (
            float(b.abs().max()) for b in (a, a - single[name].double(), a - moved[name])
        )
        noise = NOISE * max(lost, SINGLE * largest) + EARLIER * (q.roundings - 1) * by_one
        return as_array((1 + SLACK) * spacing(a, kind) + noise)

    return {name: partial(allow, name) for name in right}


def short(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def as_array(a: Tensor) -> np.ndarray:
    return a.double().cpu().numpy()


def say_wrong(check: Check, kind: torch.dtype, roundings: int, largest: float) -> str:
    """The failure, with what is the matter most often where it has the size of roundings."""
    if not check.wrong:
        return check.failure
    far = abs(check.wrong[1].expected - check.wrong[1].got)
    said = f"worst at {check.wrong[1]} ({check.how}; {check.error:.1f} times what is allowed)"
    if kind == torch.float32 or not far < 4 * torch.finfo(kind).eps * largest:
        return said
    return (
        f"{said}. Is a mean, an rstd or a sum kept in {short(kind)}? If a value is rounded on its "
        f"way on purpose, say roundings={roundings + 1}"
    )


def judge(q: Question, witness: str, how: str, found: dict, args=None, dy=None) -> list[Check]:
    """Compare results with the exact ones, to the roundings of their type."""
    args, dy = args or q.args, dy or q.dy
    right, checks = exact(q, args, dy), []
    allow = tolerances(q, args, dy, right)
    for name, theirs in right.items():
        ours = found.get(name)
        if ours is None or theirs is None:
            if ours is not theirs:
                failure = "there is no gradient" if ours is None else "there should be none"
                checks.append(Check(name, witness, how, "", failure))
            continue
        options = {"bound": 1.0, "zero": name.removeprefix("d") in q.zero}
        options["scale"] = allow[name](ours.dtype)
        check = compare(name, witness, how, as_array(ours), as_array(theirs), **options)
        passed = f"ok ({q.roundings} rounding{'s' * (q.roundings > 1)} to {short(ours.dtype)})"
        largest = float(theirs.abs().max())
        failure = check.failure and say_wrong(check, ours.dtype, q.roundings, largest)
        if witness == "layouts" and check.error <= 1:  # equal samples may have a gradient of 0
            failure = ""
        checks.append(check._replace(passed=passed, failure=failure))
    return checks


def same_bits(witness: str, how: str, found: dict, expected: dict) -> list[Check]:
    checks = []
    for name, theirs in ((n, a) for n, a in expected.items() if a is not None):
        ours, theirs = as_array(found[name]), as_array(theirs)
        size = float(np.max(np.abs(theirs), initial=0.0))
        options = {"scale": size or 1.0, "bound": 0.0, "zero": size == 0}
        check = compare(name, witness, how, ours, theirs, **options)
        checks.append(check._replace(passed="ok (every bit)"))
    return checks


# The witnesses.


def rounding(q: Question) -> list[Check]:
    return judge(q, "rounding", q.how, results(q.pair, q.args, q.dy))


def columns_first(a: Tensor) -> Tensor:
    turned = tuple(reversed(range(a.ndim)))
    return a.permute(turned).contiguous().permute(turned)


def every_second(a: Tensor) -> Tensor:
    wide = torch.full([2 * n for n in a.shape], 3, dtype=a.dtype, device=a.device)
    view = wide[(..., *(slice(None, None, 2),) * a.ndim)]
    return view.copy_(a)


def repeat_sample(a: Tensor) -> Tensor:
    return a[:1].expand_as(a) if a.ndim else a


def channels_last(a: Tensor) -> Tensor:
    return a.contiguous(memory_format=torch.channels_last) if a.ndim == 4 else a


ARGUMENTS = {
    "columns first": columns_first,
    "every second value": every_second,
    "channels last": channels_last,
}
UPSTREAM = ARGUMENTS | {"one sample repeated": repeat_sample}


def layouts(q: Question) -> list[Check]:
    """The same numbers with other strides, and what was given stays as it was."""
    given, dy = [a.clone() for a in q.args], [d.clone() for d in q.dy]
    results(q.pair, given, dy)
    names = [*q.pair.names, *name_upstream(q)]
    rows = zip(names, [*given, *dy], [*q.args, *q.dy], strict=True)
    written = {n: "the layer writes to it" for n, a, b in rows if not torch.equal(a, b)}
    checks = [
        Check(n, "layouts", "left as it was", "ok", written.get(n, ""))
        for n in dict.fromkeys(names)
    ]
    names = [*q.pair.names, *name_upstream(q)]
    ways = [ARGUMENTS] * len(q.args) + [UPSTREAM] * len(q.dy)
    asked = []
    for place, layout, whole in laid_out([*q.args, *q.dy], ways):
        args, dy = whole[: len(q.args)], whole[len(q.args) :]
        how, kind = f"{names[place]}, {layout}", "arguments" if place < len(q.args) else "dy"
        try:
            found = results(q.pair, args, dy)
        except Exception as error:  # a caller will meet that, too
            said = [Check("y", "layouts", how, "", f"refused ({reason(error)})")]
        else:
            said = judge(q, "layouts", how, found, args, dy)
        asked += [(f"{kind}, {layout}", check) for check in said]
    return checks + worst(asked)


def repeat(q: Question) -> list[Check]:
    once, again = (results(q.pair, q.args, q.dy) for _ in range(2))
    return same_bits("repeat", "the same once more", again, once)


def rows_of(q: Question, rows: slice, whole: list[Tensor]) -> list[Tensor]:
    """Some rows of what has a row for each sample: of x, of arrays like it, and of labels."""
    x = q.args[0]

    def alike(a: Tensor) -> bool:
        same = a.ndim > 0 and len(a) == len(x)
        return same and (a.ndim == x.ndim or not a.is_floating_point())

    return [a[rows].clone() if alike(a) else a for a in whole]


def batch(q: Question) -> list[Check]:
    """A row has the same bits alone, in a half and in the whole batch; if it has a result of its
    own at all, which the reference says."""
    count = len(q.args[0]) if q.args[0].ndim else 0
    if count < 2:
        return [skip("batch", f"{q.pair.names[0]} has no two rows")]
    parts = {"the first row alone": slice(0, 1), "the last row alone": slice(count - 1, count)}
    parts["the first half alone"] = slice(0, count // 2)
    whole, right, checks = results(q.pair, q.args, q.dy), exact(q, q.args, q.dy), []
    for how, rows in parts.items():
        args, dy = rows_of(q, rows, q.args), rows_of(q, rows, q.dy)
        try:
            alone = exact(q, args, dy)
            own = [n for n, a in alone.items() if a is not None and a.shape != right[n].shape]
            close = all(torch.allclose(alone[n], right[n][rows], 1e-6, 1e-9) for n in own)
        except Exception as error:
            return [skip("batch", f"the reference takes no row alone ({reason(error)})")]
        if not close or not any(n.startswith("y") for n in own):
            return [skip("batch", "a row of the result depends on other rows")]
        found = results(q.pair, args, dy)
        checks += same_bits("batch", how, found, {n: whole[n][rows] for n in own})
    return checks


def compiled_too(q: Question, compiled: Pair | None) -> list[Check]:
    """The compiled layer, held to the same bound: it may round at other places."""
    if compiled is None:
        return [skip("compiled", "none given; try compiled=torch.compile(layer)")]
    try:
        found = results(compiled, q.args, q.dy)
    except Exception as error:
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            return [skip("compiled", f"torch could not compile it ({reason(error)})")]
        return [Check("y", "compiled", q.how, "", f"refused ({reason(error)})")]
    return judge(q, "compiled", q.how, found)


# The question.


def find_device(device) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device must be one that torch can use here, but got {str(device)!r} "
            f"({reason(error)}); try device='cpu', or a machine that has it"
        ) from None


def as_argument(a, kind: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of floats keeps its type, an array gets that of the kernel; integers are data."""
    tensor = a if isinstance(a, Tensor) else torch.tensor(np.asarray(a))
    keep = isinstance(a, Tensor) or not tensor.is_floating_point()
    tensor = tensor.to(device) if keep else tensor.to(device, kind)
    if tensor.is_floating_point() and tensor.dtype not in KINDS:
        raise ValueError(
            f"dtype must be torch.bfloat16, float16 or float32, but got {tensor.dtype}; "
            f"for float64 there is verify.check"
        )
    return tensor.detach()


def as_pair(layer: Callable, backward: Callable | None, count: int, settings: dict) -> Pair:
    layer, bound = unwrap(layer)
    layer = from_torch(layer)[0] if backward is None else layer
    bound = bound | settings
    return Pair(partial(layer, **bound) if bound else layer, backward, argument_names(layer, count))


def as_reference(pair: Pair, reference: Callable | None, args: list[Tensor]) -> Pair:
    """The reference, if it keeps float64; without one, the layer itself."""
    given = as_called(reference, pair.forward, len(args)) if reference else None
    own = lambda *a: (given(*a), None) if given else (pair.forward(*a)[0], None)  # noqa: E731
    found = Pair(own, None if given or pair.backward else pair.backward, pair.names)
    fix = "give a reference, on tensors" if given is None else "leave out casts to a fixed type"
    try:
        wide = [a.double() if a.is_floating_point() else a for a in args]
        kinds = {part.dtype for part in as_tuple(found.forward(*wide)[0])}
    except Exception as error:
        if given:
            raise
        raise ValueError(
            f"the layer must take float64 where it is its own reference, but {reason(error)}; {fix}"
        ) from error
    if kinds != {torch.float64}:
        names = ", ".join(map(short, kinds))
        raise ValueError(f"the reference must return float64 for float64, but got {names}; {fix}")
    return found


def kernel(
    layer: Callable,
    backward: Callable | None = None,
    args: tuple | None = None,
    *,
    shapes: tuple[tuple[int, ...], ...] | None = None,
    reference: Callable | None = None,
    settings: dict | None = None,
    dtype: torch.dtype = torch.bfloat16,
    device: str | torch.device = "cpu",
    compiled: Callable | None = None,
    roundings: int = 1,
    positive: tuple[str, ...] = (),
    zero: tuple[str, ...] = (),
    seed: int = 0,
    raises: bool = True,
) -> Verdict:
    """Check a kernel on tensors, with bounds in roundings of the type that it stores.

    `layer` is a function of tensors, a subclass of torch.autograd.Function, or a module; it
    returns y, or a tuple of outputs. With `backward` it returns y and a cache, as for `check`,
    and backward(dy, cache) gives the gradients.

    args: tensors, which keep their types, or arrays, which get `dtype`; integers are data.
    Or `shapes`, and numbers of this dtype are drawn: bfloat16, float16 or float32.
    reference: the right layer as a function of tensors, computed in float64, and told the
    settings that it names. Without one the layer itself is asked in float64, and then its
    formula is taken for right: `check` asks that.
    device: where the kernel runs.
    compiled: the same layer in another form, such as ``torch.compile(layer)``.
    roundings: how many times a value is rounded to the stored type on its way; 1 is float32
    inside and one rounding at the end. settings, positive, zero, seed, raises: as for `check`.

    The witnesses: *rounding*, each result against the exact one; *layouts*, other strides;
    *repeat*, every bit the same in a second run; *batch*, the same for a row alone; *compiled*.
    Errors: VerificationError if one disagrees; ValueError for arguments of another kind.
    Source: chapter "Check your own layer".
    """
    if (args is None) is (shapes is None) or roundings < 1:
        raise ValueError(
            "kernel needs args or shapes, and at least 1 rounding; try shapes=((8, 64), (64,))"
        )
    place, count = find_device(device), len(args or shapes)
    pair = as_pair(layer, backward, count, settings or {})
    rng = np.random.default_rng(seed)
    numbers = draw(pair.forward, shapes, rng, float, positive) if args is None else args
    tensors = [as_argument(a, dtype, place) for a in numbers]
    right = as_reference(pair, reference, tensors)
    with torch.no_grad():
        ys = as_tuple(pair.forward(*(t.clone() for t in tensors))[0])
    dy = [torch.tensor(rng.standard_normal(y.shape)).to(place, y.dtype) for y in ys]
    how = "reference in float64" if reference else "itself in float64"
    q = Question(pair, right, tensors, dy, how, roundings, tuple(zero))
    said = [check for witness in (rounding, layouts, repeat, batch) for check in witness(q)]
    said += compiled_too(q, compiled and as_pair(compiled, backward, count, settings or {}))
    said += [] if reference else [skip("forward", "no reference given")]
    lacking = tuple((c.witness, c.how) for c in said if c.passed == "NOT RUN")
    verdict = Verdict(tuple(c for c in said if c.passed != "NOT RUN"), lacking)
    if (verdict.red or verdict.undecided) and raises:
        raise VerificationError(verdict)
    return verdict
