"""Links to claims. A Sphinx extension.

A link to the card of a claim carries the colour of the verdict:

    [whitening: does not hold](claims/batch-normalization.ipynb#cell-id=claim-000-03)

What is typed in it is compared with the register: the words are the claim's id or end with its
verdict, and the page is the one that decides it. By `cell-id=` JupyterLab finds the deciding cell
in a notebook that is not open yet, too.

The register is read from its files: building a site must not load the library.
"""

import posixpath
import tomllib
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

CLAIM = "claim-"  # what the id of a card begins with, and that of its cell
LOG = logging.getLogger(__name__)


def files(root: Path) -> list[Path]:
    return sorted((root / "normbook" / "claims" / "register").glob("*.toml"))


@cache
def claims(root: Path) -> dict[str, dict]:
    """Every entry of the register, by its id."""
    tables = (tomllib.loads(path.read_text(encoding="utf-8")) for path in files(root))
    return {claim["id"]: claim for table in tables for claim in table.get("claim", ())}


class Badge(nodes.Inline, nodes.TextElement):
    """A link to the card of a claim."""


def target(node: nodes.Element, docname: str) -> tuple[str, str]:
    """The page and the anchor that a link of Markdown leads to, in a text or in an output."""
    if isinstance(node, addnodes.pending_xref):
        return node["reftarget"], node.get("reftargetid") or ""
    page, _, anchor = node.get("refuri", "").partition("#")
    page = posixpath.join(posixpath.dirname(docname), page.removesuffix(".ipynb"))
    return (posixpath.normpath(page) if node["refuri"][0] != "#" else docname), anchor


def objection(words: str, page: str, anchor: str, root: Path) -> str:
    """What is wrong with a link to a claim, if anything is."""
    name = anchor.rpartition(CLAIM)[2]
    claim = claims(root).get(name)
    if claim is None:
        return f"expected the id of a claim, got {name!r}; mend the end of the link"
    if anchor != f"cell-id={CLAIM}{name}":
        return f"expected a link to the deciding cell, got #{anchor}; write #cell-id=claim-{name}"
    if page != f"chapters/{claim.get('page')}":
        home = claim.get("page", "no page")
        return f"expected the page that decides claim {name}, {home}, got {page}; mend the link"
    if words != name and not words.endswith(claim["verdict"]):
        return (
            f"expected words that end with the verdict on claim {name}, {claim['verdict']!r}, or "
            f"the id alone, got {words!r}; mend the words"
        )
    return ""


def mark(first: Badge) -> None:
    """Let badges that stand by themselves in parentheses be marks, which take no words from their
    sentence: without the parentheses and what separates them."""
    line = first.parent
    parts, start = line.children, line.index(first)
    end = start + 1
    while end + 1 < len(parts) and parts[end] in (", ", "; ") and isinstance(parts[end + 1], Badge):
        end += 2
    before, after = [*parts[:start], ""][start - 1], [*parts, ""][end]
    texts = isinstance(before, nodes.Text) and isinstance(after, nodes.Text)
    if texts and before.endswith((" (", "\n(")) and after.startswith(")"):
        badges = [part for part in parts[start:end] if isinstance(part, Badge)]
        for badge in badges:
            badge["classes"].append("mark")
        around = nodes.Text(before[:-2]), nodes.Text(after[1:])
        line.children = [*parts[: start - 1], around[0], *badges, around[1], *parts[end + 1 :]]
        for part in around:
            part.parent = line


def is_read(badge: Badge) -> bool:
    """Whether the verdict itself is what one reads: in a table, and in what a cell shows."""
    while badge.parent is not None:
        badge = badge.parent
        if isinstance(badge, nodes.entry) or "cell_output" in badge.get("classes", ()):
            return True
    return False


class Badges(SphinxTransform):
    """Puts a badge in the place of every link to a claim."""

    default_priority = 400  # before anything resolves the links

    def apply(self) -> None:
        docname = self.env.docname
        for node in [*self.document.findall(is_link)]:
            page, anchor = target(node, docname)
            if CLAIM in anchor:
                self.put(node, page, anchor)
        for badge in [*self.document.findall(Badge)]:
            if "mark" not in badge["classes"] and not is_read(badge):
                mark(badge)

    def put(self, node: nodes.Element, page: str, anchor: str) -> None:
        root, name = Path(self.env.srcdir), anchor.rpartition(CLAIM)[2]
        wrong = objection(node.astext(), page, anchor, root)
        if wrong:
            LOG.warning(wrong, location=node)
            return
        uri = self.app.builder.get_relative_uri(self.env.docname, page)
        verdict = claims(root)[name]["verdict"]
        badge = Badge(uri=f"{uri}#{CLAIM}{name}", verdict=verdict)
        badge += node.children
        node.replace_self(badge)
        for path in files(root):
            self.env.note_dependency(str(path))


def is_link(node: nodes.Node) -> bool:
    if isinstance(node, addnodes.pending_xref):
        return node["reftype"] == "myst"
    return isinstance(node, nodes.reference) and bool(node.get("refuri"))


def visit_badge(translator, node: Badge) -> None:
    attributes = {"href": node["uri"], "data-verdict": node["verdict"]}
    translator.body.append(translator.starttag(node, "a", "", **attributes) + "<span>")


def depart_badge(translator, node: Badge) -> None:
    translator.body.append("</span></a>")


def setup(app) -> dict:
    app.add_node(Badge, html=(visit_badge, depart_badge))
    app.add_transform(Badges)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
