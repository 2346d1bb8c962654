"""Boxes of a cutting tree, many at once, with the tokens that are in play on each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from .heads import Focus
from .proof import Flags, Floats, Integers


@dataclass(frozen=True, eq=False)
class Boxes:
    """A batch of boxes."""

    lo: Floats  # (B, D)
    hi: Floats  # (B, D)
    node: Integers  # (B,), in the cutting tree
    focus: tuple[Focus, ...]
    errors: Floats  # (B, 2), parts `input` and `rounding` on the last box above that noted them; inf if none has
    since: Integers  # (B,), cuts since that box

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def numbers(self) -> int:
        """Numbers in all arrays; the lists of tokens in play are the most."""
        lists = sum(len(layer.active.items) + layer.tails.size for layer in self.focus)
        return 2 * self.lo.size + self.errors.size + lists

    @property
    def most_tokens(self) -> Integers:
        """The length of the longest list of tokens in play on each box, (B,)."""
        none = np.zeros(len(self), dtype=np.int64)
        return np.maximum.reduce([none, *(layer.active.lengths for layer in self.focus)])

    def with_errors(self, rows: Integers, errors: Floats) -> Boxes:
        """The boxes with parts (R, 2) of their own on some of them."""
        known, since = self.errors.copy(), self.since.copy()
        known[rows], since[rows] = errors, 0
        return replace(self, errors=known, since=since)

    def with_focus(self, rows: Integers, focus: tuple[Focus, ...]) -> Boxes:
        """The boxes with other tokens in play on some of them."""
        if len(rows) == len(self):
            return replace(self, focus=focus)
        place = np.arange(len(self))
        place[rows] = len(self) + np.arange(len(rows))
        pairs = zip(self.focus, focus, strict=True)
        return replace(self, focus=tuple(Focus.join([old, new]).take(place) for old, new in pairs))

    def take(self, rows: Integers) -> Boxes:
        """Some of the boxes."""
        focus = tuple(layer.take(rows) for layer in self.focus)
        return Boxes(self.lo[rows], self.hi[rows], self.node[rows], focus, self.errors[rows], self.since[rows])

    @classmethod
    def join(cls, batches: list[Boxes]) -> Boxes:
        """Several batches as one."""
        layers = zip(*(batch.focus for batch in batches), strict=True)
        names = ("lo", "hi", "node", "errors", "since")
        lo, hi, node, *noted = (np.concatenate([getattr(batch, name) for batch in batches]) for name in names)
        return cls(lo, hi, node, tuple(Focus.join(list(layer)) for layer in layers), *noted)

    def longest(self, extent: Floats, among: Flags | None = None) -> npt.NDArray[np.intp]:
        """For each box the longest axis, as measured by `extent` (D,); those with a float between their ends first.

        Of the axes `among` (D,) if these are named, and -1 where none of them has a float between its ends.
        """
        free = self.cuttable() if among is None else self.cuttable() & among
        axis = np.argmax(np.where(free, (self.hi - self.lo) / extent, 0.0), axis=1)
        return axis if among is None else np.where(free.any(axis=1), axis, -1)

    def cuttable(self) -> npt.NDArray[np.bool_]:
        """Is there a float between the ends of an axis, (B, D)?"""
        middle = Interval(self.lo, self.hi).mid
        return (self.lo < middle) & (middle < self.hi)

    def divisible(self) -> npt.NDArray[np.bool_]:
        """Is there an axis with a float between the ends, (B,)?"""
        return np.any(self.cuttable(), axis=1)

    def halves(self, axis: Integers, first: Integers) -> Boxes:
        """Each box in two, cut in the middle of an axis (B,): first all lower halves, then all upper ones.

        They are the nodes `first` and `first + 1`. Both halves hold the cut, so together they cover the box.
        """
        rows = np.arange(len(self))
        middle = Interval(self.lo[rows, axis], self.hi[rows, axis]).mid  # (B,)
        lower, upper = self.hi.copy(), self.lo.copy()
        lower[rows, axis] = upper[rows, axis] = middle
        both = self.take(np.concatenate([rows, rows]))
        node = np.concatenate([first, first + 1])
        low, high = np.concatenate([self.lo, upper]), np.concatenate([lower, self.hi])
        return replace(both, lo=low, hi=high, node=node, since=both.since + 1)
