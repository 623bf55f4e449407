"""What the audit says of the scores that it was given; the scores come from a quiet machine."""

import gzip
import threading
import urllib.request
from functools import partial
from http.server import ThreadingHTTPServer

import audit
import pytest

GOOD = {"performance": 0.97, "lost": [], "axe": []}


@pytest.mark.parametrize(
    ("page", "planted", "said"),
    [
        ("chapters/rms-norm", {}, []),
        ("chapters/ledger", {"performance": 0.9}, []),
        ("chapters/rms-norm", {"performance": 0.96}, ["performance 96, asked 97"]),
        ("chapters/ledger", {"performance": 0.89}, ["performance 89, asked 90"]),
        ("chapters/rms-norm", {"lost": ["meta-description"]}, ["lost meta-description"]),
        (
            "chapters/rms-norm",
            {"axe": ["label (390 px, dark): 1"]},
            ["axe label (390 px, dark): 1"],
        ),
    ],
)
def test_what_falls_short_is_named_and_nothing_else(page, planted, said):
    assert audit.short(page, GOOD | planted) == [f"{page}: {line}" for line in said]


def test_the_pages_are_those_with_an_article(tmp_path):
    for name in ("index", "intro", "404", "search", "chapters/ics", "_static/webpack"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.html").touch()
    assert audit.pages(tmp_path) == ["chapters/ics", "intro"]


def test_texts_are_sent_compressed_and_pictures_as_they_are(tmp_path):
    for name in ("index.html", "a.webp"):
        (tmp_path / name).write_bytes(b"as it is")
    handler = partial(audit.Packed, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}/"
        page = urllib.request.urlopen(root + "index.html").read()
        assert gzip.decompress(page) == b"as it is"
        assert urllib.request.urlopen(root + "a.webp").read() == b"as it is"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(root + "none.html")
        server.shutdown()
