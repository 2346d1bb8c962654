"""The page for arXiv 2504.19901: every row of its table is run, and no row is without a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attnfun as af

PAGE = (Path(__file__).parent.parent / "docs" / "paper-a.md").read_text()
TABLE = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("|")][
    2:
]
LINE = {"x": (-1, 1)}
PAIR = {"Q": af.Box(-1, 1), "K": af.Box(-1, 1)}
TOKENS = af.Box([[-1.0], [-1.0]], [[1.0], [1.0]])
RUNS = {
    "a head cuts the domain by a max-affine function and assigns values to the cells": lambda: [
        af.partition([[0.0], [1.0]], domain=(-1, 3)).head([2.0, 5.0], eps=0.1, gap=0.1)
    ],
    "one self-attention head behind a sum of linear maps, continuous functions, sup norm": lambda: [
        af.compile("sin(3*x)", LINE, eps=0.3, construction="grid", options={"memory": memory})
        for memory in ("layer", "map")
    ],
    "the same in L_p, functions that jump": lambda: [
        af.compile("where(x > 0.3, 1, 0)", LINE, eps=0.3, norm=1, construction="grid")
    ],
    "the same for integrable functions that are not bounded": lambda: [
        af.compile("log(x)", {"x": (0, 1)}, eps=0.4, norm=2, construction="grid")
    ],
    "one cross-attention head, queries and keys from two sequences": lambda: [
        af.compile("sin(Q)*K", PAIR, eps=0.4, construction="cross")
    ],
    "sequences to sequences": lambda: [
        af.compile(lambda X: X[..., ::-1, :], TOKENS, eps=0.9, construction="grid", options={"layout": layout})
        for layout in ("position", "packed")
    ],
}


def test_every_row_has_a_run_and_a_verdict():
    assert [row[0] for row in TABLE] == list(RUNS)
    assert all(row[-1].startswith(("stronger", "as stated", "weaker")) for row in TABLE)


@pytest.mark.parametrize("result", RUNS)
def test_the_row_is_as_the_page_says(result):
    for net in RUNS[result]():
        assert (net.certificate.status.value, net.network.heads) == ("proved", 1)
        assert net.certificate.bound <= net.eps
        rows = net.domain.sample(500, np.random.default_rng(0))
        errors = np.abs(net(net.domain.unflatten(rows)).reshape(500, -1) - net.certificate.claim.imitated.values(rows))
        assert np.isinf(net.certificate.norm) <= bool(errors.max() <= net.certificate.bound)
