"""Search for a cover in the one variable that a truncated linear map depends on [T 11.5]."""

from __future__ import annotations

from ..claim import Claim
from ..proof import Proof
from ..rules.one_feature import NAME, reduced
from . import boxes
from .base import Attempt, Task

ROOM = 0.98
"""The fraction of the goal that is aimed at: rounding of the feature has a share too."""


def prove(claim: Claim, task: Task) -> Attempt | None:
    """Reduce the claim to one variable and cover that; None where the network is of another kind."""
    one = reduced(claim)
    if one is None:
        return None
    goal = None if task.goal is None else max(task.goal * ROOM - one.apart, 0.0)
    found = boxes.search(one.inner.imitated, one.inner.network, goal, task.deadline)
    return Attempt(Proof(NAME, {}, (found.proof,)), boxes=found.boxes)
