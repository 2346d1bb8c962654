"""PROOF: enclosures of networks, branch and bound, the rounding model, and the certificate itself."""

from .branch_and_bound import Progress
from .certificate import Certificate, Claim
from .certify import Effort, certify, combine

__all__ = ["Certificate", "Claim", "Effort", "Progress", "certify", "combine"]
