"""Lists of integers of different lengths, one per box, stored end to end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ragged:
    """`items[offsets[i] : offsets[i + 1]]` is list i.

    >>> lists = Ragged.from_padded(np.array([[3, 5], [4, 0]]), np.array([[True, True], [True, False]]))
    >>> lists.padded(np.array([1, 0]))
    (array([[4, 3],
           [3, 5]]), array([[ True, False],
           [ True,  True]]))
    """

    items: Integers
    offsets: Integers

    @classmethod
    def from_padded(cls, items: Integers, kept: npt.NDArray[np.bool_]) -> Ragged:
        """Row i of `items` where `kept`."""
        return cls(items[kept], np.concatenate([[0], np.cumsum(kept.sum(axis=1))]))

    @classmethod
    def join(cls, parts: list[Ragged]) -> Ragged:
        """Lists of several collections, one after another."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.items for part in parts]), np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def lengths(self) -> Integers:
        """Length of each list."""
        return np.diff(self.offsets)

    def padded(self, rows: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The lists of some rows as a rectangle, padded with any item, and where it is real."""
        lengths = self.lengths[rows]
        columns = np.arange(max(int(lengths.max(initial=0)), 1))
        real = columns < lengths[:, None]  # (R, K)
        places = np.where(real, self.offsets[rows][:, None] + columns, 0)
        return (self.items[places] if len(self.items) else np.zeros(places.shape, dtype=np.int64)), real

    def take(self, rows: Integers) -> Ragged:
        """The lists of some rows."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        shift = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Ragged(self.items[np.arange(offsets[-1]) + shift], offsets)
