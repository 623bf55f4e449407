"""The explorers in a browser, each on a small page of its own, and what they compute there.

A module explorer_NAME says for the explorer NAME what it has to compute:

    FUNCTION         the function of explorers.NAME that is compared
    cases(rng)       pairs of its arguments and {key: (value, size)}: what normlib says, and how
                     large the terms are that it comes from
    PLANTED          errors by name: a text that the script has once, and what to put in its place
    SHOWN            for some states the numbers in some rows of its table (where it has a table)
"""

import json
import re

import numpy as np
from project import ROOT
from site_checks import listen

FOLDER = ROOT / "_static" / "explorers"
NO_PICTURES = "frame", "blackboard", "training"  # the last two have tests of their own
NAMES = sorted(path.stem for path in FOLDER.glob("*.js") if path.stem not in NO_PICTURES)
# Sums of at most 64 terms, a few of them one after the other.
BOUND = 8 * 64 * 2.0**-53

HOST = "http://127.0.0.1:9"  # nobody listens there: every request is answered here
COLOURS = """
:root { --pst-color-border: #d1d5da; --pst-color-text-base: #222832; --pst-color-background: #fff }
[data-theme=dark] { --pst-color-border: #48566b; --pst-color-text-base: #ced6dd;
  --pst-color-background: #14181e }
body { background: var(--pst-color-background); color: var(--pst-color-text-base); margin: 16px;
  font: 16px sans-serif }
* { box-sizing: border-box } article { max-width: 44rem } figure { margin: 0 }
"""
PICTURE = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='600' height='200'/>"
PAGE = """<!doctype html><html lang="en" data-theme="light"><title>An explorer</title>
<meta name="viewport" content="width=device-width"><style>{css}</style>
<main class="bd-article"><article><h1>An explorer</h1>{body}</article></main>
<script>{frame}</script><script>{script}</script></html>"""
BODY = """<h2 id="before">Before it</h2>
<div class="cell tag_hide-input tag_explorer-{name} docutils container"><div class="cell_output">
<figure><img alt="What it shows." src="{picture}" style="max-width: 100%"><figcaption><p>Fig. 1</p>
</figcaption></figure></div></div><p style="height: 120vh">Text.</p>"""


def text(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def numbers(name, constant):
    """A list of numbers that a script has written out."""
    found = re.search(rf"const {constant} = \[(.*?),?\s*\];", text(f"{name}.js"), re.S)
    return [float(number) for number in found[1].split(",")]


def open_in(context, name):
    """The page of an explorer."""
    return open_page(context, BODY.format(name=name, picture=PICTURE), text(f"{name}.js"))


def open_page(context, body, script):
    """A page in this context of a browser; page.said collects what the browser complains of."""
    css = COLOURS + (ROOT / "_static" / "book.css").read_text("utf-8") + text("frame.css")
    html = PAGE.format(css=css, body=body, frame=text("frame.js"), script=script)
    page = context.new_page()
    page.said = listen(page)["console"]

    def answer(route):
        name = route.request.url.split("/")[-1]
        kind, body = ("javascript", text(f"data/{name}")) if ".js" in name else ("html", html)
        route.fulfill(content_type=f"text/{kind}; charset=utf-8", body=body)

    page.route("**/*", answer)
    page.goto(f"{HOST}/page.html")
    return page


def plain(value):
    """An array, or a number of NumPy, as JSON has it."""
    return value.tolist()


# The script runs in a place of its own, where it finds the frame, but does not show itself. Numbers
# pass as text: Playwright would take each of them by itself.
COMPUTE = """([script, name, f, inputs]) => {
  const explorers = {};
  new Function('explorers', 'explore', script)(explorers, () => {});
  return JSON.stringify(JSON.parse(inputs).map(given => explorers[name][f](...given)));
}"""


def worst(page, name, function, cases, script):
    """How far a script is off at most, relative to the size of the terms: by key.

    page: any page that has the frame
    """
    cases = [*cases]
    inputs = json.dumps([arguments for arguments, _ in cases], default=plain)
    found = json.loads(page.evaluate(COMPUTE, [script, name, function, inputs]))
    gaps = {}
    for got, (_, expected) in zip(found, cases, strict=True):
        for key, (value, size) in expected.items():
            value = np.asarray(value, float)
            off = np.asarray(got[key], float) - value.reshape(np.shape(got[key]))
            gaps.setdefault(key, []).append(np.abs(off).max() / size)
    assert gaps, "expected cases to compare, got none; let cases(rng) return some"
    return {key: np.max(values) for key, values in gaps.items()}


def planted(name, old, new):
    """The script with an error. Its text must be there once, or nothing would be planted."""
    shipped = text(f"{name}.js")
    assert shipped.count(old) == 1, f"expected {old!r} once in {name}.js, got {shipped.count(old)}"
    return shipped.replace(old, new)
