"""Each lemma on rounding is needed: with one mistake in it, an arithmetic that the model allows beats the bound."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from inspect import getmembers, isfunction
from typing import Any

import flint
import numpy as np
import pytest

import attnfun as af
from attnfun.arithmetic import Interval, directed, rounding
from attnfun.arithmetic.formats import FORMATS, Format, round_to
from attnfun.arithmetic.rounding import OWN, Column, HeadSizes
from attnfun.network import Attention, Network
from attnfun.proofs import heads
from attnfun.proofs.enclosure import Encloser
from attnfun.proofs.rules import boxes

Pair = tuple[float, float]
"""An error that the model allows, and the bound on it."""
SINGLE, HALF = FORMATS["float32"], FORMATS["bfloat16"]
U, S = SINGLE.unit, HALF.store


def linear(x: list[float], weight: list[float], arithmetic: Format, off: float = 0.0) -> float:
    """The bound on the error of a sum of products, of an input that is off itself."""
    error = np.full((1, len(x), 2), 0.0)
    error[..., OWN] = off
    return float(
        rounding.linear_error(error, np.abs([x]), np.array(weight)[:, None], np.zeros(1), arithmetic)[0, 0, OWN]
    )


def a_sum_from_the_left() -> Pair:
    """1 and small terms, each a little more than half a unit of 1: all are rounded up."""
    terms = np.array([1.0, *[1.001 * U] * 40], dtype=np.float32)
    computed = np.cumsum(terms, dtype=np.float32)[-1]
    return abs(float(computed) - float(terms.astype(np.float64).sum())), linear([*terms], [1.0] * 41, SINGLE)


def an_input_that_is_off() -> Pair:
    return 3e-3, linear([1.0], [3.0], SINGLE, off=1e-3)


def a_number_between_two_of_the_format() -> Pair:
    return float(np.abs(round_to(1 + S, "bfloat16") - (1 + S))), rounding.storage_error(1 + S, HALF)


def a_number_that_grew() -> Pair:
    """Eight roundings up, and one as it is stored."""
    return (1 + U) ** 8 * (1 + S), float(rounding.grown(np.array(1.0), 8, HALF))


def many_roundings() -> Pair:
    count = int(rounding.MOST_ROUNDINGS / U)
    return float(np.expm1(count * np.log1p(U))), rounding.all_orders(count * U)


def a_key_that_holds_a_sum() -> Pair:
    error, _ = a_sum_from_the_left()
    return error, float(rounding.key_sum_error(np.array(1.0), 41, SINGLE))


def a_product_stored_as_a_score() -> Pair:
    """Two scores of 8 with errors of opposite sign, values 1 and -1; all else is exact."""
    off = HALF.store * 8
    return float(np.tanh(off)), head([[8.0, 1.0], [8.0, -1.0]])


def head(memory: list[list[float]], arithmetic: Format = HALF) -> float:
    """The bound on one head with these keys and values, at the query 1."""
    layer = Attention.of(
        np.zeros((1, 1, 1)),
        np.array([[[1.0], [0.0]]]),
        np.array([[[0.0], [1.0]]]),
        np.ones((1, 1, 1)),
        np.array(memory),
        query_bias=np.ones((1, 1)),
    )
    network = Network((layer,), 1, arithmetic.name)
    encloser = Encloser(network)
    region, _ = encloser(Interval(np.zeros((1, 1, 1))), encloser.start())
    return float(region.error[0, 0, 0, OWN])


def a_rough_exponential() -> Pair:
    """Two equal scores, values 1 and -1, exponentials off in opposite directions."""
    return float(np.tanh(SINGLE.exp_error)), head([[0.0, 1.0], [0.0, -1.0]], SINGLE)


def an_exponent_rounded_up() -> Pair:
    """The difference of two exact scores, by an exact exponential."""
    exact, zero = replace(SINGLE, exp_units=0), np.zeros(1)
    return 30 * U, float(rounding.weight_doubt(zero, zero, np.array([30.0]), 2, exact)[0])


def a_rough_average() -> Pair:
    """Equal scores, values 1 and -1, exponentials off in opposite directions."""
    return float(np.tanh(SINGLE.exp_error)), float(rounding.average_error(0.0, 1, 2, 2, SINGLE))


def a_rough_softmax() -> Pair:
    """The first of two weights of a half each."""
    bound = rounding.softmax_error(np.zeros(2), np.full(2, 0.5), SINGLE)
    return float(np.tanh(SINGLE.exp_error) / 2), float(bound[0])


def a_mean_that_is_rounded() -> Pair:
    """LayerNorm of large numbers that differ by one unit, as NumPy computes it in float32."""
    x = np.array([2.0**24 - 1, 2.0**24 - 2, 2.0**24 - 2], dtype=np.float32)
    centred = x - x.mean(dtype=np.float32)
    computed = centred / np.sqrt(np.square(centred).mean(dtype=np.float32) + np.float32(2.0**20))
    exact = x.astype(np.float64) - x.astype(np.float64).mean()
    exact /= np.sqrt(np.square(exact).mean() + 2.0**20)
    most, squares, least, result = (np.array(number) for number in (2.0**24, 1.0, 2.0**20, 1.0))
    bound = rounding.normalised_error(most, squares, least, result, 3, SINGLE)
    return float(np.abs(computed - exact).max()), float(bound)


def two_scores_that_come_closer() -> Pair:
    """How far apart exponents surely are, with a sign: scores 20 apart, off by 1 each."""
    return -(18.0 * (1 - U)), -float(rounding.computed_gap(np.array(20.0), np.array(2.0), 2, SINGLE))


def the_weight_of_a_far_token() -> Pair:
    """The difference of two float32 numbers, rounded to float32, and an exponential in float32."""
    far = np.float32(-1e-3) * np.arange(1, 2000, dtype=np.float32)
    gap, weight = 1000.0 - (far.astype(np.float64)), np.exp(far - np.float32(0))
    bound = rounding.computed_weight(gap - 1000.0)
    worst = int(np.argmax(weight / bound))
    return float(weight[worst]), float(bound[worst])


def average(tokens: int, keys: int, tail: float, arithmetic: Format) -> float:
    """The bound on an average of equal values of 1, with exact weights, of which some have a small share."""
    each = {"doubt": 0.0, "doubt_own": 0.0, "tail": tail, "computed_tail": tail}
    sizes = {name: np.full((1, 1), size) for name, size in each.items()}
    column = dict.fromkeys(("drawn", "drawn_own", "spread", "light", "light_weight"), np.zeros((1, 1)))
    known = Column(**column, average=np.ones((1, 1)), osc=0.0, value_off=np.zeros((1, 1, 2)), value_off_elsewhere=0.0)
    count = np.full((1, 1), tokens)
    return float(rounding.head_error(HeadSizes(**sizes, in_play=count, core=count, keys=keys), known, arithmetic).sum())


def an_average_of_many() -> Pair:
    """Equal weights: all K roundings above go up, each of a sum that is 1, 2, .. K in K parts; those below go down."""
    count = 100
    above, below = np.float64(0), np.float64(0)
    for _ in range(count):
        above, below = (above + 1 + U) * (1 + U), (below + 1) * (1 - U)
    return above / below - 1, average(count, count, 0.0, SINGLE)


def tokens_that_are_lost() -> Pair:
    """One weight is 1, all others are half a unit; the sum above loses them, that below adds them first."""
    count = 2000
    terms = np.array([1.0, *[0.99 * U] * count], dtype=np.float32)
    above, below = np.cumsum(terms, dtype=np.float32)[-1], np.cumsum(terms[::-1], dtype=np.float32)[-1]
    return abs(float(above / below) - 1), average(1, count + 1, count * U, SINGLE)


def weights_and_their_average_stored_up() -> Pair:
    """Weights of a third each are stored too large by all that is allowed, and so is their average."""
    return (1 + S) ** 2 - 1, average(3, 3, 0.0, HALF)


def a_rare_token_with_more_weight_than_it_should_have() -> Pair:
    """Values -1 and 99 with the weights 0.99 and 0.01, logarithms of weights off by 2 in opposite directions: y = 0."""
    weights, distances, off = np.array([0.99, 0.01]), np.array([1.0, 99.0]), 2.0
    moved = weights * np.exp([-off, off])
    spread, drawn = weights @ distances, weights @ distances * np.expm1(off)
    bound = rounding.computed_distance(spread, drawn, np.exp(off), 100.0)
    return float(moved @ distances / moved.sum()), float(bound)


def a_leader_with_a_large_score() -> Pair:
    """A stored score of 6 that is off moves the weight of a token with a score of 0, which is not off itself."""
    share, moved = (1 / (1 + np.exp(score)) for score in (6.0, 6.0 * (1 - S)))
    return float(moved * (1 + S) ** 2 - share), head([[6.0, 0.0], [0.0, 1.0]])


def a_rounded_input() -> Pair:
    """Numbers beyond 2^20 are 1/8 apart in float32, and sin changes by as much."""
    low = 2.0**20
    coarse = {"construction": "grid", "options": {"tokens": 8}, "dtype": "float32", "proof": False}
    net = af.compile("sin(x)", {"x": (low, low + 6)}, **coarse)
    x, claim = np.linspace(low, low + 6, 1001), net.certificate.claim
    problem = boxes.Problem(claim.imitated, claim.network)
    start = problem.root()
    *_, errors = problem.network_on(problem.with_neighbours(Interval(start.lo, start.hi)), start.focus)
    moved = np.abs(np.sin(round_to(x, "float32")) - np.sin(x)).max()
    return float(moved), float(errors[0, 0])


def nothing(name: str, place: Any = rounding) -> tuple[Any, str, Callable[..., Any]]:
    """The mistake of a lemma that says zero."""
    lemma = getattr(place, name)
    return place, name, lambda *arguments: 0 * lemma(*arguments)


def instead(name: str, mistake: Callable[..., Any], place: Any = rounding) -> tuple[Any, str, Callable[..., Any]]:
    """Another mistake, a function of the lemma and its arguments."""
    lemma = getattr(place, name)
    return place, name, lambda *arguments: mistake(lemma, *arguments)


def without_leader(lemma: Any, keys: Any, off: Any, rest: Any, behind: Any, arithmetic: Format) -> Any:
    """Errors relative to the token with most of the weight, whose own error is forgotten."""
    off = off.copy()
    np.put_along_axis(off, np.argmin(rest, axis=2)[..., None], 0.0, axis=2)
    return lemma(keys, off, rest, behind, arithmetic)


def one_rounding(lemma: Any, error: Any, size: Any, roundings: Any, arithmetic: Format, *stored: Any) -> Any:
    """However long the sum is."""
    return lemma(error, size, np.minimum(roundings, 1), arithmetic, *stored)


def near_the_average(lemma: Any, light: Any, heavy: Any) -> Any:
    """Values are where the average is."""
    return 0 * lemma(light, heavy)


MISTAKES = {
    "sums [T 10.1]": (a_sum_from_the_left, instead("with_sum", one_rounding)),
    "errors of terms [T 10.1]": (an_input_that_is_off, nothing("carried_error")),
    "higher orders [T 10.1]": (many_roundings, instead("all_orders", lambda lemma, first: first)),
    "a sum of products [T 10.1]": (an_input_that_is_off, nothing("linear_error")),
    "scores and exponentials [T 10.2]": (a_rough_exponential, nothing("score_doubt")),
    "differences of scores [T 10.2]": (
        an_exponent_rounded_up,
        instead("weight_doubt", lambda lemma, off, most, behind, *rest: lemma(off, most, 0 * behind, *rest)),
    ),
    "the average [T 10.2]": (a_rough_exponential, nothing("head_error", heads)),
    "sizes under the computed weights [T 10.2]": (
        a_rare_token_with_more_weight_than_it_should_have,
        instead("computed_distance", lambda lemma, spread, *_: spread),
    ),
    "sums in play [T 10.2]": (
        an_average_of_many,
        instead("sums_in_play", lambda lemma, tokens, *rest: lemma(np.minimum(tokens, 1), *rest)),
    ),
    "sums over the others [T 10.2]": (tokens_that_are_lost, nothing("sums_elsewhere")),
    "weights and sums [T 10.2]": (a_rough_average, nothing("average_error")),
    "weights of a framework [T 12.6]": (a_rough_softmax, nothing("softmax_error")),
    "normalisation [T 12.6]": (a_mean_that_is_rounded, nothing("normalised_error")),
    "gaps as computed [T 10.2]": (two_scores_that_come_closer, instead("computed_gap", lambda lemma, gap, *_: gap)),
    "far tokens [T 10.2]": (the_weight_of_a_far_token, instead("computed_weight", lambda lemma, gap: np.exp(-gap))),
    "rounding the input [T 10.3]": (
        a_rounded_input, instead("_change", lambda lemma, problem, rows: 0 * lemma(problem, rows), boxes.Problem)
    ),
    "sizes as computed [T 10.4]": (a_number_that_grew, instead("grown", lambda lemma, size, *_: size)),
    "stored numbers [T 10.5]": (a_number_between_two_of_the_format, nothing("storage_error")),
    "stored scores [T 10.5]": (a_product_stored_as_a_score, nothing("score_error", heads)),
    "stored weights [T 10.5]": (weights_and_their_average_stored_up, nothing("stored_weights")),
    "stored averages [T 10.5]": (weights_and_their_average_stored_up, nothing("stored_result")),
    "the distance of a value from the average [T 10.6]": (
        a_rough_exponential, instead("_without", near_the_average, heads)
    ),
    "scores that are far off [T 10.7]": (a_leader_with_a_large_score, instead("_doubts", without_leader, heads._Keys)),
    "keys that hold sums [T 10.8]": (a_key_that_holds_a_sum, nothing("key_sum_error")),
}  # fmt: skip


@pytest.mark.parametrize("lemma", MISTAKES)
def test_without_the_lemma_there_is_no_bound(lemma, monkeypatch):
    attack, (place, name, mistake) = MISTAKES[lemma]
    error, bound = attack()
    assert error <= bound
    monkeypatch.setattr(place, name, mistake)
    error, bound = attack()
    assert error > bound


def test_every_lemma_of_the_file_has_a_mistake():
    lemmas = {name for name, item in getmembers(rounding, isfunction) if item.__module__ == rounding.__name__}
    assert lemmas == {name for _, (_, name, _) in MISTAKES.values()} & lemmas


def of_two(name: str, exact: Callable[[Fraction, Fraction], Fraction]) -> bool:
    """Are the ends of an operation on 1/10 and 1/3, as floats, on both sides of the exact result?"""
    a, b = 0.1, 1 / 3
    operations = {
        "+": lambda: (directed.add_down(a, b), directed.add_up(a, b)),
        "*": lambda: directed.multiply(np.array(a), np.array(b)),
    }
    low, high = (Fraction(float(end)) for end in operations[name]())
    return low <= exact(Fraction(a), Fraction(b)) <= high


@pytest.mark.parametrize(("name", "exact"), [("+", operator.add), ("*", operator.mul)], ids=("sum", "product"))
def test_ends_are_rounded_outwards(name, exact, monkeypatch):
    """[T 9.1]"""
    assert of_two(name, exact)
    monkeypatch.setattr(directed, "below", lambda value: value)
    monkeypatch.setattr(directed, "above", lambda value: value)
    assert not of_two(name, exact)


def test_roots_are_rounded_outwards(monkeypatch):
    def encloses() -> bool:
        low, high = (Fraction(float(end)) for end in directed.root(np.array(2.0)))
        return low**2 <= 2 <= high**2

    assert encloses()
    monkeypatch.setattr(directed, "below", lambda value: value)
    monkeypatch.setattr(directed, "above", lambda value: value)
    assert not encloses()


def test_signed_sums_are_off(monkeypatch):
    """[T 9.10]: 1, and numbers that vanish beside it."""
    terms = np.array([1.0, *[2.0**-53] * 40])
    total = 0.0
    for term in terms:
        total += float(term)
    error = abs(Fraction(total) - sum(map(Fraction, terms.tolist())))
    assert error <= Fraction(float(directed.sum_error(terms.sum(), len(terms) - 1)))
    monkeypatch.setattr(directed, "ULP", 2.0**-60)
    assert error > Fraction(float(directed.sum_error(terms.sum(), len(terms) - 1)))


def exponentials_are_bounded(x: np.ndarray) -> bool:
    """Do the bounds on e^x, and on e^x - 1, hold at all of these numbers?"""
    low, high, less = (bound(x) for bound in (directed.exp_down, directed.exp_up, directed.expm1_up))
    with flint.ctx.workprec(200):
        exact = [flint.arb(float(number)).exp() for number in x]
        return all(
            flint.arb(float(a)) <= value <= flint.arb(float(b)) and value - 1 <= flint.arb(float(c))
            for a, value, b, c in zip(low, exact, high, less, strict=True)
        )


def test_library_functions_are_not_exact(monkeypatch):
    """[T 9.11]"""
    x = np.linspace(0.1, 20, 200)
    assert exponentials_are_bounded(x)
    monkeypatch.setattr(directed, "LIBRARY_ULPS", -2)
    assert not exponentials_are_bounded(x)


def test_arguments_of_exponentials_are_rounded(monkeypatch):
    """[T 9.11] with an argument that was computed: 700 less what vanishes beside it."""
    exact, x = Fraction(700) + Fraction(2) ** -45, np.array(700.0 + 2.0**-45)

    def bounded() -> bool:
        with flint.ctx.workprec(200):
            value = (flint.arb(exact.numerator) / flint.arb(exact.denominator)).exp()
            return bool(value <= flint.arb(float(directed.exp_up(x, 1))))

    assert float(x) == 700.0
    assert bounded()
    known = directed._exp_units
    monkeypatch.setattr(directed, "_exp_units", lambda x, roundings: known(x, 0))
    assert not bounded()
