"""The second opinion on a certificate: what the judge says of it, as soon as it is issued.

The judge (`attnfun.judge`) shares nothing with the proof. It is called for small proofs only, so that judging costs
about as much as proving; how large a proof is is counted, never timed. What it does not judge is said.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isinf
from typing import TYPE_CHECKING

from ..errors import SoundnessError
from ..judge import Limits, Verdict
from ..resources.deadline import Deadline
from ..targets import Status
from ..targets.callables import Lipschitz

if TYPE_CHECKING:
    from .certificate import Certificate

LEAVES = 64
"""Leaves of the proofs that are judged as they are issued, at most."""
BOXES = 10 * LEAVES
"""Boxes in one variable that the judge may take, half as many in two: its enclosures may be coarser."""
SCORES = 2**13
"""Leaves times memory tokens, and scores between data tokens, at most."""
COARSER = 16.0
"""A bound of the judge that is larger by no more than this factor contradicts nothing: its enclosures are its own."""
ON_REQUEST = 'recheck(engine="arb") judges it'
MADE_OF_OTHERS = f"a network made of others is judged on request; {ON_REQUEST}"


def judged(certificate: Certificate, deadline: Deadline) -> Certificate:
    """The certificate, and whether the judge agrees; SoundnessError if its bound is far larger or a point beats it.

    An estimate claims nothing that could be judged.
    """
    if certificate.status is Status.ESTIMATED:
        return certificate
    if certificate.claim.description["kind"] == Lipschitz.kind:
        declared = certificate.claim.imitated.assumptions[0]
        return replace(certificate, not_judged=f"the judge cannot know that {declared}")
    if reason := _too_large(certificate):
        return replace(certificate, not_judged=f"{reason}; {ON_REQUEST}")
    verdict = certificate.verdict(Limits(BOXES, lambda: deadline.over))
    if verdict.agreed:
        return replace(certificate, judged=True)
    if not verdict.covered:
        return replace(certificate, not_judged=verdict.reason)
    if not contradicts(verdict, certificate):
        return replace(certificate, not_judged=f"the judge comes to {verdict.judged:.3g} only")
    raise SoundnessError("a certificate must be one that the judge agrees with", got=verdict.reason)


def contradicts(verdict: Verdict, certificate: Certificate) -> bool:
    """Does a verdict speak against a certificate, because a point beats it or the judge's bound is far larger?"""
    beaten = isinf(certificate.norm) and certificate.found > certificate.bound
    larger = COARSER * verdict.stated < verdict.judged < inf  # numbers that may overflow have no bound
    return verdict.covered and not verdict.agreed and (beaten or larger)


def _too_large(certificate: Certificate) -> str:
    """Why a certificate is not judged unless a caller requests it, in words; nothing if it is small."""
    proof, network = certificate.proof, certificate.claim.network
    if proof is None:
        return "there is no proof to follow"
    if proof.leaves > LEAVES:
        return f"its proof has {proof.leaves} boxes, and {LEAVES} at most are judged at once"
    scores = max(proof.leaves, 1) * (network.tokens + (network.length or 1) ** 2 * network.heads)
    return f"its network is large ({scores} scores, and {SCORES} at most are judged at once)" if scores > SCORES else ""
