"""Lists of integers of different lengths, one per box; lists that are equal may share their items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ragged:
    """`items[begins[i] : begins[i] + lengths[i]]` is list i. There are never more items than all lists have together.

    >>> lists = Ragged.from_padded(np.array([[3, 5], [4, 0]]), np.array([[True, True], [True, False]]))
    >>> lists.take(np.array([1, 0, 1])).padded(np.array([0, 1]))
    (array([[4, 3],
           [3, 5]]), array([[ True, False],
           [ True,  True]]))
    """

    items: Integers
    begins: Integers
    lengths: Integers

    @classmethod
    def from_padded(cls, items: Integers, kept: npt.NDArray[np.bool_]) -> Ragged:
        """Row i of `items` where `kept`."""
        lengths = kept.sum(axis=1)
        return cls(items[kept], np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def join(cls, parts: list[Ragged]) -> Ragged:
        """Lists of several collections, one after another; items that they share already stay shared."""
        first, count = dict[int, int](), 0
        for part in parts:
            if id(part.items) not in first:
                first[id(part.items)], count = count, count + len(part.items)
        items = [part.items for part in {id(part.items): part for part in parts}.values()]
        begins = np.concatenate([part.begins + first[id(part.items)] for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate(items) if len(items) > 1 else items[0], begins, lengths)._compact()

    @cached_property
    def offsets(self) -> Integers:
        """Where each list begins if they are written end to end, and where the last ends, (B+1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def padded(self, rows: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The lists of some rows as a rectangle, padded with any item, and where it is real."""
        lengths = self.lengths[rows]
        columns = np.arange(max(int(lengths.max(initial=0)), 1))
        real = columns < lengths[:, None]  # (R, K)
        places = np.where(real, self.begins[rows][:, None] + columns, 0)
        return (self.items[places] if len(self.items) else np.zeros(places.shape, dtype=np.int64)), real

    def take(self, rows: Integers) -> Ragged:
        """The lists of some rows; their items stay where they are unless others would be most of them."""
        return Ragged(self.items, self.begins[rows], self.lengths[rows])._compact()

    def _compact(self) -> Ragged:
        """The same lists end to end if there are more items than they have together."""
        if len(self.items) <= self.offsets[-1]:
            return self
        shift = np.repeat(self.begins - self.offsets[:-1], self.lengths)
        return Ragged(self.items[np.arange(self.offsets[-1]) + shift], self.offsets[:-1], self.lengths)
