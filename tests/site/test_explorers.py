"""An explorer computes what the library computes, and everybody can use it."""

import importlib
import json
import re
from functools import cache

import exploring
import numpy as np
import pytest
import site_checks as checks
from exploring import NAMES, open_in
from project import ROOT

pytestmark = pytest.mark.programs

SAYS = {name: importlib.import_module(f"explorer_{name.replace('-', '_')}") for name in NAMES}
PEERS = ROOT / "normbook" / "data" / "peers.json"
WIDE, PHONE = 1280, 360


@pytest.fixture(scope="module")
def context(browser):
    with browser.new_context(has_touch=True, reduced_motion="reduce") as context:
        yield context


@pytest.fixture(scope="module")
def opened(context):
    """Return a function that hands out the page of an explorer as it is at the start."""
    pages = {}

    def page(name, width=WIDE):
        if name not in pages:
            pages[name] = open_in(context, name)
        if pages[name].viewport_size["width"] != width:
            pages[name].set_viewport_size({"width": width, "height": 800})
        pages[name].bring_to_front()  # the others are drawn rarely, and wait with their answers
        pages[name].evaluate(START)
        return pages[name]

    return page


START = """() => {
  document.documentElement.dataset.theme = 'light';
  document.querySelector('.explorer button').click();
  document.activeElement.blur();
}"""

# What they compute.


@cache
def known(name):
    return [*SAYS[name].cases(np.random.default_rng(0))]


def differences(page, name, script):
    return exploring.worst(page, name, SAYS[name].FUNCTION, known(name), script)


def agrees(gap):
    return gap <= exploring.BOUND  # and not if it is no number


@pytest.mark.parametrize("name", NAMES)
def test_an_explorer_computes_what_the_library_computes(opened, name):
    found = differences(opened(name), name, exploring.text(f"{name}.js"))
    assert all(map(agrees, found.values())), found


@pytest.mark.parametrize("name", NAMES)
def test_every_error_in_an_explorer_is_seen(opened, name):
    errors, page = SAYS[name].PLANTED, opened(name)
    found = {e: differences(page, name, exploring.planted(name, *errors[e])) for e in errors}
    assert len(errors) >= 3
    assert {error: f for error, f in found.items() if all(map(agrees, f.values()))} == {}


TABLED = """() => Object.fromEntries([...document.querySelectorAll('.explorer tr')].map(row => [
  row.cells[0].innerText, [...row.cells].slice(1).map(cell => cell.innerText).join(' ')]))"""
STATES = [(name, *item) for name in NAMES for item in getattr(SAYS[name], "SHOWN", {}).items()]


def shows(page, rows):
    """Whether the table says these numbers, as far as its digits go."""
    said = {head: text.replace("−", "-") for head, text in page.evaluate(TABLED).items()}
    read = {head: [float(n) for n in re.findall(r"-?\d+\.\d+", said[head])] for head in rows}
    return all(
        len(read[head]) == np.size(values) and np.abs(read[head] - np.ravel(values)).max() < 0.00501
        for head, values in rows.items()
    )


@pytest.mark.parametrize(("name", "state", "rows"), STATES)
def test_a_table_shows_what_the_library_says_in_this_state(opened, name, state, rows):
    page = opened(name)
    page.evaluate(GO, f"#explorer={name}{state}")
    assert shows(page, rows)
    assert not shows(page, {head: np.add(values, 0.02) for head, values in rows.items()})


# The calls of frameworks, in the explorer of the axes.

ASK = "f => { const { FRAMEWORKS, OVER, called } = explorers.axes; return (%s) }"
TABLE = ASK % "Object.entries(FRAMEWORKS).map(([name, { order, eps, call }]) => [name, eps, call])"
# Of the entry (1, 2, 0, 1) of a tensor (3, 4, 2, 2): the axes, and how many share its statistics.
SHARED = (
    ASK
    % """Object.fromEntries(Object.keys(OVER).map(layer => {
  const { order } = FRAMEWORKS[f], { over } = OVER[layer](order[3]);
  const { shared } = called(Array.from({ length: 48 }, (_, i) => i ** 2), [3, 4, 2, 2], layer, f);
  return [layer, [[...order].filter(axis => over.includes(axis)).join(', '), shared[25].length]];
}))"""
)
LAYER = {"last": "layer", "rms": "RMS"}  # under which name the frameworks were asked


def wrong_calls(page, stored):
    """The calls of which the explorer says another thing than the framework does."""
    told = {row["call"]: [row["over"], row["entries"]] for row in stored["calls on images"]}
    rows = {row["layer"]: row for row in stored["answers"] if row["question"] == "eps"}
    for name, eps, calls in page.evaluate(TABLE):
        shared = page.evaluate(SHARED, name)
        for layer, call in calls.items():
            if name != "PyTorch" and told.get(call) != shared[layer]:
                yield call
            row = rows[LAYER.get(layer, layer)]
            if float(row["Flax nnx" if name == "Flax" else name].split(";")[0]) != eps[layer]:
                yield f"eps of {call}"


