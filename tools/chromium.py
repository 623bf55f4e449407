"""The browser that looks at the built site, in tests and audits."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Whether all sections of the open page are laid out.
ARRIVED = "() => !document.documentElement.classList.contains('arriving')"


def path() -> str | None:
    """Where it is on this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)
