"""Ask PyTorch, Keras, Flax and ONNX for their conventions, and write normbook/data/peers.json:
make peers. Some minutes and 2 GB the first time, two minutes later.

They live in an environment of their own, _build/peers, which make builds from tools/peers.txt; the
book's own does not have them. Every answer comes from a run: normbook/studies/frameworks.py asks.

The layers of Keras (on JAX) and Flax are run as they are. ONNX has no layers but definitions: a
model of one node, whose function body is run where the definition has one (layer, RMS and group
normalization), else the kernel of ONNX's reference evaluator.
"""

import os

os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}

import platform
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import keras
import numpy as np
import onnx
import onnx.inliner
import store
from flax import linen, nnx
from onnx.reference import ReferenceEvaluator

from normbook.studies import frameworks
from normbook.studies.frameworks import ALONG, LAYERS, NORMLIB, PYTORCH, Framework, Made
from normlib.evidence import CASES
from normlib.evidence.case import Case

ROOT = Path(__file__).resolve().parents[1]
PINS, TARGET = ROOT / "tools" / "peers.txt", ROOT / "normbook" / "data" / "peers.json"
LONG = {
    "batch": "BatchNormalization",
    "layer": "LayerNormalization",
    "RMS": "RMSNormalization",
    "group": "GroupNormalization",
    "instance": "InstanceNormalization",
    "weight": "WeightNormalization",
    "spectral": "SpectralNormalization",
}
SHORT = {layer: name.replace("alization", "") for layer, name in LONG.items()}
OPSET = onnx.defs.onnx_opset_version()


def numbers(y) -> tuple[np.ndarray, str]:
    return np.asarray(y, dtype=np.float64), str(y.dtype)


def set_by(layer: str, options: dict, groups: str) -> dict:
    """The arguments that a probe asks for, under the framework's own names."""
    given = {name: value for name, value in options.items() if value is not None}
    number = given.pop("groups", None)
    return given | ({groups: number} if layer == "group" and number else {})


# Keras


def make_keras(layer: str, size, dtype: str, **options) -> Made:
    keras.utils.set_random_seed(0)
    if layer == "instance":  # there is none, but this is one
        layer, options = "group", {"groups": -1}
    kind = getattr(keras.layers, LONG[layer])
    if layer == "spectral":
        dense = keras.layers.Dense(len(size), use_bias=False)
        module = kind(dense)
        module.build((None, size.shape[1]))
        dense.kernel.assign(size.T)
    else:
        module = kind(**set_by(layer, options, "groups"), dtype=dtype)
        module.build((None, None, size))

    def call(x, dtype, training=None):
        moded = layer in ("batch", "spectral") and training is not None
        return numbers(module(jnp.asarray(x, dtype), **{"training": training} if moded else {}))

    def now(which: str) -> dict:
        return {v.path.split("/")[-1]: np.asarray(v.value) for v in getattr(module, which)}

    def kept() -> dict:
        return {n: a for n, a in now("non_trainable_variables").items() if a.dtype.kind != "u"}

    return Made(call, lambda: now("trainable_variables"), kept)


# Flax, whose two kinds of modules differ in where the state lives


def flax_options(layer: str, dtype: str, options: dict) -> dict:
    types = {} if dtype == "float32" else {"dtype": dtype, "param_dtype": dtype}
    return types | set_by(layer, options, "num_groups")


def flax_mode(layer: str, training: bool | None) -> dict:
    """How a call says whether it trains."""
    modes = {"batch": {"use_running_average": not training}, "spectral": {"update_stats": training}}
    return {} if training is None else modes.get(layer, {})