def test_calls_of_keras_and_flax_share_what_they_were_found_to_share(opened):
    page, stored = opened("axes"), json.loads(PEERS.read_text("utf-8"))
    assert [*wrong_calls(page, stored)] == []
    stored["calls on images"][1]["over"] = "C"
    stored["answers"] = [r | {"Keras": "1e-5"} for r in stored["answers"]]
    found = [*wrong_calls(page, stored)]
    assert len(found) == 7 and found[0].startswith("eps of Batch")


def pytorch_cases(page, x):
    """What PyTorch computes where it is called as the explorer says."""
    import torch

    ((_, _, calls),) = (row for row in page.evaluate(TABLE) if row[0] == "PyTorch")
    for layer, call in calls.items():
        y = eval(call, {"nn": torch.nn})(torch.tensor(x, dtype=torch.float32))
        size = max(1, y.abs().max().item())
        yield (x.ravel(), x.shape, layer, "PyTorch"), {"y": (y.detach().numpy().ravel(), size)}


def test_pytorch_called_as_the_explorer_says_computes_the_same(opened):
    page, shipped = opened("axes"), exploring.text("axes.js")
    x = np.random.default_rng(0).standard_normal((3, 4, 2, 2))
    cases = [*pytorch_cases(page, x)]
    bound = exploring.BOUND * 2**29  # it has 24 digits, not 53
    assert exploring.worst(page, "axes", "called", cases, shipped)["y"] <= bound
    wrong = exploring.planted("axes", 'order: "NCHW"', 'order: "NHWC"')
    assert exploring.worst(page, "axes", "called", cases, wrong)["y"] > 0.1


# How they are used.

PARTS = "[...document.querySelectorAll('.explorer :is(select, input, [role=slider], button)')]"
# What it shows, and what its fields hold.
SEEN = f"""() => [
  [...document.querySelectorAll('.explorer :is(svg, table, [role=status])')]
    .map(e => e.innerHTML).join(),
  {PARTS}.map(e => e.getAttribute('aria-valuetext') ?? e.value).join(),
]"""


def press(page, i):
    """Move part i by a key that changes it, whatever it holds; False if there is none."""
    kind = page.evaluate(f"i => {{ window.e = {PARTS}[i]; e?.focus(); return e?.tagName }}", i)
    if kind in (None, "BUTTON"):
        return False
    before = page.evaluate(SEEN)
    for key in ("ArrowDown", "ArrowUp") if kind == "SELECT" else ("ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        after = page.evaluate(SEEN)
        if after != before:
            break
    assert after[0] != before[0] and after[1] != before[1], f"part {i}, a {kind}, moves nothing"
    assert page.evaluate("e === document.activeElement"), "what is moved keeps the focus"
    return True


@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_reached_by_tab_and_moved_by_keys_and_a_link_leads_to_the_same_state(
    opened, name
):
    page = opened(name)
    start, count = page.evaluate(SEEN), page.evaluate(f"() => {PARTS}.length")
    reached = []
    for _ in range(count):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(f"() => {PARTS}.indexOf(document.activeElement)"))
    assert reached == [*range(count)]
    i = 0
    while press(page, i):  # what moves may bring others along, or take them away
        i += 1
    assert i > 1
    assert page.evaluate("document.getAnimations()") == []
    moved = page.evaluate(SEEN)
    page.wait_for_timeout(300)  # the address follows a little later
    address = page.evaluate("location.hash")
    assert address.startswith(f"#explorer={name}&") and moved != start
    for other in ("#before", "#explorer=another&d=1"):
        page.evaluate(START)
        page.evaluate(GO, other)
        assert page.evaluate(SEEN) == start
    page.evaluate(GO, address)
    assert page.evaluate(SEEN) == moved
    for bad in (",x", "", "1e999", "1,2,3,4,5,6,7,8,9"):
        keys = re.findall("&([^=]+)=", address)
        page.evaluate(GO, f"#explorer={name}" + "".join(f"&{key}={bad}" for key in keys))
        assert "NaN" not in "".join(page.evaluate(SEEN)) and page.said == []


PAGES = [ROOT / "explorers.md", *sorted(ROOT.glob("chapters/*.ipynb"))]
LINK = re.compile(r"#explorer=([\w-]+)((?:&amp;[\w.,=-]+)*)")
LINKS = {link for path in PAGES for link in LINK.findall(path.read_text(encoding="utf-8"))}


