"""The addresses of the register, which stay good: chapters/ledger.html#000-05.

published.txt: every id that was ever on the site. A new one is added, none is taken off.
cards.txt: every address that the card of a claim ever had, from chapters/ on. Where a claim is
decided on another page now, the site leads from the old address to the new one.
retired.toml: where an id that is no longer an entry leads, since its entry was merged with
another, split, or turned out to be a slip: "000-05" = ["000-33", "000-34"]
"""

import tomllib
from importlib.resources import files


def text_of(name: str) -> str:
    return files("normbook.claims").joinpath(name).read_text(encoding="utf-8")


def ids(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def listed(name: str) -> list[str]:
    """Return the lines of one of the lists."""
    return ids(text_of(name))


def retired() -> dict[str, list[str]]:
    """Return the ids that are no entries any more, each with those that took its place."""
    return tomllib.loads(text_of("retired.toml"))
