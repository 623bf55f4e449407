"""The site, built from an empty folder, is whole when a real browser looks at it."""

import gzip
import json
import random
import re
import shlex
import subprocess
import sys
import tomllib

import exploring
import fonts
import index_words
import page_budget
import pytest
import run_page
import searching
import sections
import site_checks as checks
from project import NOTEBOOKS, ROOT, TOC, listed, make, read_cells
from site_checks import DESK, PHONE

from normbook.claims import FALSE, register
from normbook.show.blackboard import BOARDS

pytestmark = pytest.mark.programs

PAGES = [f"{page}.html" for page in listed(TOC)]
SEARCH = "search.html"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Build the site with `make book`, in this environment, into an empty folder."""
    checks.browser_path()
    out = tmp_path_factory.mktemp("a site")
    result = make(ROOT, "book", f"OUT={shlex.quote(str(out))}")
    assert result.returncode == 0, result.stdout + result.stderr
    html = out / "_build" / "html"
    for name, page in PLANTED.items():
        (html / name).write_text(page, encoding="utf-8")
    return html


@pytest.fixture(scope="module")
def root(folder):
    """Serve the site as `make serve` does, and return the printed address."""
    command = [
        sys.executable,
        *["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "-d"],
        folder,
    ]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **quiet) as server:
        yield re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())[0]
        server.terminate()


@pytest.fixture(scope="module")
def seen(root, tmp_path_factory):
    """What the browser sees on every page, by its name, with letters wider than those of common
    fonts, also in formulas."""
    names = [*PAGES, SEARCH, *PLANTED]
    wide = fonts.wide(tmp_path_factory.mktemp("wide"))
    found = checks.survey([root + name for name in names], wide)
    return dict(zip(names, found.values(), strict=True))


@pytest.fixture(scope="module")
def pages(seen):
    """The pages of the book among them."""
    return {name: seen[name] for name in PAGES}


@pytest.fixture(scope="module")
def opened(browser, root):
    """Return a function that opens a page of the site, served or from another place; page.heard
    holds what was complained of meanwhile."""
    with browser.new_context() as context:

        def open_page(name, place=root):
            page = context.new_page()
            page.heard = checks.listen(page)
            page.goto(place + name)
            page.wait_for_function(checks.ARRIVED)
            return page

        yield open_page


@pytest.mark.parametrize("check", checks.LINES)
def test_no_page_has_a_fault(seen, check):
    """No complaint or failed request, none to another host; formulas, Markdown and pictures are
    drawn; text is legible in light and dark; all of it fits a desk and a phone."""
    names = [*PAGES, SEARCH] if check == "console" else PAGES
    assert [(n, line) for n in names for line in checks.problems(seen[n], check)] == []


def test_every_link_inside_the_site_leads_somewhere(seen, root, folder):
    ids = {root + name: set(seen[name][DESK]["ids"]) for name in PAGES}
    links = {name: checks.link_problems(seen[name], root, folder, ids) for name in PAGES}
    assert [line for lines in links.values() for line in lines] == []
    lines = checks.link_problems(seen["bad.html"], root, folder, {root + "bad.html": set()})
    assert [line.rsplit("/", 1)[1] for line in lines] == ["missing.html", "bad.html#nowhere"]


def test_light_and_dark_have_different_grounds(seen):
    alike = {name for name in seen if seen[name][DESK]["ground"] == seen[name][PHONE]["ground"]}
    assert alike == {*PLANTED}  # which have no dark scheme


def test_no_page_is_longer_than_its_budget(pages):
    extents = {n: pages[f"{n}.html"][checks.ALWAYS]["extent"] for n in page_budget.budgeted(TOC)}
    assert [line for n, extent in extents.items() for line in page_budget.problems(n, extent)] == []


def test_every_page_is_there_at_once(seen, pages, folder):
    """A page that is read from top to bottom has fewer elements than one to look things up in."""
    most = dict.fromkeys(PAGES, 6000)
    most |= {f"{name}.html": 4000 for name in page_budget.budgeted(TOC)}
    for name, answers in pages.items():
        assert checks.burdens(answers[checks.ALWAYS]["arrival"], folder, most[name]) == [], name
    late = checks.burdens(seen["late.html"][checks.ALWAYS]["arrival"], folder, 3000)
    kinds = ("KiB over", "requests that block", "elements", "layout shift")
    assert [kind for kind, line in zip(kinds, late, strict=True) if kind in line] == [*kinds]


def test_every_explorer_is_there(pages):
    found = [runs for answers in pages.values() for runs in answers[DESK]["explorers"]]
    assert found == [True] * (len(exploring.NAMES) + len(BOARDS) + 1)  # and the one that trains


def test_a_link_to_a_state_of_an_explorer_shows_it(opened):
    page = opened("chapters/batch-norm.html#explorer=projector&count=2")
    assert page.locator(".tag_explorer-projector select").input_value() == "2"
    box = page.locator(".tag_explorer-projector .explorer").bounding_box()
    assert 0 < box["y"] < page.viewport_size["height"]


def test_every_word_of_the_glossary_and_every_function_is_in_the_index(pages):
    words = set(index_words.glossary(ROOT / "glossary.md").values())
    functions = {f"{name} (function)" for name in index_words.functions(ROOT / "normlib")}
    assert len(words) > 50
    assert not (words | functions) - set(pages["genindex.html"][DESK]["index entries"])


ROWS = """() => [...document.querySelectorAll('table.ledger:not(.slips) tbody tr')]
  .filter(row => row.offsetHeight).map(row => row.id)"""


def test_the_ledger_is_sorted_by_clicks_and_filtered_by_what_is_chosen_and_by_a_link(opened):
    ledger, (sources, claims, _) = opened("chapters/ledger.html"), register()

    def verdicts():
        ledger.get_by_role("button", name="verdict").click()
        return [claims[name].verdict for name in ledger.evaluate(ROWS)]

    def chosen(label, value):
        field = ledger.get_by_label(label, exact=True)
        field.fill(value) if label == "words" else field.select_option(value)
        return set(ledger.evaluate(ROWS))

    up, down = verdicts(), verdicts()
    assert up == sorted(up) and down == sorted(up, reverse=True) and up != down
    assert chosen("verdict", FALSE) == {c.id for c in claims.values() if c.verdict == FALSE}
    both = {c.id for c in claims.values() if c.verdict == FALSE and "002" in c.at}
    assert both and chosen("said by", sources["002"]) == both
    page, title = "claims/layer-normalization", "Claims about layer normalization"
    in_layer_norm = {name for name in both if claims[name].page == page}
    assert in_layer_norm and chosen("decided in", title) == in_layer_norm
    few = chosen("words", "two scalar")
    assert few and few <= in_layer_norm
    ledger.goto(ledger.url.replace("ledger", "errata"))
    ledger.go_back()
    assert set(ledger.evaluate(ROWS)) == few
    assert not chosen("words", "zyzzyva")
    ledger.evaluate("() => { location.hash = '#000-03'; }")  # filtered away
    ledger.wait_for_function("() => document.getElementById('000-03').offsetHeight")


NAMES = {
    "000-03": "claims/batch-normalization#claim-000-03",
    "batch_norm_backward": "api#function-batch-norm-backward",
    "RMSNorm": "rms-norm#rmsnorm",
    "layer norm": "layer-norm#layer-normalization",
    "bathc norm": "batch-norm#batch-normalization",
}


def test_every_section_that_people_are_said_to_ask_for_is_there(folder):
    found = sections.index(folder)
    there = {(found["pages"][page][0], anchor) for page, _, anchor, *_ in found["units"]}
    asked = tomllib.loads(sections.ASKED.read_text(encoding="utf-8"))
    assert {(page, anchor) for page, lines in asked.items() for anchor in lines} <= there


def test_the_search_has_the_right_section_among_its_first_three(opened):
    page, asked = opened(SEARCH), searching.read(searching.QUESTIONS)

    def missed(questions, change=None):
        found = searching.ask(page, questions, change)
        return [q for q, places in questions.items() if not searching.is_found(found[q], places)]

    assert missed({name: [place] for name, place in NAMES.items()}) == []
    assert len(missed(asked)) <= 2
    page.wait_for_function("() => Boolean(globalThis.searchIndex)")
    bare = page.evaluate("() => searchIndex.units.map(unit => unit.slice(0, 5))")  # nobody asked
    assert len(missed(asked, {"same": [], "near": [], "units": bare})) > 4
    assert searching.ask(page, ["zyzzyva quokka"]) == {"zyzzyva quokka": []}


def test_the_index_of_the_search_is_small_and_leads_somewhere(texts, folder):
    script = (folder / "_static" / sections.INDEX).read_bytes()
    assert len(script) < 400 * 1024 and len(gzip.compress(script)) < 150 * 1024
    index = json.loads(script.decode().partition("=")[2].strip().rstrip(";"))
    pages = [f"{page}.html" for page, _ in index["pages"]]
    assert {*PAGES} - {*pages} == {"genindex.html", "references.html", "report.html"}
    units = index["units"]
    assert [u[2] for u in units if f'id="{u[2]}"' not in texts[pages[u[0]]]] == []


def test_the_search_is_worked_with_keys_from_a_folder_too(opened, folder):
    page = opened("chapters/batch-norm.html", f"{folder.as_uri()}/")
    assert page.evaluate("globalThis.bookSearch === undefined")  # until it is asked for
    page.keyboard.press("Control+k")
    page.keyboard.type("bn freeze")
    page.wait_for_selector("[role=option] + [role=option]")
    assert "sections" in page.locator(".search-count").inner_text()
    page.keyboard.press("ArrowDown")
    field, chosen = page.locator("[role=combobox]"), page.locator("[aria-selected=true]")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("Escape")
    assert not field.is_visible()
    page.keyboard.press("/")
    page.keyboard.type("bn freeze")
    address = chosen.evaluate("e => e.href")
    page.keyboard.press("Enter")
    page.wait_for_url(address)
    assert page.heard["console"] == page.heard["failed requests"] == []


# From a folder, without a server.


FORMULA_WIDTHS = """() =>
  [...document.querySelectorAll('math')].map(formula => formula.getBoundingClientRect().width)"""


def test_from_a_folder_a_page_has_its_mathematics_figures_and_links(opened, folder):
    page = opened("chapters/rms-norm.html", f"{folder.as_uri()}/")
    # A font that comes late moves it by 0.14.
    assert page.evaluate(checks.ARRIVAL)["shift"] <= checks.SHIFT
    widths = page.evaluate(FORMULA_WIDTHS)
    page.add_style_tag(content="math { font-family: math !important; }")
    assert widths != page.evaluate(FORMULA_WIDTHS)
    page.evaluate(checks.READY)
    assert page.evaluate(checks.IMAGES) == [] and page.evaluate(checks.MATHEMATICS) == []
    page.locator(".prev-next-area a.right-next").click()
    page.wait_for_url("**/group-norm.html")
    assert page.heard["console"] == page.heard["failed requests"] == []


# With the keyboard alone.

FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  const seen = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
  return {name: e.getAttribute('aria-label') ?? e.innerText.trim(), seen, there: box.width > 0};
}"""


