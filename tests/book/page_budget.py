"""How much of a page meets its reader, and how much may.

What stands in a notebook is counted in its file; how long the page is and where its derivation
begins, a browser measures.
"""

import re
from unicodedata import combining

from project import listed

LOOK_UP = "Look it up"  # the part of the contents whose pages may be as long as they must

# The most of each that a page may have.
MOST = {
    "cells": 12,  # code cells whose source is open
    "lines": 120,  # lines of code in them and in the shipped source that the page shows
    "code": 300,  # the same with what is folded: folding everything does not make a page short
    "wide": 0,  # lines of code, its own or shipped, that do not fit their column
    "words": 2200,  # words of prose
    "missing": 0,  # equations that its derivation should render from a cell, and does not
    "screens": 14,  # the height of the page, its folds closed
    "before": 5,  # screens before its derivation
    "explorer": 3,  # screens before its explorer
}
EQUATIONS = 6  # the fewest of a derivation
COLUMN = 84  # characters of code
WIDTH, HEIGHT = 1280, 900  # one screen

# A block of code between fences; other directives hold prose.
CODE = re.compile(r"^(`{3,})(?:\{code[^\n]*|[^{\n]*)\n(.*?)^\1`*$", re.M | re.S)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]+\$", re.S)
# Where a link leads, the name of a role or a directive, an option of one, a tag.
MARKUP = re.compile(r"\]\([^)]*\)|\{[\w:-]+\}|^:\w+:.*$|<[^>]*>", re.M)
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
TYPED = re.compile(r"<IPython\.core\.display\.\w+ object>")


def folded(cell, part):
    """Tell whether the input or the output of a cell is folded."""
    return bool({f"hide-{part}", "hide-cell"} & set(cell.metadata.get("tags", [])))


def outputs(cell, kind):
    """What a cell shows of one kind, such as text/latex, without what is folded or was typed."""
    if cell.cell_type != "code" or folded(cell, "output"):
        return []
    data = [output.get("data", {}) for output in cell.outputs]
    shown = [d for d in data if not TYPED.match(d.get("text/plain", ""))]
    return [d[kind] for d in shown if kind in d]


def code_blocks(text):
    return [match[2] for match in CODE.finditer(text)]


def shipped(cell):
    """The blocks of source that a cell shows."""
    return [block for text in outputs(cell, "text/markdown") for block in code_blocks(text)]


def lines_of_code(cell):
    """Its own lines, or those of code in its prose, and those of shipped source that it shows."""
    own = [cell.source] if cell.cell_type == "code" else code_blocks(cell.source)
    lines = (line for text in [*own, *shipped(cell)] for line in text.splitlines())
    return [line for line in lines if line.strip()]


def words(notebook):
    """The words of the prose; a formula in a sentence is one of them."""
    prose = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    prose = FORMULA.sub(lambda m: "" if m[0].startswith("$$") else "x", CODE.sub("", prose))
    return len(WORD.findall(MARKUP.sub(" ", prose)))


def headings(cell):
    """The headings of the second level in a cell of prose."""
    if cell.cell_type != "markdown":
        return []
    return re.findall(r"^## (.*)", CODE.sub("", cell.source), re.M)


def derivation(notebook):
    """The code cells under the heading "Derivation", or None where there is no such heading."""
    cells, inside = None, False
    for cell in notebook.cells:
        for heading in headings(cell):
            inside = heading.startswith("Derivation")
            cells = cells or [] if inside else cells
        if inside and cell.cell_type == "code":
            cells.append(cell)
    return cells


def equations(cells):
    """The different equations that cells render; a symbol alone is none."""
    return {text for cell in cells for text in outputs(cell, "text/latex") if "=" in text}


def counted(notebook):
    """What the file of a page says of its size."""
    seen = [cell for cell in notebook.cells if not folded(cell, "input")]
    code = [line for cell in notebook.cells for line in lines_of_code(cell)]
    part = derivation(notebook)
    return {
        "cells": sum(cell.cell_type == "code" for cell in seen),
        "lines": sum(len(lines_of_code(cell)) for cell in seen),
        "code": len(code),
        "wide": sum(sum(not combining(c) for c in line) > COLUMN for line in code),
        "words": words(notebook),
        "missing": 0 if part is None else max(0, EQUATIONS - len(equations(part))),
    }


# What a browser says, in figures of MOST. The page is as it came: once its folds are opened it is
# another page. Explorers do not count, but the pictures in whose place they stand.
MEASURE = f"""async () => {{
  if (innerWidth !== {WIDTH}) throw new Error(`expected {WIDTH} px of width, got ${{innerWidth}}`);
  await document.fonts.ready;
  const article = document.querySelector('article');
  if (!article) return null;
  const explorers = [...article.querySelectorAll('.explorer')];
  const show = on => article.querySelectorAll('.explorer, .blackboard, .training').forEach(e => {{
    e.hidden = !on;
    e.parentElement.style.minHeight = on ? '' : 0;  // the room that is kept for it
  }});
  show(false);
  const box = article.getBoundingClientRect();
  const part = [...article.querySelectorAll('h2')].find(h => /^\\s*Derivation/.test(h.textContent));
  const before = part ? part.getBoundingClientRect().top - box.top : 0;
  const tops = explorers.map(e => e.parentElement.getBoundingClientRect().top - box.top);
  show(true);
  const explorer = Math.max(0, ...tops);
  const lengths = {{screens: box.height, before, explorer}};
  return Object.fromEntries(Object.entries(lengths).map(([key, px]) => [key, px / {HEIGHT}]));
}}"""


def budgeted(toc):
    """The pages that are read from top to bottom: chapters, but for those where one looks things
    up, and for those that decide claims."""
    parts = [part for part in toc["parts"] if part["caption"] != LOOK_UP]
    return [p for p in listed(parts) if p.startswith("chapters/") and p.count("/") == 1]


def problems(page, found):
    """Hold the figures of a page against the budget: one line for each that is beyond."""
    for figure, value in found.items():
        if value > MOST[figure]:
            yield (
                f"{page}: expected {figure} to be at most {MOST[figure]}, got {value:.4g}; try "
                "another page, an exercise, or normlib for what is beyond"
            )
