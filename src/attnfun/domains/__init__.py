"""WHERE: boxes, regions and clouds of points, behind the contract of `Box`.

Every domain lies in a box, whose ends, axes and names it has; `fills_box` says whether it is all of it. Proofs begin
with the boxes of `starts()` and drop those that the domain `excludes`.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .box import Box, as_box, read_box
from .points import Points
from .regions import Region

__all__ = ["Box", "Points", "Region", "as_box", "read_box", "restore_domain"]


def restore_domain(data: dict[str, Any]) -> Box:
    """The domain from its description."""
    match data.get("kind"):
        case "points":
            return Points(data["points"], data["fill"], data["names"])
        case "region":
            return Region(data["predicate"], restore_domain(data["box"]))
        case None:
            return Box(data["lo"], data["hi"], data["names"])
        case kind:
            raise InputError("a domain must be a box, a region or points", got=repr(kind))
