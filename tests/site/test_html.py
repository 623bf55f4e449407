"""What is text is escaped, and what is HTML already is kept."""

from normlib.html import Markup, element, row, table


def test_text_is_escaped_in_an_element_and_in_its_attributes():
    assert (
        element("td", 'a < "b"', title="c & d") == '<td title="c &amp; d">a &lt; &quot;b&quot;</td>'
    )


def test_markup_is_kept_and_text_beside_it_is_not():
    assert element("td", element("b", "<"), "<") == "<td><b>&lt;</b>&lt;</td>"


def test_the_names_of_attributes_are_those_of_html():
    assert element("tr", data_label="x", class_="y") == '<tr data-label="x" class="y"></tr>'


def test_a_table_is_its_head_and_its_rows_with_what_stands_between_them():
    head, body = row(["<"], "th", scope="col"), [row([1]), row([Markup("<i>2</i>")])]
    assert table("plain", head, body) == (
        '<table class="plain"><thead><tr><th scope="col">&lt;</th></tr></thead>'
        "<tbody><tr><td>1</td></tr><tr><td><i>2</i></td></tr></tbody></table>"
    )
    assert table("plain", head, body, between="\n").splitlines()[2] == "<tr><td>1</td></tr>"
