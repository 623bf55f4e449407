"""Make the font of the site's mathematics from Latin Modern Math, once; its result is committed.

    apt-get download fonts-lmodern && dpkg -x fonts-lmodern_*.deb lm
    python site/mathematics_font.py lm/usr/share/texmf/fonts/opentype/public/lm-math/*.otf

A new sign goes into SIGNS. Browsers lay out mathematics a little differently from TeX; where they
do, the font is changed so that the page looks as TeX would print it.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from fontTools.misc.transform import Transform
from fontTools.pens.boundsPen import BoundsPen
from fontTools.pens.t2CharStringPen import T2CharStringPen
from fontTools.pens.transformPen import TransformPen
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

FILE = Path(__file__).resolve().parents[1] / "_static" / "book-math.woff"
NAME = "Book Math"  # its licence asks that a changed font has another name
ALPHABETS = (
    range(0x20, 0x7F),  # a keyboard
    range(0x391, 0x3AA),  # Greek
    range(0x3B1, 0x3CA),
    range(0x1D400, 0x1D468),  # bold and italic letters
    range(0x1D49C, 0x1D4B6),  # script capitals
    range(0x1D538, 0x1D551),  # double-struck capitals
    range(0x1D6A4, 0x1D6A6),  # i and j without a dot
    range(0x1D6E2, 0x1D71C),  # italic Greek
    range(0x1D7CE, 0x1D7E2),  # bold and double-struck digits
)
SIGNS = (
    "\u00a0¨¬¯°±·×ˆˇ˙˜̲̂̃̅⃗ϕϖϱϵ–’“”‖†…′″‴\u2061\u2062\u2063ℂℋℎℐℒℓℕℙℚℛℝℤℬℰℱℳ←↑→↓↔↦⇐⇒⇔⟵⟶⟹⟺∀∂∃∅∇∈∉∋∏∑−∓∖∗∘√∝∞∠∣∤∥∦"
    "∧∨∩∪∫∬∮∴∼≃≅≈≔≠≡≤≥≪≫≺≻⊂⊃⊆⊇⊕⊖⊗⊘⊙⊤⊥⊻⋀⋁⋂⋃⋅⋆⋮⋯⋱⌈⌉⌊⌋⏞⏟⟂⟨⟩⨁⨂⩽⩾⪯⪰□∎"
)
PRIMES = "′″‴"


def characters() -> set[int]:
    return {ord(sign) for sign in SIGNS}.union(*ALPHABETS)


def large_primes(font: TTFont) -> None:
    """Let a prime be the glyph that is meant for a superscript, which is where MathML puts it."""
    large = {ord(sign): f"{font.getBestCmap()[ord(sign)]}.st" for sign in PRIMES}
    for table in font["cmap"].tables:
        table.cmap.update(large)


def steady_scripts(font: TTFont) -> None:
    """Put scripts at one height, beside tall letters and low ones: TeX does so for letters."""
    constants = font["MATH"].table.MathConstants
    constants.SubscriptShiftDown.Value = 150
    constants.SubscriptBaselineDropMin.Value = -50
    constants.SuperscriptBaselineDropMax.Value = 386


def ends(font: TTFont, glyphs: Iterable[str]) -> tuple[float, float]:
    """Where the drawing of these glyphs, laid over each other, begins and where it ends."""
    pen = BoundsPen(font.getGlyphSet())
    for glyph in glyphs:
        font.getGlyphSet()[glyph].draw(pen)
    return pen.bounds[0], pen.bounds[2]


def move(font: TTFont, glyph: str, change: Transform, width: float) -> None:
    old = font["CFF "].cff.topDictIndex[0].CharStrings[glyph]
    pen = T2CharStringPen(round(width) - old.private.nominalWidthX, None)
    font.getGlyphSet()[glyph].draw(TransformPen(pen, change))
    moved = pen.getCharString(old.private, old.globalSubrs)
    font["CFF "].cff.topDictIndex[0].CharStrings[glyph] = moved
    font["hmtx"][glyph] = round(width), round(ends(font, [glyph])[0])


def groups(sizes) -> list[set[str]]:
    """The larger glyphs of a delimiter, and the pieces of the largest, which stay in line."""
    pieces = sizes.GlyphAssembly.PartRecords if sizes.GlyphAssembly else []
    larger = [{record.VariantGlyph} for record in sizes.MathGlyphVariantRecord[1:]]
    return [*larger, {piece.glyph for piece in pieces}]


def narrow_delimiters(font: TTFont) -> None:
    """Leave no more space beside a large delimiter than beside the smallest; narrow large roots.

    Chromium gives whatever can grow the width of its largest glyph, and draws a smaller one there.
    """
    variants = font["MATH"].table.MathVariants
    glyphs, seen = variants.VertGlyphCoverage.glyphs, set()
    for small, sizes in zip(glyphs, variants.VertGlyphConstruction, strict=True):
        left, right = ends(font, [small])
        beside = font["hmtx"][small][0] - (right - left)
        for group in groups(sizes):
            if not group or group & seen:
                continue  # pieces that serve several delimiters
            start, stop = ends(font, group)
            scale = (right - left) / (stop - start) if small == "radical" else 1
            for glyph in group:
                change = Transform(scale, 0, 0, 1, round(left - scale * start))
                move(font, glyph, change, scale * (stop - start) + beside)
            seen |= group


def subset(font: TTFont) -> None:
    """Keep the characters, their sizes, and no alternative glyphs: Chromium uses none."""
    unused = ["FFTM", "GDEF", "GPOS", "GSUB"]
    subsetter = Subsetter(Options(layout_features=[], bidi_closure=False, drop_tables=unused))
    subsetter.populate(unicodes=characters())
    subsetter.subset(font)


def rename(font: TTFont) -> None:
    for record in font["name"].names:
        if record.nameID in (1, 4, 6):
            record.string = NAME.replace(" ", "") if record.nameID == 6 else NAME


def main(source: str) -> None:
    font = TTFont(source, recalcTimestamp=False)
    for change in (large_primes, subset, steady_scripts, narrow_delimiters, rename):
        change(font)
    font.flavor = "woff"
    font.save(FILE)
    print(f"{FILE.name}: {len(font.getBestCmap())} characters, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
