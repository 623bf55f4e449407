"""Look at pages in a real browser.

A page is opened once and asked everything then, several pages at a time. What comes back is plain
data: for each check the problems that it found, a line each, and none on a good page.
"""

import asyncio
import gzip
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import chromium
import page_budget
import pytest
from chromium import ARRIVED

QUIET = (
    "--no-sandbox",  # root, as in most containers, cannot have one
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    # A request to another host is seen, but never sent.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
ELSEWHERE = re.compile(r"^\w+://(?!127\.0\.0\.1[:/])")
LOUD = ("error", "warning")
HEIGHT = 844
AT_ONCE = 4  # pages open at a time
PATIENCE = 120_000  # ms, for a machine that has much else to do
ALWAYS = "in every view"
SHIFT = 0.1  # what the Core Web Vitals call good; how much moves depends on the machine's pace


def browser_path():
    """Return where Chromium is; skip without one, but in CI its absence is a failure."""
    path = chromium.path()
    if path is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("expected Chromium to look at the site, found none; on Debian: apt install chromium")
    return path


def start(engine, fonts=None):
    """Start Chromium with the fonts of this machine, or with those of a fontconfig file alone."""
    chosen = {"FONTCONFIG_FILE": str(fonts)} if fonts else {}
    env = os.environ | chosen
    return engine.launch(executable_path=browser_path(), args=list(QUIET), env=env)


def listen(page):
    """Collect what the browser complains of, what it asks another host for, and what fails."""
    console, foreign, failed = [], [], []
    page.on("console", lambda m: console.append(m.text) if m.type in LOUD else None)
    page.on("pageerror", lambda error: console.append(str(error)))
    page.on("request", lambda r: foreign.append(r.url) if ELSEWHERE.match(r.url) else None)
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda r: failed.append(r.url) if r.status >= 400 else None)
    return {"console": console, "foreign requests": foreign, "failed requests": failed}


async def look(context, url):
    """Open a page and return its answers to the scripts of each view, and what was said meanwhile.

    The font of the formulas is made to come too late: which one a check sees must not depend on the
    pace of the machine.
    """
    page = await context.new_page()
    seen = {ALWAYS: listen(page)}
    await page.set_viewport_size({"width": page_budget.WIDTH, "height": HEIGHT})
    await page.goto(url)
    await page.wait_for_function(ARRIVED)
    seen[ALWAYS]["arrival"] = await page.evaluate(ARRIVAL)  # before anything is opened or moved
    await page.add_style_tag(content="math { font-family: math !important }")
    await page.evaluate(WHOLE)
    seen[ALWAYS]["extent"] = await page.evaluate(page_budget.MEASURE)  # while folds are closed
    seen[ALWAYS]["covered"] = await page.evaluate(COVERED)
    await page.evaluate(READY)
    for (width, scheme), scripts in VIEWS.items():
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await page.emulate_media(color_scheme=scheme)
        await page.wait_for_function(IN_SCHEME, arg=scheme)
        seen[width, scheme] = {name: await page.evaluate(text) for name, text in scripts.items()}
    await page.wait_for_load_state("networkidle")
    await page.close()
    return seen


async def look_at_all(urls, fonts):
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await start(playwright.chromium, fonts)
        # One context, so that the second page finds the scripts of the first in its cache.
        context = await browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(PATIENCE)
        free = asyncio.Semaphore(AT_ONCE)

        async def in_turn(url):
            async with free:
                return await look(context, url)

        answers = await asyncio.gather(*map(in_turn, urls))
        await browser.close()
    return dict(zip(urls, answers, strict=True))


def survey(urls, fonts):
    """Return for each address what `look` saw there with the fonts of a fontconfig file."""
    with ThreadPoolExecutor(1) as thread:  # the caller's own may run an event loop already
        return thread.submit(asyncio.run, look_at_all(urls, fonts)).result()


def problems(seen, check):
    """Return what a check found on one page, in whichever view it was asked."""
    asked = {view: answers[check] for view, answers in seen.items() if check in answers}
    return [f"{view}: {line}" for view, lines in asked.items() for line in lines]


# What a page asked for to be there, and what moved meanwhile.
ARRIVAL = """async () => {
  await document.fonts.ready;
  const shifts = await new Promise(told => {
    const observer = new PerformanceObserver(list => told(list.getEntries()));
    observer.observe({type: 'layout-shift', buffered: true});
    setTimeout(() => told([]), 200);
  });
  const asked = performance.getEntriesByType('resource');
  return {
    requests: [location.href, ...asked.map(e => e.name)],
    blocking: asked.filter(e => e.renderBlockingStatus === 'blocking').length,
    nodes: document.getElementsByTagName('*').length,
    shift: shifts.reduce((sum, e) => sum + e.value, 0),
  };
}"""
PACKED = (".webp", ".png", ".woff", ".woff2")  # compressed already


