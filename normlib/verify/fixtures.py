"""A fixture for pytest, for those who import it: nothing is registered by installing normlib.

In a conftest.py, or in the test's own file::

    from normlib.verify.fixtures import verify_layer

    def test_my_layer(verify_layer):
        verify_layer(forward, backward, shapes=((8, 3), (3,), (3,)))
"""

import zlib

import numpy as np
import pytest

from normlib import verify


@pytest.fixture
def verify_layer(request):
    """`verify.layer`, with data that depend on the name of the test alone. A layer that is wrong
    fails the test with the first disagreement; what each witness said is a section of its own,
    which `pytest -rA` shows for a test that passes, too."""

    def run(*pair, **options) -> verify.Verdict:
        seed = zlib.crc32(request.node.name.encode())
        options.setdefault("rng", np.random.default_rng(seed))
        try:
            verdict = verify.layer(*pair, **options)
        except verify.VerificationError as error:
            request.node.add_report_section("call", "witnesses", repr(error.verdict))
            pytest.fail(error.verdict.differences(), pytrace=False)
        request.node.add_report_section("call", "witnesses", repr(verdict))
        return verdict

    return run
