"""Look at pages in a real browser; every check returns one line for each problem it finds."""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox",  # root, as in most containers, cannot have one
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
)
ELSEWHERE = re.compile(r"^\w+://(?!127\.0\.0\.1[:/])")


def browser_path():
    """Return where Chromium is; skip without one, but in CI its absence is a failure."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("expected Chromium to look at the site, found none; on Debian: apt install chromium")
    return path


class Visit:
    """One page, opened and rendered, with what the browser said on the way."""

    def __init__(self, browser, url, *, width=1280, scheme="light"):
        self.context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme
        )
        self.context.route(ELSEWHERE, lambda route: route.abort())  # seen, but never sent
        self.url, self.said, self.asked, self.failed = url, [], [], []
        self.page = self.context.new_page()
        self._listen()
        self.page.goto(url, wait_until="networkidle")
        self.page.evaluate(UNFOLD)
        self.page.evaluate(FONTS)

    def _listen(self):
        self.page.on("console", lambda message: self.said.append((message.type, message.text)))
        self.page.on("pageerror", lambda error: self.said.append(("error", str(error))))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))
        self.page.on("response", lambda r: self.failed.append(r.url) if r.status >= 400 else None)

    def ask(self, script):
        """Evaluate `script` in the page; most return a list of problems."""
        return self.page.evaluate(script)

    def close(self):
        self.context.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# Folded solutions and hidden cells are pages too.
UNFOLD = """() => {
  document.querySelectorAll('details').forEach(d => d.open = true);
  document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
}"""

# A font is asked for when the first text that needs it is laid out.
FONTS = "() => document.body.offsetHeight && document.fonts.ready.then(() => null)"

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

# The contrast of WCAG 2: a canvas turns any notation of a colour into numbers.
CONTRAST = """() => {
  const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
    .getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
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
  return [...document.querySelectorAll(text)].filter(e => e.innerText?.trim() && ratio(e) < 4.5)
    .map(e => `contrast ${ratio(e).toFixed(1)}: ${e.outerHTML.slice(0, 100)}`);
}"""

# Markdown that reached the page as it was typed: a table's rule, or bold text.
UNRENDERED = r"""() => [...document.querySelectorAll('article p')]
  .filter(p => /\|\s*[-—–:]+\s*\|/.test(p.innerText) || /\*\*\w[^*]*\*\*/.test(p.innerText))
  .map(p => `as typed: ${p.innerText.slice(0, 80)}`)"""

GROUND = "() => getComputedStyle(document.body).backgroundColor"
IDS = "() => [...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name)"
LINKS = "() => [...document.querySelectorAll('a[href]')].map(e => e.href)"


def console_problems(visit):
    return [text for kind, text in visit.said if kind in ("error", "warning")]


def failed_requests(visit):
    return [f"failed: {url}" for url in visit.failed]


def foreign_requests(visit):
    return [f"another host: {url}" for url in visit.asked if ELSEWHERE.match(url)]


def mathematics_problems(visit):
    return visit.ask(MATHEMATICS)


def markdown_problems(visit):
    return visit.ask(UNRENDERED)


def image_problems(visit):
    return visit.ask(IMAGES)


def width_problems(visit):
    return visit.ask(TOO_WIDE)


def contrast_problems(visit):
    return visit.ask(CONTRAST)


def link_problems(visit, root, folder, ids):
    """Follow every link inside the site: is there such a file, and in it such an anchor?

    `ids` maps the address of a page to the anchors that a browser found in it.
    """
    return [
        f"broken link: {link}"
        for link in visit.ask(LINKS)
        if link.startswith(root) and not resolves(link, folder, ids)
    ]


def resolves(link, folder, ids):
    page, anchor = urldefrag(link)
    exists = Path(folder, urlsplit(page).path.lstrip("/")).is_file()
    return exists and (not anchor or page not in ids or anchor in ids[page])


def found_by_search(visit, phrase):
    """Return the addresses that the site's own search lists for `phrase`."""
    words = "+".join(phrase.split())
    visit.page.goto(f"{visit.url}?q={words}", wait_until="load")
    # The summary changes from "Searching…" to the number of pages found.
    visit.page.wait_for_function(
        "() => /found|did not match/.test(document.querySelector('#search-results')?.innerText)"
    )
    return visit.ask("() => [...document.querySelectorAll('ul.search a')].map(e => e.href)")
