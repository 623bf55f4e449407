"""The index of the book, made from the words that its pages mark anyway: every term of the glossary
where a page uses it, every function of the library where a page names it. A Sphinx extension.
"""

import ast
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform


def functions(package: Path) -> set[str]:
    """The public names of the library, read from its text: building a site must not load it."""
    trees = (ast.parse(p.read_text(encoding="utf-8")) for p in (package / "layers").glob("*.py"))
    return {name for tree in trees for name in public(tree)}


def public(tree: ast.Module) -> list[str]:
    """The names in a module's __all__, if it lists them."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value) if isinstance(node.value, ast.List) else []
    return []


def glossary(page: Path) -> dict[str, str]:
    """The terms as the glossary spells them, in lower case: one may begin a sentence."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return {line.lower(): line for line, below in pairwise(lines) if below.startswith("  ")}


class IndexWords(SphinxTransform):
    """Puts an index entry before the first mention of a word on each page."""

    default_priority = 400  # before the domains read the entries

    def apply(self) -> None:
        root, seen = Path(self.env.srcdir), set()
        terms = glossary(root / "glossary.md")
        known = {name: f"{name} (function)" for name in functions(root / "normlib")}
        for node in [*self.document.findall(marks)]:
            if isinstance(node, nodes.literal):
                entry = known.get(node.astext())
            else:
                entry = terms.get(node["reftarget"].lower())
            if entry is None or entry in seen:
                continue
            seen.add(entry)
            target = f"index-of-{nodes.make_id(entry)}"
            mark = addnodes.index(entries=[("single", entry, target, "", None)])
            place = nodes.target("", "", ids=[target])
            at = node.parent.index(node)
            node.parent.insert(at, [mark, place])


def marks(node: nodes.Node) -> bool:
    is_term = isinstance(node, addnodes.pending_xref) and node.get("reftype") == "term"
    return is_term or isinstance(node, nodes.literal)


def setup(app) -> dict:
    app.add_transform(IndexWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
