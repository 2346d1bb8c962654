"""Limits that users set hold. The clock is given to a deadline, so nothing here waits or depends on real time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest

import attnfun as af
from attnfun import compiler
from attnfun.arithmetic import Interval
from attnfun.arithmetic.formats import FORMATS, round_to
from attnfun.arithmetic.jets import variables
from attnfun.domains.box import as_box
from attnfun.errors import TimeLimitReached
from attnfun.formula import program
from attnfun.pieces.chains import chain_of, chained
from attnfun.pieces.resolution import resolution
from attnfun.proofs import Effort
from attnfun.proofs.provers import boxes as prover
from attnfun.proofs.provers import planes
from attnfun.proofs.rules.structure import bound_by_structure
from attnfun.resources.deadline import PAUSES, Deadline, until, working_time
from attnfun.resources.kernels import njit
from attnfun.resources.memory import Memory
from attnfun.targets import as_target
from cases import BY_CONSTRUCTION, CASES, Combination
from clocks import Clock, readings

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
REASON = "The time limit of"
LATE = 60
"""Readings of the clock that are allowed after the deadline: every stage notices by itself that it is over."""


def black(points):
    return np.array([float(np.exp(-(point @ point))) for point in points.reshape(-1, 2)])


TASKS = {
    "spectral": ("1/(1 + 25*x**2)", {"x": (-1, 1)}, 1e-3),
    "circuit": ("exp(x*y)/(2 + sin(3*x))", SQUARE, 1e-4),
    "grid": ("sin(3*x)*y", SQUARE, 0.5),
    "cross": ("sin(3*x)*y", SQUARE, 0.5),
    "softmax-readout": ("sin(3*x)*y", SQUARE, 0.8),
    "two-layer": ("sin(3*x)*y", SQUARE, 0.8),
    "max-affine": ("x**2 + y**2", SQUARE, 0.3),
    "subspace": ("sin(x + y + z)", {"x": (0, 1), "y": (0, 1), "z": (0, 1)}, 1e-3),
    "auto": (black, [(-1, 1)] * 2, 1e-2),
}


@pytest.mark.parametrize("readings", [0, 3, 30, 150])
@pytest.mark.parametrize("construction", TASKS)
def test_every_stage_notices_that_time_is_over(construction, readings):
    target, domain, eps = TASKS[construction]
    clock = Clock()
    deadline = Deadline.after(readings + 0.5, clock)
    reason = ""
    try:
        net = af.compile(target, domain, eps, construction=construction, time_limit=deadline)
    except af.errors.ToleranceNotMet as miss:
        net, reason = miss.best, str(miss)
    assert REASON in reason or net.certificate.bound <= eps
    assert "could not be reached" not in reason or net.certificate.bound > eps  # no message contradicts itself
    assert clock.now <= 1 + readings + LATE
    if net is not None and net.certificate.proved:
        points = net.domain.sample(200, np.random.default_rng(0))
        truth = net.certificate.claim.target.values(net.domain.flatten(points)[0])[:, 0]
        assert np.abs(net(points).ravel() - truth).max() <= net.certificate.bound


def test_what_was_found_in_time_comes_with_the_reason():
    clock = Clock()
    with pytest.raises(
        af.errors.ToleranceNotMet, match=rf"eps=0.01 could not be reached; got .*{REASON} 150 s was"
    ) as miss:
        af.compile("sin(3*x)", {"x": (-1, 1)}, 0.01, construction="cross", time_limit=Deadline.after(150, clock))
    assert miss.value.best.certificate.proved
    assert miss.value.best.certificate.bound > 0.01


def test_fits_to_data_end_with_the_trials_there_was_time_for():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 1))
    data, sizes = af.Samples(X, np.sin(3 * X[:, 0])), []
    for seconds in (500, 1e9):
        net = af.compile(data, options={"folds": 2}, time_limit=Deadline.after(seconds, Clock()))
        sizes.append(len(net.certificate.claim.target.study.trials))
    assert 0 < sizes[0] < sizes[1]
    with pytest.raises(af.errors.ToleranceNotMet, match=f"fitting the data.*{REASON}"):
        af.compile(data, options={"folds": 2}, time_limit=Deadline.after(5, Clock()))


SLOWEST = 0.45
"""The part of a time limit that a slow machine needs."""


def same_at_any_pace(limit, run):
    """A result, which is the same on a machine whose clock hardly moves and on one that needs half of the time limit.

    Clocks move whenever they are read.
    """
    fast = Clock(1e-9 * limit)
    found = run(Deadline.after(limit, fast))
    slow = Clock(SLOWEST * 1e-9 * limit**2 / fast.now)
    again = run(Deadline.after(limit, slow))
    assert slow.now < 0.5 * limit
    assert again == found
    return found


def told(net):
    """All that users see of a network: its weights, its certificate, its alternatives."""
    if net is None:
        return None
    weights = [getattr(layer, part.name) for layer in net.network.layers for part in fields(layer)]
    arrays = [each.tobytes() for each in weights if isinstance(each, np.ndarray)]
    return arrays, str(net.certificate), net.certificate.as_dict(), net.summary()


def tried(*call, **keywords):
    """What comes of a call: a network, or an error and the best network there is."""
    try:
        return told(af.compile(*call, **keywords))
    except af.errors.AttnfunError as miss:
        return str(miss), told(getattr(miss, "best", None))


COMPILED = [(case, name) for case in CASES if not isinstance(case, Combination) for name in case.constructions]


@pytest.mark.parametrize(("case", "construction"), COMPILED, ids=lambda each: str(each))
def test_slow_and_fast_machines_make_the_same_network(case, construction):
    same_at_any_pace(1e6, lambda limit: told(case.compile(construction=construction, time_limit=limit)))


def test_estimates_that_time_ended_say_so():
    """The search for large errors, and the best network within the budget."""
    estimates = []
    for seconds in (60, 1e9):
        deadline = Deadline.after(seconds, Clock())
        net = af.compile("sin(3*x)*y", SQUARE, 0.3, construction="grid", proof=False, time_limit=deadline)
        estimates.append((net.certificate.effort["points"], REASON in str(net.certificate)))
    assert estimates[0][0] < estimates[1][0]
    assert [said for _, said in estimates] == [True, False]


def test_a_proof_that_is_given_up_for_another_construction_is_counted_and_said(monkeypatch):
    """Every chunk of boxes counts as a large part of the time limit, and takes no time."""
    monkeypatch.setattr(prover, "TUNING", replace(prover.TUNING, a_chunk=400.0))
    found = same_at_any_pace(1e3, lambda limit: tried("exp(-x**2 - y**2)", SQUARE, 0.05, time_limit=limit))
    assert "share of the time limit of 1000 s, counted in boxes, was used" in str(found)


def test_planes_are_given_up_for_boxes_by_counting(monkeypatch):
    monkeypatch.setattr(planes, "A_BOX", 200.0)
    call = "x**2 + exp(y)", SQUARE, 0.4
    found = same_at_any_pace(1e3, lambda limit: tried(*call, construction="max-affine", time_limit=limit))
    assert "proved" in str(found)
    assert found != tried(*call, construction="max-affine", time_limit=np.inf)


@pytest.mark.parametrize("seconds", [0.02, 0.2])
def test_workers_stop_where_one_process_does(seconds, monkeypatch):
    """A share of the time ends rounds, and subtrees that are handed out, after the same boxes."""
    monkeypatch.setattr(prover, "TUNING", replace(prover.TUNING, many=64, group=16, budget=64))
    net = af.compile("sin(3*x)*y", SQUARE, 0.2, construction="grid")
    with ThreadPoolExecutor(3) as workers:
        alone, together = (
            prover.search(net.certificate.claim.imitated, net.network, 0.12, deadline.share(seconds), executor=engine)
            for engine, deadline in ((None, Deadline(1.0)), (workers, Deadline(1.0)))
        )
    assert alone.stopped.startswith("The proof's share")
    assert (alone.bound, alone.boxes) == (together.bound, together.boxes)
    assert all(np.array_equal(alone.proof.data[name], together.proof.data[name]) for name in alone.proof.data)


def test_a_deadline_that_is_not_reached_changes_nothing():
    plain, timed = (
        af.compile("sin(3*x)*y", SQUARE, 0.2, construction="grid", time_limit=limit)
        for limit in (1000.0, Deadline.after(1e9, Clock()))
    )
    assert plain.certificate.as_dict() == timed.certificate.as_dict()


def test_several_calls_share_a_deadline():
    deadline = Deadline.after(100.0, clock := Clock())
    af.compile("x", {"x": (0, 1)}, 0.3, construction="grid", time_limit=deadline)
    clock.now += 100.0
    with pytest.raises(af.errors.ToleranceNotMet, match=REASON):
        af.compile("x", {"x": (0, 1)}, 0.3, construction="grid", time_limit=deadline)


def test_the_functions_values_are_at_hand_after_the_time_limit():
    """A deadline is that of one call, not of the target for ever."""
    clock = Clock()
    net = af.compile(
        black, [(-1, 1)] * 2, options={"tokens": 30}, construction="grid", time_limit=Deadline.after(1e4, clock)
    )
    clock.now = 1e5
    assert net.certificate.recheck(target=black).bound == net.certificate.bound
    assert net.certificate.claim.target.values(np.array([[0.123, 0.456]])).shape == (1, 1)


@pytest.mark.parametrize("engine", ["interval", "arb"])
def test_proving_again_has_a_time_limit(engine):
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1, construction="grid")
    with pytest.raises(af.errors.ProofFailed, match=REASON):
        net.certificate.recheck(engine=engine, time_limit=Deadline.after(1.0, Clock()))
    with pytest.raises(af.errors.ProofFailed, match=REASON):
        net.certificate.recheck(engine=engine, effort=Effort(Deadline.after(1.0, Clock())))
    assert net.certificate.recheck(engine=engine, time_limit=1000).proved


@pytest.mark.parametrize("readings", [10, 20, 40])
def test_the_judge_ends_with_the_time_limit(readings):
    net = af.compile("sin(3*x)*y", SQUARE, 0.3, construction="grid")
    clock = Clock()
    with pytest.raises(af.errors.ProofFailed, match=REASON):
        net.certificate.recheck(engine="arb", time_limit=Deadline.after(readings + 0.5, clock))
    assert clock.now <= 1 + readings + LATE


def test_a_proof_that_follows_the_structure_ends_with_the_time_limit():
    net = BY_CONSTRUCTION["relu"].compile(construction="relu")
    assert net.certificate.proof.rule == "structure"
    with until(readings(0)), pytest.raises(TimeLimitReached):
        bound_by_structure(net.certificate.claim.imitated, net.network)


def test_long_lines_are_planned_within_the_time_limit():
    line = lambda x: np.sin(300 * x)[:, None]  # noqa: E731
    pieces = resolution(line, -1.0, 1.0, 1e-6, 2**18)
    with until(readings(3)), pytest.raises(TimeLimitReached):
        chain_of(line, pieces, 1000, 1e-6)
    with until(readings(3 * pieces.count)):
        assert chained(line, pieces, 1e-300).links  # the best that there was time for


def test_tightening_that_runs_out_of_time_keeps_the_bound():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1, construction="grid")
    assert net.tighten(time_limit=Deadline.after(1.0, Clock())).certificate.bound == net.certificate.bound


@pytest.mark.parametrize("limit", [0, -1, "5", None, np.nan, True, 1j])
def test_a_time_limit_must_be_seconds(limit):
    with pytest.raises(af.errors.InputError, match="time_limit must be a number of seconds > 0"):
        af.compile("x", {"x": (0, 1)}, 0.1, time_limit=limit)


def test_a_deadline_tells_time():
    clock = Clock()
    deadline = Deadline.after(10.0, clock)  # from 1 to 11
    assert (deadline.left, deadline.over, deadline.sooner(0.5).end) == (9.0, False, 4.0 + 0.5 * 6.0)
    clock.now = 11.0
    assert (deadline.left, deadline.over) == (0.0, True)
    with pytest.raises(TimeLimitReached, match=r"polishing must end within the time limit\. The time limit of 10 s"):
        deadline.check("polishing")
    assert not Deadline().over
    assert Deadline().share(0.5) == Deadline().sooner(0.5) == Deadline()


@pytest.mark.parametrize(
    ("target", "domain", "keywords"),
    [
        ("sin(3*x)*y", SQUARE, {"eps": 1e-3, "construction": "grid", "budget": 10**10}),
        ("sin(3*x)*y", SQUARE, {"options": {"tokens": 10**9}, "construction": "grid", "budget": 10**10}),
        ("+".join(f"x{k}**2" for k in range(40)), {f"x{k}": (0, 1) for k in range(40)}, {"construction": "max-affine"}),
    ],
)
def test_arrays_that_would_not_fit_are_refused_before_they_are_made(target, domain, keywords):
    with pytest.raises(af.errors.ToleranceNotMet, match=r"memory limit; got memory_limit=1e\+06, for about .* bytes\."):
        af.compile(
            target, domain, **{"eps": 0.1, **keywords} if "options" not in keywords else keywords, memory_limit=1e6
        )


def test_a_proof_stops_where_its_boxes_would_not_fit():
    options = {"options": {"tokens": 60}, "construction": "grid"}
    small, large = (af.compile("sin(3*x)*y", SQUARE, **options, memory_limit=limit) for limit in (3e4, None))
    assert small.certificate.proved
    assert small.certificate.effort["boxes"] < large.certificate.effort["boxes"]
    assert small.certificate.bound >= large.certificate.bound


def test_a_proof_stopped_by_memory_says_so(monkeypatch):
    with pytest.raises(
        af.errors.ToleranceNotMet, match=r"could not be reached.*proof stopped at memory_limit=5e\+05"
    ) as miss:
        af.compile("sin(3*x)*y", SQUARE, 0.1, construction="grid", memory_limit=5e5)
    assert "memory_limit=5e+05" in str(miss.value.best.certificate)
    net = af.compile("sin(3*x)*y", SQUARE, 0.3, construction="grid")
    assert "stopped" not in str(net.certificate)
    searched = replace(net.certificate, proof=None)
    with pytest.raises(af.errors.ProofFailed, match="The proof stopped at memory_limit=3e"):
        searched.recheck(effort=Effort(memory=Memory(3e4)))
    monkeypatch.setattr(prover, "TUNING", replace(prover.TUNING, max_boxes=10))
    with pytest.raises(af.errors.ProofFailed, match="boxes waiting, where 10 are allowed"):
        searched.recheck()
    assert net.certificate.recheck().proved  # checking needs no room for boxes that wait


def test_an_error_that_stays_is_not_explained():
    """A peak that nothing lowers: what was seen is said, and no reason that may be wrong."""
    peak = "sin(3*x) + (1 - (1e5*(x - 0.500013))**2)*where(0.500003 < x < 0.500023, 1, 0)"
    with pytest.raises(
        af.errors.ToleranceNotMet, match=r"largest error found hardly falls.* tokens, .* tokens\."
    ) as miss:
        af.compile(peak, {"x": (-1, 1)}, 0.1, construction="cross")
    assert "float64" not in str(miss.value)


@pytest.mark.parametrize(("dtype", "eps"), [("bfloat16", 1e-4), ("float16", 1e-4), ("float32", 1e-9)])
def test_a_tolerance_finer_than_results_is_refused_at_once(dtype, eps, monkeypatch):
    monkeypatch.setattr(compiler, "pursue", lambda *_: pytest.fail("a network was searched for"))
    with pytest.raises(
        af.errors.ToleranceNotMet, match=rf"no network with results in {dtype} is within.*eps above [\d.e-]+\."
    ) as miss:
        af.compile("sin(x)", {"x": (-3, 3)}, eps, dtype=dtype)
    least = float(str(miss.value).split("eps above ")[1].rstrip("."))
    assert eps < least < FORMATS[dtype].grain  # half of what numbers near 1 are apart


def test_proved_bounds_are_never_finer_than_results():
    net = af.compile("sin(x)", {"x": (0, 1)}, 0.3, dtype="bfloat16", construction="grid")
    values = np.sin(np.linspace(0, 1, 1000))
    assert net.certificate.proved
    assert net.certificate.bound >= np.abs(values - round_to(values, "bfloat16")).max()


@pytest.mark.parametrize("limit", [0, -1.0, "1e9", np.nan, True])
def test_a_memory_limit_must_be_bytes(limit):
    with pytest.raises(af.errors.InputError, match="memory_limit must be a number of bytes > 0"):
        af.compile("x", {"x": (0, 1)}, 0.1, memory_limit=limit)


def test_long_formulas_are_evaluated_in_blocks(monkeypatch):
    formula = as_target("sin(x)*cos(x) + exp(x)/(2 + x)", as_box({"x": (-1, 1)}))
    rows = formula.domain.sample(100, np.random.default_rng(0))
    whole, series = formula.values(rows), formula.jets(variables(Interval(rows), 2))
    monkeypatch.setattr(program, "TUNING", replace(program.TUNING, numbers=64))
    assert np.array_equal(formula.values(rows), whole)
    assert np.array_equal(formula.jets(variables(Interval(rows), 2)).mid, series.mid)
    assert formula.values(rows[:0]).shape == (0, 1)


def test_no_time_limit_pays_for_the_compilation_of_kernels():
    paused, working, began = PAUSES.seconds, working_time(), time.monotonic()
    assert njit(lambda x: x + 1)(1) == 2
    compiling = PAUSES.seconds - paused
    assert compiling > 0
    assert working_time() - working <= time.monotonic() - began - compiling + 1e-6
