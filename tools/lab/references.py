"""What the book's references lead to in JupyterLab, which knows files and cells but no labels."""

import json
import os
import re
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = re.compile(
    r"\{(?P<role>term|doc|cite(?::[tp])?)\}`(?:(?P<words>[^`<]+) <)?(?P<name>[^`>]+)>?`"
    r"|\[(?P<text>[^\]\[]*)\]\((?P<to>(?!https?:)[\w./-]+)\)"
)


def texts(path: Path) -> list[tuple[str, str]]:
    """The cells of a notebook by their ids, or the one text of a Markdown file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [("", text)]
    found = []
    for cell in json.loads(text)["cells"]:
        figure = cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")
        found.append((cell["id"], "".join(cell["source"]) + f"\n({figure})=" * bool(figure)))
    return found


@cache
def labels() -> dict[str, str]:
    """The place of each label: its file, with its cell."""
    found = {}
    for path in sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("chapters/**/[!.]*.ipynb")):
        place = path.relative_to(ROOT).as_posix()
        for cell, text in texts(path):
            to = f"{place}#cell-id={cell}" if cell else place
            found |= dict.fromkeys(re.findall(r"^\(([\w-]+)\)=$", text, re.M), to)
    return found


@cache
def papers() -> dict[str, tuple[str, str]]:
    """Of each paper its name, as in "Chiley et al. 2019", and its address, or the page of
    references."""
    found = {}
    entries = (ROOT / "references.bib").read_text(encoding="utf-8")
    for key, entry in re.findall(r"^@\w+\{([^,]+),(.*?)^\}", entries, re.M | re.S):
        said = dict(re.findall(r"^\s*(author|year)\s*=\s*\{(.*)\},?$", entry, re.M))
        first, *others = (name.partition(",")[0] for name in said["author"].split(" and "))
        name = first + (" et al." if len(others) > 1 else "".join(f" and {o}" for o in others))
        number = re.search(r"arXiv:([\d.]+\d)", entry)
        place = f"https://arxiv.org/abs/{number[1]}" if number else "references.md"
        found[key] = f"{name} {said['year']}".replace("{", "").replace("}", ""), place
    return found


def file(page: str) -> Path:
    """The file of a page, which is named from the root, without an ending."""
    notebook = ROOT / f"{page}.ipynb"
    return notebook if notebook.exists() else ROOT / f"{page}.md"


def title(page: str) -> str:
    """The first heading of a page."""
    return re.search(r"^# (.+)$", texts(file(page))[0][1], re.M)[1]


def lead(match: re.Match, folder: str) -> str:
    """One reference as a link from a folder of the book, or as it is if nothing is known of it."""

    def link(words, place):
        to = place if "://" in place else os.path.relpath(ROOT / place, ROOT / folder)
        return f"[{words}]({to})"

    role, words, name = match["role"], match["words"], match["name"] or match["to"]
    if role == "term":
        return link(words or name, "glossary.md")
    if role and role.startswith("cite"):
        return ", ".join(link(*papers()[key.strip()]) for key in name.split(","))
    if name in labels():
        return link(match["text"] or name, labels()[name])
    page = os.path.normpath(f"{folder}/{name}")
    for ending in ("", ".ipynb", ".md"):
        if (ROOT / f"{page}{ending}").is_file():
            return link(words or match["text"] or title(page), page + ending)
    return match[0]


def open_references(cell: dict, folder: str) -> None:
    """Turn a cell's references into links; its metadata keeps what they were."""
    pairs = []

    def exchange(match):
        pairs.append([match[0], lead(match, folder)])
        return pairs[-1][1]

    cell["source"] = REFERENCE.sub(exchange, cell["source"])
    if pairs:
        cell["metadata"]["references"] = pairs


def close_references(cell: dict) -> None:
    """Turn the links back that are still there; what a reader wrote around them stays."""
    start = 0
    for was, link in cell["metadata"].pop("references", ()):
        place = cell["source"].find(link, start)
        if place >= 0:
            cell["source"] = cell["source"][:place] + was + cell["source"][place + len(link) :]
            start = place + len(was)


def contents() -> str:
    """The pages in the order of the book, as _toc.yml has it: the entrance."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    lines = [f"# {title(toc['root'])}"]
    for part in toc["parts"]:
        lines += ["", f"## {part['caption']}", ""]
        for chapter in part["chapters"]:
            for page in [chapter, *chapter.get("sections", ())]:
                place = file(page["file"]).relative_to(ROOT).as_posix()
                lines.append(f"- [{title(page['file'])}](../{place})")
    return "\n".join(lines) + "\n"
