"""Proofs by one rule: what its prover finds, as the rule has it."""

from __future__ import annotations

from attnfun.network import Network
from attnfun.proofs import Claim
from attnfun.proofs.proof import Conclusion
from attnfun.proofs.provers import PROVERS, Task
from attnfun.proofs.rules import Checker
from attnfun.resources.deadline import NEVER, Deadline
from attnfun.targets import Target


def bound_by(
    rule: str, target: Target, network: Network, goal: float | None = None, deadline: Deadline = NEVER
) -> Conclusion:
    """Search for a proof and check it."""
    (prover,) = (prover for prover in PROVERS if prover.rule == rule)
    claim = Claim.inner(target, network)
    attempt = prover.prove(claim, Task(goal, deadline=deadline))
    assert attempt is not None
    return Checker()(attempt.proof, claim)
