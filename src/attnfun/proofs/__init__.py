"""PROOF: claims, proofs as data, the rules that check them, the provers that search for them, and certificates."""

from .certificate import Certificate
from .certify import Effort, certify, combine
from .claim import Claim
from .judging import judged
from .proof import Proof
from .provers import Progress

__all__ = ["Certificate", "Claim", "Effort", "Progress", "Proof", "certify", "combine", "judged"]
