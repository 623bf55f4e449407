"""A layer that was written elsewhere: what it takes is found out, and what it does wrong is shown.

Whatever cannot be asked is named, and none of that hides an error.
"""

import inspect
import re
import sys
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cases import batch_norm_args
from project import run

import normlib
from normbook.studies import own_layer
from normlib import batch_norm, batch_norm_backward, evidence, verify
from normlib.layers import guard
from normlib.verify import __main__ as command
from normlib.verify import autograd, layouts, numeric, symbolic

MODULE = "normbook.studies.own_layer"
SHAPES = ((6, 4), (4,))
PAIR = own_layer.rms_norm, own_layer.rms_norm_backward
REASONS = {"complex step": "not analytic", "autograd": "no torch tensors", "exact": "no symbols"}


def seeded(seed=0):
    return {"rng": np.random.default_rng(seed)}


def verdict(*pair, **options) -> verify.Verdict:
    """Green or red."""
    try:
        return verify.layer(*pair, **{"shapes": SHAPES} | seeded() | options)
    except verify.VerificationError as error:
        return error.verdict


# What a layer of somebody else takes is found out.


def test_a_plain_numpy_layer_passes_and_what_it_cannot_serve_is_named():
    said = verdict(*PAIR, small=((2, 2), (2,)))
    assert said.ran == ("complex step", "central differences", "properties", "layouts")
    lacking = dict(reversed(said.not_run))
    assert {"forward", "general size", "exact", "autograd", "second order"} <= set(lacking)
    assert "takes no symbols (TypeError" in lacking["exact"]
    assert "takes no torch tensors" in lacking["second order"]


def test_a_layer_with_var_is_not_blamed_for_what_var_does_to_complex_numbers():
    said = verdict(own_layer.variance_norm, own_layer.variance_norm_backward, shapes=((6, 4),))
    assert not said.red and "central differences" in said.ran
    assert "not analytic" in dict(said.not_run)["complex step"]


def on_real_numbers(forward, kinds="f"):
    """The same layer as a compiled kernel: it takes float arrays, and nothing else."""

    def kernel(*args, **keywords):
        for a in args:
            if not isinstance(a, np.ndarray) or a.dtype.kind not in kinds:
                raise TypeError("expected an array of floats")
        return forward(*args, **keywords)

    kernel.__signature__ = inspect.signature(forward)
    return kernel


BATCH = {"shapes": ((8, 3), (3,), (3,))}
REFERENCE = {"reference": evidence.batch_norm.reference}


def test_a_kernel_for_real_numbers_has_all_witnesses_that_real_numbers_allow():
    said = verdict(on_real_numbers(batch_norm), batch_norm_backward, **BATCH, **REFERENCE)
    assert not said.red
    assert {"forward", "central differences", "autograd", "second order"} <= set(said.ran)
    assert "no complex numbers (TypeError: expected an array of floats)" in str(said.not_run)


def drops_the_imaginary_part(x, gamma, beta):
    y = np.empty(x.shape)
    y[...] = batch_norm(x, gamma, beta)[0]
    return y, batch_norm(x, gamma, beta)[1]


def real_part(x, gamma, beta):
    y, cache = batch_norm(x, gamma, beta)
    return y.real + 0 * y, cache


def absolute(x, gamma, beta):
    y, cache = batch_norm(x, np.abs(gamma), beta)
    return y, (cache, np.sign(gamma))


def absolute_backward(dy, cache):
    dx, dgamma, dbeta = batch_norm_backward(dy, cache[0])
    return dx, dgamma * cache[1], dbeta


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (drops_the_imaginary_part, batch_norm_backward),
        (real_part, batch_norm_backward),
        (absolute, absolute_backward),
    ],
)
def test_a_forward_that_is_not_analytic_is_not_asked_for_complex_numbers(forward, backward):
    said = verdict(forward, backward, **BATCH)
    assert not said.red
    assert "complex step" in dict(said.not_run) and "complex step" not in said.ran


