"""What the page on a layer of one's own says of pytest is right."""

import re
import textwrap

import nbformat
from project import ROOT

pytest_plugins = ["pytester"]

PAGE = ROOT / "chapters" / "own-layer.ipynb"


def printed_test() -> str:
    """The test that the page prints."""
    texts = [c.source for c in nbformat.read(PAGE, 4).cells if c.cell_type == "markdown"]
    (block,) = re.findall(r"```python\n(.*?)```", "\n".join(texts), re.S)
    return block


def test_the_fixture_passes_what_is_right_and_shows_where_a_layer_is_wrong(pytester):
    pytester.makepyfile(
        printed_test()
        + textwrap.dedent("""
            def test_a_wrong_one(verify_layer):
                pair = own_layer.rms_norm, own_layer.weight_twice_backward
                verify_layer(*pair, shapes=((6, 4), (4,)))
        """)
    )
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rA")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*dx is wrong according to: complex step*", "*first entry*"])
    done.stdout.fnmatch_lines(["*Captured witnesses call*", "*takes no torch tensors*NOT RUN*"])
    assert "def run(" not in done.stdout.str()  # no traceback through the fixture
