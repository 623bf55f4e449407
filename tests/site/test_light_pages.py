"""What makes a page light leaves on it what it shows."""

import io

import light_pages
import matplotlib.pyplot as plt
import numpy as np
import one_style_sheet
import pytest
import used_signs
from fontTools.pens.recordingPen import RecordingPen
from fontTools.ttLib import TTFont
from mathematics import FONT
from PIL import Image


def test_a_packed_picture_has_every_pixel_and_says_its_size(tmp_path):
    """A picture of noise: a format with loss would change it."""
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(noise).save(data := io.BytesIO(), "png")
    [piece] = light_pages.webp(data.getvalue(), tmp_path)
    kept = np.array(Image.open(tmp_path / piece.file).convert("RGB"))
    assert (piece.width, piece.height) == (30, 20) and (kept == noise).all()


@pytest.mark.parametrize(
    ("title", "shared", "pieces"),
    [("", False, [0, 0]), ("", True, [0, 1, 0]), ("above both panels " * 4, False, [0])],
)
def test_panels_side_by_side_become_pieces_that_have_every_pixel_and_a_scale(
    title, shared, pieces, tmp_path
):
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3), sharey=shared, layout="constrained")
    for ax in axes:
        ax.plot([0, 1])
    figure.suptitle(title)
    figure.savefig(data := io.BytesIO(), format="png", dpi=220)
    plt.close(figure)
    found = light_pages.webp(data.getvalue(), tmp_path)
    assert [piece.scale for piece in found] == pieces
    kept = [np.array(Image.open(tmp_path / p.file).convert("RGB")) for p in found if not p.scale]
    assert (np.hstack(kept) == np.array(Image.open(data).convert("RGB"))).all()


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