def unbiased_on_tensors(x, gamma, beta):
    if isinstance(x, torch.Tensor):
        return (x - x.mean(0)) / torch.sqrt(x.var(0) + 1e-5) * gamma + beta, None
    return batch_norm(x, gamma, beta)


def test_a_forward_that_means_something_else_by_tensors_is_not_differentiated_there():
    said = verdict(unbiased_on_tensors, batch_norm_backward, **BATCH)
    assert not said.red and "autograd" not in said.ran
    assert dict(said.not_run)["autograd"] == "on torch tensors y is another"


def test_a_setting_with_a_default_may_stand_in_its_place_and_the_reference_gets_its_value():
    def forward(x, gamma, beta, eps=0.3):
        return batch_norm(x, gamma, beta, eps=eps)

    said = verdict(forward, batch_norm_backward, **BATCH, **REFERENCE)
    assert not said.red and "forward" in said.ran
    said = verdict(partial(forward, eps=0.1), batch_norm_backward, **BATCH, **REFERENCE)
    assert not said.red
    other = partial(evidence.batch_norm.reference, eps=0.2)
    fixed = lambda x, gamma, beta: other(x, gamma, beta)  # noqa: E731
    assert "forward" in verdict(forward, batch_norm_backward, **BATCH, reference=fixed).caught_by


def test_a_function_without_a_signature_has_numbered_arguments():
    said = verdict(lambda *a: batch_norm(*a), batch_norm_backward, **BATCH)
    assert not said.red and {"dargument_0", "dargument_2"} <= {c.argument for c in said.checks}


def test_only_what_is_named_is_varied():
    """A gain is a number above 0, as eps is: 0 in its place would make the layer another one."""

    def forward(x, gamma, beta, *, eps=1e-5, gain=2.0):
        y, cache = batch_norm(x, gamma * gain, beta, eps=eps)
        return y, (cache, gain)

    def backward(dy, cache):
        dx, dgamma, dbeta = batch_norm_backward(dy, cache[0])
        return dx, dgamma * cache[1], dbeta

    options = {"flat": evidence.batch_norm()["flat"]}
    small = {"small": ((2, 1), (1,), (1,)), "varied": ("eps",)}
    said = verdict(forward, backward, **BATCH, **options, **small)
    assert not said.red and "exact" in said.ran
    assert "properties" in verdict(forward, backward, **BATCH, **options).caught_by  # eps stayed
    with pytest.raises(ValueError, match=r"varied must name settings .*'gain'.*got \['epsilon'\]"):
        verify.layer(forward, backward, **BATCH, **seeded(), varied=("epsilon",))


# What is wrong is still found, by the witnesses that remain.

PLANTED = [t for t in evidence.batch_norm.twins().values() if "forward and" not in t.name]


@pytest.mark.parametrize("twin", PLANTED, ids=lambda twin: twin.name)
def test_each_planted_error_is_found_in_a_kernel_for_real_numbers(twin):
    said = verdict(on_real_numbers(twin.forward), twin.backward, **BATCH)
    assert "central differences" in said.caught_by


SINGLE = [t for t in PLANTED if t.name != "one wrong entry of dx"]  # by a 100th of its value


@pytest.mark.parametrize("twin", SINGLE, ids=lambda twin: twin.name)
def test_each_planted_error_is_found_in_a_kernel_of_float32(twin):
    kernel = on_real_numbers(twin.forward)
    assert (
        "central differences" in verdict(kernel, twin.backward, **BATCH, dtype=np.float32).caught_by
    )


def test_an_error_of_a_hundredth_in_float32_takes_a_reference():
    twin = evidence.batch_norm.twins()["one wrong entry of dx"]
    kernel = on_real_numbers(twin.forward)
    options = BATCH | REFERENCE | {"dtype": np.float32}
    assert "autograd" in verdict(kernel, twin.backward, **options).caught_by


