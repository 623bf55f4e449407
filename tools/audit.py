"""Audit the built site: python tools/audit.py FOLDER [PAGE …]

axe looks at every page, wide and narrow, light and dark, and Lighthouse visits it as with a phone.
Both come through npm, at pinned versions, into _build/audit. The scores depend on the machine, so
this is an audit and no test: run it where nothing else runs. Beside them stands Lighthouse's index
of the machine: below about 1,300 its phone is slower than any that it has in mind.
"""

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import chromium
from playwright.sync_api import sync_playwright
from tqdm import tqdm

WORK = Path(__file__).resolve().parents[1] / "_build" / "audit"
TOOLS = ("lighthouse@12.8.2", "axe-core@4.11.0")
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
READ, LOOK_UP = 0.97, 0.93  # performance that is asked of a chapter, and of a long table
LOOK_UP_PAGES = ("chapters/api", "chapters/claims/", "chapters/cheat-sheet", "chapters/errata")
LOOK_UP_PAGES += ("chapters/frameworks", "chapters/ledger", "chapters/all-layers")
LOOK_UP_PAGES += ("genindex", "glossary", "references", "report")
VISITS = 3  # the median of their performance counts
VIEWS = [(w, scheme) for w in (1280, 390) for scheme in ("light", "dark")]


class Packed(SimpleHTTPRequestHandler):
    """Sends texts compressed, and lets them be kept for a while, as hosts of static sites do."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        """Say nothing: a line for each picture would bury the scores."""

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        data = path.read_bytes()
        self.send_response(200)
        if path.suffix not in (".webp", ".png", ".woff", ".whl"):
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "max-age=86400")
        self.end_headers()
        self.wfile.write(data)


def visit(url: str) -> dict:
    """What Lighthouse reports of a visit as with a phone."""
    command = ["npx", "lighthouse", url, "--output=json", "--quiet"]
    command.append("--chrome-flags=--headless --no-sandbox")
    env = os.environ | {"CHROME_PATH": chromium.path()}
    return json.loads(subprocess.check_output(command, cwd=WORK, env=env))


def scores(reports: list[dict]) -> dict:
    """The median of the performance, the other scores, what it weighs, and what lost points."""
    categories, audits = reports[0]["categories"], reports[0]["audits"]
    refs = (ref for name in CATEGORIES[1:] for ref in categories[name]["auditRefs"])
    counted = {ref["id"] for ref in refs if ref["weight"]}
    speed = statistics.median(r["categories"]["performance"]["score"] for r in reports)
    return {name: categories[name]["score"] for name in CATEGORIES} | {
        "performance": speed,
        "index": statistics.median(r["environment"]["benchmarkIndex"] for r in reports),
        "KiB": round(audits["total-byte-weight"]["numericValue"] / 1024),
        "lost": sorted(n for n in counted if audits[n]["score"] not in (None, 1)),
    }


def violations(browser, url: str) -> list[str]:
    """What axe finds on a page, in each view, with everything unfolded."""
    lines = set()
    for width, scheme in VIEWS:
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
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


def main(folder: str, *chosen: str) -> None:
    if not (chromium.path() and shutil.which("npm")):
        sys.exit("audit: expected Chromium, and npm of Node.js; try apt install chromium npm")
    WORK.mkdir(parents=True, exist_ok=True)
    npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", *TOOLS]
    subprocess.run(npm, cwd=WORK, check=True)
    lines = []
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), partial(Packed, directory=folder)) as server,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}/"
        chrome = playwright.chromium.launch(executable_path=chromium.path(), args=["--no-sandbox"])
        for page in tqdm(chosen or pages(Path(folder))):
            url = f"{root}{page}.html"
            least = LOOK_UP if page.startswith(LOOK_UP_PAGES) else READ
            found = scores([visit(url) for _ in range(VISITS)])
            numbers = (f"{name} {100 * found[name]:.0f}" for name in CATEGORIES)
            size = f"{found['KiB']} KiB, index {found['index']:.0f}"
            tqdm.write(f"{page}: {', '.join(numbers)}, {size}")
            lines += [f"{page}: lost {name}" for name in found["lost"]]
            lines += [f"{page}: axe {rule}" for rule in violations(chrome, url)]
            if found["performance"] < least:
                lines.append(f"{page}: performance {found['performance']}, asked {least}")
        server.shutdown()
    sys.exit("\n".join(lines) or None)


if __name__ == "__main__":
    main(*sys.argv[1:])
