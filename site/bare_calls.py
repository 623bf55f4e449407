"""What a call only shows stands without a box for the call. A Sphinx extension.

A notebook shows shipped source, or what is said about a topic, by a line such as `Source(f)`. A
reader of the site needs what it shows; the line itself is in the notebook.
"""

import re

from docutils import nodes

CALL = re.compile(
    r"(from normbook[.\w]* import \w+\s+)?"
    r"(Source|Said|Blackboard|CheatSheet|Reference|Errata|Slips|Sheet)\([^\n]*\)\s*"
)


def drop_calls(app, doctree: nodes.document) -> None:
    for cell in [*doctree.findall(nodes.container)]:
        if "cell_input" in cell["classes"] and CALL.fullmatch(cell.astext()):
            cell.parent.remove(cell)


def setup(app) -> dict:
    app.connect("doctree-read", drop_calls)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
