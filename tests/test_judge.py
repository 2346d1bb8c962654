"""The judge's arithmetic, its reader of formulas and its networks, against what is true; and what it imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from copy import copy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import attnfun as af
import attnfun.judge
from attnfun.errors import InputError
from attnfun.formula import parser
from attnfun.formula.functions import FUNCTIONS as MAIN_FUNCTIONS
from attnfun.judge import Unreadable, files, formula
from attnfun.judge.covers import Box
from attnfun.judge.functions import FUNCTIONS
from attnfun.judge.models import Model, space
from attnfun.judge.network import Evaluator, Feature
from attnfun.judge.ranges import ZERO, Range, precision
from attnfun.network import Affine, Attention, Network, Softmax, reference
from balls import BallNetwork, Formula, Number, ball, exact
from balls import precision as bits
from grammar import Draw
from rooms import lines_of, trusted

NAMES = ("x", "y")
ORDERS = (1, 3, 6)
ACCURATE = 200
"""Bits with which points are evaluated."""


# ---------------------------------------------------------------- ranges and Taylor models


def points_of(low: list[float], high: list[float], rng: np.random.Generator) -> list[list[float]]:
    """Corners, the centre, random points, and neighbours of the ends and of zero, all in the box."""
    ends = np.array([low, high])
    corners = [[ends[k >> axis & 1, axis] for axis in range(len(low))] for k in range(2 ** len(low))]
    middle = np.clip(ends[0] / 2 + ends[1] / 2, low, high)
    inner = [np.clip(np.nextafter(end, middle), low, high) for end in ends]
    zero = [np.clip(tiny, low, high) for tiny in (-5e-324, 0.0, 5e-324)]
    shares = rng.random((4, len(low)))
    somewhere = [np.clip(ends[0] * (1 - share) + ends[1] * share, low, high) for share in shares]
    return [[float(x) for x in point] for point in (*corners, middle, *inner, *zero, *somewhere)]


def value_of(model: Model, box: Box, point: list[float]) -> arb:
    """The polynomial of a model at a point, without its rest."""
    places = []
    with precision():
        variables = box.variables(model.space)
    for variable, x in zip(variables, point, strict=True):
        centre, radius = variable.polynomial[0], max(variable.polynomial[1:], key=lambda slope: abs(slope).mid())
        places.append(arb(0) if radius.is_zero() else (arb(x) - centre) / radius)
    total = arb(0)
    for exponents, coefficient in zip(model.space.exponents, model.polynomial, strict=True):
        term = coefficient
        for place, exponent in zip(places, exponents, strict=True):
            term = term * place**exponent
        total += term
    return total


def assert_holds(model: Model, box: Box, point: list[float], truth: Number) -> None:
    """A model holds a value: by its range, and by its polynomial with its rest."""
    value = ball(truth)
    if not value.is_finite():
        return
    where = f"{point} in {box.low.tolist()}..{box.high.tolist()}: {value}"
    assert not value < model.range.low, f"{where}, below {model.range}"
    assert not value > model.range.high, f"{where}, above {model.range}"
    if model.rest.is_finite():
        assert not abs(value - value_of(model, box, point)) > model.rest, f"{where}, not within {model.rest}"


def check(text: str, low: list[float], high: list[float], order: int, seed: int = 0) -> list[Model]:
    """The models of a formula on a box, which hold what it is at points of the box."""
    names = NAMES[: len(low)]
    box, truth = Box(np.array(low), np.array(high)), Formula(text, names)
    with precision():
        models = formula.evaluate(*formula.read(text, names), box.variables(space(len(low), order)))
    with bits(ACCURATE):
        for point in points_of(low, high, np.random.default_rng(seed)):
            for model, value in zip(models, truth([exact(x) for x in point]), strict=True):
                assert_holds(model, box, point, value)
    return models


SPOTS = st.sampled_from([-1.0, 0.0, 1.0, 0.5, -2.0, np.pi / 2, np.pi, 1e-8, -1e-8, 3.0, 30.0, -30.0])
WIDTHS = st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 1e-3, 0.1, 1.0, 2.0, 10.0, 1e3, 1e300])
BOXES = st.lists(st.tuples(SPOTS, WIDTHS, st.sampled_from(["centre", "low", "high"])), min_size=1, max_size=2)


def ends_of(box: list[tuple[float, float, str]]) -> tuple[list[float], list[float]]:
    """Boxes around a spot, or with an end there."""
    low = [spot - (width if side != "low" else 0.0) for spot, width, side in box]
    high = [spot + (width if side != "high" else 0.0) for spot, width, side in box]
    return low, high


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=10)
@given(box=BOXES, order=st.sampled_from(ORDERS))
def test_functions_hold_their_values(name, box, order):
    low, high = ends_of(box)
    inner = "x" if len(low) == 1 else "(x*y + x)"
    check(f"{name}({inner})", low, high, order)


UNDEFINED_SOMEWHERE = [
    ("log(x)", [0.0], [1.0]), ("log(x)", [-1.0], [1.0]), ("log1p(x)", [-1.0], [0.0]), ("sqrt(x)", [-5e-324], [1.0]),
    ("asin(x)", [0.5], [1.0000000000000002]), ("acos(x)", [-1.5], [0.0]), ("tan(x)", [1.0], [2.0]),
    ("1/x", [0.0], [1.0]), ("x**-1", [-1.0], [1.0]), ("x**-2", [0.0], [1.0]), ("x**0.5", [-1.0], [1.0]),
    ("x**-0.5", [0.0], [1.0]), ("0*log(x)", [-1.0], [1.0]), ("max(1, log(x))", [-1.0], [1.0]),
    ("where(log(x) < 0, 1, 1)", [-1.0], [1.0]), ("where(x < 2, log(x), 0)", [-1.0], [1.0]), ("x**x", [0.0], [1.0]),
    ("abs(1/x)", [-1.0], [1.0]), ("sign(1/x)", [-1.0], [1.0]), ("sin(1/x)", [-1.0], [1.0]),
    ("2**log(x)", [-1.0], [1.0]), ("(1/x)**0", [-1.0], [1.0]), ("-log(x) + log(x)", [-1.0], [1.0]),
    ("erf(log(x))", [-2.0], [-1.0]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "low", "high"), UNDEFINED_SOMEWHERE)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_undefined_somewhere_is_not_called_defined(text, low, high, order):
    (model,) = check(text, low, high, order)
    assert not model.range.defined


DEFINED = [
    ("log(x)", [5e-324], [1.0]), ("sqrt(x)", [0.0], [1.0]), ("asin(x)", [-1.0], [1.0]), ("acos(x)", [-1.0], [1.0]),
    ("x**0", [-1.0], [1.0]), ("x**0.5", [0.0], [1.0]), ("abs(x)**0.3", [-1.0], [1.0]), ("x**-3", [1.0], [2.0]),
    ("where(x > 2, log(x), 0)", [-1.0], [1.0]), ("where(x > 0, log(x), 0)", [0.5], [1.0]), ("sinc(x)", [-9.0], [9.0]),
    ("(-x)**3", [-1.0], [1.0]), ("2**x", [-1.0], [1.0]), ("x**2.5", [0.0], [2.0]), ("x**0.5", [0.0], [0.0]),
    ("tan(x)", [-1.5], [1.5]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "low", "high"), DEFINED)
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_defined_is_called_so(text, low, high, order):
    (model,) = check(text, low, high, order)
    assert model.range.defined
    assert model.range.bounded


OPERATIONS_OF_TWO = [
    "x + y", "x - y", "x*y", "x/y", "x/(2 + y**2)", "min(x, y)", "max(x, y)", "max(x, 0.25, y)", "abs(x) - abs(y)",
    "x**2*y**3", "x**-2", "(x*y)**5", "x**0", "(x - x)**0", "0**(x - x)", "abs(x)**0.5", "abs(x)**y", "x**1.5",
    "(x*x)**y", "where(x < y, x, y*x)", "where(0 < x <= y, 1, -1)", "where(x < y < 1 < 2, x, -y)",
    "where(not x <= y or x < 0, x, 0)", "where(x >= y and not y > 1, sin(x), cos(y))", "sign(x)*y",
    "where(x <= 0 and x >= 0, 7, y)", "where(x < x, 1, y)", "sin(x)/(2 + sin(4*y))", "exp(x)/(exp(x) + exp(-x))",
    "1/(2 + cos(4*x + y))", "x*x - x*y + 1e-30*y", "e**-abs(x)", "[x + y, x/(1 + y*y), 3]", "2**-x**2", "x**3/x",
    "(x + 1e300*y)/1e300", "tanh(x*y)", "x**200", "(1 + y*y)**-40", "(x + y)/(x*x + 1e-300)",
    "min(x**2, y) + max(x, 0)", "x < y", "sinc(x + 30*y)", "log(1 + abs(x*y))",
]  # fmt: skip


@pytest.mark.parametrize("text", OPERATIONS_OF_TWO)
@settings(max_examples=5)
@given(box=st.lists(BOXES.map(lambda box: box[0]), min_size=2, max_size=2), order=st.sampled_from(ORDERS))
def test_operations_hold_their_values(text, box, order):
    check(text, *ends_of(box), order)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), order=st.sampled_from(ORDERS))
def test_random_formulas_hold_their_values(seed, order):
    rng = np.random.default_rng(seed)
    draw = Draw(rng, int(rng.integers(1, 3)))
    _, text = draw.target()
    ends = np.array(list(draw.domain.values()))
    share = np.sort(rng.random((2, len(ends))), axis=0) if rng.random() < 0.7 else np.array([[0.0], [1.0]])
    low, high = ends[:, 0] + share * (ends[:, 1] - ends[:, 0])
    check(text, low.tolist(), np.maximum(low, high).tolist(), order, seed)


def test_a_quotient_whose_polynomial_is_far_off():
    for amplitude in np.linspace(0.1, 1.9, 5):
        for k in (1, 2, 4, 6, 8):
            check(f"(1 + x)/(2 + {amplitude}*cos({k}*x))", [-1.0], [1.0], 6)
            check(f"sin({k}*x)/(2 + {amplitude}*sin({k}*x + 1))", [-1.0], [1.0], 3)


NUMBERS = st.sampled_from([-np.inf, -1e300, -2.0, -1.0, -5e-324, 0.0, 5e-324, 0.3, 1.0, 7.0, 1e300, np.inf])


@given(ends=st.lists(NUMBERS, min_size=4, max_size=4), share=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@example(ends=[-np.inf, np.inf, 0.0, 0.0], share=(0.5, 0.5))
def test_ranges_hold_their_values(ends, share):
    """Sums, products, quotients, extremes and powers of ranges, some of them unbounded."""
    pairs = [sorted(ends[:2]), sorted(ends[2:])]
    finite = [np.clip(pair, -1e305, 1e305) for pair in pairs]
    assume(all(np.isfinite(pair).any() or pair[0] < pair[1] for pair in pairs))
    inside = [min(max(low * (1 - s) + high * s, low), high) for (low, high), s in zip(finite, share, strict=True)]
    x, y = (Fraction(float(number)) for number in inside)
    with precision():
        a, b = (Range(arb(low), arb(high)) for low, high in pairs)
        results = {
            "sum": (a + b, x + y),
            "difference": (a - b, x - y),
            "product": (a * b, x * y),
            "absolute": (a.absolute(), abs(x)),
            "largest": (a.extreme(b, largest=True), max(x, y)),
            "smallest": (a.extreme(b, largest=False), min(x, y)),
            "join": (a.join(b), y),
            **{f"power {n}": (a.power(n), x**n) for n in (0, 1, 2, 3, 8)},
        }
        if y:
            results["quotient"] = (a / b, x / y)
        if x:
            results |= {f"power {n}": (a.power(n), x**n) for n in (-1, -2, -3)}
        for name, (range_, value) in results.items():
            truth = arb(fmpq(value.numerator, value.denominator))
            assert not truth < range_.low, (name, pairs, value)
            assert not truth > range_.high, (name, pairs, value)


def test_functions_have_ranges_that_end_where_they_are_not_smooth():
    """At zero, or at an end of their domains; python-flint has no cube root of zero."""
    with precision():
        for name, function in FUNCTIONS.items():
            for low, high in ((0, 1), (-1, 0), (0, 0), (1, 1), (-1, 1), (2, 3)):
                range_ = function.range_(Range(arb(low), arb(high)))
                assert range_.low <= range_.high, name
    assert af.compile("sin(cbrt(x))", {"x": (0, 1)}, 0.3).certificate.recheck(engine="arb").judged


# ---------------------------------------------------------------- networks


def random_network(rng: np.random.Generator, dtype: str) -> tuple[Network, int, int]:
    """Layers of all kinds that fit together, with the length and the width of what goes in."""
    length, width = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    start, layers, scale = (length, width), [], float(rng.choice([0.3, 1.0, 8.0]))
    for _ in range(int(rng.integers(1, 4))):
        kind, after = rng.choice(["affine", "left", "attention", "softmax"]), int(rng.integers(1, 4))
        if kind == "affine":
            layers.append(Affine(rng.normal(size=(1, width, after)), rng.normal(size=(1, after))))
            width = after
        elif kind == "left":
            terms, tokens = int(rng.integers(1, 3)), int(rng.integers(1, 3))
            left = rng.normal(size=(terms, tokens, length)) * (rng.random((terms, tokens, length)) < 0.7)
            layers.append(Affine(rng.normal(size=(terms, width, after)), rng.normal(size=(tokens, after)), left))
            length, width = tokens, after
        elif kind == "softmax":
            layers.append(Softmax(width))
        else:
            heads, size, values, data = (*(int(n) for n in rng.integers(1, 3, size=3)), bool(rng.random() < 0.5))
            residual, memory = bool(rng.random() < 0.4), int(rng.integers(0 if data else 1, 6))
            features, after = width if data else int(rng.integers(1, 3)), width if residual else after
            layers.append(
                Attention(
                    scale * rng.normal(size=(heads, width, size)),
                    rng.normal(size=(heads, size)),
                    scale * rng.normal(size=(heads, features, size)),
                    rng.normal(size=(heads, size)),
                    rng.normal(size=(heads, features, values)),
                    rng.normal(size=(heads, values)),
                    rng.normal(size=(heads, values, after)),
                    rng.normal(size=after),
                    rng.normal(size=(memory, features)),
                    attends_data=data,
                    residual=residual,
                )
            )
            width = after
    for layer in layers:
        for name, weights in vars(layer).items():
            if isinstance(weights, np.ndarray):
                object.__setattr__(layer, name, weights.astype(dtype).astype(np.float64))
    return Network(tuple(layers), start[0], dtype), *start


def computed(network: Network, X: np.ndarray) -> np.ndarray:
    """The network in its own number format."""
    for layer in network.layers:
        single = copy(layer)
        for name, weights in vars(layer).items():
            if isinstance(weights, np.ndarray):
                object.__setattr__(single, name, weights.astype(network.dtype))
        X = reference.apply(single, X.astype(network.dtype))
        assert X.dtype == network.dtype
    return X


def as_judged(network: Network) -> files.Network:
    """The same network as the judge holds it."""
    kinds = {"affine": files.Affine, "attention": files.Attention, "softmax": files.Softmax}
    layers = tuple(
        kinds[layer.kind](**{name: getattr(layer, name) for name in vars(layer)}) for layer in network.layers
    )
    return files.Network(layers, network.shape_in[0], network.shape_in[1], network.dtype)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    order=st.sampled_from(ORDERS),
    width=st.sampled_from([0.0, 1e-12, 1e-3, 0.3, 3.0, 1e3]),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_networks_hold_their_values(seed, order, width, dtype):
    """In real arithmetic, and as computed at points of the number format."""
    rng = np.random.default_rng(seed)
    network, length, features = random_network(rng, dtype)
    if length * features > 2:
        order = min(order, 3)
    low = rng.normal(size=length * features) * float(rng.choice([0.0, 1.0, 20.0]))
    box = Box(low, low + width * rng.random(low.shape))
    around = Box(box.low - width * rng.random(low.shape), box.high + width * rng.random(low.shape))
    with precision():
        evaluator, polynomials = Evaluator(as_judged(network)), space(len(low), order)
        _, focus = evaluator([Feature(x, ZERO) for x in around.variables(polynomials)], {})
        outputs, _ = evaluator([Feature(x, ZERO) for x in box.variables(polynomials)], focus)
    truth = BallNetwork(network)
    for point in points_of(box.low.tolist(), box.high.tolist(), rng):
        point = np.clip(np.array(point).astype(dtype).astype(np.float64), box.low, box.high).tolist()
        floats = computed(network, np.array(point).reshape(1, length, features)).ravel().tolist()
        representable = bool((np.array(point).astype(dtype) == np.array(point)).all())
        with bits(ACCURATE):
            for output, value, number in zip(outputs, truth([exact(x) for x in point]), floats, strict=True):
                assert value.is_finite()
                assert output.model.range.defined
                assert_holds(output.model, box, point, value)
                assert not representable or not abs(value - number) > output.error


@pytest.mark.parametrize("slope", [10.0, 1e3, 1e6, 1e9])
def test_a_steep_head_is_never_less_known_than_by_its_range(slope):
    """The series of `e^s` leaves as much as `e^{10^8}`, a finite number that nobody needs."""
    first, second, none = np.eye(2)[None, :, :1], np.eye(2)[None, :, 1:], np.zeros((1, 1))
    right, left = np.array([[[1.0, 0.0]], [[0.0, 0.0]]]), np.eye(2)[:, :, None]
    tokens = files.Affine(right, np.array([[0.0, 1.0], [0.0, 0.0]]), left)  # (x, 1) and (0, 0)
    rectifier = files.Attention(
        slope * first, none, second, none, first, none, np.ones((1, 1, 1)), np.zeros(1), np.zeros((0, 2)), True, False
    )
    with precision():
        variables = Box(np.array([-0.1]), np.array([0.2])).variables(space(1, 6))
        evaluator = Evaluator(files.Network((tokens, rectifier), 1, 1, "float64"))
        (output, _), _ = evaluator([Feature(variables[0], ZERO)], {})
    assert output.model.rest <= output.model.range.high - output.model.range.low


# ---------------------------------------------------------------- formulas


def test_both_readers_know_the_same_functions():
    formula.read("besselj(1, x) + besselk(1/2, x)", ("x",))  # reading adds nothing to the table
    assert {*FUNCTIONS, *formula.ARGUMENTS, *formula.OTHER_NAMES} == set(MAIN_FUNCTIONS)
    assert formula.ARGUMENTS == {name: MAIN_FUNCTIONS[name].arity for name in formula.ARGUMENTS}  # noqa: SIM300
    assert all(MAIN_FUNCTIONS[name].arity == 1 for name in FUNCTIONS)


Shape = tuple[object, ...]


def shape_of_judged(text: str) -> list[Shape]:
    """The outputs as nested operations, as the judge reads them."""
    steps, outputs = formula.read(text, NAMES)
    shapes: list[Shape] = []
    for kind, args, value in steps:
        known = float(value) if isinstance(value, Fraction) else value
        shapes.append((kind if kind != "constant" else value, *(shapes[k] for k in args), known))
    return [shapes[k] for k in outputs]


def shape_of_main(text: str) -> list[Shape]:
    """The same as the main parser reads them."""
    program = parser.parse(text, NAMES)
    shapes: list[Shape] = []
    for node in program.nodes:
        name, known = node.kind, None
        if node.kind == "constant":
            written = program.text(node)
            name, known = (written, written) if written in ("pi", "e") else ("number", node.value)
        elif node.kind == "variable":
            known = int(node.value)
        shapes.append(({"ln": "log"}.get(name, name), *(shapes[k] for k in node.args), known))
    return [shapes[k] for k in program.outputs]


READ = [
    "-x**2", "2**-x**2", "-x**-y**-2", "x - y - 1", "x/y/2", "x/y*2", "-x*-y", "+ + - -x", "2*-x", "x**2**3",
    "(x**2)**3", "- -x**2", "1 - -1", "x+-y", "where(x < y < 1 < 2, x, y)",
    "where(not x < 1 and y < 1 or x > 2, 1, 2)", "where(not (x < 1 and y < 1) or x > 2, 1, 2)",
    "where(x<1 or y<1 and x>0, 1, 2)", "where(not not x<1, 1, 2)",
    "where(x < 1 <= y or not y >= x > 0 and x < 3, 1, 2)", "1_000*x", "0x10*x", "0o17 + 0b11", ".5e-3", "5.", "5.e2",
    "1_0.5", "1e-3_0", "00", "0", "007.5", "0e5", "[x, y]", "(x, y)", "x, y", "x,", "(x)", "((x))", "[x + y]",
    "(x) + (y)", "(x)*(y), 1", "min(x, y, 1, 2)", "max(x, y,)", "sin(x,)", "ln(x) + log(x)", "pi*e", "e**x", "x < 1",
    "x<1 and y<1", "  x ", "x\n + y", "x # + y", "x # one\n + y # two", "x #\r+ y",
    "abs(-x)", "sign(x)", "1e308", "5e-324", "3e-324", "0.1",
    "1.7976931348623157e308", "-1e-320", "0.1000000000000000055511151231257827", "x*(y + 1)**-0.5",
    "where(x<y, x, y)**2",
]  # fmt: skip
REFUSED = [
    "", "  ", "x +", "* x", "x y", "2x", "x(2)", "(x", "x)", "[x", "[]", "()", "[x] + 1", "[[x]]", "x ** ", "x = 1",
    "x == 1", "x != 1", "x % 2", "x // 2", "x ^ 2", "x @ y", "x | y", "~x", "x.real", "x[0]", "lambda: x",
    "x if y else 1", "True", "None", "'x'", "1j", "z", "sin", "foo(x)", "sin()", "sin(x, y)", "where(x, 1, 2)",
    "where(x < 1, 2)", "min(x)", "1e400", "1e-400", "1e999999999", "9" * 400, "1__0", "1_", "_1", "012", "0x", "0xg",
    "0b2", "1._5", "(x < 1) + 1", "not x", "x and y", "x < 1 < (y < 2)", "-(x < 1)", "sin(x < 1)", "x < not y",
    "1 + not x < 1", "sin(*x)", "sin(x=1)", "²", "x²", "\u0663", "x;y", "x:=1", "import os", "__import__('os')",
    "exec('1')", "x\\", "$", "where(x<1, y<1, 2)", "min(x<1, y)", "0 < x + (1 < y)", "nan", "inf", "x is y", "x in y",
    "await x", "f'{x}'", "...", "#", "and", "not",
]  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_both_readers_read_the_same(text):
    assert shape_of_judged(text) == shape_of_main(text)


@pytest.mark.parametrize("text", REFUSED)
def test_both_readers_refuse_the_same(text):
    with pytest.raises(InputError):
        parser.parse(text, NAMES)
    with pytest.raises(Unreadable, match=r"\w+ \w+"):
        formula.read(text, NAMES)


def test_variables_may_have_the_names_of_constants_and_functions():
    steps, _ = formula.read("e*sin(sin)", ("e", "sin"))
    assert [step[0] for step in steps] == ["variable", "variable", "sin", "*"]
    program = parser.parse("e*sin(sin)", ("e", "sin"))
    assert [node.kind for node in program.nodes] == ["variable", "variable", "sin", "*"]


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_both_readers_read_random_formulas_alike(seed):
    _, text = Draw(np.random.default_rng(seed), 2).target()
    assert shape_of_judged(text) == shape_of_main(text)


TOKENS = [
    "x", "y", "2", "0.5", "+", "-", "*", "/", "**", "(", ")", "<", ">=", " and ", " or ", " not ", ",", "sin(", "min(",
]  # fmt: skip


@settings(max_examples=150)
@given(parts=st.lists(st.sampled_from(TOKENS), min_size=1, max_size=12))
def test_both_readers_agree_on_any_row_of_tokens(parts):
    text = " ".join(parts)
    try:
        expected = shape_of_main(text)
    except InputError:
        with pytest.raises(Unreadable):
            formula.read(text, NAMES)
    else:
        assert shape_of_judged(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "x" + ")" * 5000,
        "sin(" * 5000 + "x" + ")" * 5000,
        "x" + "**x" * 5000,
        "[" * 5000,
        "x*(1+" * 5000 + "x" + ")" * 5000,
        "not " * 5000 + "(" * 5000 + "x",
        "x + 1" * 50_000,
        "1e" + "9" * 5000,
        "9" * 5000,
        "0." + "1" * 5000,
        "0x" + "f" * 5000,
    ],
)
def test_deep_and_long_formulas_are_refused_in_words(text):
    with pytest.raises(Unreadable, match=r"may have|at most|must have|must be"):
        formula.read(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 5000 + "x",
        "+".join(["x"] * 5000),
        "(" * 100 + "x" + ")" * 100,
        "besselj(1" + "/1" * 5000 + ", x)",
    ],
)
def test_long_formulas_are_read(text):
    assert shape_of_judged(text)


@pytest.mark.parametrize(
    "text",
    [
        "x**(((2**4000)**4000)**4000)",
        "sin((2**4000)**4000*x)",
        "erf((2**4000)**4000*x) + tan((2**4000)**4000*x)",
        "exp(exp(exp(exp(exp(x + 9)))))",
        "((x + 2)**4000)**4000",
        "2" + "**2" * 100,
        "x**" + "1" * 300,
        "x**-(2**4000)",
    ],
)
@pytest.mark.parametrize("order", ORDERS)
def test_numbers_without_bound_take_little_time_and_memory(text, order):
    box = Box(np.array([-1.0]), np.array([1.0]))
    with precision():
        (model,) = formula.evaluate(*formula.read(text, ("x",)), box.variables(space(1, order)))
    assert model.range.low <= model.range.high


def test_numbers_are_as_written():
    steps, _ = formula.read("0.1 + 1e-5 + 0x10 + 1_000.25", ())
    numbers = [value for kind, _, value in steps if kind == "number"]
    assert numbers == [Fraction(1, 10), Fraction(1, 10**5), 16, Fraction(4001, 4)]


# ---------------------------------------------------------------- independence

JUDGE = Path(attnfun.judge.__file__).parent
ALLOWED = {*sys.stdlib_module_names, "flint", "numpy", "safetensors"} - {"importlib", "runpy"}


@pytest.mark.parametrize("path", sorted(JUDGE.rglob("*.py")), ids=lambda path: path.name)
def test_the_judge_imports_nothing_else(path):
    """Imports inside functions too; and nothing that imports by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1 or (node.level == 0 and (node.module or "").partition(".")[0] in ALLOWED)
        elif isinstance(node, ast.Name):
            assert node.id not in ("__import__", "eval", "exec", "compile")


