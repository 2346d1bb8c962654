"""Rules of proof: each turns a claim and a proof into a conclusion, with no search [T 11].

Believing a certificate means believing the files of this folder, the enclosures that they call (`enclosure`,
`executions`, `heads`, `mixture`, `taylor`, `moments`, `polynomials`, `fans`, `overflow`) and the
room `arithmetic`, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from ...arithmetic.directed import multiply
from ...resources.deadline import NEVER, Deadline, until
from ..claim import Claim
from ..overflow import refuse_overflow
from ..proof import ALIKE, Conclusion, Proof, refuse_proof
from . import boxes, circuit, in_context, one_feature, parts, planes, rectifiers, structure

VOLUME = "volume"


@dataclass(frozen=True)
class Checker:
    """Checks proofs. TimeLimitReached at the deadline; a bound does not depend on it, nor on the workers."""

    deadline: Deadline = NEVER
    executor: Executor | None = None

    def conclusion(self, proof: Proof, claim: Claim, norm: float = inf) -> Conclusion:
        """What a proof says about a claim in the deployed arithmetic; ProofFailed where it says nothing.

        No number that the network computes may overflow [T 10.4]; what follows all executions sees that itself.
        """
        if proof.rule != in_context.NAME:
            refuse_overflow(claim.network, claim.domain)
        return self(proof, claim, norm)

    def __call__(self, proof: Proof, claim: Claim, norm: float = inf) -> Conclusion:
        """The same inside of a proof."""
        if proof.rule not in RULES:
            raise refuse_proof(proof.rule, f"must be one of {', '.join(RULES)}", proof.rule)
        if claim.network.keyed and proof.rule not in FOR_TWO_INPUTS:
            raise refuse_proof(proof.rule, "must be about a network of one input", claim.network)
        with until(self.deadline):
            conclusion = RULES[proof.rule](claim, proof, norm, self)
        if conclusion is None:
            raise refuse_proof(proof.rule, "must be about a target and a network of its kind", claim.network)
        return conclusion


def _by_boxes(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion:
    _need(proof, 0)
    return boxes.check(claim.imitated, claim.network, proof, norm, check.deadline, check.executor)


def _by_structure(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion | None:
    _need(proof, 0, norm)
    return structure.bound_by_structure(claim.imitated, claim.network)


def _by_circuit(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion | None:
    _need(proof, len(proof.premises), norm)
    return circuit.follow_circuit(claim.imitated, claim.network, circuit.Stored(proof, check), check.deadline)


def _by_one_feature(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion | None:
    _need(proof, 1, norm)
    one = one_feature.reduced(claim)
    return None if one is None else one.conclusion(check(proof.premises[0], one.inner))


def _by_planes(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion | None:
    _need(proof, 0, norm)
    return planes.bound_by_planes(claim, proof, check.deadline)


def _by_rectifiers(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion | None:
    _need(proof, 0, norm)
    return rectifiers.bound_by_rectifiers(claim, proof, check.deadline)


def _in_context(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion | None:
    _need(proof, 0, norm)
    return in_context.bound_in_context(claim, proof, check.deadline)


def _by_parts(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion:
    return parts.from_premises(claim, proof, norm, lambda premise, part: check(premise, part, norm))


def _by_volume(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion:
    """An L_p norm is at most the largest error times |Ω|^{1/p} [T 11.11]."""
    _need(proof, 1)
    largest = check(proof.premises[0], claim)
    factor = np.array(claim.domain.root_volume(norm))
    bound, *each = multiply(np.array([largest.bound, *largest.parts.values()]), factor)[1].tolist()
    return Conclusion(bound, dict(zip(largest.parts, each, strict=True)), largest.defined, largest.worst)


def _by_one_token(claim: Claim, proof: Proof, norm: float, check: Checker) -> Conclusion:
    """What holds for one token holds for all, if target and network treat every token alike and alone [T 11.8]."""
    _need(proof, 1, norm)
    one = claim.of_one_token()
    if one is None:
        raise refuse_proof(ALIKE, "must be about a map that treats every token alike", claim.network)
    return check(proof.premises[0], one)


def _need(proof: Proof, premises: int, norm: float = inf) -> None:
    """A number of premises, and the sup norm."""
    if len(proof.premises) != premises:
        raise refuse_proof(proof.rule, f"must have {premises} premises", len(proof.premises))
    if not isinf(norm):
        raise refuse_proof(proof.rule, "must be about the sup norm", f"L_{norm:g}")


RULES: dict[str, Callable[[Claim, Proof, float, Checker], Conclusion | None]] = {
    boxes.NAME: _by_boxes,
    boxes.TAILS: _by_boxes,
    structure.NAME: _by_structure,
    circuit.NAME: _by_circuit,
    one_feature.NAME: _by_one_feature,
    planes.NAME: _by_planes,
    rectifiers.NAME: _by_rectifiers,
    in_context.NAME: _in_context,
    parts.NAME: _by_parts,
    VOLUME: _by_volume,
    ALIKE: _by_one_token,
}
"""Rules by the names that they have in files, messages and docs/theory.md; None where a network is of another kind."""
FOR_TWO_INPUTS = (boxes.NAME, boxes.TAILS, VOLUME, parts.NAME)
"""Rules that know what keys cost which hold sums [T 10.8], or leave it to others."""
