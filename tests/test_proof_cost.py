"""What proofs cost, in operations that are counted: rounds of boxes, and heads that are compared with units."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.arithmetic.series import _power_of_many, power
from attnfun.proofs import certify
from attnfun.proofs.proof import Cover
from attnfun.proofs.provers import boxes as searching
from attnfun.proofs.provers import circuit as matching
from attnfun.proofs.rules.boxes import SHORT, Problem, tally


def counting(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Counter[str]:
    """Calls of a function from now on."""
    calls, function = Counter[str](), getattr(owner, name)

    def counted(*arguments, **keywords):
        calls[name] += 1
        return function(*arguments, **keywords)

    monkeypatch.setattr(owner, name, counted)
    return calls


SQUARE = dict.fromkeys("xy", (-1, 1))


@pytest.fixture(scope="module")
def wave():
    return af.compile("sin(10*x)", (-1, 1), 1e-6)


def test_a_proof_of_few_boxes_takes_few_rounds(wave, monkeypatch):
    """Halving box by box takes a round for each of the ten levels of the tree and one for each box above the goal."""
    certificate = wave.certificate
    rounds = counting(monkeypatch, searching, "bounded")
    again = certify(certificate.claim, certificate.bound - certificate.allowance)
    assert again.proof is not None
    assert rounds["bounded"] <= 5


def test_leaves_of_all_levels_are_checked_together(wave, monkeypatch):
    enclosures = counting(monkeypatch, Problem, "enclosed")
    wave.certificate.recheck()
    assert enclosures["enclosed"] == 1


def cut(problem, boxes, level):
    """All boxes narrowed and cut in two."""
    count = len(boxes)
    return problem.narrowed(boxes).halves(np.full(count, level % 2), np.arange(count))


def test_long_lists_are_narrowed_and_short_ones_kept():
    net = af.compile("sin(3*x)*y", SQUARE, construction="cross", options={"tokens": 400}, proof=False)
    problem = Problem(net.certificate.claim.target, net.network, 1e-3)
    boxes = problem.root()
    assert boxes.most_tokens[0] > SHORT
    for level in range(6):
        before, boxes = boxes.most_tokens, cut(problem, boxes, level)
        assert (boxes.most_tokens <= np.tile(before, 2)).all()
    short = boxes.take(np.flatnonzero(boxes.most_tokens <= SHORT))
    assert len(short)
    assert problem.narrowed(short) is short


def test_lists_of_both_kinds_stay_with_their_boxes():
    """Other lists for some boxes of a batch: every box has the list that is meant for it."""
    net = af.compile("sin(3*x)*y", SQUARE, construction="cross", options={"tokens": 400}, proof=False)
    problem = Problem(net.certificate.claim.target, net.network, 1e-3)
    boxes = problem.root()
    for level in range(3):
        boxes = cut(problem, boxes, level)
    some = np.array([1, 4, 6])
    narrow = problem.narrowed(boxes.take(some))
    mixed = boxes.with_focus(some, narrow.focus)
    for row in range(len(boxes)):
        source, place = (narrow, int(np.flatnonzero(some == row)[0])) if row in some else (boxes, row)
        for got, meant in zip(mixed.focus, source.focus, strict=True):
            one, other = got.take(np.array([row])), meant.take(np.array([place]))
            assert np.array_equal(one.active.items, other.active.items)
            assert np.array_equal(one.tails, other.tails)


def test_a_bound_does_not_depend_on_how_leaves_are_gathered(wave):
    """A cover of four leaves on three levels, its leaves bounded together and one by one."""
    claim = wave.certificate.claim
    problem = Problem(claim.target, wave.network, None)
    axes = np.array([0, 255, 0, 0, 255, 255, 255], dtype=np.uint8)
    cover = Cover(axes, np.ones(4, dtype=np.uint8), 1)
    together = tally(problem.root(), problem, cover, np.inf)
    whole = problem.root()
    halves = whole.halves(np.array([0]), np.array([1]))
    first, second = halves.take(np.array([0])), halves.take(np.array([1]))
    quarters = second.halves(np.array([0]), np.array([3]))
    third, last = quarters.take(np.array([0])), quarters.take(np.array([1]))
    eighths = third.halves(np.array([0]), np.array([5]))
    alone = [problem.on_leaves(each, np.ones(len(each), dtype=np.int64))[0] for each in (first, last, eighths)]
    assert together.total == pytest.approx(max(float(parts.sum(axis=1).max()) for parts in alone), rel=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 5.0, -1.0, -3.0, 0.5, 2.5])
def test_powers_in_one_pass_are_those_of_one_coefficient_at_a_time(exponent):
    x = Interval(np.array([0.5, 1.0, 2.0]), np.array([0.75, 1.0, 2.5]))
    quick, slow = power(x, Interval(exponent), 6), _power_of_many(x, Interval(exponent), 6)
    assert len(quick) == (min(exponent, 6) + 1 if exponent >= 0 and exponent == round(exponent) else 7)
    for k in range(7):
        one = quick[k] if k < len(quick) else Interval(np.zeros(3))
        np.testing.assert_allclose(one.lo, slow[k].lo, rtol=1e-13)
        np.testing.assert_allclose(one.hi, slow[k].hi, rtol=1e-13)


def test_heads_are_compared_with_units_of_their_own_variables_only(monkeypatch):
    """Ten squares of ten variables: each head is compared with one unit, not with ten."""
    compared = counting(monkeypatch, matching, "_misfit")
    variables = [f"x{k}" for k in range(10)]
    af.compile(" + ".join(f"{name}**2" for name in variables), dict.fromkeys(variables, (-1, 1)), 0.1)
    assert 0 < compared["_misfit"] <= 3 * len(variables)


def test_rounding_is_bounded_once_for_many_leaves(monkeypatch):
    """Leaves take what rounding adds from a box above: far fewer enclosures of the network than leaves."""
    net = af.compile("exp(-x**2 - y**2)*sin(6*x)", SQUARE, 1e-8, construction="spectral")
    enclosed, by_network = 0, Problem.network_on

    def counted(self, rows, focus):
        nonlocal enclosed
        enclosed += len(rows)
        return by_network(self, rows, focus)

    monkeypatch.setattr(Problem, "network_on", counted)
    verdict = net.certificate.recheck()
    assert verdict.bound == net.certificate.bound
    assert net.certificate.proof is not None
    assert enclosed < net.certificate.proof.leaves / 2


@pytest.mark.parametrize("ways", [[1, 1, 1, 1], [3, 3, 1, 2], [2, 2, 200, 255], [0, 0, 0, 0]])
def test_rounding_from_above_is_no_less_than_on_the_leaf(wave, ways):
    """Whatever a proof says of its leaves, the bound holds, and rounding from above is at least that on the leaf."""
    problem = Problem(wave.certificate.claim.target, wave.network, 1e-6)
    axes = np.array([0, 0, 0, 255, 255, 255, 255], dtype=np.uint8)
    found = tally(problem.root(), problem, Cover(axes, np.array(ways, dtype=np.uint8), 1), np.inf)
    alone = tally(problem.root(), problem, Cover(axes, np.ones(4, dtype=np.uint8), 1), np.inf)
    assert (found.parts[1:] >= alone.parts[1:] * (1 - 1e-12)).all()
    points = np.linspace(-1, 1, 1001)
    assert found.total >= np.abs(wave(points) - np.sin(10 * points)).max()


def test_axes_that_nobody_reads_are_not_cut():
    net = af.compile("abs(sin(7*x))", dict.fromkeys("yx", (-1, 1)), 0.05, construction="cross")
    proof = net.certificate.proof
    assert proof is not None
    axes = [lemma.data["axes"] for lemma in proof.lemmas() if "axes" in lemma.data]
    assert axes
    assert all((each != 0).all() for each in axes)
