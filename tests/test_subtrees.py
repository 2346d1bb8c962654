"""Proofs by subtrees: the same proof whoever settles them, few boxes waiting, and interruptions that change nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnfun as af
from attnfun.proofs.proof import LEAF, Growing
from attnfun.proofs.provers import boxes as prover
from attnfun.proofs.provers.boxes import search
from clocks import readings


@pytest.fixture(scope="module")
def claim():
    net = af.compile(
        "abs(x - y)", {"x": (-1, 1), "y": (-1, 1)}, construction="cross", options={"tokens": 25}, proof=False
    )
    return net.certificate.claim


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Subtrees of small proofs, too."""
    monkeypatch.setattr(prover, "TUNING", replace(prover.TUNING, many=16, group=4, budget=40))


GOAL = 0.42


def found(claim, **keywords):
    """Everything that a search leaves, as something to compare."""
    result = search(claim.target, claim.network, keywords.pop("goal", GOAL), **keywords)
    tree = [array.tolist() for array in result.proof.data.values()]
    return result.bound, result.parts, result.found, result.boxes, tree


def test_workers_change_nothing(claim, monkeypatch):
    pieces, settled = [], prover.settled

    def counted(task, **keywords):
        pieces.append(len(task.waiting))
        return settled(task, **keywords)

    monkeypatch.setattr(prover, "settled", counted)
    alone = found(claim)
    assert len(pieces) > 4
    assert alone[0] <= GOAL
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as threads:
            assert found(claim, executor=threads) == alone


@pytest.mark.parametrize("after", [8, 10, 12])
def test_an_interrupted_search_ends_in_the_same_tree(claim, tmp_path, after):
    whole, steps = found(claim), []

    def interrupt(step):
        steps.append(step.boxes)
        if len(steps) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(claim, progress=interrupt, checkpoint=tmp_path)
    assert 0 < steps[-1] < whole[3]
    assert len(list(tmp_path.iterdir())) == 1
    assert found(claim, checkpoint=tmp_path) == whole
    assert list(tmp_path.iterdir()) == []


def test_few_boxes_wait(claim):
    """Subtree by subtree: what waits does not grow with the number of boxes."""
    steps = []
    *_, boxes, _ = found(claim, progress=steps.append)
    assert boxes > 10 * prover.TUNING.many
    assert max(step.waiting for step in steps) < boxes / 8


def test_a_goal_that_cannot_be_met_and_limits_end_the_search(claim):
    error = search(claim.target, claim.network, None).found
    assert search(claim.target, claim.network, 0.9 * error).bound > 0.9 * error
    assert search(claim.target, claim.network, 1.001 * error, most=200).boxes < 400
    stopped = search(claim.target, claim.network, 1.0001 * error, readings(60))
    assert "time" in stopped.stopped
    assert stopped.bound >= error


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), max_size=12), st.integers(1, 3))
def test_a_piece_put_in_place_of_its_roots_is_the_tree_that_grew_there(cuts, roots):
    def grow(tree: Growing, leaves: list[int]) -> Growing:
        for pick, axis in cuts:
            node = leaves.pop(pick % len(leaves))
            first = int(tree.cut(np.array([node]), np.array([axis]))[0])
            leaves += [first, first + 1]
        return tree

    whole, joined = Growing(1), Growing(1)
    for tree in (whole, joined):
        top = np.arange(1)
        for _ in range(2):
            tree.cut(top, np.zeros(len(top), dtype=np.int64))
            top = np.flatnonzero(tree.axes[: tree.nodes] == LEAF)
    chosen = np.flatnonzero(whole.axes[: whole.nodes] == LEAF)[:roots]
    grow(whole, chosen.tolist())
    place = joined.graft(chosen, grow(Growing(roots), list(range(roots))).tensors())
    assert place[:roots].tolist() == chosen.tolist()
    assert np.array_equal(joined.cover().axes, whole.cover().axes)
