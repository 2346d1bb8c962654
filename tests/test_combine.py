"""Networks made of networks: what they compute, what is proved of them, what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from math import sin

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.network import Affine, Attention, Network, Softmax
from attnfun.network.joining import Move, carrying, fused, in_series, side_by_side
from attnfun.network.stock import stock_size
from attnfun.proofs import Claim
from attnfun.proofs.rules.parts import _through, errors_of
from attnfun.proofs.scaling import scaling_roundings
from attnfun.runtime.backends.numpy import run
from attnfun.runtime.backends.torch import to_torch
from attnfun.targets import Expression
from attnfun.targets.continuity import modulus, range_of
from cases import branching
from clocks import readings
from test_backends import RANDOM
from test_cli import attnfun
from test_network import random_attention

LINE = {"x": (-1, 1)}


@lru_cache
def line(text: str, low: float = -1.0, high: float = 1.0, dtype: str = "float64") -> af.types.Compiled:
    return af.compile(text, {"x": (low, high)}, 1e-3, dtype=dtype)


def worst(net: af.types.Compiled, function) -> float:
    points = np.linspace(net.domain.lo.item(), net.domain.hi.item(), 5001)
    return float(np.abs(net(points).astype(np.float64) - function(points)).max())


# what the joined networks compute


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_networks_side_by_side_compute_the_very_bits_that_they_compute_alone(dtype):
    parts = [replace(RANDOM[name], dtype=dtype) for name in ("self", "cross", "no memory", "many heads", "residual")]
    parts.append(
        Network((random_attention(seed=3), Affine(np.ones((2, 4, 2)), np.ones((5, 2)), np.ones((2, 5, 4)))), 4)
    )
    parts[-1] = replace(parts[-1], dtype=dtype)
    X = np.random.default_rng(0).normal(size=(9, 4, 3))
    alone = np.concatenate([run(part, X).reshape(9, -1) for part in parts], axis=1)
    assert np.array_equal(run(side_by_side(parts), X)[:, 0], alone)


def test_one_network_behind_another_computes_the_very_bits_of_both():
    inner, outer = RANDOM["mixing tokens"], Network((random_attention(width=5, seed=2),), 2)
    X = np.random.default_rng(0).normal(size=(9, *inner.shape_in))
    assert np.array_equal(run(in_series(outer, inner), X), run(outer, run(inner, X).reshape(9, 2, 5)))


def test_moves_are_joined_with_affine_maps_only_where_that_is_exact():
    move = Move.onto((1, 2), 1, [1, 0, -1]).affine()
    weights = Affine.tokenwise(np.array([[0.1], [0.2], [0.3]]), np.ones(1))
    (one,) = fused([move, weights])
    assert np.array_equal(one.right[0], [[0.2], [0.1]])
    twice = Move.onto((1, 2), 1, [0, 0, 1]).affine()  # 0.1 x + 0.2 x is not (0.1 + 0.2) x in floating point
    assert len(fused([twice, weights])) == 2


def test_a_softmax_that_cannot_be_carried_past_is_refused():
    with pytest.raises(af.errors.InputError, match="softmax over 4 features"):
        side_by_side([RANDOM["self"], Network((random_attention(), Softmax(4)), 4)])


# what is claimed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arithmetic(dtype):
    f, g = line("sin(3*x)", dtype=dtype), line("exp(x)", dtype=dtype)
    cases = {
        "sum": (f + g, lambda x: np.sin(3 * x) + np.exp(x)),
        "difference": (f - g, lambda x: np.sin(3 * x) - np.exp(x)),
        "negative": (-f, lambda x: -np.sin(3 * x)),
        "numbers": (1 - 2.1 * f, lambda x: 1 - 2.1 * np.sin(3 * x)),
        "NumPy numbers": (np.float64(0.3) * f + np.float32(2), lambda x: 0.3 * np.sin(3 * x) + 2),
        "product": (f * g, lambda x: np.sin(3 * x) * np.exp(x)),
        "square": (f * f, lambda x: np.sin(3 * x) ** 2),
    }
    for name, (net, function) in cases.items():
        assert net.certificate.proved, name
        assert net.network.dtype == dtype
        assert worst(net, function) <= net.certificate.bound, name
    e, d = f.certificate.bound, g.certificate.bound
    rounding = 1e-5 if dtype == "float32" else 1e-12
    assert (f + g).certificate.bound <= e + d + rounding
    assert (-f).certificate.bound <= e * (1 + 1e-9)
    assert (f * g).certificate.bound <= 1.25 * (np.e * e + d) + rounding  # |f| <= 1, |g| <= e


def test_a_bound_is_no_smaller_than_the_worst_case_of_its_parts():
    """Equal errors add up: the sum of a network with itself has twice the error, and that is what is claimed."""
    f = line("sin(3*x)")
    assert f.certificate.found * 2 <= (f + f).certificate.bound
    assert worst(f + f, lambda x: 2 * np.sin(3 * x)) > 1.5 * f.certificate.found


def test_a_network_that_occurs_twice_is_there_once():
    f = line("sin(3*x)")
    assert (f + f).network.tokens == f.network.tokens
    assert (f - f).certificate.bound == 0
    assert ((f - f)(np.linspace(-1, 1, 9)) == 0).all()
    assert (f * f).network.tokens < (f * f.restrict(LINE)).network.tokens


def test_outputs_are_broadcast_like_arrays():
    domain = {"x": (0, 1), "y": (0, 1)}
    vector, scalar = af.compile("[x + y, x - y]", domain, 1e-3), af.compile("x*y", domain, 1e-3)
    points = np.random.default_rng(0).uniform(size=(200, 2))
    x, y = points.T
    truth = np.stack([x + y, x - y], axis=1)
    for net, values in (
        (vector + scalar, truth + (x * y)[:, None]),
        (vector * scalar, truth * (x * y)[:, None]),
        (scalar + np.array([1.0, 2.0]), (x * y)[:, None] + [1.0, 2.0]),
        (vector * [2.0, -1.0], truth * [2.0, -1.0]),
    ):
        assert net.output_shape == (2,)
        assert np.abs(net(points) - values).max() <= net.certificate.bound
    with pytest.raises(af.errors.InputError, match="shapes that fit together"):
        vector + np.ones(3)


def test_sequences_are_combined_token_by_token():
    box = af.Box(np.full((2, 2), -1.0), np.full((2, 2), 1.0))
    f = af.compile(af.TruncatedLinear([[1.0, 2.0], [0.5, 1.0]], 0.1, -1.0, 1.0), box, 1e-6)
    points = box.unflatten(box.sample(300, np.random.default_rng(0)))
    truth = np.clip((points * [[1.0, 2.0], [0.5, 1.0]]).sum(axis=-1) + 0.1, -1.0, 1.0)
    for net, values in ((f - 0.5 * f, truth / 2), (f * f, truth**2)):
        assert net.certificate.proved
        assert np.abs(net(points) - values).max() <= net.certificate.bound <= 1e-5


def test_composition():
    f, g = line("sin(3*x)"), line("tanh(2*x)", -1.1, 1.1)
    net = g(f)
    assert net.certificate.proved
    assert worst(net, lambda x: np.tanh(2 * np.sin(3 * x))) <= net.certificate.bound
    assert net.certificate.bound <= 2.01 * f.certificate.bound + g.certificate.bound  # the slope of g is 2
    assert "tanh(2*x) of sin(3*x)" in repr(net)


def test_values_outside_of_the_outer_domain_are_refused_with_the_range_to_compile_for():
    f = line("sin(3*x)")
    with pytest.raises(af.errors.InputError, match=r"Box\(x=-1:1\); got values proved to lie in \[-1\.\d+, 1\.\d+\]"):
        line("tanh(2*x)")(f)  # the network exceeds 1 by its error
    with pytest.raises(
        af.errors.InputError, match=r"proved to lie in \[-2\.0\d+, 0\.25\d+\]"
    ):  # not what intervals say, [-2, 2]
        line("tanh(2*x)")(line("x*(1 - x)"))


def test_a_kink_of_the_outer_function_costs_its_slope_only():
    net, inner = line("abs(x - 0.3)", -1.1, 1.1)(line("sin(3*x)")), line("sin(3*x)")
    assert net.certificate.bound <= 1.1 * inner.certificate.bound + line("abs(x - 0.3)", -1.1, 1.1).certificate.bound
    assert worst(net, lambda x: np.abs(np.sin(3 * x) - 0.3)) <= net.certificate.bound


def test_rounding_of_a_composition_holds_alone_where_the_input_is_exact():
    """A composition that is the outer part of another reads exact values: then its input costs nothing."""
    outer = af.compile("sqrt(abs(u))", {"u": (-1, 1)}, 0.2, construction="cross").certificate
    known = af.compile("0.9*x", LINE, 0.2, construction="cross").certificate
    parts = {"construction": 1e-9, "input": 1e-4, "rounding": 1e-4}
    inner = replace(known, parts=parts, bound=3e-4)
    exact = replace(inner, parts={**parts, "input": 0.0}, bound=sum(parts.values()) - 1e-4)
    claim = Claim(known.claim.network, known.claim.domain, (), {}, None, None, (outer, known))
    ((construction, _, rounding, _),) = _through(claim, errors_of(outer), errors_of(inner))
    ((*_, total),) = _through(claim, errors_of(outer), errors_of(exact))
    assert construction + rounding >= total * (1 - 1e-6)


def test_a_joined_layer_scales_its_scores_as_exactly_as_alone():
    """Carried features must not lead to heads of another size, by whose root scores are divided less exactly."""
    for layer in (RANDOM["cross"].layers[0], RANDOM["many heads"].layers[0], line("sin(3*x)").network.attention[0]):
        for count in (1, 20, 300):
            wide = next(new for new in carrying([layer], count) if isinstance(new, Attention))
            assert scaling_roundings(wide) == scaling_roundings(layer)
    joined = side_by_side([line("sin(3*x)").network] * 20)
    sizes = {part.attention.head_dim for part in to_torch(joined, (), (20,)).layers if hasattr(part, "attention")}
    assert sizes == {stock_size(line("sin(3*x)").network.attention[0])} == {16}


def test_statuses_are_the_weakest_of_the_parts():
    box = [(0.0, 1.0)] * 2
    declared, unknown = af.compile(branching, box, 0.2, lipschitz=2.5), af.compile(branching, box, 0.2)
    proved = af.compile("[0.9*x, y**2]", {"x": (0.01, 1), "y": (0.1, 0.9)}, 1e-3)
    for outer, status in ((declared, "conditional"), (unknown, "estimated")):
        net = outer(proved)
        assert net.certificate.status.value == status
        assert (2 * outer).certificate.status.value == status
    assert any("constant 2.5" in line for line in (declared(proved)).certificate.assumptions)
    assert (declared + unknown).certificate.status is af.types.Status.ESTIMATED
    product = (declared * unknown).certificate
    assert product.status is af.types.Status.ESTIMATED
    assert "not a proof" in str(product)


NAMES = {
    "sin(3*x) + x**2": lambda f, g: f + g,
    "sin(3*x) - (x**2)": lambda f, g: f - g,
    "2*(sin(3*x))": lambda f, _: f + f,
    "sin(3*x) - 0.5": lambda f, _: f - 0.5,
    "-(sin(3*x)) + 1": lambda f, _: 1 - f,
    "(sin(3*x))*(x**2)": lambda f, g: f * g,
    "(sin(3*x))*(sin(3*x))": lambda f, _: f * f,
    "sin(3*x) - (sin(3*x) + x**2)": lambda f, g: f - (f + g),
    "-3*(2*(sin(3*x)) + 1)": lambda f, _: -3 * (2 * f + 1.0),
}
"""Combinations by their names, which are formulas."""


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_what_was_combined(name, tmp_path):
    net = NAMES[name](line("sin(3*x)"), line("x**2"))
    assert net.name == name
    rows = np.linspace(-1, 1, 20)[:, None]
    assert np.allclose(Expression(name, net.domain).values(rows), net.certificate.claim.target.values(rows))
    net.save(tmp_path / "f.safetensors")
    assert af.load(tmp_path / "f.safetensors").name == name


def linear(weight, bias) -> torch.nn.Module:
    layer = torch.nn.Linear(2, 2, dtype=torch.float64)
    layer.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return torch.nn.Sequential(layer)


def test_names_of_several_values():
    f, pair = line("sin(3*x)"), af.compile("[x, x**2]", LINE, 1e-3)
    assert (pair + f).name == "[x, x**2] + sin(3*x)"
    assert (pair - np.array([1.0, -1.0])).name == "[x, x**2] + [-1.0, 1.0]"
    assert (f * np.array([2.0, 3.0])).name == "[2.0, 3.0]*(sin(3*x))"
    assert (f * pair).name == "(sin(3*x))*([x, x**2])"
    wide = [(-2.0, 2.0)] * 2
    doubled = af.compile(linear([[2.0, 0.0], [0.0, 2.0]], [1.0, 1.0]), wide, 1e-3)
    mixing = af.compile(linear([[2.0, 0.0], [1.0, 2.0]], [1.0, 1.0]), wide, 1e-3)
    swapped = af.compile(linear([[0.0, 2.0], [2.0, 0.0]], [1.0, 1.0]), wide, 1e-3)
    assert doubled(pair).name == "2*([x, x**2]) + 1"
    assert mixing(pair).name == swapped(pair).name == "Sequential of [x, x**2]"
    crossed = af.compile("[u0*u3, u1*u2]", dict.fromkeys(("u0", "u1", "u2", "u3"), (-2, 2)), 0.5)
    four = af.compile("[x, x, x**2, x]", LINE, 1e-3)
    assert crossed(four).name == "[u0*u3, u1*u2] of [x, x, x**2, x]"


def test_restriction():
    f = af.compile("x + sin(y)", {"x": (-1, 1), "y": (0, 1)}, 1e-3)
    part = f.restrict({"x": (0, 0.25)})
    assert repr(part.domain) == "Box(x=0:0.25, y=0:1)"
    assert part.certificate.bound == pytest.approx(f.certificate.bound)
    assert part([0.1, 0.5]) == f([0.1, 0.5])
    with pytest.raises(af.errors.InputError, match=r"x must lie in \[0, 0.25\]"):
        part([0.5, 0.5])
    assert repr(f.restrict([(0, 1), (0.5, 1)]).domain) == "Box(x=0:1, y=0.5:1)"
    for box, message in (
        ({"z": (0, 1)}, r"variables of this network are x, y; got \['z'\]"),
        ({"x": (0, 2)}, "must lie in Box"),
        ([(0, 1)] * 3, "must have its shape"),
    ):
        with pytest.raises(af.errors.InputError, match=message):
            f.restrict(box)


def test_a_smaller_bound_on_a_part_of_the_domain():
    f = af.compile("x**3", LINE, 0.05, construction="grid")
    part = f.restrict({"x": (0, 0.05)}).tighten(5)
    assert part.certificate.proved
    assert part.certificate.bound < f.certificate.bound / 2
    assert worst(part, lambda x: x**3) <= part.certificate.bound
    assert part.certificate.recheck().bound <= part.certificate.bound * (1 + 1e-12)


def test_a_whole_network_may_be_proved_to_be_better_than_its_parts_say():
    f = line("sin(3*x)")
    nothing = f - f.restrict(LINE)
    assert nothing.certificate.bound > f.certificate.bound
    assert nothing.tighten(readings(3000)).certificate.bound < f.certificate.bound


# files, proofs again, refusals


@pytest.fixture(scope="module")
def nested() -> af.types.Compiled:
    f, g = line("sin(3*x)"), line("exp(x)")
    return 2 * line("tanh(2*x)", -1.1, 1.1)(f) * g - f.restrict({"x": (-1, 1)})


def test_a_saved_combination_is_proved_again_from_its_parts(nested, tmp_path):
    nested.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    points = np.linspace(-1, 1, 77)
    assert np.array_equal(nested(points), again(points))
    assert again.certificate.recheck().bound <= nested.certificate.bound * (1 + 1e-12)
    assert "holds again" in attnfun("verify", str(tmp_path / "f.safetensors")).stdout


def test_a_changed_weight_is_found_out_wherever_it_is(nested):
    claim = nested.certificate.claim
    changed = [replace(layer, constant=layer.constant + 1e-9) for layer in claim.network.layers[:1]]
    network = replace(claim.network, layers=(*changed, *claim.network.layers[1:]))
    with pytest.raises(af.errors.ProofFailed, match="consist of its parts"):
        replace(nested.certificate, claim=replace(claim, network=network)).recheck()
    outer, inner = claim.parts
    better = replace(inner, bound=inner.found / 2)
    with pytest.raises(af.errors.ProofFailed, match="must prove what its parts state"):
        replace(nested.certificate, claim=replace(claim, parts=(outer, better))).recheck()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda net, part: {"domain": af.Box([-1.0], [1.5], ("x",))}, "another domain"),
        (lambda net, part: {"parts": (part(dtype="float32"), net.certificate.claim.parts[1])}, "another dtype"),
        (lambda net, part: {"parts": (part(norm=2), net.certificate.claim.parts[1])}, "another norm"),
    ],
)
def test_parts_that_say_nothing_about_the_whole_are_found_out(change, message):
    """A file may name any parts: they must be of this dtype, in this norm and on this domain."""

    def part(**keywords) -> af.types.Certificate:
        return af.compile("tanh(2*x)", {"x": (-1.1, 1.1)}, 0.05, **keywords).certificate

    net = line("tanh(2*x)", -1.1, 1.1)(line("sin(3*x)"))
    claim = replace(net.certificate.claim, **change(net, part))
    with pytest.raises(af.errors.ProofFailed, match=message):
        replace(net.certificate, claim=claim).recheck()


def test_a_part_without_code_is_asked_for(tmp_path):
    f = af.compile(np.sin, (-1, 1), 1e-3)
    (f + line("x**2")).save(tmp_path / "f.safetensors")
    certificate = af.load(tmp_path / "f.safetensors").certificate
    with pytest.raises(af.errors.InputError, match=r"recheck\(target=\[f, None\]\)"):
        certificate.recheck()
    assert certificate.recheck(target=[None, [np.sin, None]]).proved
    with pytest.raises(af.errors.InputError, match="a list of as many functions"):
        certificate.recheck(target=np.sin)


def test_operators_that_are_undefined_somewhere_are_told_in_the_words_of_the_networks():
    f, g = line("sin(3*x)"), line("2 + cos(x)")
    for made, words in (
        (lambda: f**g, r"(sin(3*x))**(2 + cos(x)) must be defined and bounded"),
        (lambda: f**-1, r"(sin(3*x))**(-1) must be defined and bounded"),
        (lambda: np.log(f), r"log(sin(3*x)) must be defined and bounded"),
        (lambda: max(f, g), "got 2 + cos(x) and sin(3*x). Write np.maximum(f, g)"),
    ):
        with pytest.raises(af.errors.InputError, match=re.escape(words)) as refused:
            made()
        assert "u0" not in str(refused.value)


def test_a_black_box_that_was_found_above_zero_may_divide():
    box = af.compile(np.vectorize(lambda x: float(2 + np.sin(3 * x))), LINE, 0.05)
    shares = line("x") / box
    assert shares.certificate.status.value == "estimated"
    assert abs(shares(0.3) - 0.3 / (2 + sin(0.9))) < 0.05
    with pytest.raises(af.errors.InputError, match="be 0 nowhere"):
        box / (box - 2.0)


def test_what_does_not_fit_is_refused():
    f, g = line("sin(3*x)"), line("exp(x)", 0.0, 1.0)
    with pytest.raises(af.errors.InputError, match="the same domain; got"):
        f + g
    assert (f.restrict({"x": (0, 1)}) + g).certificate.proved
    with pytest.raises(af.errors.InputError, match="the same dtype; got float32 and float64"):
        f + line("exp(x)", dtype="float32")
    with pytest.raises(af.errors.InputError, match="values of shape"):
        f(af.compile("[x, 2*x]", LINE, 0.1))
    with pytest.raises(af.errors.InputError, match="finite numbers"):
        f + "x"
    with pytest.raises(af.errors.InputError, match="finite numbers"):
        f * np.inf
    for combine in (lambda net: f + net, lambda net: 2 * net):
        with pytest.raises(af.errors.InputError, match="sup norm"):
            combine(af.compile("exp(x)", LINE, 0.1, norm=2))
    with pytest.raises(af.errors.InputError, match="finite"):
        line("exp(x)", dtype="float32") + 1e300


def test_the_torch_module_of_a_combination_is_within_its_bound(nested):
    points = np.linspace(-1, 1, 501)[:, None]
    with torch.no_grad():
        values = nested.to_torch()(torch.tensor(points)).numpy()
    x = points[:, 0]
    truth = 2 * np.tanh(2 * np.sin(3 * x)) * np.exp(x) - np.sin(3 * x)
    assert np.abs(values - truth).max() <= nested.certificate.bound


# how far functions reach and how fast they change


@pytest.mark.parametrize(
    ("text", "low", "high"), [("x*(1 - x)", -2.0, 0.25), ("sin(3*x)", -1.0, 1.0), ("abs(x) - x**2", -2.0, 0.25)]
)
def test_ranges(text, low, high):
    found = range_of(Expression(text, af.Box([-1.0], [2.0], ("x",))))
    assert found.lo[0] <= low <= found.lo[0] + 0.01
    assert found.hi[0] - 0.01 <= high <= found.hi[0]


@pytest.mark.parametrize("text", ["sin(5*x)*y", "abs(x - y)", "sqrt(x + 1)*y", "max(x, y**2, 0.3)", "x*y/(2 - x)"])
@pytest.mark.parametrize("distance", [1e-1, 1e-4])
def test_no_two_points_are_further_apart_than_the_modulus(text, distance):
    domain = af.Box([-1.0, -1.0], [1.0, 1.0], ("x", "y"))
    target, rng = Expression(text, domain), np.random.default_rng(0)
    bound = modulus(target, Interval(domain.lo, domain.hi), np.array([[distance, distance / 2]]))
    one = np.vstack([domain.sample(2000, rng), np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1]), -1).reshape(-1, 2)])
    two = np.clip(one + rng.choice([-1, 1], one.shape) * [distance, distance / 2], -1, 1)
    apart = np.abs(target.values(one) - target.values(two)).max()
    assert apart <= bound[0, 0] * (1 + 1e-12) + 1e-15
    assert bound[0, 0] <= 4 * apart  # the branches of a maximum are added up
