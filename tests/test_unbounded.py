"""L_p norms of targets that are integrable and not bounded: certified, attacked, and refused where they are neither."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.errors import InputError, ProofFailed
from attnfun.formula.majorants import p_means
from attnfun.formula.parser import parse
from attnfun.judge import Limits, judge, read
from attnfun.judge.covers import Box
from attnfun.judge.formula import read as read_formula
from attnfun.judge.ranges import precision
from attnfun.judge.tails import p_mean
from attnfun.pieces.graded import GradedGrid
from attnfun.proofs.rules import Checker
from attnfun.proofs.rules.boxes import NAME, TAILS
from attnfun.proofs.search import network_rows
from attnfun.targets import Status
from clocks import readings

LINE, SQUARE, AROUND = {"x": (0, 1)}, {"x": (0, 1), "y": (0, 1)}, {"x": (-1, 1), "y": (-1, 1)}
CASES = {
    "root": ("1/sqrt(x)", LINE, 1, 0.3),
    "root, p = 1.8": ("1/sqrt(x)", LINE, 1.8, 8.0),
    "logarithm": ("log(x)", LINE, 2, 0.3),
    "hyperplane": ("abs(x-0.3)**(-1/3)*cos(y)", SQUARE, 1, 0.6),
    "corner": ("x**(-0.4)*y**(-0.3)", SQUARE, 1, 1.2),
    "radial": ("1/sqrt(x**2+y**2)", AROUND, 1, 5.0),
}


@pytest.fixture(scope="module")
def nets():
    return {
        name: af.compile(text, domain=domain, norm=p, eps=eps, construction="grid")
        for name, (text, domain, p, eps) in CASES.items()
    }


def norm_of_error(net: af.types.Compiled, p: float) -> float:
    """The L_p norm of the error from below: about the middle of parts that become finer towards zero and 0.3."""
    claim, rows, volumes = net.certificate.claim, [], []
    edges = []
    for low, high in zip(claim.domain.lo.ravel(), claim.domain.hi.ravel(), strict=True):
        near = np.geomspace(1e-9, 2.0, 60 if claim.domain.size == 2 else 400)
        places = np.concatenate([[low, high], *([c - near, c + near] for c in (0.0, 0.3))], axis=None)
        edges.append(np.unique(np.clip(np.concatenate([places, np.linspace(low, high, 50)]), low, high)))
    mesh = np.meshgrid(*(0.51 * each[1:] + 0.49 * each[:-1] for each in edges), indexing="ij")
    rows = np.stack([axis.ravel() for axis in mesh], axis=1)  # (P, D)
    volumes = np.prod(np.meshgrid(*(np.diff(each) for each in edges), indexing="ij"), axis=0).ravel()
    gaps = np.abs(network_rows(claim.network, rows) - claim.imitated.values(rows)).max(axis=1)
    return float((gaps**p * volumes).sum() ** (1 / p))


@pytest.mark.parametrize("name", CASES)
def test_unbounded_targets_are_proved(name, nets):
    certificate, (_, _, p, eps) = nets[name].certificate, CASES[name]
    assert certificate.status is Status.PROVED
    assert certificate.proof is not None
    assert certificate.proof.rule == TAILS
    assert 0.95 * norm_of_error(nets[name], p) <= certificate.bound <= eps  # sums are off by less


@pytest.mark.parametrize("name", CASES)
def test_proofs_are_checked_and_the_other_rule_says_nothing(name, nets):
    certificate = nets[name].certificate
    claim, norm = certificate.claim, certificate.norm
    assert certificate.proof is not None
    assert Checker().conclusion(certificate.proof, claim, norm).bound <= certificate.bound
    with pytest.raises(ProofFailed, match="L_p norm"):
        Checker().conclusion(certificate.proof, claim)
    assert Checker().conclusion(replace(certificate.proof, rule=NAME), claim, norm).bound == np.inf


@pytest.mark.parametrize(("name", "boxes"), [("root, p = 1.8", 40), ("radial", 270)])
def test_the_judge_agrees_and_not_with_less(name, boxes, nets, tmp_path):
    nets[name].save(tmp_path / "f.safetensors")
    claim, p = read(tmp_path / "f.safetensors"), CASES[name][2]
    assert judge(claim, Limits(boxes)).agreed
    false = replace(claim, bound=0.9 * norm_of_error(nets[name], p))
    assert not judge(false, Limits(boxes)).agreed
    assert claim.proof is not None
    assert not judge(replace(claim, proof=replace(claim.proof, rule=NAME)), Limits(boxes)).agreed


@pytest.mark.parametrize(
    ("text", "eps", "dtype"),
    [
        ("abs(x - 0.3)**-0.45", 0.5, "float64"),
        ("abs(x - 0.3)**-0.45", 0.5, "bfloat16"),
        ("abs((x - 0.3)*(x - 0.5))**-0.45", 1.0, "float64"),
    ],
)
def test_the_judge_knows_the_mean_of_a_pole_a_hair_outside_of_a_box(text, eps, dtype):
    """The float 0.3 is 1.1e-17 below 3/10, where the target is 10^7 and more; the box is 0.01 wide."""
    net = af.compile(text, {"x": (0, 0.3)}, eps, norm=1, dtype=dtype)
    assert net.certificate.verdict(Limits(100)).agreed


@pytest.mark.parametrize("text", ["1/sqrt(x - 0.001)", "1/x", "x**-1.01", "1/sqrt(x) + log(x - 1e-9)"])
def test_the_judge_agrees_with_no_claim_about_what_is_undefined_or_not_integrable(text, nets, tmp_path):
    nets["root, p = 1.8"].save(tmp_path / "f.safetensors")
    claim = read(tmp_path / "f.safetensors")
    other = replace(claim, target={**claim.target, "text": text}, bound=1e3)
    assert not judge(other, Limits(40)).agreed


def judged_mean(text, names, low, high, p):
    """The judge's bound on a p-mean, and whether it calls the formula defined."""
    with precision():
        mean, defined = p_mean(*read_formula(text, names), Box(np.array(low), np.array(high)), p)
        return float(mean), defined


