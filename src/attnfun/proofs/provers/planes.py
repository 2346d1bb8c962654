"""Search for a cover on which a smooth target stays close to the planes of a network [T 11.6]."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from ...resources.deadline import Deadline
from ..claim import Claim
from ..proof import Growing, Proof
from ..rules.planes import NAME, Distance, OnBoxes, go_between, halved
from . import boxes
from .base import Attempt, Task

ROOM = 0.999
"""The fraction of the goal that is aimed at."""
A_BOX = 5e-5
"""Counted seconds for a box. By trial."""


def prove(claim: Claim, task: Task) -> Attempt | None:
    """Halve boxes until all are good enough; None where the network is of another kind."""
    target = claim.imitated
    between = go_between(target, claim.network)
    if between is None:
        return None
    planes, network = between
    goal = None if task.goal is None else max(ROOM * task.goal - network.bound, 0.0)
    tree = cut(Distance.of(target, planes), goal, task.deadline)
    return Attempt(Proof(NAME, tree.cover().data()), boxes=tree.nodes)


def cut(distance: OnBoxes, goal: float | None, deadline: Deadline) -> Growing:
    """Halve boxes until all are at most `goal`, or close to an error found, or time or boxes are used up."""
    low, high = distance.target.domain.starts()
    tree, node, seen = Growing(len(low)), np.arange(len(low)), 0.0
    tree.note(node, np.zeros(len(node), dtype=bool))
    while len(node):
        parts = []
        for rows in distance.batches(np.arange(len(node))):
            if deadline.over and tree.nodes > len(low):
                return tree
            deadline.check("the proof")
            parts.append(distance.on(low[rows], high[rows]))
            deadline.count(A_BOX * len(rows))
        bound, error, axis = (np.concatenate(part) for part in zip(*parts, strict=True))
        seen = max(seen, float(error.max()))
        enough = goal if goal is not None else sqrt(boxes.TUNING.within) * seen
        if (
            tree.nodes > boxes.TUNING.max_boxes
            or (goal is not None and seen > goal)
            or (bound.max() == inf and deadline.over)
        ):
            return tree
        open_ = np.flatnonzero(bound > enough)
        axis = axis[open_].astype(np.int64)
        first = tree.cut(node[open_], axis)
        low, high = halved(low[open_], high[open_], axis)
        node = np.concatenate([first, first + 1])
        tree.note(node, np.zeros(len(node), dtype=bool))
    return tree