def test_the_command_loads_no_other_module(tmp_path):
    path = tmp_path / "nothing.safetensors"
    path.write_bytes(b"")
    script = (
        "import runpy, sys\nbefore = set(sys.modules)\n"
        "sys.argv = ['judge', sys.argv[1]]\n"
        "try:\n    runpy.run_module('attnfun.judge', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end:\n    print(end.code)\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] == 'attnfun'))\n"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    status, loaded, packages = done.stdout.splitlines()
    known = {"attnfun", "flint", "numpy", "safetensors", "cython_runtime"}  # the last comes with python-flint
    assert {name for name in packages.split() if name[0] != "_"} <= known
    assert status == "2"
    assert done.stderr.startswith("unreadable: ")
    others = {name for name in loaded.split() if not name.startswith("attnfun.judge")}
    assert others <= {"attnfun", "attnfun._version"}


def test_the_documents_say_how_many_lines_must_be_trusted():
    """To a twentieth, in the order of these words."""
    root, parts, judge = Path(__file__).parent.parent, trusted(), lines_of("judge")
    rest = parts["formulas"] + parts["networks, domains, targets and the rest"]
    three = [parts[name] for name in ("rules", "enclosures of networks", "arithmetic")]
    for name, words, wanted in (
        ("README.md", "about N lines of code, about N more that they import", [sum(three), rest]),
        ("README.md", "about N lines of code, python-flint", [judge]),
        ("docs/theory.md", "about N lines of code), the enclosures of section 9 (N) and the arithmetic", three[:2]),
        ("docs/theory.md", "the arithmetic below them (N)", three[2:]),
        ("docs/theory.md", "domains and targets (N), not the provers (N)", [rest, lines_of("proofs/provers")]),
        ("docs/theory.md", "the files of `judge/` (about N lines of code)", [judge]),
    ):
        found = re.search(re.escape(words).replace("N", r"([\d,]+)"), (root / name).read_text())
        assert found, words
        for stated, lines in zip(found.groups(), wanted, strict=True):
            assert abs(int(stated.replace(",", "")) - lines) <= max(lines / 20, 50), (words, lines)