def test_files_keep_the_proof(nets, tmp_path):
    nets["logarithm"].save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors").certificate.recheck()
    assert again.bound == nets["logarithm"].certificate.bound


def test_traced_functions_too():
    net = af.compile(lambda x: 1 / np.sqrt(x), domain=(0, 1), norm=1, eps=0.6)
    assert net.certificate.bound <= 0.6
    assert net.certificate.proof is not None
    assert net.certificate.proof.rule == TAILS


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_coarse_arithmetic(dtype):
    net = af.compile("1/sqrt(x)", domain=LINE, norm=1, eps=0.6, dtype=dtype)
    assert 0.95 * norm_of_error(net, 1) <= net.certificate.bound <= 0.6


@pytest.mark.parametrize(
    ("text", "domain", "p", "named"),
    [
        ("1/sqrt(x)", LINE, 2, "0.5 times p = 2"),
        ("abs(x-0.3)**(-1/3)*cos(y)", SQUARE, 3, "'x-0.3' is zero"),
        ("x**(-0.4)*y**(-0.3)", SQUARE, 2.5, "0.4 times p = 2.5"),
        ("1/sqrt(x**2+y**2)", AROUND, 2, "p = 2"),
        ("abs(x)**-0.9*abs(y)**-0.9*abs(x+y)**-0.9", AROUND, 1, "meet"),
        ("1/x", {"x": (-1, 1)}, 1, "1 times p = 1"),
        ("exp(1/x)", {"x": (-1, 1)}, 1, "undefined or unbounded"),
    ],
)
def test_what_is_not_integrable_is_refused_with_the_place_and_the_exponent(text, domain, p, named):
    with pytest.raises(InputError, match=named.replace("(", r"\(")):
        af.compile(text, domain=domain, norm=p, eps=0.5)


def test_the_sup_norm_refuses_all_of_them():
    for text, domain, _, _ in CASES.values():
        with pytest.raises(InputError, match="bounded"):
            af.compile(text, domain=domain, eps=0.5)


INTEGRALS = [
    ("1/sqrt(x)", (0.0, 1e-3)),
    ("1/sqrt(x)", (0.0, 1e-300)),
    ("log(x)", (0.0, 0.25)),
    ("log(x)**3/x**0.2", (0.0, 0.25)),
    ("abs(x-0.3)**(-1/3)", (0.25, 0.4)),
    ("abs(x-0.3)**(-1/3)", (0.3, 0.4)),
    ("1/sqrt(1-x**2)", (0.5, 1.0)),
    ("1/sqrt(sin(x))", (0.0, 1.0)),
    ("x*log(x)", (0.0, 0.5)),
    ("3/sqrt(x) - log10(x) + cos(x)", (0.0, 1.0)),
    ("sqrt(1/x)", (0.0, 2.0)),
    ("cbrt(1/x)", (-1.0, 2.0)),
    ("max(1/sqrt(x), 2*log2(x))", (0.0, 1.0)),
    ("where(x < 0.5, x**(-0.3), 2)", (0.0, 1.0)),
    ("1/sin(1)/sqrt(x)", (0.0, 1.0)),
    ("x**2/x**2.5", (0.0, 1.0)),
]


