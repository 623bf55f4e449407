"""One style sheet of several, with the rules that some page needs."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import tinycss2
from tinycss2.ast import AtRule, HashToken, IdentToken, LiteralToken, Node, QualifiedRule

IMPORT = re.compile(r'@import [^;]+;|@charset "[^"]+";')
ADDRESS = re.compile(r'url\((["\']?)(?!data:|#|["\'])([^)"\']+)\1\)')
CLASSES = re.compile(r'\b(?:class|id)="([^"]*)"')
WORD = re.compile(r"[\w-]+")
OF_RULES = {"media", "supports", "layer", "container"}  # at-rules that hold rules


def join(folder: Path, names: Iterable[str]) -> str:
    """The style sheets in their order, with addresses as seen from `folder`."""

    def text(name: str) -> str:
        css = IMPORT.sub("", (folder / name).read_text(encoding="utf-8"))
        place = name.rpartition("/")[0]
        return ADDRESS.sub(lambda m: f'url("{place + "/" if place else ""}{m[2]}")', css)

    return "\n".join(map(text, names))


def names_in(html: Iterable[str], scripts: Iterable[str]) -> set[str]:
    """The classes and ids of pages, and every word of scripts: they may set it as a class."""
    found = (word for text in html for value in CLASSES.findall(text) for word in value.split())
    return {*found, *(word for text in scripts for word in WORD.findall(text))}


def find_required(selector: list[Node]) -> Iterator[str]:
    """The classes and ids that an element must have, or that one around it must. What stands in
    brackets or in :not(…) is not looked into."""
    for before, token in zip([None, *selector], selector, strict=False):
        dotted = isinstance(before, LiteralToken) and before == "."
        if isinstance(token, HashToken) or (dotted and isinstance(token, IdentToken)):
            yield token.value


def selectors(prelude: list[Node]) -> list[list[Node]]:
    """A list of selectors, split at its commas."""
    found = [[]]
    for token in prelude:
        if isinstance(token, LiteralToken) and token == ",":
            found.append([])
        else:
            found[-1].append(token)
    return found


def css(rules: Iterable[Node], known: set[str]) -> Iterator[str]:
    """The text of those rules that can apply to an element with known classes and ids."""
    for rule in rules:
        if isinstance(rule, QualifiedRule):
            kept = [s for s in selectors(rule.prelude) if known.issuperset(find_required(s))]
            if kept:
                heads = ",".join(tinycss2.serialize(s).strip() for s in kept)
                yield f"{heads}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif isinstance(rule, AtRule) and rule.lower_at_keyword in OF_RULES and rule.content:
            inside = tinycss2.parse_rule_list(rule.content, True, True)
            if held := "".join(css(inside, known)):
                head = tinycss2.serialize(rule.prelude).strip()
                yield f"@{rule.at_keyword} {head}{{{held}}}"
        else:
            yield rule.serialize()


def keep_needed(sheet: str, known: set[str]) -> str:
    return "\n".join(css(tinycss2.parse_stylesheet(sheet, True, True), known)) + "\n"
