"""Rounding upwards and downwards: bounds against exact rationals and balls, at every scale and in every order."""

from __future__ import annotations

import ast
import importlib
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnfun
from attnfun.arithmetic import directed
from attnfun.arithmetic.directed import LARGEST, LEAST_NORMAL, SMALLEST, ULP

SCALES = [5e-324, 1e-310, 2.0**-1022, 3e-308, 1e-200, 1e-160, 2.0**-53, 0.1, 1 / 3, 1.0, 3.0, 1e16, 1e155, 2.0**1000]
sizes = st.sampled_from([0.0, *SCALES]) | st.floats(0, LARGEST) | st.floats(0, 1) | st.floats(0.5, 1)
rows = st.lists(sizes, min_size=1, max_size=40)


def at_most(exact: Fraction, bound: float) -> bool:
    return bound == np.inf or exact <= Fraction(bound)


def close(bound: float, exact: Fraction, units: float) -> bool:
    """No larger than the exact number by more than so many units in the last place, or as many of the least float."""
    room = Fraction(units) * (Fraction(ULP) * exact + Fraction(SMALLEST))
    return bound == np.inf or Fraction(bound) <= exact + room


@given(rows)
def test_sums_lie_between_their_bounds(numbers):
    with np.errstate(over="ignore"):
        low, high = (float(bound(np.array(numbers))) for bound in (directed.sum_down, directed.sum_up))
    exact = sum(map(Fraction, numbers))
    assert Fraction(low) <= exact
    assert at_most(exact, high)
    assert close(high, exact, 2 * len(numbers) + 2)
    assert high == 0 or any(numbers)


@given(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=30))
def test_products_of_matrices_lie_below_their_bounds(pairs):
    a, b = np.array(pairs).T
    with np.errstate(over="ignore"):
        bound = float(directed.dot_up(a, b))
    exact = sum(Fraction(x) * Fraction(y) for x, y in pairs)
    assert at_most(exact, bound)
    assert close(bound, exact, 2 * len(pairs) + 2)
    assert (bound == 0) == (exact == 0)


def test_products_of_matrices_are_bounded_entry_by_entry():
    rng = np.random.default_rng(0)
    a, b = (np.ldexp(rng.uniform(0, 1, shape), rng.integers(-1074, 400, shape)) for shape in ((3, 5, 7), (7, 4)))
    a[0, 0] = b[:, 0] = 0.0
    bound = directed.dot_up(a, b)
    for index in np.ndindex(3, 5, 4):
        exact = sum(Fraction(x) * Fraction(y) for x, y in zip(a[index[:2]], b[:, index[2]], strict=True))
        assert at_most(exact, bound[index])
        assert (bound[index] == 0) == (exact == 0)


@given(sizes, sizes)
def test_products_and_quotients_lie_below_their_bounds(a, b):
    product = float(directed.times_up(a, b))
    assert at_most(Fraction(a) * Fraction(b), product)
    assert close(product, Fraction(a) * Fraction(b), 2)
    assert (product == 0) == (a == 0 or b == 0)
    if b > 0:
        quotient = float(directed.quotient_up(a, b))
        assert at_most(Fraction(a) / Fraction(b), quotient)
        assert close(quotient, Fraction(a) / Fraction(b), 2)


@given(rows)
def test_lengths_lie_below_their_bounds(numbers):
    bound = float(directed.norm_up(np.array([numbers]), axis=1)[0])
    exact = sum(Fraction(x) ** 2 for x in numbers)
    assert bound == np.inf or exact <= Fraction(bound) ** 2
    assert bound < np.inf or exact > Fraction(LARGEST) ** 2 / 2
    slack = Fraction(len(numbers) + 16) * Fraction(ULP)
    assert bound == np.inf or max(Fraction(bound) - 2 * Fraction(SMALLEST), 0) ** 2 <= exact * (1 + slack) ** 2