def test_float32_has_bounds_of_its_own_and_they_are_printed():
    said = verdict(batch_norm, batch_norm_backward, **BATCH, **REFERENCE, dtype=np.float32)
    assert not said.red
    printed = set(re.findall(r"\d\S*e-\d+", repr(said)))
    assert printed == {"1e-04", "1e-02"}
    double = verdict(batch_norm, batch_norm_backward, **BATCH, **REFERENCE)
    assert set(re.findall(r"\d\S*e-\d+", repr(double))) == {"1e-10", "1e-07"}


def test_a_layer_that_rounds_to_float32_does_not_pass_as_one_of_float64():
    def forward(x, gamma, beta, eps=1e-5):
        y, cache = batch_norm(*(a.astype(np.float32) for a in (x, gamma, beta)), eps=eps)
        return y.astype(float), cache

    assert verdict(forward, batch_norm_backward, **BATCH, **REFERENCE).red


# Layers of torch.


def test_a_function_of_torch_passes_and_its_arguments_have_its_names():
    said = verdict(own_layer.RMSNorm)
    assert not said.red
    assert {"complex step", "second order", "layouts"} <= set(said.ran)
    assert {"dx", "dweight"} <= {c.argument for c in said.checks}
    assert "it made the gradients that are tested" in dict(said.not_run)["autograd"]


def test_a_plain_function_of_tensors_passes_and_settings_can_be_bound():
    def layer(x, weight, *, eps):
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)

    forward, backward = verify.from_torch(layer)
    said = verdict(partial(forward, eps=0.2), backward)
    assert not said.red and "second order" in said.ran
    with pytest.raises(ValueError, match=r"one array for each of .*'weight'.* but got 1"):
        verdict(layer, shapes=((6, 4),))


@pytest.mark.parametrize("module", [torch.nn.LayerNorm(4), torch.nn.BatchNorm1d(4).double()])
def test_a_module_passes_with_its_parameters_as_arguments(module):
    said = verdict(module, shapes=((6, 4), (4,), (4,)))
    assert not said.red and {"dx", "dweight", "dbias"} <= {c.argument for c in said.checks}
    assert {"central differences", "second order", "layouts"} <= set(said.ran)


def test_a_class_of_modules_is_refused():
    with pytest.raises(ValueError, match="a module itself, but got the class LayerNorm; make one"):
        verdict(torch.nn.LayerNorm)


class WithContext(torch.autograd.Function):
    """The newer form, in which forward has no ctx; and it gives no gradient for the weight."""

    @staticmethod
    def forward(x, weight):
        return x * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[1], None


def test_a_gradient_that_never_arrives_is_named():
    with pytest.raises(ValueError, match="dweight must be an array, but got a NoneType"):
        verdict(WithContext)


class OnlyOnce(own_layer.RMSNorm):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        return own_layer.RMSNorm.backward(ctx, dy)


def test_a_function_that_can_be_differentiated_only_once_is_told_so():
    said = verdict(OnlyOnce)
    assert not said.red and "second order" not in said.ran
    assert "no double backward" in dict(said.not_run)["second order"]


def test_a_layer_of_torch_must_return_tensors():
    with pytest.raises(ValueError, match=r"must return a tensor, .* but got a tuple; wrap it"):
        verdict(lambda x, weight: (x * weight, None))


# Three errors, and other strides.


@pytest.mark.parametrize(
    ("pair", "witnesses"),
    [
        ((PAIR[0], own_layer.weight_twice_backward), {"complex step", "central differences"}),
        ((own_layer.OtherStrides,), {"layouts"}),
        ((own_layer.SavedOnTheWay,), {"second order"}),
    ],
)
def test_each_error_of_the_page_is_found_by_these_witnesses_alone_and_in_seconds(pair, witnesses):
    start = time.perf_counter()
    assert set(verdict(*pair).caught_by) == witnesses
    assert time.perf_counter() - start < 5


def spoilt(change):
    """RMSNorm whose upstream, or whose x, passes through `change` on its way in."""
    return lambda dy, cache: PAIR[1](change(dy), cache)


