"""Links to claims carry the register's verdict."""

import re
import shutil
import sys

import claim_links
import nbformat
import pytest
import run_page
from docutils import nodes
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from project import NOTEBOOKS, ROOT, run
from sphinx import addnodes

from normbook.claims import FALSE, HOLDS, Said, register

pytestmark = pytest.mark.programs

BOOK = "import sys; from jupyter_book.cli.main import main; main(sys.argv[1:])"
REGISTER = """title = "Notes"
[[claim]]
id = "000-01"
verdict = "holds"
page = "claims/topic"
[[claim]]
id = "000-02"
verdict = "does not hold"
page = "claims/topic"
[[claim]]
id = "000-03"
verdict = "not checkable here"
"""
TOPIC = "claims/topic.ipynb#cell-id=claim-"
GOOD = f"A [short claim: holds]({TOPIC}000-01), [000-02]({TOPIC}000-02), [report](../report.md)."
OUTPUT = f"| verdict | claim |\n|---|---|\n| does not hold | [000-02]({TOPIC}000-02) |"
OWN = "[The first: holds](#cell-id=claim-000-01), [again: holds](topic.ipynb#cell-id=claim-000-01)."
BAD = {
    f"[unknown: holds]({TOPIC}000-77)": "expected the id of a claim, got '000-77'",
    "[elsewhere: holds](../report.md#cell-id=claim-000-01)": "claims/topic, got report; ",
    f"[open: not checkable here]({TOPIC}000-03)": "decides claim 000-03, no page, got",
    f"[judged otherwise: holds]({TOPIC}000-02)": "the verdict on claim 000-02, 'does not hold'",
    f"[no verdict]({TOPIC}000-01)": "the verdict on claim 000-01, 'holds'",
    "[bare: holds](claims/topic.ipynb#claim-000-01)": "got #claim-000-01; write #cell-id=claim-",
}


def notebook(path, text, **output):
    """Write an executed notebook of a title, a text and one output."""
    shown = new_output("execute_result", data=output, execution_count=1)
    cells = [
        new_markdown_cell(f"# Page\n\n{text}", id="text"),
        new_code_cell("1 + 1", id="cell", execution_count=1, outputs=[shown]),
    ]
    python = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata=python), path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A book of a chapter, of one whose links are wrong, and a claims page: folder, messages."""
    tree = tmp_path_factory.mktemp("book")
    for name in ("_static", "_templates", "tools"):
        shutil.copytree(ROOT / name, tree / name)
    for name in ("_config.yml", *run_page.PARTS):
        shutil.copy(ROOT / name, tree)
    pages = "".join(f"- file: chapters/{name}\n" for name in ("old", "bad", "claims/topic"))
    files = {
        "_toc.yml": f"format: jb-book\nroot: report\nchapters:\n{pages}",
        "report.md": "# Report\n\n```{verification-report}\n```\n",
        "glossary.md": "",
        "references.bib": "",
        "normbook/claims/register/000.toml": REGISTER,
    }
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    cards = "".join(f'<div class="decision" id="claim-000-0{i}">card</div>' for i in (1, 2))
    notebook(tree / "chapters" / "old.ipynb", GOOD, **{"text/markdown": OUTPUT})
    notebook(tree / "chapters" / "bad.ipynb", "\n\n".join(BAD), **{"text/plain": "2"})
    notebook(tree / "chapters" / "claims" / "topic.ipynb", OWN, **{"text/html": cards})
    options = ("-q", "-W", "-n", "--keep-going", "--path-output", tree)
    return tree / "_build" / "html", run(sys.executable, "-c", BOOK, "build", tree, *options)


@pytest.fixture
def site(built):
    return built[0]


def badges(page):
    """The links to claims of a built page: words, address, verdict."""
    links = re.findall(r"<a ([^>]*data-verdict=[^>]*)>(.*?)</a>", page.read_text("utf-8"), re.S)
    found = []
    for attributes, words in links:
        told = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        found.append((re.sub("<[^>]+>", "", words), told["href"], told["data-verdict"]))
    return found


def test_a_link_to_a_claim_carries_its_verdict_in_a_text_and_in_an_output(site):
    topic = "claims/topic.html#claim-"
    assert badges(site / "chapters" / "old.html") == [
        ("short claim: holds", f"{topic}000-01", HOLDS),
        ("000-02", f"{topic}000-02", FALSE),
        ("000-02", f"{topic}000-02", FALSE),
    ]


def test_a_claims_page_links_to_its_own_cards(site):
    own = badges(site / "chapters" / "claims" / "topic.html")
    assert [(words, href.rpartition("#")[2]) for words, href, _ in own] == [
        ("The first: holds", "claim-000-01"),
        ("again: holds", "claim-000-01"),
    ]
    assert {href.rpartition("#")[0] for _, href, _ in own} <= {"", "topic.html"}


def test_a_link_that_is_wrong_stops_the_build_and_says_what_to_mend(built):
    _, result = built
    assert result.returncode != 0
    assert [expected for expected in BAD.values() if expected not in result.stderr] == []


def test_a_link_that_is_right_is_not_objected_to(built):
    _, result = built
    lines = result.stderr.splitlines()
    assert len(lines) >= len(BAD) and all("bad.ipynb" in line for line in lines if "WARN" in line)


# The book's own links, read as they are typed.

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
