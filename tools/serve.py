"""Serve the built site on a free port of this machine: python tools/serve.py FOLDER."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Say nothing: a line for each picture would bury the address."""


def server(folder):
    """Return a server of `folder` on a free port of the loopback address."""
    return ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))


def main(folder):
    if not Path(folder, "index.html").is_file():
        sys.exit(f"serve: expected a built site in {folder}, found none; build it with: make book")
    with server(folder) as site:
        print(f"The book is at http://127.0.0.1:{site.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            site.serve_forever()
        except KeyboardInterrupt:
            print("\nThe book is no longer served.")


if __name__ == "__main__":
    main(*sys.argv[1:])
