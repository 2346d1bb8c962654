"""The order of constructions: tokens, and what their proofs take."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import attnfun as af
from attnfun import compiler
from attnfun.constructions import REGISTRY, Plan, PlanRequest
from attnfun.constructions.base import proof_work
from attnfun.constructions.planner import FREE, Candidate, Queue
from attnfun.domains.box import as_box
from attnfun.proofs import Certificate, certify
from attnfun.resources.deadline import NEVER
from attnfun.targets import as_target

SUM = as_target("cos(2*pi*x)**2 + cos(2*pi*y)**2 + cos(2*pi*z)**2", as_box(dict.fromkeys("xyz", (-1, 1))))


def queue(*, proof: bool) -> Queue:
    request = PlanRequest(2.7e-6, 2**18, proof=proof)
    return Queue([Candidate.named(REGISTRY[name], SUM, request) for name in ("spectral", "circuit")], 2**18)


def planned(name: str, tokens: int, work: float | None) -> Candidate:
    plan = Plan(tokens, 0.0, None, work=work)
    return Candidate.with_plan(REGISTRY[name], PlanRequest(1.0, 2**18), plan)


def test_a_sum_is_proved_summand_by_summand_although_that_takes_more_tokens() -> None:
    waiting = queue(proof=True)
    chosen = waiting.cheapest(NEVER)
    assert chosen is not None
    assert chosen.theorem.name == "circuit"
    (_, other) = waiting.alternatives(chosen)
    assert other.construction == "spectral"
    assert other.tokens < chosen.tokens
    assert other.verdict.startswith("fewer tokens, a proof of about ")
    assert other.verdict.endswith("times the work")


def test_where_nothing_is_proved_the_smaller_network_is_taken() -> None:
    chosen = queue(proof=False).cheapest(NEVER)
    assert chosen is not None
    assert chosen.theorem.name == "spectral"


def test_black_boxes_are_compared_by_tokens_alone() -> None:
    net = af.compile(lambda p: [float(abs(r[0]) ** 3 + r[1] ** 2) for r in p], [(-1, 1)] * 2, eps=0.05)
    assert net.certificate.status.value == "estimated"
    assert not [each for each in net.alternatives if "proof" in each.verdict]


@pytest.mark.parametrize(
    ("work", "other", "said"),
    [
        (FREE / 100, FREE / 2, "more tokens"),  # neither proof takes long
        (FREE / 2, 50 * FREE, "more tokens, a proof of about 1e+02 times the work"),
        (9 * FREE, FREE / 100, "more tokens, a proof of about 1/9e+02 of the work"),
        (9 * FREE, 8 * FREE, "more tokens"),
        (None, 8 * FREE, "more tokens"),
        (9 * FREE, None, "more tokens"),
    ],
)
def test_a_choice_between_proofs_is_said(work: float | None, other: float | None, said: str) -> None:
    chosen, left = planned("spectral", 10, work), planned("circuit", 1000, other)
    waiting = Queue([chosen, left], 2**18)
    assert waiting.cheapest(NEVER) is chosen
    assert [each.verdict for each in waiting.alternatives(chosen)] == ["chosen", said]


@pytest.mark.parametrize("work", ["little", "much"])
def test_a_limit_that_ends_only_the_proof_says_so(monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    def ended(*given: Any, **how: Any) -> Certificate:
        found = certify(*given, **how)
        return replace(found, bound=1.0, stopped="The time limit of 7 s was reached: allow more")

    monkeypatch.setattr(compiler, "certify", ended)
    monkeypatch.setattr(compiler, "FREE", 1.0 if work == "much" else 1e9)
    with pytest.raises(af.errors.ToleranceNotMet) as missed:
        af.compile("sin(x)*y", {"x": (-1, 1), "y": (-1, 1)}, eps=0.05, construction="spectral")
    assert missed.value.best is not None
    found = missed.value.best.certificate.found
    assert found <= 0.05
    assert "The time limit of 7 s was reached: allow more. The proof was stopped, not the network" in str(missed.value)
    assert f"no error above {found:.3g} was found" in str(missed.value)
    seconds = re.search(r"about ([0-9.e+]+) s of computing", str(missed.value))
    assert (seconds is not None and float(seconds[1]) > 1) == (work == "much")


def test_where_the_network_is_too_far_off_the_proof_is_not_at_fault() -> None:
    assert compiler._unfinished(0.2, 1e9, 0.1) == ""
    assert "0.05" in compiler._unfinished(0.05, None, 0.1)


def test_the_cost_grows_with_tokens_and_with_work() -> None:
    costs = [
        planned("spectral", tokens, work).cost for tokens in (10, 20) for work in (None, FREE, 4 * FREE, 16 * FREE)
    ]
    assert costs == [10, 10, 20, 40, 20, 20, 40, 80]
    assert planned("grid", 10**400, None).cost == planned("grid", 10**400, 4 * FREE).cost == 10**400
    works = [proof_work(10, 10**size, size) for size in (1, 2, 3)]
    assert works[0] < works[1] / 10 < works[2] / 100
    assert proof_work(10**5, 10**5, 1) == 10 * proof_work(10**4, 10**4, 1)  # few tokens of a long bank are in play
