"""What certificates say, and that they can be proved again."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from multiprocessing import get_context

import numpy as np
import pytest

import attnfun as af
from attnfun.network import Network
from attnfun.network.storage import write
from attnfun.proofs import Claim, certify
from attnfun.proofs.provers import boxes as prover
from attnfun.proofs.provers.boxes import bound_error
from attnfun.proofs.rules.boxes import Problem
from attnfun.proofs.search import network_rows
from attnfun.resources.deadline import Deadline
from cases import CASES, branching


def test_parts_explain_the_bound(case, compiled):
    certificate = compiled(case).certificate
    assert certificate.bound <= sum(certificate.parts.values()) * (1 + 1e-12)
    assert certificate.found <= certificate.bound
    if case.status != "estimated":
        assert set(certificate.parts) - {"windows"} == {"construction", "input", "rounding"}
        assert certificate.parts.get("windows", 0.0) <= 0.02 * certificate.bound
        assert certificate.assumptions


def test_statuses_are_never_mixed(compiled):
    named = ("product", "declared", "black box")
    by_name = {case.name: compiled(case).certificate for case in CASES if case.name in named}
    assert by_name["product"].proved
    assert not by_name["declared"].proved
    assert any("Lipschitz with constant 2.5" in line for line in by_name["declared"].assumptions)
    assert "not a proof" in str(by_name["black box"])
    assert "about" in by_name["black box"].headline
    assert "<=" not in by_name["black box"].as_dict()["statement"]


def test_a_certificate_as_json_describes_itself(case, compiled):
    data = json.loads(json.dumps(compiled(case).certificate.as_dict()))
    assert data["status"] == case.status
    assert case.status in data["statement"]
    assert data["bound"] <= case.eps


def test_recheck_proves_again(case, compiled):
    certificate = compiled(case).certificate
    again = certificate.recheck()
    assert again.bound <= certificate.bound * (1 + 1e-12)
    assert again.status is certificate.status


def tampered(net: af.types.Compiled, change: float) -> af.types.Compiled:
    """The same network with one value moved."""
    head = net.network.attention[0]
    memory = head.memory.copy()
    memory[len(memory) // 2, -1] += change
    layers = tuple(replace(layer, memory=memory) if layer is head else layer for layer in net.network.layers)
    claim = replace(net.certificate.claim, network=Network(layers, net.network.length, net.network.dtype))
    return replace(net, network=claim.network, certificate=replace(net.certificate, claim=claim))


def test_a_changed_weight_is_found_out(compiled):
    net = tampered(compiled(CASES[1], construction="grid"), change=0.5)
    with pytest.raises(af.errors.ProofFailed, match="could not be proved again"):
        net.certificate.recheck()


def test_a_declared_function_can_be_checked_against_its_samples(compiled):
    certificate = compiled(next(case for case in CASES if case.name == "declared")).certificate
    assert certificate.recheck(target=branching).status is af.types.Status.CONDITIONAL
    with pytest.raises(af.errors.InputError, match="one that was compiled"):
        certificate.recheck(target=lambda p: branching(p) + 1e-9)


def test_without_a_tolerance_the_bound_comes_close_to_the_largest_error():
    for construction, tokens in (("grid", 40), ("spectral", 8)):  # with 40 spectral tokens the error is all rounding
        net = af.compile("sin(3*x)", {"x": (-1, 1)}, options={"tokens": tokens}, construction=construction)
        assert net.network.tokens <= tokens
        assert net.certificate.parts["construction"] <= 1.10 * net.certificate.found


def test_a_time_limit_leaves_a_valid_bound():
    deadline = Deadline.after(400, clock=count().__next__)  # the proof alone reads the clock more often
    net = af.compile(
        "sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, construction="grid", options={"tokens": 100}, time_limit=deadline
    )
    assert net.certificate.proved
    assert net.certificate.bound > 1.1 * net.certificate.found  # more time would have proved less
    points = net.domain.sample(2000, np.random.default_rng(0))
    assert np.abs(net(points) - np.sin(3 * points[:, 0]) * points[:, 1]).max() <= net.certificate.bound


def test_progress_is_told_and_bounds_only_fall(compiled):
    net, seen = compiled(CASES[1], construction="grid"), []
    claim = net.certificate.claim
    bound_error(claim.target, claim.network, 0.1, progress=seen.append)
    assert len(seen) > 2
    bounds = [step.bound for step in seen]
    assert bounds == sorted(bounds, reverse=True)


def test_a_formula_defined_up_to_an_edge_says_so():
    edge = af.compile("sqrt(1 - x**2 - y**2 + 2*x*y)", {"x": (0, 1), "y": (0, 1)}, 0.2)  # 1 - (x - y)**2 >= 0
    assert edge.certificate.status is af.types.Status.CONDITIONAL
    assert any("wherever the formula is defined" in line for line in edge.certificate.assumptions)
    whole = af.compile("sqrt(x)", {"x": (0, 1)}, 0.1)
    assert whole.certificate.proved
    assert not any("wherever" in line for line in whole.certificate.assumptions)


def test_workers_and_checkpoints_change_nothing(tmp_path):
    arguments = {"target": "sin(3*x)*y", "domain": {"x": (-1, 1), "y": (-1, 1)}, "eps": 0.4, "construction": "grid"}
    alone = af.compile(**arguments).certificate.as_dict()
    with ThreadPoolExecutor(2) as threads:
        assert af.compile(**arguments, executor=threads, checkpoint=tmp_path).certificate.as_dict() == alone
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert af.compile(**arguments, executor=processes).certificate.as_dict() == alone
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_proof_goes_on_where_it_was(tmp_path, compiled):
    claim = compiled(CASES[1], construction="grid").certificate.claim
    whole = bound_error(claim.target, claim.network, 0.1)
    rounds = []

    def interrupt(step):
        rounds.append(step.boxes)
        if len(rounds) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bound_error(claim.target, claim.network, 0.1, progress=interrupt, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    after = []
    again = bound_error(claim.target, claim.network, 0.1, progress=after.append, checkpoint=tmp_path)
    assert after[0].boxes == rounds[-1]
    assert (again.bound, again.boxes, again.parts) == (whole.bound, whole.boxes, whole.parts)
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_another_kind_is_not_read(tmp_path, compiled):
    claim = compiled(CASES[1], construction="grid").certificate.claim
    eps = CASES[1].eps
    bound_error(claim.target, claim.network, eps, Deadline(0.0, 0.0), checkpoint=tmp_path)
    (state,) = tmp_path.iterdir()
    write(state, {"lo": np.zeros((1, 2))}, {"kind": "checkpoint"})
    assert bound_error(claim.target, claim.network, eps, checkpoint=tmp_path).bound <= eps


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_lp_bounds_hold_and_jumps_are_allowed(p):
    smooth = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 0.3, norm=p)
    points = smooth.domain.sample(100_000, np.random.default_rng(0))
    error = np.abs(smooth(points) - np.sin(3 * points[:, 0]) * points[:, 1])
    assert (np.mean(error**p) * 4) ** (1 / p) <= smooth.certificate.bound * 1.01  # Monte Carlo's own error
    assert smooth.certificate.bound <= 0.3
    assert f"L_{p:g}" in smooth.certificate.headline
    jump = af.compile("sign(x - 0.3)", {"x": (-1, 1)}, norm=p, options={"tokens": 40}, construction="grid")
    grid = np.linspace(-1, 1, 200_001)
    exact = (np.mean(np.abs(jump(grid) - np.sign(grid - 0.3)) ** p) * 2) ** (1 / p)
    assert exact <= jump.certificate.bound * 1.001
    assert jump.certificate.bound <= 3 * exact


def test_a_claim_about_the_wrong_function_is_not_proved(compiled):
    net = compiled(CASES[0])
    other = af.compile("sin(3*x) + 0.2", {"x": (-1, 1)}, 0.05).certificate.claim.target
    assert certify(Claim.about(other, net.network), 0.05).bound > 0.19


def test_a_box_is_not_given_up_for_its_rounding():
    """Series are used where a bound is good enough without its rounding and too much with it."""
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, options={"tokens": 30}, dtype="float32", construction="spectral")
    problem = Problem(net.certificate.claim.target, net.network)
    small = replace(problem.root(), lo=np.array([[0.2]]), hi=np.array([[0.21]]))
    goal = 1.5 * float(prover.enclosed(small, problem, 0.0).bound[0])
    assert prover.enclosed(small, problem, goal).bound[0] <= goal


def test_a_time_limit_holds_within_a_round(monkeypatch, compiled):
    """Boxes that there was no time for keep the bound of the box they were cut from."""
    claim = compiled(CASES[1], construction="grid").certificate.claim
    monkeypatch.setattr(prover, "TUNING", replace(prover.TUNING, chunk=1))
    deadline = Deadline.after(40, clock=count().__next__)
    outcome = bound_error(claim.target, claim.network, 1e-9 + claim_error(claim), deadline)
    assert outcome.boxes <= 45
    assert outcome.bound >= claim_error(claim)


def claim_error(claim) -> float:
    """The largest error at some points."""
    points = claim.domain.sample(500, np.random.default_rng(0))
    return float(np.abs(network_rows(claim.network, points) - claim.target.values(points)).max())


def test_axes_that_nobody_reads_cost_few_boxes():
    text = "min(y, y/2.6, 1)"
    alone = af.compile(text, {"y": (-2.6, 2.6)}, 4e-5, construction="spectral").certificate.effort["boxes"]
    wider = {"x": (-183.8, -181.4), "y": (-2.6, 2.6), "z": (-0.86, 0.86)}
    for formula in (text, f"[1e-197*cosh(z), {text}]"):
        net = af.compile(formula, wider, 4e-5, construction="spectral", budget=3000)
        assert net.certificate.proved
        assert net.certificate.effort["boxes"] <= 2 * alone


def test_an_axis_that_is_read_in_a_corner_only_is_cut_there():
    domain = {"x": (0, 1), "y": (0, 1)}
    net = af.compile("300*max(0.003 - x, 0)*abs(y - 0.2)", domain, construction="grid", options={"tokens": 9})
    claim = net.certificate.claim
    found = bound_error(claim.imitated, claim.network, 1.1 * net.certificate.found, most=8000)
    assert found.bound <= 1.1 * net.certificate.found


def test_without_a_goal_rounding_is_bounded_as_closely_as_with_one():
    line = {"x": (-1, 1)}
    small = {"construction": "spectral", "options": {"tokens": 64}, "dtype": "float32", "proof": False}
    claim = af.compile("1/(1 + 25*x**2)", line, **small).certificate.claim
    alone = bound_error(claim.imitated, claim.network, None)
    closer = bound_error(claim.imitated, claim.network, 0.85 * alone.bound, most=4000)
    assert closer.bound > 0.85 * alone.bound
