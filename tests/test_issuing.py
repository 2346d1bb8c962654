"""No certificate is issued that a point, or the certificate itself, contradicts."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from math import inf, nan, nextafter

import numpy as np
import pytest
from flint import arb

import attnfun as af
from attnfun.arithmetic.formats import DTYPES
from attnfun.domains.box import as_box
from attnfun.errors import TimeLimitReached
from attnfun.judge.ranges import precision
from attnfun.network import Affine, Network
from attnfun.proofs import certify, points
from attnfun.proofs.claim import EDGE_ASSUMPTION
from attnfun.proofs.rules import parts
from attnfun.proofs.search import network_rows
from attnfun.resources.deadline import Deadline
from attnfun.targets import Expression, as_target
from attnfun.targets.callables import Lipschitz
from attnfun.targets.combined import Stacked

certifying = import_module("attnfun.proofs.certify")


def claim_about(target, domain=(-1, 1), **keywords):
    """A small network that imitates a target, and nothing proved about it yet."""
    keywords = {"options": {"tokens": 12}, "construction": "grid", **keywords}
    return af.compile(target, domain, proof=False, **keywords).certificate.claim


WAVE = "sin(3*x)"


def claiming(monkeypatch, change):
    """Make every proof say something else."""
    prove = certifying._prove
    monkeypatch.setattr(certifying, "_prove", lambda *arguments: change(prove(*arguments)))


def shrunk(outcome):
    """A false bound: below the error that any search finds."""
    parts = {name: part * 1e-3 for name, part in outcome.parts.items()}
    return replace(outcome, bound=outcome.bound * 1e-3, parts=parts)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_proof_that_a_point_contradicts_is_an_internal_error(dtype, monkeypatch):
    claim = claim_about(WAVE, dtype=dtype)
    claiming(monkeypatch, shrunk)
    with pytest.raises(
        af.errors.SoundnessError, match=r"bound \S+ was proved but .* error of at least \S+ at x = .*report"
    ):
        certify(claim, 10.0)


def test_a_traced_function_is_judged_too(monkeypatch):
    claim = claim_about(np.sin)
    claiming(monkeypatch, shrunk)
    with pytest.raises(af.errors.SoundnessError):
        certify(claim, 10.0)


def test_a_declaration_that_no_value_contradicts_is_not_blamed(monkeypatch):
    claim = claim_about(np.sin, lipschitz=1.5)
    claiming(monkeypatch, shrunk)
    with pytest.raises(af.errors.SoundnessError, match=r"follows from what was declared.*at least \S+ at x = .*report"):
        certify(claim, 10.0)


BLAMED = (
    r"Lipschitz with constant .* at least \S+ at \w = .* and a slope of \S+ between \[\S+\] and \[.*larger lipschitz="
)


@pytest.mark.parametrize("scale", [1.0, 1e-99, 1e99])
def test_a_declaration_that_recorded_values_contradict_is_blamed(scale):
    """Nearest neighbours agree with the constant and others do not; nobody can ask for more values."""
    samples = scale * np.array([[-1.0], [-0.99], [0.99], [1.0]]), scale * np.array([[0.0], [0.0], [5.0], [5.0]])
    target = Lipschitz(None, 1.0, af.Box([-scale], [scale], ("x",)), (), samples)
    zero = Network((Affine.tokenwise(np.array([[0.0]]), np.array([0.0])),), 1)
    with pytest.raises(af.errors.InputError, match=BLAMED):
        points.refuse_beaten(target, zero, 0.1 * scale, np.array([[0.0]]))


def jumping(points):
    """Not Lipschitz."""
    return np.array([float(x > 0.3) for x in np.ravel(points)])


@pytest.fixture
def compared_late(monkeypatch):
    """Values are compared with the declared constant when a point beats the bound, and not before."""
    monkeypatch.setattr(Lipschitz, "_refuse_false_constant", lambda target: None)


@pytest.mark.usefixtures("compared_late")
def test_a_function_that_is_not_what_was_declared_is_blamed():
    claim = claim_about(jumping, lipschitz=0.1)
    with pytest.raises(af.errors.InputError, match=BLAMED):
        certify(claim, None)


def spike(points):
    """Not Lipschitz where random points hardly see it."""
    return np.array([float(abs(x - 0.3) < 1e-6) for x in np.ravel(points)])


@pytest.mark.usefixtures("compared_late")
def test_a_declaration_about_a_part_is_blamed():
    """A combination has values of a part where its own certificate has none."""
    declared = af.compile(spike, {"u": (-1, 1)}, 0.5, lipschitz=0.1, construction="grid")
    near = af.compile("0.3 + x/1e8", {"x": (-1, 1)}, 1e-9)
    with pytest.raises(af.errors.InputError, match=BLAMED):
        declared(near)
    with pytest.raises(af.errors.InputError, match=BLAMED):
        declared.restrict({"u": (0.3 - 1e-8, 0.3 + 1e-8)})


@pytest.mark.usefixtures("compared_late")
def test_a_declaration_about_one_of_several_outputs_is_blamed():
    box = as_box({"x": (-1, 1)})
    both = Stacked([as_target(WAVE, box), as_target(spike, box, lipschitz=0.1)], box)
    both.values(np.array([[0.2], [0.3]]))
    zeros = Network((Affine.tokenwise(np.zeros((1, 2)), np.zeros(2)),), 1)
    with pytest.raises(af.errors.InputError, match=BLAMED):
        points.refuse_beaten(both, zeros, 0.9, np.array([[0.3]]))


def test_combined_networks_are_judged(monkeypatch):
    one = af.compile(WAVE, {"x": (-1, 1)}, 0.5, construction="grid")
    by_parts = parts.from_certificates
    monkeypatch.setattr(parts, "from_certificates", lambda *arguments: shrunk(by_parts(*arguments)))
    with pytest.raises(af.errors.SoundnessError):
        one.restrict({"x": (-1, 0.5)})


def test_nothing_is_compared_in_the_mean(monkeypatch):
    claim = claim_about(WAVE, norm=2)
    low = certify(claim, 10.0, norm=2).found / 2
    claiming(monkeypatch, lambda outcome: replace(outcome, bound=low, parts=dict.fromkeys(outcome.parts, low)))
    assert certify(claim, 10.0, norm=2).bound == low


@pytest.mark.parametrize(
    "change",
    [
        lambda outcome: replace(outcome, bound=nan),
        lambda outcome: replace(outcome, parts={**outcome.parts, "rounding": nan}),
        lambda outcome: replace(outcome, parts={**outcome.parts, "rounding": -1e-9}),
        lambda outcome: replace(outcome, bound=2 * outcome.bound),
        lambda outcome: replace(outcome, parts={**outcome.parts, "construction": 2 * outcome.bound}),
        lambda outcome: replace(outcome, parts={"construction": outcome.bound}),
    ],
)
@pytest.mark.parametrize("norm", [inf, 2.0])
def test_a_certificate_that_contradicts_itself_is_not_issued(norm, change, monkeypatch):
    claim = claim_about(WAVE)
    claiming(monkeypatch, change)
    with pytest.raises(af.errors.SoundnessError, match=r"contradict itself|does not hold"):
        certify(claim, 10.0, norm=norm)


EXACT = {
    "sin(3*x)": lambda x: (3 * x).sin(),
    "where(x < 0.1, x, 0.2 - x)": lambda x: x if x < arb("0.1") else arb("0.2") - x,
    "x": lambda x: x,
    "(1 - cos(1e-4*x))/1e-8": lambda x: (1 - (x / 10**4).cos()) * 10**8,
    "0.1": lambda x: arb("0.1"),
}


@pytest.mark.parametrize("text", EXACT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_error_at_a_point_is_never_overstated(text, dtype):
    """Against 300 bits, at random points, ends and neighbours of a corner."""
    claim = claim_about(text, dtype=dtype)
    picked = [[0.1], [nextafter(0.1, 1)], [nextafter(0.1, -1)], [-1.0], [1.0]]
    rows = np.concatenate([claim.domain.sample(40, np.random.default_rng(0)), picked])
    least, values = points.least_errors(claim.target, claim.network, rows), network_rows(claim.network, rows)[:, 0]
    with precision(300):
        pairs = zip(rows[:, 0].tolist(), values.tolist(), strict=True)
        true = [abs(EXACT[text](arb(x)) - arb(y)) for x, y in pairs]
        assert all(arb(low) <= error for low, error in zip(least.tolist(), true, strict=True))
    assert max(float(error) for error in true) <= max(least.max(), 0.0) * (1 + 1e-6) + 1e-15


def test_outputs_that_overflow_beat_every_bound():
    large = Network((Affine.tokenwise(np.array([[1e308]]), np.array([1e308])),), 1)
    errors = points.least_errors(Expression("x", af.Box([-1], [1], ("x",))), large, np.linspace(-1, 1, 21)[:, None])
    assert errors.max() == inf
    assert errors.min() < inf


HOLE = "sqrt(abs(x - 0.123456) - 1e-14)"
"""Undefined on a set that no float search hits."""


def test_where_definedness_is_not_proved_the_status_is_conditional_and_stays_so():
    net = af.compile(HOLE, {"x": (-1, 1)}, 0.3, construction="grid")
    for one in (net, net.restrict({"x": (-1, 0.5)}), net + 1.0):
        assert one.certificate.status is af.types.Status.CONDITIONAL
        assert EDGE_ASSUMPTION in one.certificate.assumptions
        assert one.summary().status == "conditional"
        assert "proved:" not in str(one.certificate)
    assert net.certificate.recheck().status is af.types.Status.CONDITIONAL


@pytest.mark.parametrize("status", list(af.types.Status))
def test_a_statement_in_the_mean_is_not_about_points(status):
    certificate = replace(af.compile(WAVE, {"x": (-1, 1)}, 0.5, norm=1, construction="grid").certificate, status=status)
    assert "every point" not in certificate.meaning
    assert "L_1 norm of the error over the domain" in certificate.meaning
    assert "L_1 norm of the error over the domain" in certificate.as_dict()["statement"]
    assert "every point" in af.types.Status.PROVED.meaning(inf)


def boundless(outcome):
    """A proof that found no bound."""
    return replace(outcome, bound=inf, parts=outcome.parts | {"construction": inf})


def test_nothing_infinite_is_called_proved(monkeypatch):
    claim = claim_about(WAVE)
    claiming(monkeypatch, boundless)
    with pytest.raises(af.errors.ProofFailed, match=r"must be finite; got infinity around x = \[.*proof=False"):
        certify(claim, 10.0)
    assert certify(claim, 10.0, proof=False).status is af.types.Status.ESTIMATED


def test_no_bound_in_time_is_an_estimate(monkeypatch):
    claim, now = claim_about(WAVE), [0.0]

    def late(outcome):
        now[0] = 200.0
        return boundless(outcome)

    claiming(monkeypatch, late)
    with pytest.raises(TimeLimitReached) as raised:
        certify(claim, 10.0, effort=certifying.Effort(Deadline.after(100.0, lambda: now[0])))
    assert raised.value.estimate.status is af.types.Status.ESTIMATED


def test_a_norm_beyond_floats_is_no_bound():
    """Each factor is a float, the volume too, but not their product."""
    wide, text = dict.fromkeys("xyz", (0, 1e100)), "1e100*sin(3*x/1e100)*(y/1e100)*(z/1e100)"
    small = {"options": {"tokens": 8}, "construction": "grid"}
    with pytest.raises(af.errors.ProofFailed, match="a bound on the error must be finite"):
        af.compile(text, wide, norm=1, **small)
    assert af.compile(text, wide, norm=1, proof=False, **small).certificate.status is af.types.Status.ESTIMATED


def test_infinite_sums_of_parts_are_refused(monkeypatch):
    one = af.compile(WAVE, {"x": (-1, 1)}, 0.5, construction="grid")
    by_parts = certifying._from_certificates
    monkeypatch.setattr(certifying, "_from_certificates", lambda *arguments: boundless(by_parts(*arguments)))
    with pytest.raises(af.errors.ProofFailed, match="must be finite"):
        one + one


@pytest.mark.parametrize("norm", ["inf", 2])
def test_where_outputs_are_no_numbers_an_estimate_is_infinite(norm):
    """Values up to the largest number of bfloat16 overflow on the way."""
    wide = {"x": (-3.3e38, 3.3e38)}
    small = {"options": {"tokens": 8}, "construction": "cross", "dtype": "bfloat16", "proof": False}
    assert af.compile("max(x, 8e37)", wide, norm=norm, **small).certificate.bound == inf


def test_a_formula_that_the_judge_cannot_read_is_certified_and_not_judged():
    text = "x"
    for _ in range(160):
        text = f"(0.9*{text} + 0.01)"
    net = af.compile(text, {"x": (-1, 1)}, 0.01)
    assert net.certificate.proved
    assert not net.certificate.verdict().covered
    with pytest.raises(af.errors.InputError, match=r"the judge must cover .* inside each other"):
        net.certificate.recheck(engine="arb")
