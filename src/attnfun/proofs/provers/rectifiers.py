"""Search for a cover on which a target stays close to the rectifiers of a network [T 11.15]."""

from __future__ import annotations

from ..claim import Claim
from ..proof import Proof
from ..rules.rectifiers import NAME, RectifiersDistance, read_rectifiers
from .base import Attempt, Task
from .planes import cut

SHARE = 0.9
"""The share of the goal that the distance of the target from the rectifiers may take."""


def prove(claim: Claim, task: Task) -> Attempt | None:
    """Halve boxes until all are good enough; None where the network is of another kind."""
    target, units = claim.imitated, read_rectifiers(claim.network)
    if units is None or units.shape != (target.domain.size, target.outputs):
        return None
    tree = cut(RectifiersDistance(target, units), None if task.goal is None else SHARE * task.goal, task.deadline)
    return Attempt(Proof(NAME, tree.cover().data()), boxes=tree.nodes)
