"""What is text is escaped, and what is HTML already is kept."""

from normlib.html import element


def test_text_is_escaped_in_an_element_and_in_its_attributes():
    assert (
        element("td", 'a < "b"', title="c & d") == '<td title="c &amp; d">a &lt; &quot;b&quot;</td>'
    )


def test_markup_is_kept_and_text_beside_it_is_not():
    assert element("td", element("b", "<"), "<") == "<td><b>&lt;</b>&lt;</td>"
