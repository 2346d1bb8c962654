"""Multi-indices of bounded degree, in graded order, and how their products fall."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Basis:
    """Monomials `t^α` in `variables` variables with `|α| <= degree`, by rising degree.

    >>> Basis(2, 2).exponents.tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """

    variables: int
    degree: int

    @cached_property
    def exponents(self) -> Integers:
        """The multi-indices, (C, D)."""
        rows = []
        for degree in range(self.degree + 1):
            for chosen in combinations_with_replacement(range(self.variables), degree):
                rows.append([chosen.count(axis) for axis in range(self.variables)])
        return np.array(rows, dtype=np.int64).reshape(-1, self.variables)

    @cached_property
    def degrees(self) -> Integers:
        """|α| of each, (C,)."""
        return self.exponents.sum(axis=1)

    @property
    def size(self) -> int:
        """Number of monomials, C."""
        return len(self.exponents)

    def count(self, degree: int) -> int:
        """How many have degree at most `degree`; they come first."""
        return int(np.searchsorted(self.degrees, degree, side="right"))

    @cached_property
    def factorials(self) -> npt.NDArray[np.float64]:
        """α! of each, (C,), to the nearest float: exact up to 22!."""
        return np.array([float(prod(map(factorial, row))) for row in self.exponents.tolist()])

    @cached_property
    def parents(self) -> list[tuple[int, int]]:
        """For each α but the first: the position of α - e_k, and k, its first axis that is not zero."""
        position = {tuple(row): k for k, row in enumerate(self.exponents.tolist())}
        found = []
        for row in self.exponents[1:].tolist():
            axis = next(k for k, exponent in enumerate(row) if exponent)
            row[axis] -= 1
            found.append((position[tuple(row)], axis))
        return found

    @cached_property
    def products(self) -> list[Integers]:
        """`products[β][γ]` is the position of β + γ, for the γ with |β| + |γ| within the degree (a prefix)."""
        position = {tuple(row): k for k, row in enumerate(self.exponents.tolist())}
        table = []
        for row, degree in zip(self.exponents, self.degrees, strict=True):
            others = self.exponents[: self.count(self.degree - int(degree))]
            table.append(np.array([position[tuple(total)] for total in (others + row).tolist()], dtype=np.int64))
        return table

    @cached_property
    def table(self) -> tuple[Integers, Integers]:
        """`products` end to end, and where each begins, (C+1,), for compiled loops."""
        lengths = [len(places) for places in self.products]
        return np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(self.products)

    @cached_property
    def choices(self) -> list[npt.NDArray[np.float64]]:
        """`choices[β][γ]` is the number `C(β+γ, γ)`, beside `products`."""
        orders = range(self.degree + 1)
        pascal = np.array([[float(comb(n, k)) for k in orders] for n in orders])
        pairs = zip(self.exponents, self.products, strict=True)
        others = self.exponents
        return [pascal[others[: len(places)] + row, others[: len(places)]].prod(axis=1) for row, places in pairs]


@lru_cache
def basis(variables: int, degree: int) -> Basis:
    """The basis, made once."""
    return Basis(variables, degree)