def idle(page, name, state):
    """The keys of a link that change nothing: misspelt, or what the explorer starts with."""
    parts = state.split("&amp;")[1:]
    for part in ("", *parts):  # the whole link first
        page.evaluate(GO, f"#explorer={name}" + "".join(f"&{p}" for p in parts if p != part))
        seen = page.evaluate(SEEN)
        if not part:
            whole = seen
        elif seen == whole:
            yield part


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_the_text_leads_to_a_state_of_its_own(opened, name):
    page, states = opened(name), {state for named, state in LINKS if named == name}
    page.wait_for_timeout(300)  # the address of the start would overtake that of a link
    assert states and [part for state in states for part in idle(page, name, state)] == []
    assert [*idle(page, name, "&amp;no=1")] == ["no=1"]


def test_the_page_of_explorers_lists_them_all():
    listed = LINK.findall(PAGES[0].read_text(encoding="utf-8"))
    assert sorted(name for name, _ in listed) == NAMES


CENTRES = """() => {
  document.querySelector('.explorer svg').scrollIntoView({block: 'center'});
  return [...document.querySelectorAll('.explorer [role=slider]')].map(e => {
    const box = e.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  });
}"""


@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "finger"])
@pytest.mark.parametrize("name", NAMES)
def test_what_can_be_dragged_follows(opened, name, touch):
    page = opened(name, PHONE if touch else WIDE)
    # From the last to the first: where two lie on each other the last is on top.
    for i, (x, y) in reversed([*enumerate(page.evaluate(CENTRES))]):
        before, at = page.evaluate(SEEN), page.evaluate("scrollY")
        drag(page, (x, y), (x - 40, y + 40), touch)
        after, (to_x, to_y) = page.evaluate(SEEN), page.evaluate(CENTRES)[i]
        # It arrives where the finger is, but a dot may move in one direction only.
        assert min(abs(to_x - (x - 40)), abs(to_y - (y + 40))) < 8
        assert after[0] != before[0] and after[1] != before[1]
        assert page.evaluate("scrollY") == at, "the page does not move with the dot"


def drag(page, start, end, touch):
    if not touch:
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*end, steps=3)
        page.mouse.up()
        return
    finger = page.context.new_cdp_session(page)
    for k in range(9):  # a browser that scrolls instead takes the finger after a few moves
        at = {axis: a + (b - a) * k / 8 for axis, a, b in zip("xy", start, end, strict=True)}
        kind = "touchMove" if k else "touchStart"
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    finger.detach()


GO = """hash => new Promise(done => {
  if (location.hash === hash) done();
  addEventListener('hashchange', () => done(), {once: true});
  location.hash = hash;
})"""


# How they look.


THEME = "theme => { document.documentElement.dataset.theme = theme }"
ALL = (checks.TOO_WIDE, checks.CUT_OFF, checks.CONTRAST)


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_and_is_legible_in_light_and_dark(opened, name):
    for page in (opened(name, width) for width in (WIDE, PHONE)):
        for theme in ("light", "dark"):
            page.evaluate(THEME, theme)
            found = [line for look in (*ALL, FAINT, SMALL) for line in page.evaluate(look)]
            assert found == []
        assert page.said == []


PAINTED = ".explorer svg :is(.one, .two, .three, .mark)"
PAINT = "s => s.stroke === 'none' ? s.fill : s.stroke"
# What is drawn in a colour stands out from the ground: 3 to 1 for lines, as WCAG 2 has it.
FAINT = (
    checks.CONTRAST.replace("article :is(p, li, th, td, h1, h2, h3, figcaption, a)", PAINTED)
    .replace("e.innerText?.trim()", "true")
    .replace("rgba(getComputedStyle(e).color)", f"rgba(({PAINT})(getComputedStyle(e)))")
    .replace("< 4.5", "< 3")
)
# Letters of a drawing, and what a finger has to hit.
SMALL = """() => [
  ...[...document.querySelectorAll('.explorer svg text')]
    .filter(e => e.getBoundingClientRect().height < 10).map(e => 'small: ' + e.outerHTML),
  ...[...document.querySelectorAll('.explorer :is(select, button, input, [role=slider])')]
    .filter(e => e.getBoundingClientRect().height < 43.9).map(e => 'hard to hit: ' + e.outerHTML),
]"""


def test_a_faint_line_and_a_small_button_are_reported(context):
    page = open_in(context, NAMES[0])
    page.add_style_tag(content=".explorer { --one: #ddd; --two: #ddd; --three: #ddd }")
    page.add_style_tag(content=".explorer button { min-height: 0; height: 9px }")
    assert page.evaluate(FAINT) and page.evaluate(SMALL)
    page.close()


@pytest.mark.parametrize("name", NAMES)
def test_on_paper_the_picture_stands_in_its_place(opened, name):
    page, seen = opened(name), {}
    for medium in ("print", "screen"):
        page.emulate_media(media=medium)
        seen[medium] = page.evaluate(STANDING)
    assert seen == {"screen": [False, True], "print": [True, False]}


STANDING = """() => ['figure img', '.explorer']
  .map(s => document.querySelector(s).checkVisibility())"""
