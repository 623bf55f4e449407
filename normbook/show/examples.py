"""A call of each public function, as the API page shows it, and runs it."""

from fractions import Fraction

import numpy as np

from normlib.evidence import CASES, Case
from normlib.verify.signature import positional


def example(case: Case) -> str:
    """A call of a layer and of its backward, at the first of the shapes that tests try."""
    forward, shapes = case.name, case.examples[0]
    names = positional(case.forward)[: len(shapes)]
    data = case.data(tuple(map(np.ones, shapes)), np.random.default_rng(0))
    rows = [*zip(names, shapes, strict=True), *((n, a.shape) for n, a in data.items())]
    draws = {"var": "rng.uniform(0.5, 2, {})"}
    lines = [f"{n} = {draws.get(n, 'rng.standard_normal({})').format(s)}" for n, s in rows]
    settings = {n: float(v) if isinstance(v, Fraction) else v for n, v in case.keywords.items()}
    given = [n for n, _ in rows] + [f"{n}={v}" for n, v in settings.items()]
    gradients = ", ".join(f"d{n}" for n in names)
    return "\n".join([
        "import numpy as np",
        f"from normlib import {forward}, {forward}_backward\n",
        "rng = np.random.default_rng(0)",
        *lines,
        f"y, cache = {forward}({', '.join(given)})",
        "dy = rng.standard_normal(y.shape)",
        f"{gradients} = {forward}_backward(dy, cache)",
    ])  # fmt: skip


ARRAY = """import numpy as np
from normlib import {}

x = np.random.rand(8, 3)
"""
LAYER = """from normlib import evidence, rms_norm, rms_norm_backward, verify

"""
EXAMPLES = {case.name: example(case) for case in CASES} | {
    "standardize": ARRAY.format("standardize, standardize_backward")
    + """xhat, cache = standardize(x, axes=(0,), eps=1e-5)
dx = standardize_backward(np.ones((8, 3)), cache)""",
    "fit_standard": ARRAY.format("apply_scaling, fit_standard")
    + "z = apply_scaling(x, fit_standard(x))",
    "fit_min_max": ARRAY.format("apply_scaling, fit_min_max")
    + "z = apply_scaling(x, fit_min_max(x, low=-1, high=1))",
    "power_iteration": ARRAY.format("power_iteration")
    + "u, v = power_iteration(x, np.ones(8), np.ones(3), iterations=10)",
    "update_running": ARRAY.format("update_running")
    + "mean, var = update_running(np.zeros(3), np.ones(3), x, momentum=0.1)",
    "distributed.launch": """import operator  # a function that each process can import
from normlib.distributed import launch

products = launch(operator.mul, 2, 10)  # [0, 10]""",
    "distributed.BatchNorm": """import torch
from normlib.distributed import BatchNorm

y = BatchNorm(3).eval()(torch.randn(8, 3))  # in training, in a group""",
    "verify.check": LAYER
    + """pair, shapes = (rms_norm, rms_norm_backward), ((6, 4), (4,))
verdict = verify.check(*pair, shapes=shapes, **evidence.rms_norm())""",
    "verify.diagnose": LAYER
    + """pair, shapes = (rms_norm, rms_norm_backward), ((6, 4), (4,))
found = verify.diagnose(*pair, shapes=shapes, **evidence.rms_norm())""",
    "verify.falsify": f"import numpy as np\n{LAYER}"
    + """args = np.random.randn(6, 4), np.random.randn(4)
table = verify.falsify(rms_norm, rms_norm_backward, args, **evidence.rms_norm())""",
    "verify.kernel": """import torch
from normlib import verify

def layer(x):  # on tensors, in float32 inside
    return torch.tanh(x.float()).to(x.dtype)

verdict = verify.kernel(layer, shapes=((8, 64),), reference=torch.tanh)""",
    "verify.from_torch": """import torch
from normlib import verify

forward, backward = verify.from_torch(torch.nn.LayerNorm(4))""",
}
