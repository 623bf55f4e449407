"""The PDF and the EPUB: of a small site, whole, with links that lead somewhere."""

import shutil
import zipfile
from xml.etree.ElementTree import fromstring

import editions
import paper
import pikepdf
import pytest
import site_checks
from PIL import Image
from project import ROOT

TOC = {"root": "intro", "parts": [{"caption": "Part", "chapters": [{"file": "in/sums"}]}]}
CONFIG = {"title": "Sums & more", "author": "A", "copyright": "2026"}
INTRO = """<h1>Intro</h1><p><a href="in/sums.html#one">one</a> <a href="lab.ipynb">lab</a></p>
<details class="hide"><summary>Show</summary><p class="cell_input">folded</p></details>
<img loading="lazy" alt="" src="_images/x.webp"/>"""
SUMS = """<h1>Sums</h1><p id="one"><strong>1.</strong> What is
<math><mfrac displaystyle="true" intent="ratio($a)">
<mi arg="a">x</mi><mi>x</mi></mfrac></math>?<br></p>
<details><summary>Hint</summary><p>Try 2.</p></details>
<details><summary>Solution</summary><p>One. <a href="../intro.html">intro</a></p></details>"""


@pytest.fixture
def site(tmp_path):
    for folder in ("in", "_images", "_static"):
        (tmp_path / folder).mkdir()
    for page, body in (("intro", INTRO), ("in/sums", SUMS)):
        (tmp_path / f"{page}.html").write_text(f"<article><section>{body}</section></article>")
    Image.new("L", (9, 9)).save(tmp_path / "_images" / "x.webp")
    shutil.copy(ROOT / "_static" / "book-math.woff", tmp_path / "_static")
    return tmp_path


def test_folds_are_open_and_solutions_come_last_with_ways_there_and_back(site):
    intro, sums, last = paper.book(site, TOC)
    assert "folded" not in str(intro) and "lab.ipynb" not in str(intro)
    assert 'href="#in-sums--one"' in str(intro) and "Try 2." in str(sums) and "One." in str(last)
    assert 'href="#in-sums--to-1"' in str(sums) and '--at-1">Exercise 1</a>' in str(last)


def test_a_dead_link_or_a_lost_page_is_an_error(site):
    (site / "intro.html").write_text(f"<article>{INTRO.replace('#one', '#two')}</article>")
    with pytest.raises(ValueError, match="a dead link on intro to in-sums--two"):
        paper.book(site, TOC)
    (site / "in" / "sums.html").unlink()
    with pytest.raises(ValueError, match="expected the page in/sums"):
        paper.book(site, TOC)


def test_an_epub_lists_what_it_holds_as_what_it_is_and_is_offered_once(site):
    path = site / f"{editions.NAME}.epub"
    editions.epub(site, CONFIG, paper.book(site, TOC), path)
    with zipfile.ZipFile(path) as packed:
        files = {entry.filename: packed.read(entry) for entry in packed.infolist()}
        assert packed.infolist()[0].compress_type == zipfile.ZIP_STORED
    parsed = {
        name: fromstring(text) for name, text in files.items() if name.endswith(("xhtml", "opf"))
    }
    items = [item.attrib for item in parsed["book/book.opf"].iterfind(".//{*}item")]
    unlisted = {"mimetype", "META-INF/container.xml", "book/book.opf"}
    assert {f"book/{item['href']}" for item in items} == {*files} - unlisted
    assert [i["href"] for i in items if i.get("properties") == "mathml"] == ["in-sums.xhtml"]
    assert not any(word in files["book/in-sums.xhtml"] for word in (b"intent=", b"arg="))
    assert parsed["book/in-sums.xhtml"].find(".//{http://www.w3.org/1998/Math/MathML}mstyle")
    for _ in range(2):
        editions.offer(site, "intro")
    assert (site / "intro.html").read_text().count("EPUB (0 MB)") == 1


def test_a_printed_book_states_its_page_numbers_and_one_that_loses_a_page_is_refused(site):
    site_checks.browser_path()
    pages = paper.book(site, TOC)
    assert editions.pdf(site, CONFIG, pages, site / "book.pdf") == "5 pages"
    with pikepdf.open(site / "book.pdf") as pdf:
        numbers = editions.page_numbers(pdf, paper.contents(pages))
        assert [numbers[page.slug] for page in pages] == [3, 4, 5]
        with pdf.open_outline() as outline:
            assert [entry.title for entry in outline.root] == ["Intro", "Part", "Solutions"]
    pages[1].article["style"] = "display: none"
    with pytest.raises(ValueError, match="expected in the PDF in-sums"):
        editions.pdf(site, CONFIG, pages, site / "book.pdf")