@pytest.mark.parametrize("p", [1.0, 1.2, 1.75])
@pytest.mark.parametrize(("text", "ends"), INTEGRALS)
def test_means_are_bounds(text, ends, p):
    """Above the integral, and not far above."""
    program, box = parse(text, ("x",)), Interval([[ends[0]]], [[ends[1]]])
    with np.errstate(all="ignore"):
        truth = _mean(program, ends, p)
    for bound in (p_means(program, box, box, p)[0][0], judged_mean(text, ("x",), ends[:1], ends[1:], p)[0]):
        assert truth * (1 - 1e-6) <= bound
        assert bound <= 200 * truth


def _mean(program, ends, p):
    """From below: middles of parts that become finer towards the pole, and nothing nearer than floats tell."""
    low, high = ends
    pole = 0.3 if "0.3)" in program.source and low > 0.2 else high if "1-x" in program.source else 0.0
    total = 0.0
    for side, length in ((-1, pole - low), (1, high - pole)):
        if length > 0:
            edges = length * np.geomspace(1e-200 if pole == 0 and length > 1e-9 else 1e-9, 1.0, 20001)
            middles = pole + side * (edges[1:] + edges[:-1]) / 2
            values = np.abs(program.values(middles[:, None])[:, 0])
            values = np.where(np.isfinite(values), values, 0.0)  # where powers underflow
            total += float((values**p * np.diff(edges)).sum())
    return (total / (high - low)) ** (1 / p)


@pytest.mark.parametrize(
    ("text", "p", "integral"),
    [
        ("1/sqrt(x**2+y**2)", 1.0, 2 * np.log(1 + np.sqrt(2))),
        ("1/sqrt(x+y)", 1.0, (2**1.5 - 2) / 0.75),
        ("1/sqrt(x+y)", 1.6, (2**1.2 - 2) / 0.24),
        ("x**(-0.4)*y**(-0.3)", 1.0, 1 / 0.42),
        ("x**(-0.4)*y**(-0.3)", 2.25, 1 / (0.1 * 0.325)),
        ("abs(x-y)**(-0.5)", 1.0, 2 / 0.75),
        ("abs(x-y)**(-0.5)", 1.75, 2 / (0.125 * 1.125)),
        ("log(x*y)", 2.0, 6.0),
    ],
)
def test_means_in_two_variables_are_bounds(text, p, integral):
    program, box = parse(text, ("x", "y")), Interval([[0.0, 0.0]], [[1.0, 1.0]])
    truth = integral ** (1 / p)
    assert truth * (1 - 1e-9) <= p_means(program, box, box, p)[0][0] <= 8 * truth
    assert truth * (1 - 1e-9) <= judged_mean(text, ("x", "y"), [0.0, 0.0], [1.0, 1.0], p)[0] <= 8 * truth


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e280])
def test_any_scale(scale):
    program, box = parse(f"{scale!r}/sqrt(x)", ("x",)), Interval([[0.0]], [[0.25]])
    bound = p_means(program, box, box, 1.0)[0][0]
    assert 4 * scale * (1 - 1e-9) <= bound <= 4 * scale * (1 + 1e-9)


def test_what_is_nowhere_defined_is_not_called_defined():
    half, nowhere = ("(1/x - 1)**-0.25", (0.25, 1.5)), ("log(1/x - 2)", (0.75, 1.0))
    for text, box in (("(x-x)/(x-x)", (0.0, 1.0)), ("x**(-0.4)", (-1.0, 1.0)), ("log(x)", (-1.0, 1.0)), half, nowhere):
        ends = Interval([[box[0]]], [[box[1]]])
        means, defined = p_means(parse(text, ("x",)), ends, ends, 1.0)
        assert not (np.isfinite(means) & defined).any()
        mean, sure = judged_mean(text, ("x",), box[:1], box[1:], 1.0)
        assert not (np.isfinite(mean) and sure)


