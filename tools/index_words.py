"""The index of the book, made from the words that its pages mark anyway: every term of the glossary
where a page uses it, every function of the library where a page names it. A Sphinx extension.
"""

import ast
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform


def functions(package: Path) -> set[str]:
    """The public names of the library, read from its text: building a site must not load it."""
    tree = ast.parse((package / "layers" / "__init__.py").read_text(encoding="utf-8"))
    bodies = (node.value for node in tree.body if isinstance(node, ast.Assign))
    return {name for body in bodies for name in ast.literal_eval(body)}


class IndexWords(SphinxTransform):
    """Puts an index entry before the first mention of a word on each page."""

    default_priority = 400  # before the domains read the entries

    def apply(self) -> None:
        known, seen = functions(Path(self.env.srcdir, "normlib")), set()
        for node in [*self.document.findall(marks)]:
            word = node["reftarget"] if isinstance(node, addnodes.pending_xref) else node.astext()
            call = isinstance(node, nodes.literal)
            if word in seen or (call and word not in known):
                continue
            seen.add(word)
            target = f"index-of-{nodes.make_id(word)}"
            entry = f"{word} (function)" if call else word
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
