"""Boxes waiting to be cut, with what is known on each, and how they are kept on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import ULP
from .heads import Focus
from .ragged import Ragged

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

PARTS = ("construction", "input", "rounding")
"""The parts of an error bound, in order."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """A batch of boxes."""

    lo: Floats  # (B, D)
    hi: Floats  # (B, D)
    parts: Floats  # (B, 3), in the order of PARTS
    seen: Floats  # (B,), the error at the centre
    defined: Flags  # (B,), is the target surely defined on the whole box?
    stiff: Flags  # (B,), is the rounding part no smaller than on the box it was cut from?
    focus: tuple[Focus, ...]

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def numbers(self) -> int:
        """Numbers in all arrays; the lists of tokens in play are the most."""
        return (
            2 * self.lo.size + self.parts.size + sum(len(layer.active.items) + layer.tails.size for layer in self.focus)
        )

    @property
    def bound(self) -> Floats:
        """Bound on the error of the deployed network, (B,)."""
        return self.parts.sum(axis=1) * (1 + 4 * ULP)

    def take(self, rows: Integers) -> Boxes:
        """Some of the boxes."""
        focus = tuple(layer.take(rows) for layer in self.focus)
        names = ("lo", "hi", "parts", "seen", "defined", "stiff")
        return replace(self, **{name: getattr(self, name)[rows] for name in names}, focus=focus)

    @classmethod
    def join(cls, batches: list[Boxes]) -> Boxes:
        """Several batches as one."""
        layers = zip(*(batch.focus for batch in batches), strict=True)
        return cls(
            lo=np.concatenate([batch.lo for batch in batches]),
            hi=np.concatenate([batch.hi for batch in batches]),
            parts=np.concatenate([batch.parts for batch in batches]),
            seen=np.concatenate([batch.seen for batch in batches]),
            defined=np.concatenate([batch.defined for batch in batches]),
            stiff=np.concatenate([batch.stiff for batch in batches]),
            focus=tuple(Focus.join(list(layer)) for layer in layers),
        )

    def middle(self, extent: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
        """For each box the longest axis, as measured by `extent` (D,), and the middle along it, (B,) each.

        Axes with a float between their ends come first.
        """
        middle = Interval(self.lo, self.hi).mid  # (B, D)
        apart = (self.lo < middle) & (middle < self.hi)
        axis = np.argmax(np.where(apart, (self.hi - self.lo) / extent, 0.0), axis=1)
        return axis, middle[np.arange(len(self)), axis]

    def divisible(self, extent: Floats) -> npt.NDArray[np.bool_]:
        """Is there an axis that can be cut, (B,)?"""
        (axis, middle), rows = self.middle(extent), np.arange(len(self))
        return (self.lo[rows, axis] < middle) & (middle < self.hi[rows, axis])

    def halves(self, extent: Floats) -> Boxes:
        """Each box in two, cut across its longest axis as measured by `extent` (D,): first all left, then all right."""
        (axis, middle), rows = self.middle(extent), np.arange(len(self))
        left, right = self.hi.copy(), self.lo.copy()
        left[rows, axis] = right[rows, axis] = middle
        both = self.take(np.concatenate([rows, rows]))
        return replace(both, lo=np.concatenate([self.lo, right]), hi=np.concatenate([left, self.hi]))

    def tensors(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything as named arrays."""
        named = {name: getattr(self, name) for name in ("lo", "hi", "parts", "seen")}
        named |= {name: getattr(self, name).astype(np.uint8) for name in ("defined", "stiff")}
        for number, layer in enumerate(self.focus):
            named |= {
                f"focus.{number}.items": layer.active.items,
                f"focus.{number}.offsets": layer.active.offsets,
                f"focus.{number}.tails": layer.tails,
            }
        return named

    @classmethod
    def from_tensors(cls, named: dict[str, npt.NDArray[np.generic]]) -> Boxes:
        """The boxes again."""
        layers = sum(name.endswith(".tails") for name in named)
        focus = tuple(
            Focus(Ragged(named[f"focus.{k}.items"], named[f"focus.{k}.offsets"]), named[f"focus.{k}.tails"])  # type: ignore[arg-type]
            for k in range(layers)
        )
        known = (named[name] for name in ("lo", "hi", "parts", "seen"))
        flags = (named[name].astype(bool) for name in ("defined", "stiff"))
        return cls(*known, *flags, focus)  # type: ignore[arg-type]