def weight(arrival, folder):
    """How many KiB a page is over the wire, all that it asked for in its first view included."""
    paths = {Path(folder, urlsplit(url).path.lstrip("/")) for url in arrival["requests"]}
    data = ((path.suffix in PACKED, path.read_bytes()) for path in paths if path.is_file())
    return sum(len(d if packed else gzip.compress(d)) for packed, d in data) / 1024


def burdens(arrival, folder, nodes):
    """What of a page comes late, as lines. nodes: the most elements that it may have."""
    found = {
        "KiB over the wire": (weight(arrival, folder), 300),
        "requests that block it": (arrival["blocking"], 2),
        "elements": (arrival["nodes"], nodes),
        "layout shift": (arrival["shift"], SHIFT),
    }
    return [
        f"{got:.4g} {what}, at most {most}" for what, (got, most) in found.items() if got > most
    ]


# What waits out of view while a page arrives has an estimated height, and so has a picture.
WHOLE = """async () => {
  for (const e of document.querySelectorAll('.arriving')) e.classList.remove('arriving');
  for (const image of document.images) image.loading = 'eager';
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
}"""

# The mathematics is drawn. Folded solutions and hidden cells are parts of the page too.
READY = """async () => {
  document.querySelectorAll('details').forEach(d => d.open = true);
  document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
  document.body.offsetHeight;  // a font is asked for when the first text that needs it is laid out
  await document.fonts.ready;
  for (const image of document.images) image.loading = 'eager';
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
}"""

# The theme follows the scheme a moment later; a planted page has no theme.
IN_SCHEME = "scheme => [undefined, scheme].includes(document.documentElement.dataset.theme)"

# LaTeX that reached the page as it was typed stands in a text outside of code.
MATHEMATICS = r"""() => {
  const start = e => e.outerHTML.slice(0, 100);
  const all = s => [...document.querySelectorAll(s)];
  const raw = all('.math').filter(e => !e.querySelector('math'));
  const typed = all('article :not(code, pre, pre *, math, math *)').flatMap(e => [...e.childNodes])
    .filter(e => e.nodeType === Node.TEXT_NODE && /\\[a-z(\[]|\$\S[^$]*\$/.test(e.data));
  const ready = [...document.fonts].some(f => /Book Math/.test(f.family) && f.status === 'loaded');
  return [
    ...raw.map(e => 'not rendered: ' + start(e)),
    ...all('merror').map(e => 'error: ' + start(e)),
    ...typed.map(e => 'LaTeX as typed: ' + e.data.slice(0, 100)),
    ...all('math').slice(0, ready ? 0 : 1).map(e => 'drawn with another font: ' + start(e)),
  ];
}"""


IMAGES = """() => [...document.images].flatMap(i => [
  ...(i.getAttribute('alt')?.trim() ? [] : ['no alt text: ' + i.src]),
  ...(i.complete && i.naturalWidth > 0 ? [] : ['not loaded: ' + i.src]),
])"""

