"""Cutting trees, and boxes that are cut further where the judge needs it [T 11.1].

Leaves of a stored tree are hints: whatever the tree, its leaves cover the box that it starts with. A leaf on which a
bound is too large is cut in two across its longest side, at most `DEEPER` times in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from .errors import NotCovered, Unreadable
from .files import LEAF, Floats, Proof
from .models import Model, Space
from .network import Focus
from .ranges import ZERO, Range, larger, up


@dataclass(frozen=True)
class CoverLimits:
    """How large covers are, and how far leaves are cut further."""

    most_nodes: int = 2**22
    """Nodes of a cover. For memory."""
    deeper: int = 10
    """Times that a leaf is cut further. For time."""


TUNING = CoverLimits()


@dataclass(frozen=True, eq=False)
class Box:
    """A box of the domain."""

    low: Floats  # (D,)
    high: Floats  # (D,)

    @property
    def middle(self) -> Floats:
        """A point of the box near its centre, (D,)."""
        return np.clip(self.low / 2 + self.high / 2, self.low, self.high)

    def cut(self, axis: int) -> tuple[Box, Box] | None:
        """Both halves, or nothing where there is no float between the ends; they share the cut."""
        middle = float(self.middle[axis])
        if not self.low[axis] < middle < self.high[axis]:
            return None
        first, last = self.high.copy(), self.low.copy()
        first[axis] = last[axis] = middle
        return Box(self.low, first), Box(last, self.high)

    def longest(self, extent: Floats) -> int:
        """The longest axis, measured by the domain."""
        return int(np.argmax((self.high - self.low) / extent))

    def variables(self, space: Space) -> list[Model]:
        """The coordinates as models, `x = c + r t`."""
        models = []
        for axis, (low, middle, high) in enumerate(
            zip(self.low.tolist(), self.middle.tolist(), self.high.tolist(), strict=True)
        ):
            centre = arb(middle)
            radius = larger(up(arb(high) - centre), up(centre - arb(low)))
            slopes = [radius if k == axis else ZERO for k in range(space.variables)]
            models.append(Model(space, space.affine(centre, slopes), ZERO, Range(arb(low), arb(high))))
        return models


@dataclass(frozen=True, eq=False)
class Leaf:
    """A box on which an error is bounded."""

    box: Box
    series: bool
    """Does the proof use Taylor series on it?"""
    focus: Focus
    """What is in play on a box that holds it."""


def leaves(proof: Proof, roots: list[Box], narrow: Callable[[Box, Focus], Focus]) -> Iterator[Leaf]:
    """The leaves of the cutting trees in the data of a proof; `narrow` finds what is in play on inner nodes.

    Nodes stand in breadth-first order, roots first; node i that is cut has the children `roots + 2k` and
    `roots + 2k + 1`, k the number of cut nodes before it.
    """
    axes, series = _bytes(proof, "axes"), _bytes(proof, "series")
    if len(axes) > TUNING.most_nodes:
        raise NotCovered(f"a cover with more than {TUNING.most_nodes} nodes")
    cut = axes != LEAF
    cuts = int(cut.sum())
    if len(axes) != len(roots) + 2 * cuts or len(series) != len(roots) + cuts:
        raise Unreadable("a cover must have its roots, two nodes a cut and a flag a leaf")
    before, numbers = np.cumsum(cut) - cut, np.cumsum(~cut) - 1
    stack: list[tuple[int, Box, Focus]] = [(node, box, {}) for node, box in enumerate(roots)]
    seen = 0
    while stack:
        node, box, focus = stack.pop()
        seen += 1
        if seen > len(axes):
            raise Unreadable("a cover must have each node once")
        halves, first = None, len(roots) + 2 * int(before[node])
        if cut[node]:
            if first <= node or axes[node] >= len(box.low):
                raise Unreadable("a cover must cut along axes of the domain, and have children behind their parents")
            halves = box.cut(int(axes[node]))
        if halves is None:
            yield Leaf(box, bool(cut[node]) or bool(series[numbers[node]]), focus)
            continue
        focus = narrow(box, focus)
        stack += [(first, halves[0], focus), (first + 1, halves[1], focus)]


def _bytes(proof: Proof, name: str) -> npt.NDArray[np.uint8]:
    array = proof.data.get(name)
    if array is None or array.dtype != np.uint8 or array.ndim != 1:
        raise Unreadable(f"the proof must have {name} as a list of bytes")
    return array


Bound = Callable[[Leaf], tuple[arb, Focus]]
"""Bounds an error on a box, and says what is in play there."""


def settle(leaf: Leaf, extent: Floats, enough: float, bound: Bound) -> tuple[arb, int]:
    """The largest bound on a leaf, which is cut further where the bound is larger than `enough`; and boxes it took.

    Stops at the first box that is too deep and still too large.
    """
    largest, boxes = ZERO, 0
    stack = [(leaf, 0)]
    while stack:
        here, depth = stack.pop()
        (found, focus), boxes = bound(here), boxes + 1
        halves = None
        if not found <= enough and depth < TUNING.deeper:
            halves = here.box.cut(here.box.longest(extent))
        if halves is not None:
            stack += [(Leaf(half, True, focus), depth + 1) for half in reversed(halves)]
            continue
        largest = larger(largest, found)
        if not found <= enough:
            break
    return largest, boxes