def test_the_keyboard_reaches_the_head_of_a_page_and_shows_where_it_is(opened):
    page = opened("chapters/batch-norm.html")
    reached = {}
    for _ in range(110):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUS)
        reached[here["name"]] = here["seen"] and here["there"]
    wanted = {"Skip to main content", "Search (Ctrl+K)", "Layer normalization", "Run this page"}
    wanted |= {"Contents of the book", "Light, dark, or as your system has it"}
    assert wanted <= reached.keys()
    assert {name for name in wanted if not reached[name]} == set()


@pytest.fixture(scope="module")
def texts(folder):
    """The HTML of every page."""
    return {name: (folder / name).read_text("utf-8") for name in [*PAGES, "genindex.html"]}


def test_on_a_phone_the_contents_open_take_the_focus_and_close_by_a_key(opened):
    page = opened("chapters/batch-norm.html")
    page.set_viewport_size({"width": 390, "height": 844})
    bar = page.locator(".bd-sidebar-primary")
    page.locator(".primary-toggle").click()
    page.wait_for_function("() => document.activeElement.closest('.bd-sidebar-primary')")
    assert bar.is_visible()
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.matches('.primary-toggle')")


SCALES = """() => [...document.querySelectorAll('.cell_output figure img')]
  .map(image => image.getBoundingClientRect().width / image.getAttribute('width'))
  .filter(scale => scale > 0)"""