@st.composite
def expressions(draw, depth=5):
    """A computed number, the exact one, and its roundings; no product ends below the normal numbers."""
    kind = draw(st.sampled_from("f+*/+")) if depth else "f"
    if kind == "f":
        number = draw(sizes)
        return number, Fraction(number), 0
    (a, exact_a, at_a), (b, exact_b, at_b) = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    if kind == "+":
        return a + b, exact_a + exact_b, max(at_a, at_b) + 1
    if kind == "/" and (b == 0 or exact_b == 0 or b == np.inf):
        return a, exact_a, at_a
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = float(np.multiply(a, b) if kind == "*" else np.divide(a, b))
    exact = exact_a * exact_b if kind == "*" else exact_a / exact_b
    if np.isnan(value) or 0 < exact < Fraction(LEAST_NORMAL) or (exact and value < LEAST_NORMAL):
        return a, exact_a, at_a
    return value, exact, at_a + at_b + 1


@given(expressions())
def test_numbers_lie_between_bounds_that_count_their_roundings(expression):
    value, exact, roundings = expression
    with np.errstate(over="ignore", invalid="ignore"):
        assert at_most(exact, directed.rounded_up(value, roundings))
        assert value == np.inf or Fraction(directed.rounded_down(value, roundings)) <= exact


@given(st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=40), st.integers(0, 10**6))
def test_signed_sums_are_off_by_less_than_their_bound_in_every_order(terms, seed):
    numbers = np.array([-x if minus else x for x, minus in terms])
    order = np.random.default_rng(seed).permutation(len(numbers))
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for number in numbers[order]:
            total = float(total + number)
        bound = float(directed.sum_error(np.abs(numbers).sum(), max(len(numbers) - 1, 0)))
    if np.isfinite(total) and np.isfinite(bound):
        assert abs(Fraction(total) - sum(map(Fraction, numbers.tolist()))) <= Fraction(bound)


def ball(function: str, x: float) -> flint.arb:
    with flint.ctx.workprec(2300):
        return getattr(flint.arb(x), function)()


@given(st.floats(-800, 709) | st.sampled_from([0.0, -0.0, 5e-324, -745.2, -708.5, 1e-300, -1e300]))
def test_exponentials_lie_between_their_bounds(x):
    low, high = (float(bound(np.array(x))) for bound in (directed.exp_down, directed.exp_up))
    exact = ball("exp", x)
    assert flint.arb(low) <= exact <= flint.arb(high)
    assert flint.arb(high) <= exact * (1 + 32 * ULP) + 32 * SMALLEST
    if x >= 0:
        above = float(directed.expm1_up(np.array(x)))
        assert ball("expm1", x) <= flint.arb(above)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_exponentials_of_differences_lie_between_their_bounds(a, b):
    low, high = (float(bound(np.array(a - b), 1)) for bound in (directed.exp_down, directed.exp_up))
    with flint.ctx.workprec(4600):
        exact = (flint.arb(a) - flint.arb(b)).exp()
        assert flint.arb(low) <= exact
        assert high == np.inf or exact <= flint.arb(high)


def test_exponentials_of_infinities():
    ends = np.array([-np.inf, np.inf])
    assert directed.exp_up(ends, 1)[0] < 1e-322
    assert directed.exp_up(ends)[1] == np.inf
    assert directed.exp_down(ends, 1)[0] == 0
    assert directed.exp_down(ends)[1] <= LARGEST


@given(st.integers(0, 10**15), st.integers(1, 12))
def test_whole_roots_are_exact(number, degree):
    found = directed.whole_root(number, degree)
    assert found**degree <= number < (found + 1) ** degree


HALF = np.array([1.0, 2.0**-53])  # adds up to 1.0 in every order
ODD = 1 + 2.0**-52
NEEDED = {
    "sum_up": (lambda: directed.sum_up(HALF), 1 + Fraction(2) ** -53),
    "dot_up": (lambda: directed.dot_up(HALF, np.ones(2)), 1 + Fraction(2) ** -53),
    "norm_up": (lambda: directed.norm_up(np.array([1.0, 2.0**-27]), 0), 1 + Fraction(2) ** -56),
    "times_up": (lambda: directed.times_up(ODD, ODD), Fraction(ODD) ** 2),
    "quotient_up": (lambda: directed.quotient_up(1.0, 3.0), Fraction(1, 3)),
}


