"""WHERE: boxes, regions, interiors of cells, clouds of points and pairs of boxes, behind the contract of `Box`.

Every domain lies in a box, whose ends, axes and names it has; `fills_box` says whether it is all of it. Proofs begin
with the boxes of `starts()` and drop those that the domain `excludes`. Nobody outside of this room needs the class
of a domain; who serves some kinds only names them (`kind`).
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .box import Box, as_box, read_box, read_ranges
from .interiors import Interiors
from .points import Points
from .regions import Region
from .two_inputs import TwoInputs

__all__ = ["Box", "Interiors", "Points", "Region", "TwoInputs", "as_box", "read_box", "read_ranges", "restore_domain"]


def restore_domain(data: dict[str, Any]) -> Box:
    """The domain from its description."""
    match data.get("kind"):
        case Points.kind:
            return Points(data["points"], data["fill"], data["names"])
        case Region.kind:
            return Region(data["predicate"], restore_domain(data["box"]))
        case Interiors.kind:
            return Interiors(data["slopes"], data["offsets"], data["gap"], restore_domain(data["box"]))
        case TwoInputs.kind:
            return TwoInputs({name: restore_domain(box) for name, box in data["inputs"]})
        case None:
            return Box(data["lo"], data["hi"], data["names"])
        case kind:
            raise InputError(
                "a domain must be a box, a region, points, interiors of cells or two inputs", got=repr(kind)
            )