IN_ROWS = """() => [...document.querySelectorAll('.panels .scale')]
  .map(scale => scale.offsetLeft - scale.parentElement.firstElementChild.offsetLeft)"""


def test_on_a_phone_figures_have_letters_of_nine_pixels_and_a_scale_in_each_row(opened):
    page = opened("chapters/batch-norm.html")
    smallest = 8 * 110 / 72  # pixels: 8 points, at the dots an inch of normbook/page.mplstyle
    for width in (600, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_selector("figure.wide[tabindex='0']", state="attached")  # met by keys
        assert min(page.evaluate(SCALES)) * smallest >= 9
        assert {*page.evaluate(IN_ROWS)} == {0}
    text = "".join(cell.source for _, cell in read_cells())
    assert min(map(int, re.findall(r"fontsize=(\d+)", text))) >= 8


AT = "id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 150"


def test_a_link_to_a_section_far_below_leads_there_and_the_contents_mark_it(opened):
    page = opened("chapters/batch-norm.html#evidence")
    page.wait_for_function(AT, arg="evidence")
    page.locator('.bd-toc-nav a[href="#code"]').click()
    page.wait_for_function(AT, arg="code")
    page.wait_for_function("() => document.querySelector('.bd-toc-nav a.active')?.hash === '#code'")


def test_one_switch_opens_all_folded_code_and_closes_it(opened):
    page = opened("chapters/batch-norm.html")
    closed = "() => document.querySelectorAll('.tag_hide-input > details:not([open])').length"
    before = page.evaluate(closed)
    page.locator(".code-switch:visible").first.click()
    assert page.evaluate(closed) == 0 < 20 < before
    page.locator(".code-switch:visible").first.click()
    assert page.evaluate(closed) == before


def test_every_notebook_says_how_to_run_it_and_what_it_names_is_there(texts, folder):
    for name in NOTEBOOKS:
        text = texts[f"chapters/{name}.html"]
        offered = f"chapters/{name}" not in run_page.OF_THE_WHOLE
        assert ('class="run-page"' in text) == offered, name
        assert not offered or f"_sources/chapters/{name}.ipynb" in text, name
    assert all((folder / name).is_file() for name in run_page.wheel_names())
    assert (folder / "_sources" / "chapters" / "batch-norm.ipynb").is_file()


def test_the_page_for_lost_readers_needs_nothing_beside_it(folder):
    text = (folder / "404.html").read_text("utf-8")
    assert "This page is not here" in text and 'action="search.html"' in text
    assert not re.search(r'(?:src|rel="stylesheet" href)="', text)


BAD = """<!doctype html><html lang="en"><title>bad</title><style>
@media (prefers-color-scheme: dark) { .night { color: #333; background: #222 } }
</style><body><article>
<p style="color: #ccc; background: #fff">Too pale to be read.</p>
<p class="night">Too dark to be read at night.</p>
<a href="missing.html">no such page</a> <a href="#nowhere">no such anchor</a>
<img src="none.png" alt="an image that is not there"> <img src="_static/favicon.svg">
<img src="http://127.0.0.2:9/spy.png" alt="an image of another host">
<span class="math">x</span> <p>\\(y\\)</p> <math><merror><mtext>undefined</mtext></merror></math>
<table><tr><td style="min-width: 1300px">a table wider than a desk</td></tr></table>
<div style="width: 5em; overflow: hidden; white-space: nowrap">behind the edge of its box</div>
<div style="width: 5em; white-space: nowrap">over the edge of its box</div>
<p style="width: 5em"><span class="math"><math><mn>12345678</mn></math>, and so on</span></p>
<div style="width: 5em; overflow: hidden"><img src="_static/favicon.svg" alt="" width="200"></div>
<div style="width: 5em; overflow: auto; white-space: nowrap">in a box that can be scrolled</div>
<p>| a | b |\n|---|---|</p>
<details class="hide"><summary>upper mark</summary></details>
<details class="hide" style="margin-top: -1em"><summary>lower mark</summary></details>
<script>console.error("planted"); undefined.planted</script></article></body></html>"""
# Random digits do not pack: these weigh more than 300 KiB.
NOISE = random.Random(0).randbytes(320_000).hex()
LATE = f"""<!doctype html><html lang="en"><title>late</title><script src="a.js"></script>
<script src="b.js"></script><script src="c.js"></script><body><article><p id="first">Text.</p>
<!-- {NOISE} -->{"<b>x</b> " * 3000}
<script>const later = move => requestAnimationFrame(() => requestAnimationFrame(move));
later(() => first.style.marginTop = '500px')</script></article></body></html>"""


PLANTED = {"late.html": LATE, "bad.html": BAD}
REPORTED = [
    ("console", "planted"),
    ("console", "Cannot read properties of undefined"),
    ("failed requests", "none.png"),
    ("foreign requests", "127.0.0.2"),
    ("mathematics", "not rendered"),
    ("mathematics", "error: <merror"),
    ("mathematics", "LaTeX as typed: \\(y"),
    ("mathematics", "drawn with another font: <math"),
    ("markdown", "as typed: | a"),
    ("images", "no alt text: "),
    ("images", "not loaded: "),
    ("too wide", f"{DESK}: "),
    ("too wide", f"{PHONE}: "),
    ("cut off", "behind the edge"),
    ("cut off", "over the edge"),
    ("cut off", "favicon"),
    ("broken", "in two lines: 12345678, and"),
    ("covered", "covered: upper mark"),
    ("contrast", f"{DESK}: contrast 1.6"),
    ("contrast", f"{PHONE}: contrast 1.3"),
]


def test_every_check_reports_its_planted_fault_and_not_what_a_box_can_scroll_to(seen):
    said = {check: "\n".join(checks.problems(seen["bad.html"], check)) for check in checks.LINES}
    assert [(check, fault) for check, fault in REPORTED if fault not in said[check]] == []
    assert {check for check, _ in REPORTED} == {*checks.LINES}
    assert "can be scrolled" not in said["cut off"]


TALL = f"""<article><h1>Title</h1><div style="height: {5 * page_budget.HEIGHT}px">Claims</div>
<h2>Derivation</h2><details><summary>Folded</summary><div style="height: 9000px"></div></details>
<figure><div class="explorer" style="height: 9000px"></div></figure>
<div style="height: {10 * page_budget.HEIGHT}px">and so on</div></article>"""


def test_a_browser_measures_a_long_page_and_a_late_derivation(browser):
    page = browser.new_page(viewport={"width": page_budget.WIDTH, "height": 844})
    page.set_content(TALL)
    measured = page.evaluate(page_budget.MEASURE)
    assert page.locator(".explorer").is_visible()
    page.close()
    assert 15 < measured["screens"] < 15.5 and 5 < measured["before"] < 5.5
    assert 5 < measured["explorer"] < 5.5
    assert len(list(page_budget.problems("p", measured))) == len(measured) == 3
