"""The second proof engine: it agrees with the first, shares nothing with it, and its enclosures hold."""

from __future__ import annotations

import ast
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flint import arb

import attnfun as af
from attnfun.deadline import Deadline
from attnfun.network import Affine, Attention, Network, Softmax
from attnfun.network.reference import run
from attnfun.proofs import arb as engine
from attnfun.proofs.arb_heads import Cell, Focus, View
from attnfun.proofs.arb_jets import Rough, evaluate, jets, precision, variables
from attnfun.proofs.arb_network import affine, wire
from attnfun.targets import Expression
from cases import CASES
from test_certificates import tampered
from test_cli import attnfun

BY_NAME = {case.name: case for case in CASES}
QUICK = ["wave", "vector", "kink", "root", "unused variable", "constant", "three variables"]
LINE = af.Box([-1], [1], ("x",))


@pytest.mark.parametrize("name", QUICK)
def test_the_second_engine_proves_the_same_bound(name, compiled):
    certificate = compiled(BY_NAME[name], construction="grid").certificate
    again = certificate.recheck(engine="arb")
    assert again.parts["construction"] <= certificate.parts["construction"] * (1 + 1e-12)
    assert again.bound <= certificate.bound * (1 + 2e-12)
    assert again.bound >= certificate.found


def test_the_second_engine_proves_bounds_in_float32(compiled):
    certificate = compiled(BY_NAME["wave"], "float32", construction="grid").certificate
    assert certificate.recheck(engine="arb").dtype == "float32"


@pytest.mark.parametrize("name", ["wave", "vector"])
def test_a_changed_weight_is_found_out(name, compiled, monkeypatch):
    changed = tampered(compiled(BY_NAME[name], construction="grid"), change=0.5).certificate
    with pytest.raises(af.ProofFailed, match="could not be proved again"):
        changed.recheck(engine="arb")
    monkeypatch.setattr(af.Certificate, "again", lambda certificate, claim, effort: replace(certificate, claim=claim))
    with pytest.raises(af.ProofFailed, match="ball arithmetic"):
        changed.recheck(engine="arb")


def test_what_it_cannot_check_is_refused(compiled):
    with pytest.raises(af.InputError, match="engine must be one of interval, arb"):
        compiled(BY_NAME["wave"], construction="grid").certificate.recheck(engine="magic")
    with pytest.raises(af.InputError, match='engine="interval"'):
        compiled(BY_NAME["traced"], construction="grid").certificate.recheck(target=np.sin, engine="arb")
    with pytest.raises(af.InputError, match='engine="interval"'):
        replace(compiled(BY_NAME["wave"], construction="grid").certificate, status=af.Status.ESTIMATED).recheck(
            engine="arb"
        )
    two = Network((*compiled(BY_NAME["wave"], construction="grid").network.layers, Softmax(1)), 1)
    with pytest.raises(af.InputError, match="one attention layer"):
        engine.bound_error(Expression("x", LINE), two, 1.0)


def test_the_command_line_knows_the_engine(compiled, tmp_path):
    path = str(tmp_path / "f.safetensors")
    compiled(BY_NAME["wave"], construction="grid").save(path)
    assert "holds again" in attnfun("verify", path, "--engine", "arb").stdout
    assert attnfun("verify", path, "--engine", "magic").returncode == 2


def test_without_a_goal_the_bound_comes_close_to_the_largest_error(compiled):
    claim = compiled(BY_NAME["wave"], construction="grid").certificate.claim
    points = np.linspace(-1, 1, 20001)[:, None]
    largest = np.abs(run(claim.network, points[:, None])[:, 0] - np.sin(3 * points)).max()
    outcome = engine.bound_error(claim.target, claim.network, None)
    assert largest <= outcome.bound <= 1.06 * largest
    assert engine.bound_error(claim.target, claim.network, None, Deadline(0.0, 0.0)).bound >= outcome.bound


def test_the_smallest_boxes_are_not_cut_for_ever():
    net = af.compile("x", {"x": (0, 1)}, 0.1).network
    jump = Expression("sign(x - 0.3)", af.Box([0], [1], ("x",)))
    outcome = engine.bound_error(jump, net, 0.1)
    assert outcome.bound >= 1.0
    assert outcome.boxes < 1000


