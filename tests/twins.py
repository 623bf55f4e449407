"""A planted error: a shipped function with one piece of its text replaced."""

import inspect
import textwrap
from collections.abc import Callable


def twin(function: Callable, shipped: str, changed: str) -> Callable:
    """The function, or class, as it would be with this error in it. What it calls is shipped."""
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(shipped) != 1:
        raise ValueError(
            f"expected {shipped!r} once in {function.__name__}, found it {text.count(shipped)} "
            f"times; was the line rewritten?"
        )
    scope = dict(inspect.getmodule(function).__dict__)
    exec(
        compile(text.replace(shipped, changed), f"<planted in {function.__name__}>", "exec"), scope
    )
    return scope[function.__name__]
