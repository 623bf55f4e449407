"""The blackboard says of a gradient what `verify.diagnose` says of it."""

from functools import cache

import exploring
import numpy as np
import pytest
from test_explorers import ALL, PHONE, SMALL, THEME, WIDE

from normbook.show.blackboard import BOARDS, Blackboard, describe
from normlib import evidence
from normlib.verify.diagnose import diagnose_pair
from normlib.verify.lines import Slip, evaluate
from normlib.verify.pair import as_tuple

pytestmark = pytest.mark.programs

BOARD = "JSON.parse(document.querySelector('[data-board]').dataset.board)"
SAY = f"([target, texts]) => texts.map(t => explorers.blackboard.diagnose({BOARD}, target, t))"
SHOW = f"target => [...explorers.blackboard.showBatch({BOARD})[1][target]]"


@pytest.fixture(scope="module")
def context(browser):
    with browser.new_context(reduced_motion="reduce") as context:
        yield context


def open_board(context, layer, script=None):
    board = Blackboard(layer)._repr_html_()
    return exploring.open_page(context, board, script or exploring.text("blackboard.js"))


def written(layer, target):
    """A gradient by itself, times a number, and with every slip in its line."""
    told = describe(BOARDS[layer])
    slips = [formula for line, formula, *_ in told["slips"] if line == target]
    right = told["lines"][target]
    return [right, *(f"{c} * ({right})" for c in ("(-1)", "2", "1.02")), *slips]


@cache
def say_in_python(layer, target, text):
    """What `diagnose` says of a layer whose backward has this formula for one gradient."""
    board, case = BOARDS[layer], getattr(evidence, layer)
    rng = np.random.default_rng(5)
    args = tuple(rng.uniform(0.5, 2, shape) for shape in board.larger)
    settings = board.settings | board.tried | ({"eps": 0.01} if "eps" in board.settings else {})

    def layout(args, _):
        return board.lines.layout(args, settings)

    def backward(dy, args):
        """The right gradients but for one: what else a line needs is right."""
        found = [*as_tuple(case.backward(dy, case.forward(*args, **settings)[1]))]
        place = [f"d{name}" for name in board.arguments].index(target)
        slip = Slip(target, text, "", "")
        value = np.asarray(evaluate(board.lines, layout(args, 0), dy, (slip,))[target])
        same = value.size == found[place].size
        found[place] = value.reshape(found[place].shape) if same else value
        return tuple(found)

    scope = {"run": lambda *args: (case.forward(*args, **settings)[0], args)}
    names = ", ".join(board.arguments)
    exec(f"def forward({names}): return run({names})", scope)
    lines = board.lines._replace(layout=layout)
    found = diagnose_pair(scope["forward"], backward, args, rng, lines)
    for finding in found.findings:
        if target in finding.results:
            tail = f" in {target} = {board.lines.formulas[target]}"
            return finding.kind, finding.says.replace(tail, "")
    return "right", "right"


def shown_by_python(layer):
    """The gradients of the layer itself on the batch that is shown."""
    board, case = BOARDS[layer], getattr(evidence, layer)
    args = [np.array(a, float) for a in board.arguments.values()]
    y, cache = case.forward(*args, **board.settings)
    return as_tuple(case.backward(np.reshape(np.array(board.upstream, float), y.shape), cache))


def differences(page, layer):
    """The numbers that are not those of the library, and what the page says of a formula where
    Python says another thing."""
    for name, g in zip(BOARDS[layer].arguments, shown_by_python(layer), strict=True):
        shown = np.array(page.evaluate(SHOW, f"d{name}"))
        if np.abs(shown - np.resize(g, shown.shape)).max() > 1e-14:
            yield name, shown, g
    for name in BOARDS[layer].arguments:
        target = f"d{name}"
        texts = written(layer, target)
        for text, found in zip(texts, page.evaluate(SAY, [target, texts]), strict=True):
            kind, says = say_in_python(layer, target, text)
            if "its shape is" in says:  # the page has a number for every entry
                continue
            if (found["kind"], found["says"]) != (kind, says):
                yield target, text, found, (kind, says)


HARD = SMALL.replace(".explorer", ".blackboard")  # what a finger has to hit
# Errors in the script: a text that it has once, and what to put in its place.
PLANTED = {
    "a sum for a mean": ("sum / counts[i]", "sum"),
    "the wrong labels": ("total: layout.parameter", "total: layout.statistic"),
    "minus from the right": ("OPERATORS[kind](value, b[i])", "OPERATORS[kind](b[i], value)"),
    "a factor for granted": ("const NEAR = 1e-8", "const NEAR = 1e-1"),
    "upside down": ("dot(one, other) / dot(other, other)", "dot(one, other) / dot(one, one)"),
}


@pytest.mark.parametrize("error", PLANTED)
def test_an_error_in_the_script_is_seen(context, error):
    page = open_board(context, "layer_norm", exploring.planted("blackboard", *PLANTED[error]))
    assert [*differences(page, "layer_norm")] != []
    page.close()


@pytest.mark.parametrize("layer", BOARDS)
def test_of_every_slip_the_page_says_what_the_library_says(context, layer):
    page = open_board(context, layer)
    assert [*differences(page, layer)] == []
    assert page.said == []


UNREADABLE = {
    "": "nothing is written yet", "2 x": "expected an operator such as * or +, got x",
    "r (d)": "r is no function here", "r * (d": "expected ), but it ends there",
    "r * foo": "foo is not known here", "dx": "dx is not known here",
    "r +* d": "expected a number or a name, got *",
}  # fmt: skip


def test_it_is_written_with_keys_alone_and_says_what_cannot_be_read(context):
    page = open_board(context, "batch_norm")
    field, status = page.locator("input"), page.locator("[role=status]")
    for text, says in UNREADABLE.items():
        field.fill(text)
        field.press("Enter")
        assert says in status.inner_text()
    field.fill("γ·r·(dy − mean(dy) − x̂·mean(dy·x̂))")
    field.press("Enter")
    assert status.inner_text().startswith("Right.") and "x̂ * mean(d * x̂)" in status.inner_text()
    field.fill("r * (d - mean(d))")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert status.inner_text() == "dx: the term x̂ * mean(d * x̂) is missing."
    cells = page.locator("tr", has_text="your dx").locator("td").all_inner_texts()
    assert cells == ["0.250", "−0.083", "−0.083", "−0.083"]
    page.locator("select").select_option("dgamma")
    assert status.inner_text() == "" and field.input_value() == ""
    for name in ("insert total", "insert dy"):
        page.get_by_role("button", name=name, exact=True).click()
    assert field.input_value() == "total(dy"
    page.get_by_role("button", name="Show the answer").click()
    assert status.inner_text().startswith("Right. On the page: dγ = ") and page.said == []


@pytest.mark.parametrize("layer", BOARDS)
def test_it_fits_and_is_legible_in_light_and_dark(context, layer):
    page = open_board(context, layer)
    page.get_by_role("button", name="Show the answer").click()
    for width in (WIDE, PHONE):
        page.set_viewport_size({"width": width, "height": 800})
        for theme in ("light", "dark"):
            page.evaluate(THEME, theme)
            assert [line for look in (*ALL, HARD) for line in page.evaluate(look)] == []