def spectral(tokens: int = 48, sharpness: float = 0.5) -> tuple[Network, float]:
    """A head with wide kernels and fitted values, and its largest error on sin(3*x) in floats."""
    centres = np.linspace(-1.2, 1.2, tokens)
    beta = sharpness / (centres[1] - centres[0]) ** 2
    keys = np.stack([beta * centres, -beta * centres**2 / 2], axis=1)
    points = np.cos(np.linspace(0, np.pi, 1500))
    weights = np.exp(np.stack([points, np.ones_like(points)], 1) @ keys.T)
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.linalg.lstsq(weights, np.sin(3 * points), rcond=1e-12)[0]
    head = Attention(
        query=np.eye(2)[None],
        query_bias=np.zeros((1, 2)),
        key=np.eye(3)[None, :, :2],
        key_bias=np.zeros((1, 2)),
        value=np.eye(3)[None, :, 2:],
        value_bias=np.zeros((1, 1)),
        output=np.eye(1)[None],
        output_bias=np.zeros(1),
        memory=np.hstack([keys, values[:, None]]),
    )
    read_in = Affine.tokenwise(np.array([[1.0, 0.0]]), np.array([0.0, 1.0]))
    return Network((read_in, head), 1), float(np.abs(weights @ values - np.sin(3 * points)).max())


def test_errors_far_below_the_reach_of_ranges_are_proved():
    network, largest = spectral()
    assert largest < 1e-8
    outcome = engine.bound_error(Expression("sin(3*x)", LINE), network, 1.5 * largest)
    assert 0.99 * largest <= outcome.bound <= 1.5 * largest


def random_network(rng: np.random.Generator, variables_: int, *, data: bool, residual: bool, after: bool) -> Network:
    """One attention layer with two heads, on two tokens that an affine map makes of the input."""
    width, keys, values, memory = 3, 2, 2, 7
    head = Attention(
        query=rng.normal(size=(2, width, keys)),
        query_bias=rng.normal(size=(2, keys)),
        key=rng.normal(size=(2, width, keys)),
        key_bias=rng.normal(size=(2, keys)),
        value=rng.normal(size=(2, width, values)),
        value_bias=rng.normal(size=(2, values)),
        output=rng.normal(size=(2, values, width)),
        output_bias=rng.normal(size=width),
        memory=rng.normal(size=(memory, width)),
        attends_data=data,
        residual=residual,
    )
    left, right = rng.normal(size=(2, 2, 1)), rng.normal(size=(2, variables_, width))
    layers: list[Affine | Attention] = [Affine(right, rng.normal(size=(2, width)), left), head]
    if after:
        layers.append(Affine.flatten(2, rng.normal(size=(2 * width, 2)), rng.normal(size=2)))
    return Network(tuple(layers), 1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_models_and_ranges_hold_the_network(size, data, residual, after):
    rng = np.random.default_rng(size + 2 * data + 4 * residual + 8 * after)
    network = random_network(rng, size, data=data, residual=residual, after=after)
    domain = af.Box([-1.0] * size, [1.0] * size)
    for radius in (0.3, 0.004):
        middle = rng.uniform(-1 + radius, 1 - radius, size)
        points = middle + radius * rng.uniform(-1, 1, (300, size))
        wanted = run(network, points[:, None]).reshape(len(points), -1)
        with precision():
            wiring, algebra = wire(network, domain), jets(size, 5)
            cell = Cell(middle - radius, middle + radius, [])
            views = [View(slot, cell, Focus(list(range(slot.keys)), arb(0))) for slot in wiring.slots]
            ranges, models = [view.averages() for view in views], [view.models(algebra) for view in views]
            for output, row in enumerate(wiring.rest):
                whole = sum((average[output] for average in ranges), affine(row, [arb(1), *cell.ball]))
                assert float(whole.lower()) - 1e-9 <= wanted[:, output].min()
                assert wanted[:, output].max() <= float(whole.upper()) + 1e-9
                remainder = float(sum(model[output][1] for model in models))
                assert remainder < 1e-5 or radius > 0.1
                for point, value in zip(points, wanted[:, output], strict=True):
                    powers = algebra.monomials([arb(float(a)) for a in point - cell.middle])
                    by_model = affine(row, [arb(1), *(arb(float(a)) for a in point)])
                    for polynomial, _ in (model[output] for model in models):
                        by_model += affine(polynomial, powers[: len(polynomial)])
                    assert abs(float(by_model) - value) <= remainder + 1e-9


def test_dropped_tokens_stay_in_the_account():
    """Tokens leave on a small box; the average over all of them is still enclosed."""
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.02, construction="grid")
    with precision():
        (slot,) = wire(net.network, net.domain).slots
        view = View(slot, Cell(np.array([0.2]), np.array([0.21]), []), Focus(list(range(slot.keys)), arb(0)))
        (average,) = view.averages()
    assert len(view.tokens) < slot.keys / 4
    assert view.tail > 0
    values = net(np.linspace(0.2, 0.21, 50))
    assert float(average.lower()) <= values.min() <= values.max() <= float(average.upper())


