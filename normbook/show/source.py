"""The shipped code on a page: its source, its docstrings, and all formulas on one sheet."""

import ast
import dis
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, MappingProxyType, ModuleType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

COLUMN = 84  # characters of code on a page
EMPTY: Mapping[str, str] = MappingProxyType({})


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
    parts = (" ".join(part.split()) for part in found.groups())
    return Entry(function.__name__, bare_signature(function), summary, formula, text, *parts)


class Reference(Source):
    """The docstrings of functions, as a page to look things up in; with links to the chapters
    whose titles are given, and with examples, by the names of the functions."""

    def __init__(self, *functions: Callable, titles: Mapping = EMPTY, examples: Mapping = EMPTY):
        self.entries = [entry(f) for f in functions]
        self.text = "\n".join(map(str, self.entries))
        self.returned = [returns(f) if titles else "" for f in functions]
        self.titles, self.examples = titles, examples

    def _repr_markdown_(self) -> str:
        texts = [
            link_chapters(describe_entry(e, returned), self.titles)
            + describe_example(self.examples.get(e.name, ""))
            for e, returned in zip(self.entries, self.returned, strict=True)
        ]
        return "\n\n".join(texts)


class Documentation(Source):
    """Public names of one module that have no formula: signature, docstring, what is returned."""

    def __init__(self, module: ModuleType, names: tuple, titles: dict, examples: dict):
        self.place = module.__name__.removeprefix("normlib.")
        things = [getattr(module, name) for name in names]
        parts = [describe(f"{self.place}.{n}", t) for n, t in zip(names, things, strict=True)]
        shown = [describe_example(examples.get(f"{self.place}.{name}", "")) for name in names]
        linked = [link_chapters(part, titles) for part in parts]
        self.text = "\n\n".join(a + b for a, b in zip(linked, shown, strict=True))

    def _repr_markdown_(self) -> str:
        return self.text


def describe(name: str, thing: Callable) -> str:
    """The docstring of anything public: a line about an argument becomes an item of a list."""
    anchor, signature = re.sub(r"[._]", "-", name).lower(), bare_signature(thing)
    known = "|".join(["Shapes", "Errors", "Source", *re.findall(r"\w+(?=[=,)])", signature)])
    about_one = re.compile(rf"^({known}): ", re.M)
    parts = [f"(function-{anchor})=\n**`{name}{signature}`**"]
    for paragraph in re.split(r"\n{2,}", inspect.getdoc(thing) or ""):
        if paragraph.startswith(f"{thing.__name__}("):  # the signature, of a NamedTuple
            continue
        free, *pairs = about_one.split(paragraph)
        formula = re.match(r"\w+ = ", free)
        parts += [f"```text\n{free}\n```" if formula else free.strip()] if free.strip() else []
        for about, text in zip(pairs[::2], pairs[1::2], strict=True):
            words = " ".join(text.split())
            parts.append(f"- `{about}`: {words}" if about[0].islower() else f"*{about}.* {words}")
    found = returns(thing)
    return "\n\n".join([*parts, found] if found else parts)


def bare_signature(thing: Callable) -> str:
    """A signature without types; empty for an exception."""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return ""
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return re.sub(r"<class '(\w+)'>", r"\1", text)


def listed(module: ModuleType, names: list[str], linked: bool = False) -> list[tuple[str, str]]:
    """Rows of a table: a name with its arguments, or a link to its place; its first sentence."""
    place, rows = module.__name__.removeprefix("normlib."), []
    for name in names:
        thing = getattr(module, name)
        first = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
        first = "" if first.startswith(f"{name}(") else first
        link = f"[`{place}.{name}`](function-{name.replace('_', '-')})"
        rows.append((link if linked else f"`{place}.{name}{bare_signature(thing)}`", first))
    return rows


def returns(function: Callable) -> str:
    """What a function returns, where its types say it: a cache or another record by its fields."""
    found = None if isinstance(function, type) else get_type_hints(function).get("return")
    parts = get_args(found) if get_origin(found) is tuple else (found,)
    records = [part for part in parts if hasattr(part, "_fields")]
    if records:
        shown = [f"{r.__name__}({', '.join(r._fields)})" for r in records]
        before = "the output, and " if len(parts) > len(records) else ""
        return f"*Returns.* {before}`{', '.join(shown)}`."
    named = found is not None and found.__module__ != "typing" and Any not in parts
    plain = re.sub(r"\w+\.", "", inspect.formatannotation(found)) if named else ""
    return f"*Returns.* `{plain}`." if plain else ""


def link_chapters(text: str, titles: Mapping[str, str]) -> str:
    """Titles of chapters in quotation marks, as links."""
    there = lambda m: f"[{m[1]}]({titles[m[1]]}.ipynb)" if m[1] in titles else m[0]  # noqa: E731
    return re.sub(r'"([^"]+)"', there, text)


def describe_example(code: str) -> str:
    return f"\n\n*Example.*\n\n```python\n{code}\n```" if code else ""


class CheatSheet(Reference):
    """Formulas and shapes alone, one row for each function."""

    def _repr_markdown_(self) -> str:
        rows = [f"| `{e.name}` | {parts(e.formula)}<br>{e.shapes} |" for e in self.entries]
        return "\n".join(["| function | formula, and shapes |", "|---|---|", *rows])


def describe_entry(e: Entry, returned: str) -> str:
    anchor = f"(function-{e.name.replace('_', '-')})="  # an address that stays
    head = [
        f"{anchor}\n**`{e.name}{e.signature}`**",
        e.summary,
        f"```text\n{e.formula}\n```",
        *e.text,
    ]
    tail = [f"*Shapes.* {e.shapes}.", f"*Errors.* {e.errors}", f"*Source.* {e.source}"]
    return "\n\n".join([*head, *filter(None, [returned]), *tail])


def parts(formula: str) -> str:
    """Each part of a formula on a line of its own, for a cell of a table, which a bar would end."""
    lines = re.split(r",\s{3}|,?\n", formula)
    return "<br>".join(f"`{line.strip()}`" for line in lines).replace("|", "\\|")