@pytest.mark.parametrize("name", NEEDED)
def test_without_rounding_up_there_is_no_bound(name, monkeypatch):
    bound, exact = NEEDED[name]
    assert Fraction(float(bound())) >= exact
    monkeypatch.setattr(directed, "rounded_up", lambda value, roundings: value)
    monkeypatch.setattr(directed, "above", lambda value: value)
    assert Fraction(float(bound())) < exact


@pytest.mark.parametrize("x", [0.0, 5e-324, 2.0**-1025, 1e-300, 0.1, np.exp(-1), 1.0, 40.0, 1e6, 1e300])
def test_lamberts_function_lies_below_its_bound(x):
    bound = directed.lambert_up(x)
    with flint.ctx.workprec(2300):
        assert flint.arb(bound) * flint.arb(bound).exp() >= flint.arb(x)
    assert bound <= SMALLEST or bound * (1 - 1e-12) * np.exp(bound * (1 - 1e-12)) <= x


def test_unknown_numbers_stay_unknown():
    lost = np.array([1.0, np.nan])
    for bound in (directed.sum_up(lost), directed.dot_up(lost, lost), directed.norm_up(lost, 0)):
        assert np.isnan(bound)
    assert np.isnan(directed.exp_up(lost, 1)[1])


SOURCE = Path(attnfun.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "arithmetic")
CLOSE = 1e-6


def constants_of(path: Path) -> dict[str, object]:
    """What the names of a module stand for; nothing if it cannot be imported here."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    try:
        return vars(importlib.import_module(".".join(("attnfun", *parts))))
    except Exception:
        return {}


def number_of(node: ast.AST, names: dict[str, object]) -> float | None:
    """The number that an expression of literals and module constants stands for."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id=name) if isinstance(names.get(name), int | float):
            return float(names[name])  # type: ignore[arg-type]
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            value = getattr(names.get(name), attribute, None)
            return float(value) if isinstance(value, int | float) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = number_of(operand, names)
            return None if value is None else -value
        case ast.BinOp(left=left, op=op, right=right):
            a, b = number_of(left, names), number_of(right, names)
            if a is None or b is None:
                return None
            table = {ast.Add: a + b, ast.Sub: a - b, ast.Mult: a * b, ast.Div: a / b if b else None}
            return a**b if isinstance(op, ast.Pow) and abs(b) < 1100 and a > 0 else table.get(type(op))
    return None


def is_small(node: ast.AST, names: dict[str, object]) -> bool:
    """A number near 0, or a product with one, other than 0 itself."""
    value = number_of(node, names)
    if value is not None:
        return 0 < abs(value) <= CLOSE
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return is_small(left, names) or is_small(right, names)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return is_small(left, names) or is_small(right, names)
        case ast.BinOp(left=left, op=ast.Div()):
            return is_small(left, names)
    return False


def factors_near_one(text: str, names: dict[str, object]) -> list[str]:
    """Literals and sums that are nearly one, under any name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Constant(value=float() as value) if 0 < abs(value - 1) <= CLOSE:
                found.append(ast.unparse(node))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                for one, other in ((left, right), (right, left)):
                    if number_of(one, names) == 1 and is_small(other, names):
                        found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_rounding_factors_stand_in_arithmetic_only(path):
    assert not factors_near_one(path.read_text(), constants_of(path))
    for node in ast.walk(ast.parse(path.read_text())):  # the lemma is called: `all_orders`
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("arithmetic.rounding"):
            assert "MARGIN" not in {alias.name for alias in node.names}


@pytest.mark.parametrize(
    "text",
    [
        "x * (1 + 1e-9)", "x * (1 - 1e-12 - 4 * n * ULP)", "ROOM = 1.0 + 1e-7", "y = 1.0000001 * x",
        "x * (1 + 4 * ULP)", "x * (1 + ROOM)", "x * (1e-12 + 1)", "1 - 2.0**-30", "x * (1 + d.ULP)", "0.9999999",
    ],
)  # fmt: skip
def test_every_way_to_write_such_a_factor_is_seen(text):
    assert factors_near_one(text, {"ULP": ULP, "ROOM": 1e-9, "d": directed})


@pytest.mark.parametrize("text", ["1 + 1e-3", "x + 1e-9", "1.05", "1 + count * share", "1.0", "1 - x"])
def test_other_numbers_are_not(text):
    assert not factors_near_one(text, {"share": 0.5})