FORMULAS = [
    ("exp(x) + log(2 + x) - ln(3 + x)", 0.4),
    ("sin(x)*cos(x)/tan(1.2 + x/4)", -0.3),
    ("asin(x/2) - acos(x/3)*atan(x)", 0.5),
    ("sinh(x) + cosh(x)*tanh(2*x) + erf(x)", -0.6),
    ("abs(x - 0.3) + sign(x + 2)*max(x, 5*x, -2) - min(x, 3)", 0.7),
    ("sqrt(2 + x)**3/(x + 3)**-2 + (x + 1.5)**0.3 + 2**x + (x + 2)**x", 0.1),
    ("pi*x + e - 0.1 + 1_0.5e-1 + 0x10*x**2", 0.2),
    ("where(x > 0.3 and not x >= 2 or x < -9, x*x, 0.39 - x)", 0.7),
    ("where(-1 < x <= 0.3, 1, x)", 0.2),
    ("sinc(x)", 0.0),
    ("sinc(3*x)*x", 1e-9),
    ("sinc(x) + sinc(2 + x)", 0.9),
]


@pytest.mark.parametrize(("text", "middle"), FORMULAS)
def test_formulas_are_enclosed(text, middle):
    target = Expression(text, LINE)
    for radius in (0.25, 1e-3):
        points = middle + radius * np.linspace(-1, 1, 101)
        values = target.values(points[:, None])[:, 0]
        with precision():
            at, ball = arb(middle), arb(middle, radius)
            (flat,) = evaluate(target.program, jets(1, 0), [[ball]])
            assert float(flat[0].lower()) - 1e-12 <= values.min()
            assert values.max() <= float(flat[0].upper()) + 1e-12
            if radius < 0.1:
                algebra = jets(1, 4)
                (point,) = evaluate(target.program, algebra, variables(algebra, [at]))
                (box,) = evaluate(target.program, algebra, variables(algebra, [ball]))
                remainder = float(abs(box[4]).upper()) * radius**4
                polynomial = sum(float(a) * (points - middle) ** k for k, a in enumerate(point[:4]))
                assert np.abs(polynomial - values).max() <= remainder + 1e-12


@pytest.mark.parametrize(
    "text", ["sqrt(x)", "x**0.5", "abs(x)", "min(x, 2*x)", "sign(x)", "asin(1 - abs(x))", "where(x < 0.1, 1, x)"]
)
def test_ranges_reach_over_kinks_and_up_to_edges(text):
    target = Expression(text, LINE)
    with precision():
        (flat,) = evaluate(target.program, jets(1, 0), [[arb(0.125, 0.1250001)]])
    values = target.values(np.linspace(0, 0.25, 50)[:, None])
    assert float(flat[0].lower()) - 1e-12 <= values.min() <= values.max() <= float(flat[0].upper()) + 1e-12


def test_a_condition_has_no_series_where_it_is_undecided():
    program, algebra = Expression("x > 0.3", LINE).program, jets(1, 4)
    with precision():
        with pytest.raises(Rough):
            evaluate(program, algebra, variables(algebra, [arb(0.25, 0.1)]))
        (surely,) = evaluate(program, algebra, variables(algebra, [arb(0.5, 0.1)]))
    assert surely[0] == 1


def test_constants_are_the_numbers_as_written():
    def difference(text: str) -> arb:
        with precision():
            (flat,) = evaluate(Expression(text, LINE).program, jets(1, 0), [[arb(0)]])
        return flat[0]

    assert difference("0.1 - 0.10000000000000000001").overlaps(arb("-1e-20"))
    assert not difference("0.1 - 0.10000000000000000001").contains(0)
    assert difference("e - 2.718281828459045") > 2e-16


def test_it_shares_no_arithmetic_with_the_interval_engine():
    allowed = {"errors", "deadline", "domain", "network", "targets"}
    for path in Path(engine.__file__).parent.glob("arb*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                assert (node.module or "").startswith("arb_")
            elif isinstance(node, ast.ImportFrom) and node.level == 2:
                assert (node.module or "").split(".")[0] in allowed
            elif isinstance(node, ast.ImportFrom):
                assert "attnfun" not in (node.module or "")
            elif isinstance(node, ast.Import):
                assert not any("attnfun" in alias.name for alias in node.names)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.delitem(sys.modules, "attnfun.proofs.arb_jets")
    with pytest.raises(af.MissingExtra, match=r"attnfun\[arb\]"):
        importlib.import_module("attnfun.proofs.arb_jets")