AS_PLAIN = {  # what a kernel computes that takes every array for a plain one
    "by the order of the axes": lambda a: a.ravel(order="K")[: a.size].reshape(a.shape),
    "by the first stride": lambda a: a if a.strides[0] else 2 * a,
    "by the last stride": lambda a: a if a.strides[-1] == a.itemsize else 2 * a,
}


@pytest.mark.parametrize("reads", AS_PLAIN)
def test_a_backward_that_reads_other_strides_wrongly_is_seen(reads):
    said = verdict(PAIR[0], spoilt(AS_PLAIN[reads]))
    assert said.caught_by == ("layouts",)
    assert all(c.how.startswith("dy,") for c in said.red)


def test_a_forward_that_reads_other_strides_wrongly_is_seen():
    forward = lambda x, weight: PAIR[0](AS_PLAIN["by the last stride"](x), weight)  # noqa: E731
    said = verdict(forward, PAIR[1])
    assert "y" in {c.argument for c in said.red} and said.caught_by == ("layouts",)


def test_a_layout_that_is_refused_is_told():
    def backward(dy, cache):
        if not dy.flags.c_contiguous:
            raise RuntimeError("view size is not compatible")
        return PAIR[1](dy, cache)

    said = verdict(PAIR[0], backward)
    assert {c.failure for c in said.red} == {"refused (RuntimeError: view size is not compatible)"}


@pytest.mark.parametrize("make", [f for pair in layouts.LAYOUTS.values() for f in pair])
def test_a_layout_keeps_the_numbers_but_for_the_repeated_sample(make):
    a = np.random.default_rng(0).standard_normal((3, 2, 4))
    expected = np.broadcast_to(a[:1], a.shape) if make is layouts.repeated else a
    assert np.array_equal(make(a), expected) and make(a).flags.writeable
    assert make is layouts.plain or make(a).strides != a.strides


def test_a_layer_that_answers_otherwise_the_second_time_is_seen():
    noise = np.random.default_rng(0)

    def backward(dy, cache):  # as a buffer that nobody has filled with zeros
        dx, dweight = PAIR[1](dy, cache)
        return dx, dweight + noise.standard_normal(dweight.shape)

    said = verdict(PAIR[0], backward)
    assert ("dweight", "the same once more") in {(c.argument, c.how) for c in said.red}


def writes_to_x(x, weight):
    x -= 0.1
    return PAIR[0](x, weight)


def writes_to_dy(dy, cache):
    dy *= 2
    return PAIR[1](dy, cache)


@pytest.mark.parametrize(
    ("pair", "name"),
    [((writes_to_x, PAIR[1]), "x"), ((PAIR[0], writes_to_dy), "dy")],
)
def test_a_layer_that_writes_to_what_it_is_given_is_red_and_no_traceback(pair, name):
    said = verdict(*pair)
    assert [c.argument for c in said.red] == [name] and said.not_run[0][0] == "all others"


# Where the first disagreement is.


def test_the_first_wrong_entry_and_the_worst_are_told_with_both_numbers():
    def backward(dy, cache):
        dx, dweight = PAIR[1](dy, cache)
        dx[1, 2] += 0.5
        dx[4, 0] -= 2.0
        return dx, dweight

    x, weight = (np.random.default_rng(0).standard_normal(s) for s in SHAPES)
    said = verdict(PAIR[0], backward)
    found = next(c for c in said.red if c.witness == "complex step")
    assert [d.entry for d in found.wrong] == [(1, 2), (4, 0)]
    assert found.share == "2 of 24 entries"
    problem = verify.Problem(*PAIR, (x, weight), np.random.default_rng(0))
    for difference, change in zip(found.wrong, (0.5, -2.0), strict=True):
        assert np.isclose(difference.got - difference.expected, change)
    text = said.differences()
    assert text.startswith("dx is wrong according to: complex step, central differences")
    assert re.search(r"first entry \[1, 2\]: expected \S+, got \S+\n +worst entry \[4, 0\]", text)
    assert problem.lacks_complex == ""


