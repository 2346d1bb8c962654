"""Banks of memory tokens as one head sees them: scores `a_j·q + b_j`, values v_j.

What a bank is good for is read off its weights, never from how the network was made:

- slopes on a *product* of axes with offsets that are sums over the axes (a line is a product of one axis):
  softmax factors and every axis has windows (`ProductBank`),
- any other bank with a known range of queries: a *tree* of boxes, each with the tokens that matter in it (`Tree`),
- small banks, and those that nothing may be dropped from: all tokens, in a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .axes import Axes, SortedAxis
from .trees import Tree

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LANES = 8, 12, 16, 24
"""Values that loops take at a time, the least that hold a window."""
MANY_LANES = 16
"""The same for longer windows."""


def spread_of(values: Floats) -> float:
    """The largest spread of a column of values (M, v)."""
    return float(np.ptp(values, axis=0).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class HeadMemory:
    """Slopes (M, r), offsets (M,) and values (M, v) of a head's memory, for queries of r coordinates that vary."""

    slopes: Floats
    offsets: Floats
    values: Floats

    @property
    def osc(self) -> float:
        """The largest spread of a column of values."""
        return spread_of(self.values)

    @property
    def steepest(self) -> Floats:
        """The largest slope in each coordinate, (r,)."""
        return np.abs(self.slopes).max(axis=0)

    def merged(self) -> HeadMemory:
        """Tokens with equal slopes as one: they keep the same shares of their common weight whatever the query is."""
        slopes, group = np.unique(self.slopes, axis=0, return_inverse=True)
        if len(slopes) == len(self.slopes):
            order = np.empty(len(slopes), dtype=np.int64)
            order[group.ravel()] = np.arange(len(slopes))
            return HeadMemory(slopes, self.offsets[order], self.values[order])
        group, top = group.ravel(), np.full(len(slopes), -np.inf)
        np.maximum.at(top, group, self.offsets)
        share = np.exp(self.offsets - top[group])  # (M,)
        mass = np.bincount(group, share)
        columns = [np.bincount(group, share * column) / mass for column in self.values.T]
        return HeadMemory(slopes, top + np.log(mass), np.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class BankAverages:
    """Averages over a bank for B queries: of values (B, v), and the mass `Σ e^{s - top}` they were taken over."""

    mean: Floats
    top: Floats
    mass: Floats


@dataclass(frozen=True, eq=False)
class ProductBank:
    """A bank whose weights factor over axes."""

    axes: tuple[SortedAxis, ...]
    values: npt.NDArray[Any]  # (v, N), the last axis fastest; float64 or float32
    flat: Axes
    sizes: Integers  # (r,), tokens along each axis, as the values are stored
    places: Integers  # rows of a window, from its first token
    lanes: int  # values that are taken at a time

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return prod(len(axis.slopes) for axis in self.axes)

    @property
    def reached(self) -> int:
        """Tokens that a query reaches, at most."""
        return prod(axis.width for axis in self.axes)

    def __call__(self, queries: Floats) -> BankAverages:
        """Queries (B, r)."""
        moments, _ = self._run(queries, -1)
        return moments

    def slopes(self, queries: Floats) -> tuple[BankAverages, Floats, Floats]:
        """Also the average slope (B, r) and the derivative of the mean by the query (B, r, v)."""
        parts = [self._run(queries, k) for k in range(len(self.axes))]
        centre = np.stack([centre for _, centre in parts], axis=1)
        return self(queries), centre, np.stack([moments.mean for moments, _ in parts], axis=1)

    def _run(self, queries: Floats, along: int) -> tuple[BankAverages, Floats]:
        from .loops import product

        mean, top, mass, centre = np.empty((len(queries), len(self.values))), *np.empty((3, len(queries)))
        widths = np.array([axis.width for axis in self.axes])
        widths[-1] = _stretched(int(widths[-1]), self.lanes)
        shape, results = (self.sizes, widths, self.lanes), (mean, top, mass, centre)
        product(queries, self.flat.arrays, self.values.reshape(-1), shape, self.places, along, results)
        return BankAverages(mean, top, mass), centre

    @classmethod
    def line(cls, tokens: HeadMemory, tail: float) -> ProductBank:
        """A bank of one coordinate."""
        return cls.of((SortedAxis.of(tokens.slopes[:, 0], tokens.offsets, tail),), tokens.values)

    @classmethod
    def of(cls, axes: tuple[SortedAxis, ...], values: npt.NDArray[Any]) -> ProductBank:
        """Axes with the order that their tokens were given in, and values (ΠN, v) in the given order."""
        sizes = [len(axis.order) for axis in axes]
        grid = values.T.reshape(values.shape[1], *sizes)  # (v, N_1, ..., N_r)
        for k, axis in enumerate(axes):
            if not np.array_equal(axis.order, np.arange(len(axis.order))):
                grid = grid.take(axis.order, axis=k + 1)
        lanes = next((lanes for lanes in LANES if axes[-1].width <= lanes), MANY_LANES)
        if (spare := _stretched(axes[-1].width, lanes) - sizes[-1]) > 0:  # tokens of weight zero
            grid = np.pad(grid, [(0, 0)] * len(axes) + [(0, spare)])
            sizes[-1] += spare
        places = np.zeros(1, dtype=np.int64)
        for k, axis in enumerate(axes[:-1]):
            steps = prod(sizes[k + 1 :]) * np.arange(axis.width)
            places = (places[:, None] + steps).ravel()
        stored = np.ascontiguousarray(grid.reshape(values.shape[1], -1))
        return cls(axes, stored, Axes.of(axes), np.array(sizes), places, lanes)


def _stretched(width: int, lanes: int) -> int:
    """The width in whole stretches of `lanes`."""
    return -(-width // lanes) * lanes


@dataclass(frozen=True, eq=False)
class Stream:
    """Any bank: all tokens, or those of a query's leaf."""

    keys: Floats  # (r, M)
    offsets: Floats  # (M,)
    values: Floats  # (v, M)
    tree: Tree

    @classmethod
    def of(cls, tokens: HeadMemory) -> Stream:
        """All tokens for every query."""
        arrays = np.ascontiguousarray(tokens.slopes.T), tokens.offsets, np.ascontiguousarray(tokens.values.T)
        return cls(*arrays, Tree.all_of(len(tokens.offsets)))

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.offsets)

    @property
    def reached(self) -> int:
        """Tokens that a query reaches, at most."""
        return self.tree.widest

    def __call__(self, queries: Floats) -> BankAverages:
        """Queries (B, r)."""
        return self._run(queries, self.values)

    def slopes(self, queries: Floats) -> tuple[BankAverages, Floats, Floats]:
        """Also the average slope (B, r) and the derivative of the mean by the query (B, r, v): covariances."""
        products = (self.keys[:, None] * self.values).reshape(-1, self.tokens)  # (r v, M)
        found = self._run(queries, np.vstack([self.values, self.keys, products]))
        v, r = len(self.values), len(self.keys)
        mean, centre = found.mean[:, :v], found.mean[:, v : v + r]
        both = found.mean[:, v + r :].reshape(-1, r, v)
        return replace(found, mean=mean), centre, both - centre[:, :, None] * mean[:, None]

    def _run(self, queries: Floats, values: Floats) -> BankAverages:
        from .loops import stream

        mean, top, mass = np.empty((len(queries), len(values))), *np.empty((2, len(queries)))
        stream(queries, self.keys, self.offsets, values, self.tree.arrays, mean, top, mass)
        return BankAverages(mean, top, mass)


@dataclass(frozen=True, eq=False)
class Listed:
    """A bank with a tree: queries inside it read the tokens of their leaf, others all of them."""

    every: Stream
    leaves: Stream

    @classmethod
    def of(cls, tokens: HeadMemory, tree: Tree) -> Listed:
        """Tokens are copied from leaf to leaf, so that each list is one stretch of memory."""
        copies = HeadMemory(tokens.slopes[tree.listed], tokens.offsets[tree.listed], tokens.values[tree.listed])
        return cls(Stream.of(tokens), replace(Stream.of(copies), tree=tree))

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.every.tokens

    @property
    def reached(self) -> int:
        """Tokens that a query in range reads, at most."""
        return self.leaves.reached

    def __call__(self, queries: Floats) -> BankAverages:
        """Queries (B, r)."""
        (moments,) = self._either(queries, lambda bank, some: (bank(some),))
        return moments

    def slopes(self, queries: Floats) -> tuple[BankAverages, Floats, Floats]:
        """Also the average slope (B, r) and the derivative of the mean by the query (B, r, v)."""
        return self._either(queries, lambda bank, some: bank.slopes(some))

    def _either(self, queries: Floats, average: Callable[[Stream, Floats], Any]) -> Any:
        """Leaves for queries in range, every token for the others."""
        inside = self.leaves.tree.holds(queries)
        if inside.all():
            return average(self.leaves, queries)
        parts = [average(self.leaves, queries[inside]), average(self.every, queries[~inside])]
        back = np.argsort(np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)]))

        def joined(*arrays: Floats) -> Floats:
            return np.concatenate(arrays)[back]

        first = BankAverages(*(joined(*(getattr(part[0], name) for part in parts)) for name in ("mean", "top", "mass")))
        return first, *(joined(*arrays) for arrays in zip(*(part[1:] for part in parts), strict=True))


Bank = ProductBank | Stream | Listed
