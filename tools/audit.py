"""Audit the built site: python tools/audit.py FOLDER [PAGE …]

axe looks at every page, wide and narrow, light and dark. Lighthouse visits every page as with a
phone, `RUNS` times, two pages at a time; the median counts. As two visits slow each other down, a
page that seems too slow is visited again alone. Both tools come through npm, at pinned versions,
into _build/audit. The scores depend on the machine, so this is an audit and no test: run it where
nothing else runs.
"""

import gzip
import json
import shutil
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue

import chromium
from playwright.sync_api import sync_playwright
from serve import Quiet
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "_build" / "audit"
TOOLS = ("lighthouse@12.8.2", "axe-core@4.11.0")
RUNS = 5
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
PARTS = ("first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "speed-index")
READ, LOOK_UP = 0.97, 0.90  # performance that is asked of a chapter, and of a long table
LOOK_UP_PAGES = ("chapters/api", "chapters/claims/", "chapters/cheat-sheet", "chapters/errata")
LOOK_UP_PAGES += ("chapters/frameworks", "chapters/ledger", "chapters/all-layers")
LOOK_UP_PAGES += ("genindex", "glossary", "references", "report")
HEAD = f"{'page':48} speed     range access  best   seo   KiB axe"
VIEWS = [(w, scheme) for w in (1280, 390) for scheme in ("light", "dark")]


class Packed(Quiet):
    """Sends texts compressed, and lets them be kept for a while, as hosts of static sites do."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return self.send_error(404)
        data, kind = path.read_bytes(), self.guess_type(path)
        self.send_response(200)
        if path.suffix not in (".webp", ".png", ".woff", ".whl"):
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=86400")
        self.end_headers()
        self.wfile.write(data)


def asked(page: str) -> float:
    return LOOK_UP if page.startswith(LOOK_UP_PAGES) else READ


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        return waiting.getsockname()[1]


def visits(url: str, port: int) -> list[dict]:
    """The reports of `RUNS` visits in the browser that listens on this port."""
    command = ["node", str(ROOT / "tools" / "audit.mjs"), str(port), str(RUNS), url]
    ran = subprocess.run(command, cwd=WORK, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"audit: Lighthouse failed on {url}: {ran.stderr[-2000:]}")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def scores(url: str, port: int) -> dict:
    """The median of each score, the spread of the first, what it weighs, and what lost points."""
    reports = visits(url, port)
    speed = [r["categories"]["performance"]["score"] for r in reports]
    categories, audits = reports[0]["categories"], reports[0]["audits"]
    counted = {
        ref["id"]
        for name in CATEGORIES[1:]
        for ref in categories[name]["auditRefs"]
        if ref["weight"]
    }
    lost = [n for n in counted if audits[n]["score"] is not None and audits[n]["score"] < 1]
    rest = {name: categories[name]["score"] for name in CATEGORIES[1:]}
    return {
        "performance": statistics.median(speed),
        "from": min(speed),
        "to": max(speed),
        **rest,
        **{name: round(audits[name]["numericValue"], 2) for name in PARTS},
        "KiB": round(audits["total-byte-weight"]["numericValue"] / 1024),
        "lost": sorted(lost),
    }


def violations(browser, url: str) -> list[str]:
    """What axe finds on a page, in each view, with everything unfolded."""
    lines = set()
    for width, scheme in VIEWS:
        view = {"width": width, "height": 800}
        page = browser.new_page(color_scheme=scheme, viewport=view)
        page.goto(url)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        page.add_script_tag(path=str(WORK / "node_modules" / "axe-core" / "axe.min.js"))
        page.wait_for_function(chromium.ARRIVED)
        page.wait_for_timeout(500)  # until the page has measured its boxes
        for rule in page.evaluate("axe.run().then(found => found.violations)"):
            # a head that is a formula is empty for axe, which reads no MathML
            formulas = rule["id"] == "empty-table-header"
            nodes = [n for n in rule["nodes"] if not (formulas and "<math" in n["html"])]
            if nodes:
                first = nodes[0]["target"][0]
                lines.add(f"{rule['id']} ({width} px, {scheme}): {len(nodes)}, the first {first}")
        page.close()
    return sorted(lines)


def pages(folder: Path) -> list[str]:
    """Every page with an article."""
    names = (p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.html"))
    passed = ("_", "404", "index", "search")
    return sorted(name for name in names if not name.startswith(passed))


def together(urls: dict[str, str], ports: list[int]) -> Iterator[tuple[str, dict]]:
    """The scores of pages, one page in each browser at a time."""
    free = SimpleQueue()
    for port in ports:
        free.put(port)

    def scored(page: str) -> tuple[str, dict]:
        port = free.get()
        try:
            return page, scores(urls[page], port)
        finally:
            free.put(port)

    with ThreadPoolExecutor(len(ports)) as pool:
        yield from tqdm(pool.map(scored, urls), "speed", len(urls))


def main(folder: str, *chosen: str) -> None:
    browser = chromium.path() or sys.exit("audit: expected Chromium (apt install chromium)")
    if not shutil.which("npm"):
        sys.exit("audit: expected npm, which comes with Node.js (https://nodejs.org)")
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--silent", *TOOLS], cwd=WORK, check=True
    )
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), partial(Packed, directory=folder)) as server,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}/"
        urls = {page: f"{root}{page}.html" for page in chosen or pages(Path(folder))}
        ports = [free_port() for _ in range(2)]
        first, _ = [
            playwright.chromium.launch(
                executable_path=browser, args=["--no-sandbox", f"--remote-debugging-port={port}"]
            )
            for port in ports
        ]
        axe = {page: violations(first, url) for page, url in tqdm(urls.items(), "axe")}
        results = {}
        for page, found_there in together(urls, ports):
            results[page] = found_there | {"axe": axe[page]}
            (WORK / "audit.json").write_text(json.dumps(results, indent=1) + "\n")
        for page in [p for p, r in results.items() if r["performance"] < asked(p)]:
            results[page] |= scores(urls[page], ports[0])
        (WORK / "audit.json").write_text(json.dumps(results, indent=1) + "\n")
        server.shutdown()
    sys.exit(told(results))


def told(results: dict) -> str | None:
    """Print a line for each page; return what falls short, if anything does."""
    short = []
    print(HEAD)
    for page, r in results.items():
        numbers = [round(100 * r[name]) for name in ("performance", "from", "to", *CATEGORIES[1:])]
        speed, low, high, access, best, seo = numbers
        span = f"{low}-{high}"
        rest = f"{access:6} {best:5} {seo:5} {r['KiB']:5} {len(r['axe'])}"
        print(f"{page:48} {speed:5} {span:>9} {rest}")
        if r["performance"] < asked(page):
            short.append(f"{page}: performance {speed}, asked {100 * asked(page):.0f}")
        short += [f"{page}: lost {name}" for name in r["lost"]]
        short += [f"{page}: axe {line}" for line in r["axe"]]
    return "\n".join(short) or None


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("audit: expected the folder of the built site, got none; try make audit")
    main(*sys.argv[1:])
