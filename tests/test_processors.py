"""Results do not hang on the last digits of a BLAS, or on how many numbers an instruction takes."""

from __future__ import annotations

import pytest

from processors import PLAIN, Setting, compared


def test_compiles_agree_with_plain_loops_and_with_the_fastest():
    """Status, tokens and bound within stated factors; and each network keeps its bound where the others were made."""
    if PLAIN.lacking:
        pytest.skip(PLAIN.lacking)
    for setting, wrong in compared((Setting(), PLAIN)):
        assert not wrong, (str(setting), wrong)