TOO_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.scrollingElement.scrollWidth <= room) return [];
  const reach = e => e.getBoundingClientRect().right;
  const far = [...document.body.querySelectorAll('*')].sort((a, b) => reach(b) - reach(a))[0];
  return [`${document.scrollingElement.scrollWidth} px on ${room}: ${far.outerHTML.slice(0, 100)}`];
}"""

# A text or a picture that reaches out of a box around it is cut off there, or covers its neighbour.
# Only in a box that can be scrolled may it be wider.
CUT_OFF = """() => {
  const found = [];
  const whole = 'img, svg, math, input, select';
  const extent = text => {
    const range = document.createRange();
    range.selectNodeContents(text);
    return range.getBoundingClientRect();
  };
  const sticksOut = (box, boxes, what) => {
    const by = Math.max(...boxes.map(b => Math.max(box.right - b.right, b.left - box.left)));
    if (by <= 1 || box.width <= 1) return false;
    found.push(`${Math.round(by)} px out of its box: ${what.trim().slice(0, 100)}`);
    return true;
  };
  const walk = (e, boxes) => {
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (style.display === 'none' || style.visibility === 'hidden') return;
    if (style.position === 'absolute') boxes = boxes.slice(0, 1);  // it lies above its neighbours
    const inline = ['inline', 'contents'].includes(style.display) && !e.matches(whole);
    if (!inline && sticksOut(box, boxes, e.outerHTML) || e.matches(whole)) return;
    if (box.width === 1 && box.height === 1) return;  // for screen readers
    const scrolls = ['auto', 'scroll'].includes(style.overflowX);
    const within = scrolls ? [] : inline ? boxes : [...boxes, box];
    for (const child of e.childNodes) {
      if (child.nodeType === Node.ELEMENT_NODE) walk(child, within);
      else if (child.data?.trim()) sticksOut(extent(child), within, child.data);
    }
  };
  walk(document.querySelector('.bd-article-container') ?? document.body, []);
  return found;
}"""

# A formula and the signs beside it stand in one line.
BROKEN = """() => [...document.querySelectorAll('span.math')]
  .filter(formula => formula.getClientRects().length > 1)
  .map(formula => `in two lines: ${formula.textContent.slice(0, 100)}`)"""

# Each mark of a fold can be met by itself.
COVERED = """() => [...document.querySelectorAll('.hide:not([open]) > summary')]
  .map(e => [e.getBoundingClientRect(), e.textContent.trim()])
  .filter(([a], i, all) => all.some(([b], j) => j > i && Math.hypot(a.x - b.x, a.y - b.y) < 20))
  .map(([, text]) => `covered: ${text}`)"""

# The contrast of WCAG 2: a canvas turns any notation of a colour into numbers.
CONTRAST = """() => {
  const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
    .getContext('2d', {willReadFrequently: true});
  const seen = {};
  const paint = colour => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const rgba = colour => seen[colour] ??= paint(colour);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] > 200) return colour;
    }
    return [255, 255, 255, 255];
  };
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const ratio = e => {
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const text = 'article :is(p, li, th, td, h1, h2, h3, figcaption, a)';
  const texts = [...document.querySelectorAll(text)].filter(e => e.innerText?.trim());
  if (!texts.length) return ['no text to judge'];
  return texts.filter(e => ratio(e) < 4.5)
    .map(e => `contrast ${ratio(e).toFixed(1)}: ${e.outerHTML.slice(0, 100)}`);
}"""

# Markdown that reached the page as it was typed: a table's rule, or bold text.
UNRENDERED = r"""() => [...document.querySelectorAll('article p')]
  .filter(p => /\|\s*[-—–:]+\s*\|/.test(p.innerText) || /\*\*\w[^*]*\*\*/.test(p.innerText))
  .map(p => `as typed: ${p.innerText.slice(0, 80)}`)"""

GROUND = "() => getComputedStyle(document.body).backgroundColor"
IDS = "() => [...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name)"
LINKS = "() => [...document.querySelectorAll('a[href]')].map(e => e.href)"
ENTRIES = """() => [...document.querySelectorAll('.genindextable td li')]
  .map(e => e.innerText.replace(/(, \\[\\d+\\])+$/, '').trim())"""
# Of each cell that is to be an explorer, whether it is one.
EXPLORERS = """() => [...document.querySelectorAll('[class*="tag_explorer-"]')]
  .map(e => Boolean(e.querySelector('.explorer svg > *, .blackboard input, .training path')))"""

DESK, PHONE = (1280, "light"), (360, "dark")
ONCE = {
    "mathematics": MATHEMATICS,
    "markdown": UNRENDERED,
    "images": IMAGES,
    "ids": IDS,
    "links": LINKS,
    "index entries": ENTRIES,
    "explorers": EXPLORERS,
}
ROOM = {"too wide": TOO_WIDE, "cut off": CUT_OFF, "broken": BROKEN}
BOTH = {"contrast": CONTRAST, "ground": GROUND} | ROOM
VIEWS = {DESK: ONCE | BOTH, PHONE: BOTH}
# The checks that list what is wrong.
LINES = ("console", "foreign requests", "failed requests", "mathematics", "markdown", "images")
LINES += ("contrast", "covered", *ROOM)


def link_problems(seen, root, folder, ids):
    """Follow every link inside the site: is there such a file, and in it such an anchor?

    ids: the anchors that a browser found on each page.
    """
    return [
        f"broken link: {link}"
        for link in seen[DESK]["links"]
        if link.startswith(root) and not resolves(link, folder, ids)
    ]


def resolves(link, folder, ids):
    page, anchor = urldefrag(link)
    file = Path(folder, urlsplit(page).path.lstrip("/"))
    exists = file.is_file()
    if exists and anchor.startswith("explorer="):
        name = re.match(r"[\w-]+", anchor.removeprefix("explorer="))[0]
        return f"tag_explorer-{name} " in file.read_text(encoding="utf-8")
    return exists and (not anchor or anchor in ids.get(page, [anchor]))
