"""The judge on networks made of others: names of numbers, slopes, and combinations whatever is changed in them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from flint import arb

import attnfun as af
from attnfun.judge import Limits, judge, read, values_at
from attnfun.judge.combined import parts_of
from attnfun.judge.covers import Box
from attnfun.judge.errors import NotCovered
from attnfun.judge.files import Affine, Attention, Claim, Domain, Floats, Network
from attnfun.judge.ranges import precision
from attnfun.judge.slopes import modulus, program_of
from test_judge_structure import changed, network_values

BOX = {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}
FEW = 80
"""Boxes for claims that are false; those that are true take fewer."""


def composed(dtype: str = "float64") -> af.types.Compiled:
    inner = af.compile("[x + y - z, abs(y - z)]", BOX, 0.1, dtype=dtype)
    domain = {"a": (-3.2, 3.2), "b": (-0.1, 2.2)}
    return af.compile("sin(a)*b", domain, 0.1, dtype=dtype, construction="circuit")(inner)


def added(dtype: str = "float64") -> af.types.Compiled:
    one = af.compile("max(x, y + z)", BOX, 0.02, dtype=dtype)
    return one - 2 * af.compile("x**2 + y", BOX, 0.05, dtype=dtype, construction="circuit")


def true(name: str, x: Floats) -> Floats:
    """The target at points (S, 3), (S, 1)."""
    a, b, c = x.T
    values = np.sin(a + b - c) * np.abs(b - c) if name == "composed" else np.maximum(a, b + c) - 2 * (a**2 + b)
    return values[:, None]


@pytest.fixture(scope="module")
def claims(tmp_path_factory) -> dict[str, Claim]:
    folder, found = tmp_path_factory.mktemp("combined"), {}
    for name, make, dtype in (
        ("composed", composed, "float64"),
        ("added", added, "float64"),
        ("added in float32", added, "float32"),
    ):
        make(dtype).save(folder / "net.safetensors")
        found[name] = read(folder / "net.safetensors")
    return found


@pytest.mark.parametrize("name", ["composed", "added", "added in float32"])
def test_combinations_in_three_variables_are_agreed_with(claims, name):
    assert claims[name].proof is not None
    assert claims[name].proof.rule == "parts"
    assert judge(claims[name], Limits(FEW)).agreed


@pytest.mark.parametrize("name", ["composed", "added"])
def test_a_bound_below_the_largest_error_is_not_agreed_with(claims, name):
    claim = claims[name]
    points = np.random.default_rng(0).uniform(-1, 1, (4000, 3))
    found = np.abs(network_values(claim.network, points) - true(name, points)).max()
    assert 0 < found < claim.bound
    assert not judge(replace(claim, bound=found * 0.999), Limits(FEW)).agreed


def test_parts_that_say_too_little_are_not_believed(claims):
    """Stated bounds of parts are nothing but hints."""
    claim = claims["composed"]
    for number in range(2):
        parts = list(claim.parts)
        parts[number] = replace(parts[number], bound=parts[number].bound / 1e6)
        assert not judge(replace(claim, parts=tuple(parts), bound=claim.bound / 100), Limits(FEW)).agreed


def test_another_formula_of_a_part_is_not_agreed_with(claims):
    claim = claims["composed"]
    outer, inner = claim.parts
    for part, text in (
        (outer, "sin(a)*b + 0.2"),
        (outer, "sin(a)*(b + 0.2)"),
        (inner, "[x + y - z, abs(y - z) + 0.3]"),
    ):
        other = replace(part, target={**part.target, "text": text})
        parts = (other, inner) if part is outer else (outer, other)
        assert not judge(replace(claim, parts=parts), Limits(FEW)).agreed


def test_values_outside_of_the_outer_domain_are_not_agreed_with(claims):
    claim = claims["composed"]
    outer, inner = claim.parts
    shorter = replace(outer, domain=replace(outer.domain, high=np.array([2.9, 2.2])))
    verdict = judge(replace(claim, parts=(shorter, inner)))
    assert not verdict.agreed
    assert "outside of the outer domain" in verdict.reason


def test_parts_on_a_smaller_domain_are_not_agreed_with(claims):
    for name in ("composed", "added"):
        claim = claims[name]
        verdict = judge(replace(claim, domain=replace(claim.domain, high=claim.domain.high + 0.01)))
        assert not verdict.agreed


def numbers_of(network: Network) -> list[tuple[int, str]]:
    """Layers and names of their arrays."""
    return [
        (k, each.name)
        for k, layer in enumerate(network.layers)
        for each in fields(layer)
        if isinstance(getattr(layer, each.name), np.ndarray) and getattr(layer, each.name).size
    ]


def test_a_changed_number_of_the_whole_is_noticed_or_changes_nothing(claims):
    """Weights that meet only zeros may be anything."""
    rng, noticed = np.random.default_rng(1), 0
    points = rng.uniform(-1, 1, (200, 3))
    for name in ("composed", "added"):
        claim = claims[name]
        before, places = network_values(claim.network, points), numbers_of(claim.network)
        for _ in range(40):
            number, field = places[rng.integers(len(places))]
            layers = list(claim.network.layers)
            layers[number] = replace(layers[number], **{field: changed(getattr(layers[number], field), rng)})
            network = replace(claim.network, layers=tuple(layers))
            try:
                parts_of(replace(claim, network=network))
            except NotCovered:
                noticed += 1
            else:
                assert np.abs(network_values(network, points) - before).max() <= 1e-12
    assert noticed > 20


def test_layers_are_held_in_heads_of_the_size_of_the_whole(claims):
    claim = claims["added"]
    held = [layer for part in parts_of(claim.parts[1]) for layer in part.network.layers if isinstance(layer, Attention)]
    assert held
    assert all(layer.stock in (1, 16) for layer in held)


@pytest.fixture(scope="module")
def restricted(tmp_path_factory) -> Claim:
    """A network of two inputs, on a smaller domain."""
    path = tmp_path_factory.mktemp("restricted") / "net.safetensors"
    inputs = {"Q": af.Box([-1.0], [1.0], names=["q"]), "K": af.Box([0.0], [1.0], names=["k"])}
    fewer = {"q": (-1, 0.5), "k": (0, 0.5)}
    af.compile("q*k", inputs, 0.5, construction="cross").restrict(fewer).save(path)
    return read(path)


def test_keys_of_the_whole_hold_what_those_of_its_part_hold(restricted):
    """More of them would be rounded."""
    assert len(parts_of(restricted)) == 1
    for keyed, same in (((1,), True), ((), True), ((0, 1), False), ((0,), False)):
        layers = [replace(each, keyed=keyed) if isinstance(each, Attention) else each
                  for each in restricted.network.layers]  # fmt: skip
        changed_ = replace(restricted, network=replace(restricted.network, layers=tuple(layers)))
        if same:
            parts_of(changed_)
        else:
            with pytest.raises(NotCovered):
                parts_of(changed_)


MODULI = {
    "x*y": True,
    "exp(x)/(2 + y)": True,
    "abs(x - y)**3": True,
    "max(x, y*y)": False,
    "sqrt(x + 1)*y": False,
    "where(x < y, x, y)": False,
}
"""Functions of two variables, and whether their slopes are known closely: they have no kink, jump or steep end."""


@pytest.mark.parametrize("text", MODULI)
def test_moduli_hold(text):
    low, high = np.array([-1.0, -0.5]), np.array([1.0, 1.0])
    claim = Claim(Network((), 1, 2, "float64"), Domain(low, high, ("x", "y")), 1, {"kind": "expression", "text": text},
                  {}, 0.0, "proved", np.inf, None)  # fmt: skip
    rng = np.random.default_rng(2)
    for apart in ([1e-3, 1e-3], [0.0, 0.2], [0.5, 1e-6]):
        with precision():
            (bound,) = modulus(program_of(claim), Box(low, high), [arb(d) for d in apart], Limits())
        first = rng.uniform(low, high, (2000, 2))
        first[:500] = np.where(rng.random((500, 2)) < 0.5, low, high)
        second = np.clip(first + rng.choice([-1.0, 1.0], (2000, 2)) * apart, low, high)
        ends = [values_at(text, ("x", "y"), points) for points in (first[::8], second[::8])]  # two ends each
        largest = max(np.abs(a - b).max() for a, b in zip(*ends, strict=True))
        assert largest <= float(bound) + 1e-12
        assert not MODULI[text] or float(bound) <= 1.3 * largest  # points are few


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Claim:
    """A map of three tokens of two features, each alone."""
    box = af.Box(np.zeros((3, 2)), np.ones((3, 2)))
    path = tmp_path_factory.mktemp("tokens") / "net.safetensors"
    af.compile(lambda X: np.sin(3 * X[..., :1]) * X[..., 1:], box, 0.1).save(path)
    return read(path)


def test_tokens_are_judged_one_by_one(tokens):
    assert tokens.proof is not None
    assert tokens.proof.rule == "one token"
    verdict = judge(tokens)
    assert verdict.agreed
    points = np.random.default_rng(0).uniform(tokens.domain.low, tokens.domain.high, (2000, 6))
    truth = np.sin(3 * points[:, ::2]) * points[:, 1::2]
    found = np.abs(network_values(tokens.network, points) - truth).max()
    assert 0 < found <= verdict.judged
    assert not judge(replace(tokens, bound=found * 0.999), Limits(FEW)).agreed


def test_tokens_that_are_mixed_are_not_agreed_with(tokens):
    for old, new in (("x2)*x3", "x2)*x1"), ("x4)*x5", "x4)*x5 + 0.3"), ("3*x0", "3*x5")):
        text = tokens.target["formula"].replace(old, new)
        assert text != tokens.target["formula"]
        assert not judge(replace(tokens, target={**tokens.target, "formula": text}), Limits(FEW)).agreed
    mixing = Affine(np.eye(2)[None], np.zeros((3, 2)), np.full((1, 3, 3), 1 / 3))
    network = replace(tokens.network, layers=(mixing, *tokens.network.layers))
    assert not judge(replace(tokens, network=network), Limits(FEW)).agreed
