"""The second opinion on a certificate: what the judge says of it, as soon as it is issued.

The judge (`attnfun.judge`) shares nothing with the proof. It is called for small proofs only, so that judging costs
about as much as proving; how large a proof is is counted, never timed. What it does not judge is said.

A *disagreement* is a contradiction: the judge knows a point, or in an L_p norm boxes, where the error is larger than
stated. Then one of the two programs is wrong, and there is no certificate. A bound of the judge that is larger than
the stated one contradicts nothing, because both are bounds from above; the certificate then says which bound the
judge finds, and says that it should be reported if that is far above.
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
"""A bound of the judge that is larger by more than this factor is *far* above: one that its makers want to hear of."""
ON_REQUEST = 'recheck(engine="arb") judges it'
MADE_OF_OTHERS = f"a network made of others is judged on request; {ON_REQUEST}"


def judged(certificate: Certificate, deadline: Deadline) -> Certificate:
    """The certificate, and whether the judge agrees; SoundnessError if the judge, or a point found, contradicts it.

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
    if contradicts(verdict, certificate):
        raise SoundnessError("a certificate must be one that the judge does not contradict", got=verdict.reason)
    return replace(certificate, not_judged=_larger(verdict))


def contradicts(verdict: Verdict, certificate: Certificate) -> bool:
    """Is the error larger than stated, as the judge or a point of the search says?"""
    beaten = isinf(certificate.norm) and certificate.found > certificate.bound
    return verdict.covered and not verdict.agreed and (verdict.refuted or beaten)


def is_far(verdict: Verdict) -> bool:
    """Did the judge come to an end with a bound far above the stated one? Numbers that may overflow have no bound."""
    return verdict.covered and COARSER * verdict.stated < verdict.judged < inf


def _larger(verdict: Verdict) -> str:
    """What a certificate says where the judge comes to a larger bound only."""
    words = f"the judge comes to {verdict.judged:.3g} only"
    if not is_far(verdict):
        return words
    return f"{words}, far above the bound, and to no point where the error is larger than the bound; please report it"


def _too_large(certificate: Certificate) -> str:
    """Why a certificate is not judged unless a caller requests it, in words; nothing if it is small."""
    proof, network = certificate.proof, certificate.claim.network
    if proof is None:
        return "there is no proof to follow"
    if proof.leaves > LEAVES:
        return f"its proof has {proof.leaves} boxes, and {LEAVES} at most are judged at once"
    scores = max(proof.leaves, 1) * (network.tokens + (network.length or 1) ** 2 * network.heads)
    return f"its network is large ({scores} scores, and {SCORES} at most are judged at once)" if scores > SCORES else ""
