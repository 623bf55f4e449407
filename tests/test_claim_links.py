"""Links to claims carry the register's verdict."""

import re

import claim_links
import nbformat
from docutils import nodes
from project import NOTEBOOKS, ROOT
from sphinx import addnodes

from normbook.claims import Said, register

LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*#[^)\s]*claim-[^)\s]*)\)")


def typed(name):
    """Every link to a claim that a page holds, in its text and in what it shows."""
    cells = nbformat.read(NOTEBOOKS[name], as_version=4).cells
    outputs = (output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))
    shown = (data.get("text/markdown", "") for data in outputs)
    return LINK.findall("\n".join([*(cell.source for cell in cells), *shown]))


def wrong_links(name, links):
    """What is wrong with links to claims on a page of this name."""
    for words, href in links:
        page, anchor = claim_links.target(nodes.reference(refuri=href), f"chapters/{name}")
        yield from filter(None, [claim_links.objection(words, page, anchor, ROOT)])


def test_every_link_to_a_claim_says_its_verdict_and_leads_to_its_card():
    links = {name: typed(name) for name in NOTEBOOKS}
    assert len(links["batch-norm"]) > 5
    assert [line for name in NOTEBOOKS for line in wrong_links(name, links[name])] == []


def test_a_typed_link_that_is_wrong_is_seen():
    here = "claims/batch-normalization.ipynb#cell-id=claim-"
    assert not [*wrong_links("batch-norm", [("it whitens: does not hold", f"{here}000-03")])]
    planted = [("it whitens: holds", f"{here}000-03"), ("x: holds", f"{here}000-00")]
    planted += [("it whitens: does not hold", here.replace("claims/", "../") + "000-03")]
    assert len([*wrong_links("batch-norm", planted)]) == 3


def test_the_site_reads_the_same_register_as_the_library():
    seen = {id: (c["verdict"], c.get("page", "")) for id, c in claim_links.claims(ROOT).items()}
    assert seen == {c.id: (c.verdict, c.page) for c in register().claims.values()}


def test_a_link_is_understood_in_a_text_and_in_an_output():
    reference = nodes.reference(refuri="../claims/topic.ipynb#claim-a-1")
    assert claim_links.target(reference, "chapters/x/y") == ("chapters/claims/topic", "claim-a-1")
    text = addnodes.pending_xref(reftarget="chapters/claims/topic", reftargetid="claim-a-1")
    assert claim_links.target(text, "chapters/y") == ("chapters/claims/topic", "claim-a-1")
    assert claim_links.target(nodes.reference(refuri="#claim-a-1"), "chapters/y")[0] == "chapters/y"


def test_what_is_said_is_written_with_links_that_the_site_understands():
    (page,) = {c.page for c in register().claims.values() if c.id == "000-03"}
    links = LINK.findall(Said(page)._repr_markdown_())
    assert len(links) > 20 and not [*wrong_links("batch-norm", links)]
