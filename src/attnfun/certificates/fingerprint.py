"""A name for a proof: equal for equal questions, different otherwise."""

from __future__ import annotations

import hashlib
import json

from ..network.storage import pack
from .problem import Problem


def fingerprint(problem: Problem, goal: float | None, norm: float) -> str:
    """A hash of the network's weights, the target's description, the domain, the goal and the norm."""
    tensors, description = pack(problem.network)
    target = problem.target
    words = [description, target.as_dict(), target.domain.as_dict(), goal, norm]
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for named in (tensors, target.arrays()):
        for name in sorted(named):
            digest.update(name.encode() + named[name].tobytes())
    return digest.hexdigest()[:24]
