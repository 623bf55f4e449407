"""What is text is escaped, and what is HTML already is kept."""

import pytest

from normlib.html import Markup, element, row, table


@pytest.mark.parametrize(
    ("made", "html"),
    [
        (
            element("td", 'a < "b"', title="c & d"),
            '<td title="c &amp; d">a &lt; &quot;b&quot;</td>',
        ),
        (element("td", element("b", "<"), "<"), "<td><b>&lt;</b>&lt;</td>"),
        (element("tr", data_label="x", class_="y"), '<tr data-label="x" class="y"></tr>'),
    ],
)
def test_text_is_escaped_and_markup_is_kept(made, html):
    assert made == html


def test_a_table_is_its_head_and_its_rows_with_what_stands_between_them():
    head, body = row(["<"], "th", scope="col"), [row([1]), row([Markup("<i>2</i>")])]
    assert table("plain", head, body) == (
        '<table class="plain"><thead><tr><th scope="col">&lt;</th></tr></thead>'
        "<tbody><tr><td>1</td></tr><tr><td><i>2</i></td></tr></tbody></table>"
    )
    assert table("plain", head, body, between="\n").splitlines()[2] == "<tr><td>1</td></tr>"
