"""The site, built from an empty folder, is whole when a real browser looks at it."""

import re
import subprocess
import sys

import index_words
import nbformat
import pytest
import site_checks as checks
import verification
from project import CHAPTERS, ROOT, TOC, listed, run

from normlib.claims import FALSE, HOLDS, register

PAGES = [f"{page}.html" for page in listed(TOC)]
PHONE = 390
MATHEMATICS = re.compile(r"\$+[^$]+\$+")
WORDS = re.compile(r"(?<![\w`{\[(/\\-])[A-Za-z]+(?: [A-Za-z]+)+(?![\w`}\])/-])")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    path = checks.browser_path()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(checks.QUIET))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(browser, tmp_path_factory):
    """Build the site with `make book`, in this environment, into an empty folder."""
    out = tmp_path_factory.mktemp("site")
    command = ["make", "-o", ".venv/ready", "book", f"PY={sys.executable}", f"OUT={out}"]
    result = run(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    return out / "_build" / "html"


@pytest.fixture(scope="module")
def root(folder):
    """Serve the site as `make serve` does, and return the printed address."""
    command = [sys.executable, str(ROOT / "tools" / "serve.py"), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())[0]
        server.terminate()


@pytest.fixture(scope="module")
def desk(browser, root):
    """Every page on a desk, in the light."""
    visits = [checks.Visit(browser, root + page) for page in PAGES]
    yield visits
    for visit in visits:
        visit.close()


@pytest.fixture(scope="module")
def phone(browser, root):
    """Every page on a phone, in the dark."""
    visits = [checks.Visit(browser, root + p, width=PHONE, scheme="dark") for p in PAGES]
    yield visits
    for visit in visits:
        visit.close()


@pytest.fixture(scope="module")
def ids(desk):
    return {visit.url: set(visit.ask(checks.IDS)) for visit in desk}


def assert_none(check, visits, *args):
    """Assert that a check finds nothing on any page, and list all that it finds."""
    found = [f"{visit.url}: {line}" for visit in visits for line in check(visit, *args)]
    assert not found, "\n".join(found)


def test_no_page_makes_the_browser_complain(desk, phone):
    assert_none(checks.console_problems, desk + phone)


def test_every_request_of_every_page_succeeds(desk, phone):
    assert_none(checks.failed_requests, desk + phone)


def test_no_page_asks_another_host_for_anything(desk, phone):
    assert_none(checks.foreign_requests, desk + phone)


def test_all_mathematics_is_rendered(desk, phone):
    assert_none(checks.mathematics_problems, desk + phone)
    assert any(visit.ask("() => document.querySelector('math') !== null") for visit in desk)


def test_no_markdown_stands_on_a_page_as_it_was_typed(desk):
    assert_none(checks.markdown_problems, desk)


def test_every_image_loads_and_has_an_alternative_text(desk):
    assert_none(checks.image_problems, desk)


def test_every_link_inside_the_site_leads_somewhere(desk, root, folder, ids):
    assert_none(checks.link_problems, desk, root, folder, ids)


def test_text_is_legible_in_light_and_dark(desk, phone):
    some_text = "() => document.querySelector('article :is(p, li)') !== null"
    assert all(visit.ask(some_text) for visit in desk)
    assert_none(checks.contrast_problems, desk + phone)


def test_light_and_dark_have_different_grounds(desk, phone):
    grounds = [
        (a.ask(checks.GROUND), b.ask(checks.GROUND)) for a, b in zip(desk, phone, strict=True)
    ]
    assert all(light != dark for light, dark in grounds)


def test_the_button_changes_the_theme(browser, root):
    with checks.Visit(browser, root + PAGES[0]) as visit:
        seen = set()
        for _ in range(3):
            visit.page.locator(".theme-switch-button:visible").first.click()
            seen.add(visit.ask("() => document.documentElement.dataset.theme"))
        assert seen == {"light", "dark"}


def test_no_page_scrolls_sideways_on_a_phone(phone):
    assert_none(checks.width_problems, phone)


REPORTED = """() => {
  const title = document.querySelector('article h1');
  const line = title?.nextElementSibling;
  return line?.matches('p.verified') && line.querySelector('a')?.href.endsWith('/report.html');
}"""


def test_under_the_title_of_every_chapter_a_line_leads_to_the_report(desk, root):
    chapters = [visit for visit in desk if "/chapters/" in visit.url]
    assert chapters and not desk[0].ask(REPORTED)  # the landing page has none, and is seen to
    assert [visit.url for visit in chapters if not visit.ask(REPORTED)] == []


def test_the_report_says_what_the_last_run_found_or_that_there_was_none(desk):
    page = next(visit for visit in desk if visit.url.endswith("report.html"))
    said = page.ask("() => document.querySelector('article').innerText")
    found = verification.read(ROOT / verification.FILE)
    assert (verification.NO_RUN in said) if found is None else (found["date"][:10] in said)


SHOWN = "() => [...document.querySelectorAll('table.ledger tbody tr')].filter(r => r.offsetHeight)"


@pytest.fixture
def ledger_page(browser, root):
    with checks.Visit(browser, root + "chapters/ledger.html") as visit:
        visit.rows = lambda: visit.ask(SHOWN + ".map(r => r.id)")
        yield visit


def test_without_scripts_the_ledger_is_whole(browser, root):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(root + "chapters/ledger.html")
    rows = page.locator("table.ledger tbody tr")
    assert rows.count() == len(register().claims)
    assert all(row.is_visible() for row in rows.all()[:: rows.count() - 1])
    assert page.locator("form.ledger-filters").count() == 0
    context.close()


def test_the_ledger_is_filtered_by_source_verdict_chapter_and_words(ledger_page):
    sources, claims, _ = register()

    def chosen(label, value):
        field = ledger_page.page.get_by_label(label, exact=True)
        field.fill(value) if label == "words" else field.select_option(value)
        return set(ledger_page.rows())

    assert chosen("verdict", FALSE) == {c.id for c in claims.values() if c.verdict == FALSE}
    both = {c.id for c in claims.values() if c.verdict == FALSE and "002" in c.at}
    assert both and chosen("said by", sources["002"]) == both
    in_layer_norm = {name for name in both if claims[name].page == "layer-norm"}
    assert in_layer_norm and chosen("decided in", "Normalize a sample") == in_layer_norm
    assert chosen("words", "root variance") <= in_layer_norm
    assert not chosen("words", "zyzzyva")


def test_the_ledger_is_sorted_by_a_click_and_turned_by_another(ledger_page):
    def verdicts():
        ledger_page.page.get_by_role("button", name="verdict").click()
        return [register().claims[name].verdict for name in ledger_page.rows()]

    up, down = verdicts(), verdicts()
    assert up == sorted(up) and down == sorted(up, reverse=True) and up != down


def test_a_link_to_a_claim_shows_it_although_it_was_filtered_away(ledger_page):
    ledger_page.page.get_by_label("verdict", exact=True).select_option(HOLDS)
    assert "000-03" not in ledger_page.rows()
    ledger_page.ask("() => { location.hash = '#000-03'; }")
    ledger_page.page.wait_for_function("() => document.getElementById('000-03').offsetHeight")
    assert "000-03" in ledger_page.rows()


def test_every_word_of_the_glossary_and_every_function_is_in_the_index(desk):
    index = next(visit for visit in desk if visit.url.endswith("genindex.html"))
    listed_words = set(
        index.ask(
            "() => [...document.querySelectorAll('td li')].map(e => "
            "e.innerText.replace(/(, \\[\\d+\\])+$/, '').trim())"
        )
    )
    words = set(index_words.glossary(ROOT / "glossary.md").values())
    functions = {f"{name} (function)" for name in index_words.functions(ROOT / "normlib")}
    assert len(words) > 50 and not (words | functions) - listed_words


def phrase(path):
    """Return the most plain words in a row of a notebook's prose, ten at most."""
    prose = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown"]
    runs = WORDS.findall(MATHEMATICS.sub("\n", "\n\n".join(prose)))
    return " ".join(max(runs, key=len).split()[:10])


@pytest.fixture(scope="module")
def search(browser, root):
    """The site's own search, as a function of a phrase."""
    with checks.Visit(browser, root + "search.html") as visit:
        yield lambda phrase: checks.found_by_search(visit, phrase)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_search_finds_a_phrase_of_every_chapter(search, path):
    assert any(f"chapters/{path.stem}.html" in address for address in search(phrase(path)))


def test_search_does_not_find_what_is_not_there(search):
    assert search("zyzzyva quokka") == []


BAD = """<!doctype html><html lang="en"><title>bad</title><body><article>
<p style="color: #ccc; background: #fff">Too pale to be read.</p>
<a href="missing.html">no such page</a> <a href="#nowhere">no such anchor</a>
<img src="none.png" alt="an image that is not there"> <img src="_static/favicon.svg">
<img src="http://127.0.0.2:9/spy.png" alt="an image of another host">
<span class="math">x</span> <p>\\(y\\)</p> <math><merror><mtext>undefined</mtext></merror></math>
<div style="width: 900px">wide</div> <p>| a | b |\n|---|---|</p>
<script>console.error("planted")</script></article></body></html>"""


@pytest.fixture(scope="module")
def bad(browser, root, folder):
    (folder / "bad.html").write_text(BAD)
    with checks.Visit(browser, root + "bad.html", width=PHONE) as visit:
        yield visit


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (checks.console_problems, "planted"),
        (checks.failed_requests, "none.png"),
        (checks.foreign_requests, "127.0.0.2"),
        (checks.mathematics_problems, "not rendered"),
        (checks.mathematics_problems, "error: <merror"),
        (checks.mathematics_problems, "LaTeX as typed: \\(y"),
        (checks.mathematics_problems, "drawn with another font: <math"),
        (checks.markdown_problems, "as typed: | a"),
        (checks.image_problems, "no alt text: "),
        (checks.image_problems, "not loaded: "),
        (checks.width_problems, "px on 390"),
        (checks.contrast_problems, "Too pale"),
    ],
)
def test_every_check_reports_its_planted_fault(bad, check, expected):
    assert any(expected in line for line in check(bad))


def test_the_link_check_reports_a_missing_page_and_a_missing_anchor(bad, root, folder):
    lines = checks.link_problems(bad, root, folder, {bad.url: set()})
    assert [line.rsplit("/", 1)[1] for line in lines] == ["missing.html", "bad.html#nowhere"]


def test_without_chromium_the_tests_are_skipped_but_fail_in_ci(monkeypatch):
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt install chromium"):
        checks.browser_path()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt install chromium"):
        checks.browser_path()