def test_differences_of_poles_may_be_negative():
    certificate = af.compile("log(1/x - 1.00001)", {"x": (0.25, 1)}, 1.0, norm=1).certificate  # not for x > 0.99999
    assert certificate.status is not af.types.Status.PROVED


@pytest.mark.parametrize("text", ["(1/sqrt(x) + 1/cbrt(x))**2000", "(x**-1e-12 + log(x))**1e8"])
def test_large_powers_of_sums_are_refused_at_once(text):
    with pytest.raises(af.errors.InputError):
        af.compile(text, {"x": (0, 1)}, 0.5, norm=1)


def test_a_pole_on_the_diagonal():
    net = af.compile("abs(x - y)**-0.5", {"x": (0, 1), "y": (0, 1)}, 3.0, norm=1)
    assert net.certificate.proved


def test_an_unknown_slope_is_the_reason_where_the_power_is_not():
    with pytest.raises(af.errors.InputError, match=r"no slope of .* away from zero is known"):
        af.compile("abs(1 - cos(x))**(-1/4)", {"x": (-1, 1)}, 0.5, norm=1)


@pytest.mark.parametrize(
    "text", ["min(1/x**2, 3)", "max(-1/x**2, -3)", "min(3, 1/x**2)*log(x)", "where(x < 2, min(x**-3, 2), 1/x)"]
)
def test_a_pole_that_is_cut_off_is_bounded(text):
    net = af.compile(text, {"x": (0, 1)}, eps=0.6, norm=1, construction="grid", options={"tokens": 30})
    assert net.certificate.status.value == "conditional"  # at zero itself it is not defined
    assert any("defined on the whole domain" in line for line in net.certificate.assumptions)
    x = np.linspace(1e-6, 1, 20_001)
    truth = net.certificate.claim.imitated.program.values(x[:, None])[:, 0]
    assert np.abs(net(x) - truth).mean() <= net.certificate.bound


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2).map(sorted),
    st.floats(0, 1e3) | st.just(5e-324),
    st.booleans(),
    st.floats(0, 1),
    st.floats(1e-9, 1),
)
def test_quotients_by_numbers_of_one_sign_are_bounded_on_one_side(numerator, edge, negative, share, part):
    low, high = (-edge, 0.0) if negative else (0.0, edge)
    found = Interval(numerator[0], numerator[1]) / Interval(low, high)
    assert not found.defined
    a, y = numerator[0] + share * (numerator[1] - numerator[0]), part * (low + high)
    if y != 0 and numerator[0] <= a <= numerator[1]:
        with np.errstate(over="ignore"):
            assert found.lo <= np.divide(a, y) <= found.hi
    if edge > 0 and numerator[0] > 0:
        assert np.isinf(found.lo) == negative
        assert np.isinf(found.hi) != negative or numerator[1] / edge > 1e300


def test_a_declared_tail_makes_a_conditional_certificate(tmp_path):
    with pytest.raises(InputError, match=r"integrable|bounded"):
        af.compile("(1-cos(x))**-0.25", LINE, eps=0.5, norm=1, construction="grid")
    net = af.compile("(1-cos(x))**-0.25", LINE, eps=0.6, norm=1, construction="grid", tail="1.3*x**(-1/2)")
    assert net.certificate.status is Status.CONDITIONAL
    assert "at most '1.3*x**(-1/2)'" in net.certificate.assumptions[0]
    x = (np.arange(200_000) + 0.5) / 200_000
    assert np.abs(net(x) - (1 - np.cos(x)) ** -0.25).mean() <= net.certificate.bound <= 0.6
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors").certificate
    assert (again.status, again.assumptions) == (net.certificate.status, net.certificate.assumptions)
    assert again.recheck().bound == net.certificate.bound
    assert len(again.claim.imitated.identity()) == 2


@pytest.mark.parametrize(
    ("tail", "keywords", "message"),
    [
        ("x**(-1/2)", {"norm": 1}, "tail must be at least"),
        ("1.3/x", {"norm": 1}, "1 times p = 1 must be below 1"),
        ("[2*x**(-1/2), 1]", {"norm": 1}, "one formula"),
        ("2*x**(-1/2)", {}, "an L_p norm"),
        (3.0, {"norm": 1}, "a formula in text"),
        ("y", {"norm": 1}, "y"),
    ],
)
def test_tails_that_say_nothing_are_refused(tail, keywords, message):
    with pytest.raises(InputError, match=message):
        af.compile("(1-cos(x))**-0.25", LINE, eps=0.5, construction="grid", tail=tail, **keywords)


