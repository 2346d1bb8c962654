"""Formulas as circuits: what they are made of, what is proved of them, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.domains.box import as_box
from attnfun.formula.circuits import Circuit, Linear, Unit
from attnfun.formula.composites import Composite
from attnfun.formula.products import SQUARE
from attnfun.formula.quadratics import coefficients, with_one_square
from attnfun.network import Network
from attnfun.proofs.rules import Checker
from attnfun.proofs.rules import circuit as rule
from attnfun.runtime.backends.numpy import run
from attnfun.targets.expression import Expression
from attnfun.targets.one_variable import OneVariable
from clocks import readings
from proving import bound_by

U, ONE = Composite.variable(), Composite.number(Interval(1.0))


def circuit(text, **domain):
    return Expression(text, as_box(domain)).circuit()


def values(found, rows):
    """A circuit in floats."""
    atoms = [rows[:, k] for k in range(found.inputs)]

    def at(form):
        return float(form.constant.mid) + sum(float(c.mid) * atoms[k] for k, c in form.terms.items())

    for unit in found.units:
        argument = at(unit.argument)
        assert unit.low - 1e-9 <= argument.min()
        assert argument.max() <= unit.high + 1e-9
        atoms.append(unit.function(np.clip(argument, unit.low, unit.high)))
    return np.stack([at(form) * np.ones(len(rows)) for form in found.outputs], axis=1)


FORMULAS = [
    "x*y*z",
    "x/(y*z)",
    "-x*(y - 3)**2/z",
    "sqrt(x*y)/z",
    "x**y",
    "2**x + y**-1.5",
    "log(x*y/z)",
    "(x - 2)*(y - 2)*(z - 2)",
    "exp(x - y)*sin(x*y)/(1 + exp(x - y))",
    "max(x, y, z)*min(x, 2) - abs(x - y)",
    "x*x**2/x - 3*y/y + 1/(z + 1)",
    "[x*y, x*y + z, tanh(x*y)]",
    "atan(x*y) + asin((x - 2)/2) + acos(z/4) + cosh(x) + erf(y) + tan(x/4)",
    "1/(y - 4)*(1 - z)**3*x**3",
    "exp(-(x - 2)**2 - (3*y - 1)**2) + exp(-(2*x - 5)**2/7 - z) + (x - 2)**2*(z - 1)**2 + x*y",
    "sin((x + 1e2)**2/1e4 + y) - cos((1e2 - x)**2/1e4*z)",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_circuit_is_the_formula(text):
    formula = Expression(text, as_box({"x": (1, 3), "y": (1, 2), "z": (1, 3)}))
    rows = formula.domain.sample(200, np.random.default_rng(0))
    truth = formula.values(rows)
    assert np.abs(values(formula.circuit(), rows) - truth).max() <= 1e-12 * np.abs(truth).max()


def test_what_depends_on_one_form_alone_is_one_unit():
    assert len(circuit("exp(x)/(1 + exp(x)) + sin(x)**2*x", x=(-1, 1)).units) == 1
    assert len(circuit("tanh(x + y)*(x + y)/(1 + (x + y)**2)", x=(-1, 1), y=(-1, 1)).units) == 1


def test_squares_of_one_variable_are_one_unit_and_all_squares_one_function():
    own = circuit("exp(-(x - 1)**2 - y) + exp(-(3*x + 2)**2 + y) + (2*y - 1)**2*x", x=(0, 1), y=(0, 2))
    squares = [unit for unit in own.units if coefficients(unit.function)]
    assert {(unit.function, unit.low, unit.high) for unit in squares} == {(SQUARE, -2.0, 2.0)}
    assert sum(unit.argument.terms.keys() == {0} for unit in squares) == 1


@pytest.mark.parametrize("seed", range(20))
def test_quadratic_polynomials_are_the_same_as_forms_of_one_square(seed):
    rng, u = np.random.default_rng(seed), Composite.variable()
    low, width = rng.normal() * 10 ** rng.uniform(-3, 6), 10 ** rng.uniform(-3, 3)
    shift, factor = -low - rng.uniform(0, width), rng.normal()
    moved, number = Composite.of("+", u, Composite.number(Interval(shift))), Composite.number(Interval(factor))
    scaled = Composite.of("*", Composite.of("*", u, number), u)
    made = Composite.of("*", moved, moved), Composite.of("-", number, scaled)
    units = tuple(Unit(function, Linear.atom(0), low, low + width) for function in made)
    old = Circuit(np.array([low]), np.array([low + width]), units, (Linear.atom(1), Linear.atom(2)), True)
    new = with_one_square(old)
    assert len(new.units) == 1
    rows = rng.uniform(low, low + width, (50, 1))
    assert np.abs(values(replace(new, outputs=(new.units[0].argument,)), rows)).max() <= 2.0 + 1e-9
    size = (1 + abs(factor)) * (max(abs(low), width) + width) ** 2 + abs(factor)
    assert np.abs(values(new, rows) - values(old, rows)).max() <= 1e-13 * size


def test_equal_functions_of_a_level_share_a_bank_where_it_is_not_much_larger():
    domain = {"x": (0, 3), "y": (0, 4), "z": (1, 2)}
    net = af.compile("exp(-x) + exp(-y)/3 + exp(-z)", domain, 1e-4, construction="circuit")
    (layer,) = net.network.attention
    assert layer.heads == 3
    assert layer.memory.shape[1] < 9
    net = af.compile("exp(-x*y) + 2*exp(-z - x) + exp(x - z*y)", domain, 1e-3, construction="circuit")
    assert net.certificate.proved


def test_heads_of_the_last_level_put_out_the_result_unless_registers_are_wanted():
    domain, formula = {"x": (-1, 1), "y": (-1, 1)}, "cos(3*x + 5*y)"
    compact = af.compile(formula, domain, 1e-3, construction="circuit")
    kept = af.compile(formula, domain, 1e-3, construction="circuit", options={"layout": "registers"})
    assert [layer.kind for layer in compact.network.layers] == ["affine", "attention"]
    assert [layer.kind for layer in kept.network.layers] == ["affine", "attention", "affine"]
    points = compact.domain.sample(100, np.random.default_rng(0))
    assert np.abs(compact(points) - kept(points)).max() <= 1e-13
    assert compact.network.parameters < kept.network.parameters
    with pytest.raises(af.errors.InputError, match="layout"):
        af.compile(formula, domain, 1e-3, construction="circuit", options={"layout": "wide"})


def test_sums_of_gaussians_are_judged_and_hold():
    formula, domain = "exp(-(x - 1)**2 - y) + exp(-(3*x + 2)**2 + y)", {"x": (0, 1), "y": (0, 1)}
    net = af.compile(formula, domain, 1e-3, construction="circuit")
    assert net.certificate.recheck(engine="arb").proved
    x, y = (points := net.domain.sample(2000, np.random.default_rng(1))).T
    truth = np.exp(-((x - 1) ** 2) - y) + np.exp(-((3 * x + 2) ** 2) + y)
    assert np.abs(net(points) - truth).max() <= net.certificate.bound


def test_common_parts_are_shared_and_dead_ones_dropped():
    assert len(circuit("[x*y, 2*x*y, x*y - 1]", x=(-1, 1), y=(-1, 1)).units) == 2
    assert len(circuit("0*exp(x) + y**2", x=(-1, 1), y=(-1, 1)).units) == 1


def test_long_products_of_positives_go_through_logarithms():
    names = dict.fromkeys("abcdef", (1, 2))
    assert len(circuit("a*b*c*d*e*f", **names).units) == 7
    assert max(circuit("a*b*c*d*e*f", **names).depth) == 2


def test_all_products_share_one_bank():
    net = af.compile("x*y + 3*y*z - x*z", {"x": (-1, 1), "y": (-5, 0), "z": (2, 9)}, 1e-4, construction="circuit")
    layer = net.network.attention[0]
    assert (layer.heads, layer.memory.shape[1]) == (6, 3)


@pytest.mark.parametrize("dimension", [3, 12])
def test_size_is_linear_in_the_formula(dimension):
    names = [f"x{k}" for k in range(dimension)]
    text = f"sin({'+'.join(f'{name}**2' for name in names)})"
    net = af.compile(text, dict.fromkeys(names, (-1, 1)), 1e-4, construction="circuit")
    assert (net.certificate.proved, net.network.heads) == (True, dimension + 1)


def test_a_circuit_is_stock_layers_from_end_to_end():
    net = af.compile("x*y/(1 + z**2) + abs(x - y)", dict.fromkeys("xyz", (0, 1)), 1e-5, construction="circuit")
    module = net.to_torch()
    stock = (torch.nn.Linear, torch.nn.MultiheadAttention)
    assert sum(isinstance(part, stock) for part in module.modules()) >= len(net.network.layers)
    points = net.domain.sample(500, np.random.default_rng(1))
    truth = points[:, 0] * points[:, 1] / (1 + points[:, 2] ** 2) + np.abs(points[:, 0] - points[:, 1])
    assert np.abs(module(torch.tensor(points)).detach().numpy() - truth).max() <= net.certificate.bound


def test_a_changed_weight_is_noticed():
    net = af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-6, construction="circuit")
    layers = list(net.network.layers)
    memory = layers[1].memory.copy()
    memory[0, 2] *= 1 + 1e-3
    layers[1] = replace(layers[1], memory=memory)
    claim = replace(net.certificate.claim, network=replace(net.network, layers=tuple(layers)))
    with pytest.raises(af.errors.AttnfunError):
        replace(net.certificate, claim=claim).recheck()


def with_other_factors() -> tuple[Expression, Network, Network]:
    """A circuit of two equal heads in float32, and the same where the second adds 2^23 to its keys and subtracts it."""
    net = af.compile("x**2 + y**2", {"x": (-1, 1), "y": (-1, 1)}, 0.05, construction="circuit", dtype="float32")
    before, layer, *behind = net.network.layers
    layer = replace(layer, memory=np.round(layer.memory * 2.0**16) / 2.0**16)  # sums are exact in float64
    far = np.tile([2.0**23, -(2.0**23)], (len(layer.memory), 1))
    memory = np.hstack([far[:, :1], layer.memory, far[:, 1:]])  # (M, 1 + e + 1)
    key, value = (np.pad(part, [(0, 0), (1, 1), (0, 0)]) for part in (layer.key, layer.value))
    key[1, [0, -1]] = 1.0
    other = replace(layer, memory=memory, key=key, value=value)
    assert np.array_equal(other.keys()[0], layer.keys()[0])
    assert np.array_equal(other.keys()[1], layer.keys()[0])
    plain, changed = (replace(net.network, layers=(before, part, *behind)) for part in (layer, other))
    target = net.certificate.claim.target
    assert isinstance(target, Expression)
    return target, plain, changed


def error_along_y(network: Network) -> float:
    """The largest error that was found where x = 0."""
    points = np.stack([np.zeros(41), np.linspace(-1, 1, 41)], axis=1)
    return float(np.abs(run(network, points[:, None]).ravel().astype(np.float64) - (points**2).sum(axis=1)).max())


def test_heads_with_equal_keys_made_of_other_factors_are_not_one_head():
    target, plain, changed = with_other_factors()
    true = error_along_y(changed)
    assert bound_by("circuit", target, plain).bound < true <= bound_by("circuit", target, changed).bound


def test_the_rounding_part_of_a_circuit_holds_alone_where_the_input_is_exact(monkeypatch):
    """Near 0 a square root has a modulus that is not additive: what the input adds must not be taken from rounding."""
    net = af.compile("sqrt(x + y)", {"x": (0, 1), "y": (0, 1)}, 0.1, construction="circuit", dtype="float32")
    target = net.certificate.claim.target
    assert target is not None
    parts = bound_by("circuit", target, net.network, 0.1).parts
    first = rule.initial_state

    def exact(circuit, network):
        state = first(circuit, network)
        return replace(state, error=np.zeros_like(state.error))

    monkeypatch.setattr(rule, "initial_state", exact)
    alone = bound_by("circuit", target, net.network, 0.1).parts
    assert parts["rounding"] >= alone["rounding"] * (1 - 1e-3)


@pytest.mark.parametrize(
    ("text", "domain", "part"),
    [
        ("y + sin(x)/x", {"x": (-1, 1), "y": (0, 1)}, "'sin(x)/x' is undefined or unbounded"),
        ("1/(x - y)", {"x": (0, 2), "y": (1, 3)}, "'1/(x - y)' is undefined or unbounded"),
        ("log(x*y)", {"x": (-1, 1), "y": (1, 2)}, "'log(x*y)' is undefined"),
    ],
)
def test_poles_are_refused_by_name(text, domain, part):
    with pytest.raises(af.errors.InputError) as caught:
        af.compile(text, domain, 1e-3, construction="circuit")
    assert part in str(caught.value)


def test_intervals_do_not_see_poles_that_are_not_there():
    for text, domain in (
        ("log(2 + x*y - y**2/4)", {"x": (0, 2), "y": (0, 2)}),
        ("1/(1 + x - x**2 + y)", {"x": (0, 1.2), "y": (0, 1)}),
        ("sqrt(1 - v**2/c**2)", {"v": (0, 1), "c": (1.1, 3)}),
    ):
        assert af.compile(text, domain, 1e-4, construction="circuit").certificate.proved


def test_the_edge_of_a_natural_domain_is_said():
    net = af.compile("sqrt(x**2 + y**2 - 2*x*y)", {"x": (0, 1), "y": (0, 1)}, 1e-3, construction="circuit")
    assert net.certificate.status is af.types.Status.CONDITIONAL
    assert any("wherever the formula is defined" in line for line in net.certificate.assumptions)


def test_a_circuit_needs_a_tolerance():
    with pytest.raises(af.errors.InputError, match="tolerance"):
        af.compile("x*y", {"x": (0, 1), "y": (0, 1)}, construction="circuit")


FUNCTIONS = {
    "square": Composite.of("*", U, U),
    "exp": Composite.of("exp", U),
    "sqrt": Composite.of("sqrt", U),
    "asin of exp": Composite.of("asin", Composite.of("exp", Composite.of("neg", U))),
    "reciprocal": Composite.of(
        "/", Composite.number(Interval(1.0)), Composite.of("+", U, Composite.number(Interval(1)))
    ),
}


@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.floats(0, 3),
    st.floats(1e-6, 2),
    st.floats(1e-13, 1),
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), min_size=1, max_size=30),
)
def test_no_two_points_are_further_apart_than_the_modulus(name, low, width, distance, pairs):
    function, high = FUNCTIONS[name], low + width
    bound = function.modulus(low, high, distance)
    start = low + width * np.array([place for place, _ in pairs])
    end = np.clip(start + distance * np.array([step for _, step in pairs]), low, high)
    start = np.clip(start, low, high)
    apart = np.abs(function(start) - function(end))
    near = np.abs(start - end) <= distance
    assert (apart[near] <= bound * (1 + 1e-12) + 1e-15).all()


def test_only_surely_undefined_stretches_are_cut_off():
    root, inverse = FUNCTIONS["sqrt"], Composite.of("/", ONE, U)
    low, high = root.natural(-2.0, 5.0)
    assert -1e-50 < low <= 0
    assert high == 5.0
    assert inverse.natural(0.0, 2.0) == (0.0, 2.0)
    target = OneVariable(root.clipped(0.0, np.inf), -1.0, 1.0)
    assert (target.values(np.array([[-1.0], [0.25]])) == [[0.0], [0.5]]).all()


SPIKE = "(1e6*(y - 0.4321))**2"


@pytest.mark.parametrize(
    ("text", "point", "truth"),
    [
        (f"(exp(sin(1e6*(x - x) + 1) - {SPIKE}) - exp(sin(1e6*(x - x) - 1) - {SPIKE})) + x*y", (0.5, 0.4321), 2.104751),
        ("(1e17*sin(pi*x) - 1e17*sin(3.141592653589793*x)) + y*x", (1.0, 0.0), -23.8464),
        ("(1e20*log(x + 0.1) - 1e20*log(x + 0.10000000000000001)) + y*x", (0.0, 0.0), -1e4),
    ],
)
def test_numbers_with_one_enclosure_are_not_one_number(text, point, truth):
    try:
        net = af.compile(text, {"x": (0, 1), "y": (0, 1)}, 1e-2, construction="circuit", time_limit=readings(200))
    except af.errors.ToleranceNotMet as missed:
        net = missed.best
    if net is not None and net.certificate.proved:
        assert abs(net(np.array(point)) - truth) <= net.certificate.bound + 1e-3


def test_a_slope_that_is_unbounded_inside_is_left_to_others():
    with pytest.raises(af.errors.InputError, match="These do"):
        af.compile("sqrt(x*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction="circuit")


def test_comparing_symbols_is_no_operation():
    with pytest.raises(af.errors.AttnfunError):
        af.compile(lambda p: p[..., 0] * (p[..., 1] == 0.5), [(0, 1)] * 2, 1e-3, construction="circuit")


def test_rectifiers_are_as_sharp_in_float32_as_they_must_be():
    net = af.compile("abs(x - 0.2)", {"x": (-1, 1)}, 1e-5, dtype="float32")
    assert net.certificate.proved
    x = np.concatenate([np.linspace(-1, 1, 2001), 0.2 + np.linspace(-1e-6, 1e-6, 2001)]).astype(np.float32)
    assert np.abs(net(x) - np.abs(x.astype(np.float64) - 0.2)).max() <= net.certificate.bound <= 1e-5


def test_the_argument_of_a_unit_may_be_a_constant():
    net = af.compile("exp(-max(sinc(8*x), 0.25, (x/0.36)**0)**2)", {"x": (-0.36, 0.36)}, 0.08, construction="circuit")
    assert net.certificate.proved


@pytest.mark.parametrize(
    ("text", "high"),
    [
        ("1/((1+(2*x)**20)*(1+(2*y)**20))", 1.0),
        ("sqrt(exp(9*x)*(1+y**2)**9)", 1.0),
        ("y/(exp(20*x)*(1+y**8)*(2+x))", 3.0),
    ],
)
def test_quotients_of_products_that_span_many_orders_of_magnitude_are_taken_factor_by_factor(text, high):
    domain = {"x": (-1.0, 1.0), "y": (-1.0, high)}
    net = af.compile(text, domain, 1e-6, relative=True, construction="circuit")
    rows = np.random.default_rng(0).uniform(*np.array(list(domain.values())).T, (500, 2))
    true = Expression(text, as_box(domain)).values(rows)[:, 0]
    assert net.certificate.proved
    assert np.abs(net(rows).ravel() - true).max() <= net.certificate.bound


def test_a_root_of_a_wide_sum_is_one_unit():
    net = af.compile("sqrt(0.5e-9 + x**2 + 4*y**2)", {"x": (0, 1), "y": (0, 1)}, 1e-3, construction="circuit")
    assert net.certificate.proved


@pytest.mark.parametrize("text", ["cos(pi + 5*(x+y+z))", "exp(-(x - 0.25*y + 0.5*z)**2)"])
def test_one_head_of_one_direction_is_proved_in_one_variable(text):
    net = af.compile(text, dict.fromkeys("xyz", (-1, 1)), 1e-6, construction="spectral")
    assert net.certificate.proof.rule == "circuit"
    assert net.certificate.effort["boxes"] < 100  # in three variables: thousands
    rows = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
    true = Expression(text, net.domain).values(rows)[:, 0]
    assert 0.5 * net.certificate.bound < np.abs(net(rows).ravel() - true).max() <= net.certificate.bound


@pytest.mark.parametrize("scale", [-5.0, 5 * (1 + 1e-9), 4.9, 0.1])
def test_a_wrong_multiple_of_a_feature_makes_the_bound_larger(scale):
    net = af.compile("cos(1 + 5*(x+y))", {"x": (-1, 1), "y": (-1, 1)}, 1e-6, construction="spectral")
    claim, proof = net.certificate.claim, net.certificate.proof
    assert proof.data["scales"].tolist() == [5.0]
    lie = replace(proof, data={**proof.data, "scales": np.array([scale])})
    rows = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    apart = np.abs(net(rows).ravel() - np.cos(1 + 5 * rows.sum(axis=1))).max()
    assert Checker()(lie, claim).bound > Checker()(proof, claim).bound >= apart


def test_boxes_on_which_noise_is_left_are_not_cut():
    """Below the noise of the heads' large values no cut takes anything away; six thousand boxes would be."""
    text = "1/(1 + 1000*((x**2-0.25)**2*(y**2-0.25)**2))"
    net = af.compile(text, {"x": (-1, 1), "y": (-1, 1)}, 1e-8, relative=True, construction="circuit")
    assert net.certificate.proved
    assert net.certificate.effort["boxes"] < 1000
