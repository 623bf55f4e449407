"""A fixture for pytest, for those who import it: nothing is registered by installing normlib.

In a conftest.py, or in the test's own file::

    from normlib.verify.fixtures import verify_layer

    def test_my_layer(verify_layer):
        verify_layer(forward, backward, shapes=((8, 3), (3,), (3,)))
"""

import zlib

import pytest

from normlib import verify


@pytest.fixture
def verify_layer(request):
    """`verify.check`, with data that depend on the name of the test alone. A layer that is wrong
    fails the test with the first disagreement; what each witness said is a section of its own,
    which `pytest -rA` shows for a test that passes, too."""

    def run(*layer, **options) -> verify.Verdict:
        seed = zlib.crc32(request.node.name.encode())
        verdict = verify.check(*layer, **{"seed": seed} | options, raises=False)
        request.node.add_report_section("call", "witnesses", repr(verdict))
        if verdict.red or verdict.undecided:
            pytest.fail(verdict.differences(), pytrace=False)
        return verdict

    return run