def test_of_a_layer_that_is_right_no_difference_is_told():
    assert verdict(*PAIR).differences() == ""


# The command.


def main(*words):
    return command.main([*words, "--shapes", "6x4", "4"])


def test_the_command_says_what_ran_what_did_not_and_why(capsys):
    assert main(f"{MODULE}:rms_norm", ":rms_norm_backward") == 0
    text = capsys.readouterr().out
    assert "no witness that ran disagrees" in text and "NOT RUN" not in text
    lacking = text.partition("not run:")[2]
    assert re.search(r"autograd, second order: the forward takes no torch tensors", lacking)
    assert "forward: no reference given" in lacking


def test_the_command_says_where_a_layer_is_wrong_and_fails(capsys):
    assert main(f"{MODULE}:rms_norm", ":weight_twice_backward") == 1
    assert re.search(
        r"dx is wrong.*\n.*24 of 24.*\n +first entry \[0, 0\]", capsys.readouterr().out
    )


def test_the_command_takes_a_layer_of_torch_settings_and_float32(capsys):
    assert main(f"{MODULE}:RMSNorm") == 0
    assert main(f"{MODULE}:SavedOnTheWay", "--seed", "3") == 1
    words = f"{MODULE}:rms_norm", ":rms_norm_backward", "--dtype", "float32"
    capsys.readouterr()
    assert main(*words, "--set", "eps=0.1", "--small", "2x2", "2", "--varied", "eps") == 0
    assert "1e-04" in capsys.readouterr().out


