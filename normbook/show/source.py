"""The shipped code on a page: its source, its docstrings, and all formulas on one sheet."""

import ast
import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType
from typing import NamedTuple

COLUMN = 84  # characters of code on a page


def without_docstring(function: Callable) -> str:
    """The lines of a function but for its docstring, which stands on the page of all functions."""
    lines = inspect.getsource(function).rstrip().splitlines()
    first = ast.parse(textwrap.dedent("\n".join(lines))).body[0].body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)


def names_used(code: CodeType) -> set[str]:
    """The names that compiled code, and what is nested in it, looks up outside of itself."""
    found = {i.argval for i in dis.get_instructions(code) if re.search("NAME|GLOBAL", i.opname)}
    return found.union(*(names_used(c) for c in code.co_consts if isinstance(c, CodeType)))


def origins(function: Callable) -> Iterator[tuple[str, str]]:
    """Where the module of a function has the names from that the function needs, as halves of an
    import: ("from a import ", "b")."""
    module = inspect.getmodule(function)
    code = compile(textwrap.dedent(without_docstring(function)), "", "exec")
    wanted = (names_used(code) & vars(module).keys()) - {function.__name__}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if (name := alias.asname or alias.name) in wanted:
                wanted.remove(name)
                start = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
                yield f"{start}import ", ast.unparse(alias)
    yield from ((f"from {module.__name__} import ", n) for n in wanted if not n.startswith("__"))


def imports(*functions: Callable) -> list[str]:
    """The lines with which functions run where they are copied to together."""
    shown = {function.__name__ for function in functions}
    found = {pair for function in functions for pair in origins(function) if pair[1] not in shown}
    lines = [start + name for start, name in found if start == "import "]
    for start in {start for start, _ in found} - {"import "}:
        names = ", ".join(sorted(name for s, name in found if s == start))
        rows = textwrap.wrap(names, COLUMN - len(start))
        lines += [start + row.rstrip(",") for row in rows]
    return sorted(lines, key=lambda line: ("norm" in line, line.startswith("from"), line))


class Source:
    """The source of shipped functions, as a highlighted block that runs where it is copied to. Its
    text is compared in CI, so that a page cannot show code that is no longer the shipped one."""

    def __init__(self, *functions: Callable):
        head = "\n".join(imports(*functions))
        self.text = "\n\n".join(filter(None, [head, *map(without_docstring, functions)]))

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"


class Entry(NamedTuple):
    """What the docstring of a public function says, in parts."""

    name: str
    signature: str
    summary: str
    formula: str  # the paragraph after the summary
    text: list[str]
    shapes: str
    errors: str
    source: str


def entry(function: Callable) -> Entry:
    """A docstring taken apart: a summary, a formula, free text, then Shapes, Errors and Source."""
    summary, formula, *text, last = inspect.getdoc(function).split("\n\n")
    found = re.fullmatch(r"Shapes: (.*?)\.?\s+Errors: (.*?)\s+Source: (.*)", last, re.DOTALL)
    if not found or not re.search("[=←]", formula):
        raise ValueError(
            f"the docstring of {function.__name__} must hold a summary, a formula, and at its end "
            f"a paragraph of the lines Shapes, Errors and Source, in this order"
        )
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    signature = signature.replace(parameters=bare, return_annotation=signature.empty)
    parts = (" ".join(part.split()) for part in found.groups())
    return Entry(function.__name__, str(signature), summary, formula, text, *parts)


class Reference(Source):
    """The docstrings of functions, as a page to look things up in."""

    def __init__(self, *functions: Callable):
        self.entries = [entry(f) for f in functions]
        self.text = "\n".join(map(str, self.entries))

    def _repr_markdown_(self) -> str:
        return "\n\n".join(map(describe_entry, self.entries))


class CheatSheet(Reference):
    """Formulas and shapes alone, one row for each function."""

    def _repr_markdown_(self) -> str:
        rows = [f"| `{e.name}` | {parts(e.formula)}<br>{e.shapes} |" for e in self.entries]
        return "\n".join(["| function | formula, and shapes |", "|---|---|", *rows])


def describe_entry(e: Entry) -> str:
    anchor = f"(function-{e.name.replace('_', '-')})="  # an address that stays
    head = [
        f"{anchor}\n**`{e.name}{e.signature}`**",
        e.summary,
        f"```text\n{e.formula}\n```",
        *e.text,
    ]
    tail = [f"*Shapes.* {e.shapes}.", f"*Errors.* {e.errors}", f"*Source.* {e.source}"]
    return "\n\n".join([*head, *tail])


def parts(formula: str) -> str:
    """Each part of a formula on a line of its own, for a cell of a table, which a bar would end."""
    lines = re.split(r",\s{3}|,?\n", formula)
    return "<br>".join(f"`{line.strip()}`" for line in lines).replace("|", "\\|")
