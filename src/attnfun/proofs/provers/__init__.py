"""Provers: search for proofs, one file a strategy. Nobody has to trust them: rules check what they leave."""

from __future__ import annotations

from math import isinf

from ..claim import Claim
from ..proof import Proof
from ..rules import structure
from . import boxes, circuit, in_context, one_feature, planes, rectifiers
from .base import Attempt, Outcome, Progress, Prover, Task

__all__ = ["PROVERS", "Attempt", "Outcome", "Progress", "Prover", "Task"]


def _structure(claim: Claim, task: Task) -> Attempt | None:
    """There is nothing to search for: the rule applies or it does not."""
    if structure.bound_by_structure(claim.imitated, claim.network) is None:
        return None
    return Attempt(Proof(structure.NAME), boxes=1)  # the whole domain


def _sup_norm(claim: Claim, norm: float) -> bool:
    return isinf(norm) and not claim.network.keyed


PROVERS = (
    Prover(structure.NAME, _sup_norm, _structure),
    Prover("circuit", _sup_norm, circuit.prove),
    Prover("one feature", _sup_norm, one_feature.prove),
    Prover("planes", _sup_norm, planes.prove),
    Prover("rectifiers", _sup_norm, rectifiers.prove),
    Prover("in context", _sup_norm, in_context.prove),
    Prover("boxes", lambda claim, norm: True, boxes.prove),
)
"""In the order in which they are tried; all but the last follow the network's structure."""
