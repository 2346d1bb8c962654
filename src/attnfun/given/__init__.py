"""GIVEN: proofs about networks that somebody else made: ranges of outputs, errors, differences, requirements.

The way through: a network is read as a graph (`reading.py`), enclosed on boxes of inputs by affine forms (`forms.py`,
`functions.py`, `softmax.py`, `enclosure.py`, `differences.py`) with the rounding of its own arithmetic (`machine.py`),
and boxes are cut where the bound is not small enough (`search.py`). What was shown is a certificate (`certificate.py`).
"""

from .certificate import Closest, NetworkCertificate, Ranges
from .certify import certify, compare, ranges

__all__ = ["Closest", "NetworkCertificate", "Ranges", "certify", "compare", "ranges"]
