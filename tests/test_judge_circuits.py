"""The judge on circuits: what it reads of heads and formulas, and lies that it must not agree with."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import attnfun as af
from attnfun.judge import Unreadable, claim_of, formula, judge
from attnfun.judge.circuits import Unit, _ranges
from attnfun.judge.covers import Box
from attnfun.judge.errors import NotCovered
from attnfun.judge.files import Attention, Claim
from attnfun.judge.forms import Unknowns
from attnfun.judge.functions import FUNCTIONS
from attnfun.judge.limits import Limits
from attnfun.judge.ranges import Range, precision
from attnfun.judge.symbols import Sum, Symbols
from attnfun.proofs import Proof
from attnfun.proofs.storage import pack
from balls import Formula, ball, exact
from balls import precision as bits
from grammar import Draw

# ---------------------------------------------------------------- sums of products of powers


def value(symbols: Symbols, sum_: Sum, point: list[float]) -> arb:
    """A sum at a point, without what it is off."""

    def atom(number: int) -> arb:
        if number < len(point):
            return arb(point[number])
        of = symbols.atoms[number].inner
        inner = value(symbols, of, point) + arb(0, of.off)
        match symbols.atoms[number].name:
            case "sum":
                return inner
            case "max":
                return inner if inner > 0 else arb(0)
            case "log":
                return abs(inner).log()
            case name:
                return FUNCTIONS[name].series(inner, 0)[0]

    total = arb(0)
    for monomial, c in sum_.terms.items():
        for number, q in monomial:
            c = c * (
                atom(number) ** int(q) if q.denominator == 1 else atom(number) ** (arb(q.numerator) / q.denominator)
            )
        total += c
    return total


def sums_of(text: str, names: tuple[str, ...], low: list[float], high: list[float]) -> tuple[Symbols, list[Sum]]:
    box, steps = Box(np.array(low), np.array(high)), formula.read(text, names)
    ranges, _ = _ranges(steps[0], box, Limits())
    symbols = Symbols([Range(arb(a), arb(b)) for a, b in zip(low, high, strict=True)])
    return symbols, symbols.evaluated(*steps, symbols.variables, ranges)


def check(text: str, names: tuple[str, ...], low: list[float], high: list[float], seed: int = 0) -> bool:
    """Sums hold what a formula is at points; false if it cannot be written as a sum."""
    rng, truth = np.random.default_rng(seed), Formula(text, names)
    with precision(200):
        try:
            symbols, sums = sums_of(text, names, low, high)
        except NotCovered:
            return False
    points = [low, high, *(rng.uniform(low, high).tolist() for _ in range(4))]
    with bits(200), precision(200):
        for point in points:
            for sum_, number in zip(sums, truth([exact(x) for x in point]), strict=True):
                found, wanted = value(symbols, sum_, point), ball(number)
                if wanted.is_finite() and found.is_finite() and sum_.off.is_finite():
                    assert not abs(found - wanted) > sum_.off, (text, point, found, wanted)
                    assert not abs(wanted) > symbols.most(sum_), (text, point)
    return True


WRITTEN = [
    "x*y - (x + y)**2/4", "exp(x)*exp(y)/exp(x + y)", "sqrt(x*y/2)", "log(x*y**3)", "exp(0.5*log(x) - 2*log(y))",
    "x**1.5*y**-0.7", "1/(1 + x*y)", "(x - 9)**-1 + (9 - x)**-2", "abs(x - y) + max(x, 2*y) - min(x, 1, y)",
    "sin(x + 2*y)**2", "exp(-abs(x - 1.2))", "log((x - 9)**2)", "exp(0.5*log((x - 1.2)**2))", "sqrt((x - 1.2)**2)",
    "((x - 1.2)**2)**1.5", "expm1(x) - log1p(y)", "2**x", "(x + y)**x", "log(4 - x)", "exp(log(9 - x)*3)", "(-x)**3",
    "sqrt(exp(x))", "log(exp(x*y))", "tanh(x/3)", "(x*y)**12", "log(x + 1e-17)", "sqrt(x + 1e-17*y)", "max(x, 1e-17*y)",
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_formulas_as_sums(text):
    check(text, ("x", "y"), [1.0, 0.5], [2.0, 1.5])
    check(text, ("x", "y"), [-1.0, -2.0], [2.0, 1.5])


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_random_formulas_as_sums(seed):
    rng = np.random.default_rng(seed)
    draw = Draw(rng, int(rng.integers(1, 3)))
    ends = np.array(list(draw.domain.values()))
    check(draw.continuous(2), tuple(draw.domain), ends[:, 0].tolist(), ends[:, 1].tolist(), seed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x*y", "((x + y)**2 - (x - y)**2)/4"),
        ("x*exp(-y)/(1 + y)", "x*exp(-y - log(1 + y))"),
        ("sqrt(x*y)", "exp(0.5*log(x) + 0.5*log(y))"),
        ("max(x, y)", "y + (abs(x - y) + x - y)/2"),
        ("x/(y - 9)", "-exp(log(x) - log(9 - y))"),
    ],
)
def test_equal_formulas_are_equal_sums(one, other):
    with precision():
        box = Box(np.array([1.0, 0.5]), np.array([2.0, 1.5]))
        symbols = Symbols([Range(arb(1), arb(2)), Range(arb(0.5), arb(1.5))])
        found = []
        for text in (one, other):
            steps = formula.read(text, ("x", "y"))
            found += symbols.evaluated(*steps, symbols.variables, _ranges(steps[0], box, Limits())[0])
        assert symbols.most(symbols.weighted([arb(1), arb(-1)], found)) < 1e-30


def test_roots_of_squares_are_not_written_without_the_sign():
    """`sqrt(x²)` is |x|, which is no power of x."""
    for text in ("sqrt(x**2)", "exp(0.5*log(x**2))", "(x**2)**1.5"):
        with precision(), pytest.raises(NotCovered):
            sums_of(text, ("x",), [-1.0], [2.0])


# ---------------------------------------------------------------- functions of one variable


@pytest.mark.parametrize("text", ["z**2", "exp(-z)*z", "sqrt(z)", "abs(z - 1)", "1/(1 + z)", "z**1.5", "log(1 + z**2)"])
def test_values_and_moduli_hold(text):
    low, high, rng = 0.0, 3.0, np.random.default_rng(0)
    with precision():
        unit = Unit(text, Unknowns(np.zeros(1), np.ones(1)).variables[0])
        whole = Range(arb(low), arb(high))
        range_ = unit.range(whole)
        for apart in (1e-12, 1e-4, 0.3):
            modulus = unit.modulus(whole, arb(apart))
            first = np.concatenate([[low], rng.uniform(low, high - apart, 40)])
            for a in first:
                ends = formula.values_at(text, ("z",), np.array([[a], [a + 0.999 * apart]]))
                if not all(np.isfinite(end).all() for end in ends):
                    continue
                assert abs(ends[0][0, 0] - ends[1][1, 0]) <= modulus + 1e-13
                assert range_.low <= ends[1][0, 0]
                assert ends[0][0, 0] <= range_.high
    assert float(modulus) < 10


# ---------------------------------------------------------------- claims

THREE = dict.fromkeys("xyz", (0.5, 1.5))


@pytest.fixture(scope="module")
def nets() -> dict[str, af.types.Compiled]:
    """Circuits with products, logarithms, kinks and an edge, in three variables."""
    made = {
        "smooth": ("x*exp(-y*z)", 0.02, "float64"),
        "kinks": ("abs(x - y) + max(y, 2*z)", 0.01, "float64"),
        "single": ("x*y/z", 0.02, "float32"),
        "edge": ("sqrt((x - y)**2 + z - 0.5)", 0.05, "float64"),
    }
    circuits = {
        name: af.compile(text, THREE, eps, construction="circuit", dtype=dtype)
        for name, (text, eps, dtype) in made.items()
    }
    direction = af.compile("1/(16 + 5*(x+y+z))", THREE, 1e-6, construction="spectral")
    inexact = af.compile("tanh(2*(x-3*y)+z)", THREE, 1e-3, construction="spectral")
    return {**circuits, "direction": direction, "inexact": inexact}


def claim_about(net: af.types.Compiled) -> Claim:
    tensors, description = pack(net.certificate)
    return claim_of(description, tensors)


@pytest.mark.parametrize("name", ["smooth", "kinks", "single", "edge", "direction", "inexact"])
def test_circuits_in_three_variables_are_agreed_with(nets, name):
    assert nets[name].certificate.proof.rule == "circuit"
    verdict = judge(claim_about(nets[name]))
    assert verdict.agreed, verdict
    assert verdict.judged >= 0.9 * nets[name].certificate.found


@pytest.mark.parametrize("name", ["smooth", "kinks", "direction", "inexact"])
def test_a_bound_below_the_largest_error_is_not_agreed_with(nets, name):
    claim = claim_about(nets[name])
    assert not judge(replace(claim, bound=0.99 * nets[name].certificate.found)).agreed


@pytest.mark.parametrize(
    "text", ["x*exp(-y*z) + 0.1*x", "x*exp(-y*z)*1.1", "x*exp(-1.1*y*z)", "z*exp(-y*x)", "x*sin(y*z)"]
)
def test_another_formula_is_not_agreed_with(nets, text):
    claim = claim_about(nets["smooth"])
    assert not judge(replace(claim, target={"kind": "expression", "text": text})).agreed


@pytest.mark.parametrize("text", ["1/(16 + 5*(x+y+1.001*z))", "1/(16 + 5.001*(x+y+z))", "1.001/(16 + 5*(x+y+z))"])
def test_another_direction_is_not_agreed_with(nets, text):
    claim = claim_about(nets["direction"])
    assert not judge(replace(claim, target={"kind": "expression", "text": text})).agreed


@pytest.mark.parametrize("text", ["abs(x - y) + max(y, 2.1*z)", "abs(x - y) - max(y, 2*z)", "abs(x + y) + max(y, 2*z)"])
def test_other_kinks_are_not_agreed_with(nets, text):
    claim = claim_about(nets["kinks"])
    assert not judge(replace(claim, target={"kind": "expression", "text": text})).agreed


def test_whatever_a_proof_says_of_heads_no_false_bound_is_agreed_with(nets):
    """Wrong functions, other premises, none: refused, or a bound that holds."""
    net = nets["smooth"]
    claim = claim_about(net)
    assert claim.proof is not None
    proof, lines = claim.proof, bytes(claim.proof.data["functions"]).decode().split("\n")
    lies = [lines[::-1], [lines[0] + "+0.1", *lines[1:]], lines[:1], ["1/z"] * len(lines)]
    data = [{"functions": np.frombuffer("\n".join(lie).encode(), dtype=np.uint8)} for lie in lies]
    data += [{"premise": claim.proof.data["premise"] + 1}, {"premise": claim.proof.data["premise"][::-1].copy()}]
    data += [{"functions": np.zeros(0, dtype=np.uint8)}, {"functions": np.full(9, 255, dtype=np.uint8)}]
    for change in data:
        lying = replace(claim, bound=0.9 * net.certificate.found, proof=replace(proof, data={**proof.data, **change}))
        try:
            assert not judge(lying).agreed, change
        except Unreadable:
            continue
    nothing = {name: array for name, array in proof.data.items() if name != "functions"}
    assert "does not say what its heads compute" in judge(replace(claim, proof=replace(proof, data=nothing))).reason


def test_changed_weights_are_noticed(nets):
    """Each value of a bank moved so far that the network is off."""
    claim = claim_about(nets["smooth"])
    for number, layer in enumerate(claim.network.layers):
        if isinstance(layer, Attention):
            memory = layer.memory + 0.2 * np.abs(layer.memory).max() * (np.arange(layer.memory.shape[1]) % 3 == 2)
            layers = [*claim.network.layers]
            layers[number] = replace(layer, memory=memory)
            assert not judge(replace(claim, network=replace(claim.network, layers=tuple(layers)))).agreed


def test_functions_of_heads_are_shown(nets):
    proof = nets["smooth"].certificate.proof
    assert isinstance(proof, Proof)
    assert "functions" in str(proof)
    assert "exp(" in str(proof)


@pytest.mark.parametrize(("name", "value"), [("sqrt", math.sqrt), ("tanh", math.tanh), ("max", float)])
def test_values_of_an_atom_are_those_of_what_it_was_made_for(name, value):
    """First `x - d`, known up to d, which lies in [1 - d, 2 - d]; then x, which is taken for the same up to d."""
    d = 2.0**-21
    with precision():
        symbols, found = Symbols([Range(arb(0), arb(1))]), list[Sum]()
        x = symbols.weighted([arb(1), arb(1)], [symbols.variables[0], symbols.number(arb(1))])
        for off in (d, 0.0):
            f, known = Sum(x.terms, arb(off)), Range(1 - arb(off), 2 - arb(off))
            found.append(symbols.rectified(f) if name == "max" else symbols.applied(name, f, known))
        assert symbols.most(found[1]) >= value(2) - 1e-12


def test_exponents_are_fractions():
    with precision():
        _, (sum_,) = sums_of("x**0.3*x**0.7", ("x",), [1.0], [2.0])
    assert list(sum_.terms) == [((0, Fraction(1)),)]


@pytest.mark.parametrize("text", ["exp(exp(2000 + x))", "x**exp(exp(9))"])
def test_exponents_that_no_float_holds_are_not_covered(text):
    with precision(), pytest.raises(NotCovered, match="no float holds"):
        sums_of(text, ("x",), [1.0], [2.0])
