"""What makes a page light leaves on it what it shows."""

import io
from types import SimpleNamespace

import icons
import light_pages
import numpy as np
import one_style_sheet
import pytest
import used_signs
from fontTools.pens.recordingPen import RecordingPen
from fontTools.ttLib import TTFont
from mathematics import FONT
from PIL import Image


def png(pixels):
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "png")
    return data.getvalue()


@pytest.fixture
def drawn():
    """A picture of noise: a format with loss would change it."""
    return np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)


def test_a_packed_picture_has_every_pixel_and_says_its_size(drawn, tmp_path):
    name, size = light_pages.webp(png(drawn), tmp_path)
    kept = np.array(Image.open(tmp_path / name).convert("RGB"))
    assert size == (30, 20) and (kept == drawn).all()


def test_a_corner_is_no_head_and_a_reference_is_an_item_of_its_list():
    corner = '<tr><th class="head"><p></p></th><th scope="col"></th><th><p>layer</p></th></tr>'
    assert light_pages.well_said(corner) == "<tr><td></td><td></td><th><p>layer</p></th></tr>"
    entries = '<div role="list"><div id="a" role="doc-biblioentry">'
    assert light_pages.well_said(entries) == '<div role="list"><div id="a" role="listitem">'


def test_a_formula_takes_the_signs_around_it_along_and_nothing_else():
    text = "<p>First {} then <code>(a)</code></p>"
    drawn = '([<span class="math notranslate"><math><mi>x</mi></math></span>]),'
    kept = '<span class="math notranslate">([<math><mi>x</mi></math>]),</span>'
    assert light_pages.with_signs_around(text.format(drawn)) == text.format(kept)


def test_an_icon_is_drawn_where_it_stands_and_an_unknown_one_is_named():
    asked = '<i class="theme-switch fa-solid fa-sun" data-mode="light"></i>'
    drawn = icons.drawn(f"<button>{asked}</button>")
    assert drawn.startswith('<button><svg class="theme-switch fa-solid fa-sun" data-mode="light"')
    assert icons.DRAWN["sun"] in drawn and "<i" not in drawn
    with pytest.raises(ValueError, match=r"sun, .* got rocket; draw it in DRAWN"):
        icons.drawn('<i class="fa-solid fa-rocket"></i>')


def test_all_pictures_but_the_first_wait_and_each_has_its_place(drawn, tmp_path):
    (tmp_path / "a.png").write_bytes(png(drawn))
    app = SimpleNamespace(srcdir=tmp_path, outdir=tmp_path / "out")
    app.builder = SimpleNamespace(images={"a.png": "a.png"}, imagedir="_images")
    tag = '<img alt="Noise." src="../_images/a.png" />'
    found = light_pages.lighter_pictures(app, "chapters/page", tag + tag + '<img src="a.svg" />')
    first, second, drawing = found.split("<img ")[1:]
    assert 'width="30" height="20"' in first and 'alt="Noise."' in first and "lazy" not in first
    assert 'src="../_images/' in second and ".webp" in second and 'loading="lazy"' in second
    assert drawing == 'src="a.svg" />'


KNOWN = one_style_sheet.names_in(
    ['<p class="note wide" id="top">', "text"], ["e.classList.add('open')"]
)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (".note.wide>p{a:b}", ".note.wide>p{a:b}"),
        ("#top:hover{a:b}", "#top:hover{a:b}"),
        (".gone,.note,p.gone{a:b}", ".note{a:b}"),
        (".note:not(.gone){a:b}", ".note:not(.gone){a:b}"),
        (".open{a:b}", ".open{a:b}"),  # a script sets it
        ("@media print{.gone{a:b}.note{c:d}}", "@media print{.note{c:d}}"),
        ('p::after{content:".gone,"}', 'p::after{content:".gone,"}'),
    ],
)
def test_a_rule_stays_if_some_element_can_have_its_classes(rule, kept):
    assert one_style_sheet.keep_needed(rule, KNOWN).strip() == kept


def test_the_font_of_the_site_has_what_its_formulas_need_and_draws_it_as_before(tmp_path):
    page = "<p>q</p><math><mi>x</mi><mo>&#8721;</mo><mo>(</mo></math>"
    used = used_signs.signs([page])
    assert used == {"x", "∑", "("}
    rooted = page.replace("<mi>x</mi>", "<msqrt><mi>x</mi></msqrt>")
    assert used_signs.signs([rooted]) == used | {"√"}  # which no text has
    used_signs.keep(FONT, used, tmp_path / "font.woff")
    before, after = TTFont(FONT), TTFont(tmp_path / "font.woff")
    assert {chr(c) for c in after.getBestCmap()} == used | {"𝑥"}  # a letter alone is drawn italic
    names = {*after.getGlyphOrder()} - {".notdef"}
    assert len(names) > 5 < len(before.getGlyphOrder()) / 10  # with the larger sums, parentheses
    for name in names:
        pens = [RecordingPen(), RecordingPen()]
        for font, pen in zip((before, after), pens, strict=True):
            font.getGlyphSet()[name].draw(pen)
        assert pens[0].value == pens[1].value