BAD_WORDS = {
    "no such module": (["nowhere:f"], "expected a module .* imported from .*got 'nowhere'"),
    "no such function": (
        [f"{MODULE}:f"], "expected a function of .*among (?!.*'WITNESSES').*'rms_norm'.* got 'f'",
    ),
    "no function": (["nowhere"], "expected module:function, got 'nowhere'"),
    "no module": ([":rms_norm"], "expected module:function, got ':rms_norm'"),
    "another argument": (
        [f"{MODULE}:RMSNorm", "--positive", "var"],
        "positive must name .*'weight'.* got .*'var'",
    ),
    "not varied": (
        [f"{MODULE}:rms_norm", ":rms_norm_backward", "--varied", "groups"],
        "varied must name settings .*'eps'.* got .*'groups'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_WORDS)
def test_the_command_refuses_in_one_line_what_cannot_be_asked(case, capsys):
    words, message = BAD_WORDS[case]
    assert main(*words) == 2
    said = capsys.readouterr()
    assert re.search(message, said.err) and len(said.err.splitlines()) == 1 and not said.out


def test_the_command_shows_the_traceback_of_a_layer_that_fails(capsys):
    words = f"{MODULE}:rms_norm", ":rms_norm_backward", "--set", "eps=none"
    assert main(*words) == 2
    assert "Traceback" in capsys.readouterr().err


def test_the_command_draws_from_the_seed_0_unless_it_is_told_another():
    words = [f"{MODULE}:rms_norm", "--shapes", "4"]
    more = [*words, "--seed", "3"]
    assert command.parse_arguments(words).seed == 0 != command.parse_arguments(more).seed


@pytest.mark.parametrize("words", [["--shapes", "8by3"], ["--shapes", "0x3"], ["--set", "eps"]])
def test_the_command_refuses_words_that_it_cannot_read(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main([f"{MODULE}:RMSNorm", "--shapes", "4", *words])
    assert stopped.value.code == 2 and "expected a s" in capsys.readouterr().err


def test_the_command_runs_from_the_folder_of_the_layer(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def double(x):\n    return 2 * x, None\n\ndef back(dy, cache):\n    return 2 * dy\n"
    )
    words = ["-m", "normlib.verify", "mine:double", ":back", "--shapes", "3x2", "--small", "2x1"]
    done = run(sys.executable, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "exact" in done.stdout.partition("not run")[0]


# Arrays of other libraries.


class Bare:
    """An array as the bare standard has it: no methods, and a dtype that is only a name."""

    shape, ndim, dtype = (3, 4), 2, type("strict", (), {"__repr__": lambda _: "strict.float64"})()


class Named:
    """A dtype of another library, of which only the name is known; JAX's bfloat16 has a kind
    that NumPy gives to no number."""

    def __init__(self, name, **known):
        self.name = name
        vars(self).update(known)

    def __repr__(self):
        return self.name


@pytest.mark.parametrize(
    ("dtype", "passes"),
    [
        (torch.float16, True),
        (torch.complex64, True),
        (torch.int32, False),
        (np.dtype(object), True),
        (np.dtype("float32"), True),
        (np.dtype(bool), False),
        (Named("bfloat16", kind="V"), True),
        (Named("strict.complex128"), True),
        (Named("strict.uint8", kind="u"), False),
    ],
    ids=str,
)
def test_a_dtype_of_any_library_is_known_by_its_kind_or_its_name(dtype, passes):
    assert guard.has_fractions(dtype) == passes


def test_an_array_without_methods_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"x must be an array with methods .*got a Bare; try"):
        normlib.layer_norm(Bare(), Bare(), Bare())
    with pytest.raises(ValueError, match=r"x must be a NumPy array .*got strict.float64 in"):
        verify.Problem(*PAIR, (Bare(), np.ones(4)), **seeded())


def test_what_has_a_shape_and_no_dtype_is_no_array():
    half = SimpleNamespace(shape=(4, 3), mean=np.mean)
    with pytest.raises(ValueError, match=r"x must be an array, but got a SimpleNamespace; try"):
        normlib.layer_norm(half, np.ones(3), np.ones(3))


class Traced(np.ndarray):
    """As JAX has them while it compiles: no condition can be read."""

    def any(self, *args, **keywords):
        return self

    def __bool__(self):
        raise TypeError("attempted boolean conversion of a tracer")


ONES = np.ones(4)


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: normlib.weight_norm(x, ONES[:3])[0],
        lambda x: normlib.power_iteration(x, ONES[:3], ONES)[1],
        lambda x: normlib.spectral_norm(x, ONES[:3], ONES)[0],
        lambda x: normlib.batch_norm_inference(x, ONES, abs(x[0]), ONES, ONES)[0],
        lambda x: normlib.update_running(ONES, abs(x[0]), x)[1],
    ],
    ids=["weight", "power iteration", "spectral", "inference", "running"],
)
def test_no_layer_asks_a_traced_array_for_its_values(layer):
    x = np.random.default_rng(0).standard_normal((3, 4))
    assert np.array_equal(layer(x.view(Traced)), layer(x))


def test_a_layer_that_returns_arrays_of_another_library_is_told_so():
    forward = lambda x, weight: (torch.tensor(x * weight), None)  # noqa: E731
    with pytest.raises(ValueError, match=r"y must be a NumPy array, but got .*Tensor; wrap"):
        verdict(forward, PAIR[1])


# Each witness alone says what it lacks.


def test_a_witness_called_alone_says_what_it_lacks():
    args = batch_norm_args((4, 3), np.random.default_rng(0))
    kernel = on_real_numbers(batch_norm)
    problem = verify.Problem(kernel, batch_norm_backward, args, **seeded())
    for call in (numeric.complex_step, autograd.backpropagation, autograd.second_order):
        (said,) = call(problem)
        assert said.passed == "NOT RUN" and "expected an array of floats" in said.how
    (said,) = symbolic.exact(kernel, batch_norm_backward, (((2, 1), (1,), (1,)),))
    assert said.passed == "NOT RUN" and "no symbols" in said.how
    derivation = evidence.batch_norm.derivation()
    (said,) = symbolic.general_size(kernel, batch_norm_backward, derivation)
    assert said.passed == "NOT RUN"
