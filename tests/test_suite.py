"""The suite itself: tests of one case run on one worker, so that it is compiled once a run."""

from __future__ import annotations

import pytest

from cases import CASES


@pytest.mark.parametrize("case", CASES[:1], ids=str)
def test_tests_of_one_case_stay_on_one_worker(case, request):
    grouped = getattr(request.config.option, "loadgroup", False)  # set in workers of pytest-xdist --dist loadgroup
    assert request.node.nodeid.endswith(f"@{case.name}") == grouped
