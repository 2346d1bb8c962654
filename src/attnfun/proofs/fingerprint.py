"""A name for a proof: equal for equal questions, different otherwise."""

from __future__ import annotations

import json
from hashlib import sha256

from .._version import __version__
from ..errors import InputError
from ..network.storage import pack
from ..targets.base import digest
from .rules.boxes import Problem

STATE = 3
"""What the numbers of a state mean; a state of another kind is not read. 3: a cutting tree instead of boxes."""


def fingerprint(problem: Problem, goal: float | None, norm: float) -> str:
    """A hash of the network's weights, the target itself, the domain, the goal, the norm and this version.

    A state of another function's proof would make a false certificate: a function of which no more than the name is
    known has no fingerprint.
    """
    tensors, description = pack(problem.network)
    target = problem.target.identity()
    if target is None:
        raise InputError(
            "a checkpoint needs a function whose operations are all known",
            got=f"{problem.target.as_dict()}, which symbols cannot trace",
            remedy="Write it as a formula in text, or leave out checkpoint=.",
        )
    words = [__version__, STATE, description, digest(tensors), target, problem.target.domain.as_dict(), goal, norm]
    return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:24]
