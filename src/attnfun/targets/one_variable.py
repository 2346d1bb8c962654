"""A function of one variable on an interval, as a target: what a unit of a circuit computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arithmetic import Interval, Jet, as_interval
from ..domains.box import Box
from ..formula.composites import Composite
from .base import Floats, Status, Target, refuse_nonfinite


class OneVariable(Target):
    """A composite on an interval, as a target."""

    function: Composite
    status = Status.PROVED
    output_shape = ()

    def __init__(self, function: Composite, low: float, high: float) -> None:
        vars(self).update(function=function, domain=Box([low], [high], ("u",)))

    def values(self, rows: Floats) -> Floats:
        """(B, 1) -> (B, 1)."""
        with np.errstate(all="ignore"):
            values = self.function(rows[:, 0])
        return refuse_nonfinite(self, rows, np.broadcast_to(values, rows.shape[:1])[:, None])

    def enclose(self, boxes: Interval) -> Interval:
        """On intervals."""
        result = as_interval(self.function(boxes[:, 0]))
        ends = (np.broadcast_to(end, (len(boxes),))[:, None] for end in (result.lo, result.hi, result.defined))
        return Interval(*ends)

    def jets(self, variables: Jet) -> Jet:
        """On Taylor series."""
        return (variables[:, 0] * 0.0 + self.function(variables[:, 0])).reshape(len(variables), 1)

    def as_dict(self) -> dict[str, Any]:
        """Only its kind: it is a part of something larger."""
        return {"kind": "one variable"}