def flat(tree) -> dict:
    """The arrays of a tree, by the last words of their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {re.findall(r"\w+", str(path[-1]))[-1]: np.asarray(a) for path, a in leaves}


def make_nnx(layer: str, size, dtype: str, **options) -> Made:
    kind, rngs = getattr(nnx, SHORT[layer]), nnx.Rngs(0)
    if layer in ALONG:
        module = kind(size, rngs=rngs, **flax_options(layer, dtype, options))
    else:
        linear = nnx.Linear(*size.shape[::-1], use_bias=False, rngs=rngs)
        linear.kernel[...] = jnp.asarray(size.T, dtype)
        module = kind(linear, rngs=rngs)

    def call(x, dtype, training=None):
        return numbers(module(jnp.asarray(x, dtype), **flax_mode(layer, training)))

    def now(kind: type) -> dict:
        return flat(nnx.to_pure_dict(nnx.state(module, kind)))

    return Made(call, lambda: now(nnx.Param), lambda: now(nnx.BatchStat))


def make_linen(layer: str, size, dtype: str, **options) -> Made:
    kind = getattr(linen, SHORT[layer])
    if layer in ALONG:
        module, start = kind(**flax_options(layer, dtype, options)), jnp.ones((1, 1, size), dtype)
    else:
        module = kind(linen.Dense(len(size), use_bias=False))
        start = jnp.ones((1, size.shape[1]), dtype)
    held = dict(module.init(jax.random.key(0), start, **flax_mode(layer, True)))
    if layer not in ALONG:  # the kernel that the probe has chosen, in the place of a random one
        kernel = jnp.asarray(size.T, dtype)
        held = jax.tree.map(lambda a: kernel if a.shape == kernel.shape else a, held)

    def call(x, dtype, training=None):
        mode = flax_mode(layer, training)
        y, changed = module.apply(held, jnp.asarray(x, dtype), mutable=["batch_stats"], **mode)
        held.update(changed)
        return numbers(y)

    return Made(
        call, lambda: flat(held.get("params", {})), lambda: flat(held.get("batch_stats", {}))
    )


# ONNX


def model(node: onnx.NodeProto, inputs: dict, opset: int) -> onnx.ModelProto:
    """A checked model of one node, with its function body in its place where it has one."""
    given = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in inputs.items()
    ]
    found = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = onnx.helper.make_graph([node], "one_node", given, found)
    whole = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    whole = onnx.shape_inference.infer_shapes(whole, check_type=True, strict_mode=True)
    return onnx.inliner.inline_selected_functions(
        whole, [("", node.op_type)], inline_schema_functions=True
    )


def make_onnx(layer: str, size, dtype: str, opset=OPSET, affine=None, **options) -> Made:
    names = [each.name for each in onnx.defs.get_schema(LONG[layer], opset).inputs]
    kind, given = jnp.dtype(dtype), set_by(layer, options, "num_groups")
    own = {n: np.full(affine or size, i == 0, kind) for i, n in enumerate(names[1:3])}
    state = {n: np.full(size, i, kind) for i, n in enumerate(names[3:])}

    def call(x, dtype, training=None):
        trains = {"training_mode": 1} if layer == "batch" and training else {}
        inputs = {names[0]: np.asarray(x, jnp.dtype(dtype)), **own, **state}
        outputs = ["y", "mean", "var"] if trains else ["y"]
        node = onnx.helper.make_node(LONG[layer], list(inputs), outputs, **given, **trains)
        y, *moved = ReferenceEvaluator(model(node, inputs, opset)).run(None, inputs)
        state.update(zip(state, moved, strict=False))
        return numbers(y)

    return Made(call, lambda: own, lambda: state)


def affine_of_group_norm(opset: int) -> str:
    """Which shape scale and bias have to have, for 4 channels in 2 groups."""

    def fits(size: int) -> bool:
        made = make_onnx("group", 4, "float32", opset, affine=size, groups=2)
        return frameworks.outcome(lambda: made.call(np.ones((1, 4, 3)), "float32")[1]) == "float32"

    return " or ".join(name for name, n in {"a channel": 4, "a group": 2}.items() if fits(n))


def absent(has: Callable[[str], bool], names: dict[str, str]) -> dict[str, str]:
    return {layer: f"no {names[layer]}" for layer in LAYERS if not has(names[layer])}


FRAMEWORKS = {
    "PyTorch": PYTORCH,
    "Keras": Framework(make_keras, LAYERS, absent(partial(hasattr, keras.layers), LONG)),
    "Flax nnx": Framework(make_nnx, LAYERS, absent(partial(hasattr, nnx), SHORT)),
    "Flax linen": Framework(make_linen, LAYERS, absent(partial(hasattr, linen), SHORT)),
    "ONNX": Framework(make_onnx, ("layer", "RMS"), absent(onnx.defs.has, LONG)),
    "normlib": NORMLIB,
}
del FRAMEWORKS["Keras"].absent["instance"]  # group normalization stands in, while there is none
# What makes Flax compute the variance in two passes.
SLOWER = Framework(partial(make_nnx, use_fast_variance=False), LAYERS, {})


# The calls that the explorer of the axes shows, on images (N, H, W, C)

EXPLORER = ROOT / "_static" / "explorers" / "axes.js"
CALL = re.compile(r'"((?:nnx\.\w+|\w+Normalization)\(.*?\))"')


def on_images(call: str) -> dict:
    """Which entries share their statistics with one of them: over which axes, and how many."""
    names = vars(keras.layers) | {"nnx": nnx, "rngs": nnx.Rngs(0)}
    module = eval(call.replace("…", "rngs=rngs"), names)
    mode = {"training": True} if call.startswith("BatchNormalization") else {}
    x = np.random.default_rng(0).standard_normal((3, 2, 2, 4)).astype("float32")
    here = 1, 0, 1, 2

    def output(moved: tuple | None = None) -> float:
        bump = np.zeros_like(x)
        if moved is not None:
            bump[moved] = 0.5
        return float(module(jnp.asarray(x + bump), **mode)[here])

    shared = [at for at in np.ndindex(x.shape) if output(at) != output()]
    places = zip("NHWC", zip(*shared, strict=True), strict=True)
    over = [axis for axis, found in places if len({*found}) > 1]
    return {"call": call, "over": ", ".join(over), "entries": len(shared)}


# normlib's functions on JAX's arrays


def close(ours, theirs) -> str:
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    gaps = [np.abs(a - b).max() / max(1, np.abs(b).max()) for a, b in pairs]
    return "agrees" if max(gaps) < 1e-12 else f"differs by {max(gaps):.1g}"


def on_jax(case: Case) -> dict[str, str]:
    """What a layer and its backward do under JAX's transformations, against NumPy."""
    rng = np.random.default_rng(0)
    forward, args = case.drawn(case.examples[0], rng)
    y, cache = forward(*args)
    dy = rng.standard_normal(y.shape)
    gradients = case.backward(dy, cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    ours = [jnp.asarray(a) for a in args]

    def alone(*args):
        return forward(*args)[0]

    def both(dy, *args):
        return case.backward(dy, forward(*args)[1])

    def vmap():
        stack = np.stack([args[0], 2 * args[0] + 1, args[0] ** 2 + 1])
        rows = jax.vmap(lambda x: alone(x, *ours[1:]))(jnp.asarray(stack))
        return close(rows, np.stack([alone(x, *args[1:]) for x in stack]))

    upstream = jnp.asarray(dy)
    uses = {
        "grad": lambda: close(jax.vjp(alone, *ours)[1](upstream)[: len(gradients)], gradients),
        "jit": lambda: close(jax.jit(alone)(*ours), y),
        "jit, with the backward": lambda: close(jax.jit(both)(upstream, *ours), gradients),
        "the cache out of jit": lambda: close(
            case.backward(upstream, jax.jit(forward)(*ours)[1]), gradients
        ),
        "vmap": vmap,
    }
    return {"function": case.name} | {n: frameworks.outcome(use) for n, use in uses.items()}


def rows(found: dict[str, dict]) -> Iterator[dict]:
    """One row for each layer and question; None where the layer is absent."""
    for name, question in frameworks.QUESTIONS.items():
        for layer in question.layers:
            answers = {of: found[of].get(layer, {}).get(name) for of in found}
            yield {"layer": layer, "question": name, **answers}


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    pinned = re.findall(r"^([\w-]+)==", PINS.read_text(encoding="utf-8"), re.M)
    found = {name: frameworks.answers(of) for name, of in FRAMEWORKS.items()}
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: version(name).partition("+")[0] for name in pinned},
        "ONNX opset": OPSET,
        "absent": [
            {"framework": name, "layer": layer, "because": why}
            for name, of in FRAMEWORKS.items()
            for layer, why in of.absent.items()
        ],
        "ONNX group normalization": [
            {"opset": opset, "scale and bias, one": affine_of_group_norm(opset)}
            for opset in (18, OPSET)
        ],
        "Flax, use_fast_variance=False": [
            {"layer": layer, "far from zero": frameworks.far_from_zero(SLOWER, layer)}
            for layer in frameworks.CENTRED
        ],
        "calls on images": [*map(on_images, CALL.findall(EXPLORER.read_text(encoding="utf-8")))],
        "answers": list(rows(found)),
        "JAX": [on_jax(case) for case in CASES],
    }
    store.write_json(TARGET, document)
    print(f"The answers are in {TARGET}; see them: make refresh CHAPTER=frameworks")


if __name__ == "__main__":
    main()