def test_a_tail_goes_with_formulas():
    with pytest.raises(InputError, match="a formula in text as the target"):
        af.compile(np.log, (0, 1), eps=0.5, norm=1, tail="x")


@given(
    widths=st.lists(st.integers(-60, 0), min_size=2, max_size=12),
    gamma=st.sampled_from([10.0, 100.0]),
    place=st.floats(0, 1),
    near=st.integers(0, 11),
)
def test_the_largest_score_is_that_of_the_cell_and_others_are_far_below(widths, gamma, place, near):
    cuts = np.concatenate([[0.0], np.cumsum(2.0 ** np.array(widths))])
    if (np.diff(cuts) <= 0).any():
        return  # cells so narrow that their ends are one float
    grid = GradedGrid(af.Box([0.0], [cuts[-1]]), (cuts,))
    low, high = (end.ravel() for end in grid.cells)
    slopes, heights = grid.scores(gamma, np.zeros(1))
    cell = min(near, grid.size - 1)
    x = low[cell] + place * (high[cell] - low[cell])
    scores = slopes.ravel() * x + heights
    away = np.abs(np.arange(grid.size) - cell)
    steps = np.maximum(high[cell] / np.diff(cuts).min(), 1.0) * gamma * 1e-14  # rounding of the sums above
    assert (scores[cell] - scores >= gamma * (away - 1) * (away > 0) - steps).all()


def test_graded_cells_are_as_good_near_the_edge_of_integrability_as_elsewhere():
    options = {"cells": "graded"}
    bounds = [
        af.compile("1/sqrt(x)", LINE, norm=1.7, construction="grid", options={**options, "tokens": tokens})
        for tokens in (20, 40)
    ]
    few, many = (net.certificate.bound for net in bounds)
    assert many <= 0.6 * few  # 20 equal cells more take away a twentieth
    deep = af.compile("1/sqrt(x)", LINE, eps=0.5, norm=1.8, construction="grid")
    assert deep.certificate.status is Status.PROVED
    assert deep.network.tokens < 200
    assert norm_of_error(deep, 1.8) <= deep.certificate.bound


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_graded_cells_serve_every_format_around_a_pole_inside(dtype):
    options = {"cells": "graded"}
    net = af.compile("abs(x-0.3)**-0.5", LINE, eps=1.2, norm=1, construction="grid", dtype=dtype, options=options)
    assert norm_of_error(net, 1) <= net.certificate.bound <= 1.2
    if dtype.startswith("float"):
        verdict = net.certificate.verdict()
        assert verdict.agreed, verdict


def test_graded_cells_find_a_jump():
    step = af.compile("where(x > 0.3, 1, 0)", LINE, eps=1e-3, norm=1, construction="grid", options={"cells": "graded"})
    equal = af.compile("where(x > 0.3, 1, 0)", LINE, eps=1e-3, norm=1, construction="grid")
    assert step.certificate.bound <= 1e-3
    assert 20 * step.network.tokens < equal.network.tokens


@pytest.mark.parametrize(
    ("text", "domain", "keywords", "message"),
    [
        ("sin(x)", LINE, {"options": {"cells": "graded"}}, "graded cells need an L_p norm.*norm=inf"),
        ("log(x)", LINE, {"norm": 1, "options": {"cells": "graed"}}, "Did you mean 'graded'"),
        ("a + b + c + d", dict.fromkeys("abcd", (0, 1)), {"norm": 1, "options": {"cells": "graded"}}, "4 variables"),
    ],
)
def test_cells_that_cannot_be_made_are_refused(text, domain, keywords, message):
    with pytest.raises(InputError, match=message):
        af.compile(text, domain, eps=0.3, construction="grid", **keywords)


@pytest.mark.parametrize("count", [6000, 9000])
def test_a_proof_that_time_ends_on_the_way_is_a_proof(count):
    """Series of x^(-1/2) overflow on the narrowest boxes, where those of wider ones do not."""
    options = {"cells": "graded", "tokens": 100}
    net = af.compile("1/sqrt(x)", LINE, norm=1.9, construction="grid", options=options, time_limit=readings(count))
    assert np.isfinite(net.certificate.bound)
    assert net.certificate.stopped
