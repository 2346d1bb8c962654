"""The coefficients of a model in floats, and the inverse of the second derivatives there [T 11.17]."""

from __future__ import annotations

import numpy as np

from ...arithmetic import Interval
from ...targets import FittedModel
from ..claim import Claim
from ..proof import Proof
from ..rules.in_context import NAME, prompt_of, used_by
from .base import Attempt, Task


def prove(claim: Claim, task: Task) -> Attempt | None:
    """What the rule needs; None where the claim is of another kind."""
    target = claim.imitated
    if not isinstance(target, FittedModel) or prompt_of(claim) is None:
        return None
    W = target.solution
    used, inverse = used_by(target, W), np.eye(W.size)
    curvature = target.derivatives(Interval(W))[1].mid
    inverse[np.ix_(used, used)] = np.linalg.pinv(curvature[np.ix_(used, used)])
    scale = np.sqrt(np.maximum(np.abs(np.diag(inverse)), np.finfo(np.float64).tiny)).reshape(W.shape)
    return Attempt(Proof(NAME, {"coefficients": W, "inverse": inverse, "scale": scale}))
