"""One head for a function of one variable, quickly: what larger networks are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..resources.deadline import NEVER, Deadline
from .lines import QUICK, Care, Search, representable
from .singularities import survey
from .tokens import Tokens

Floats = npt.NDArray[np.float64]

MOST = 384
"""Tokens of a bank."""
RIDGE = 1e-2
"""Penalty on values, as a fraction of the tolerance, where the largest value of the function is one: moderate values
pass on moderate rounding errors."""


@dataclass(frozen=True, eq=False)
class Bank:
    """Tokens with values: `x -> softmax(a (x - origin) + b) @ values`, keys and origin representable in its dtype."""

    tokens: Tokens
    values: Floats  # (N, C)
    origin: float
    error: float
    """The largest error found at samples and checks, rounding estimated; not a proof."""

    def __call__(self, points: Floats) -> Floats:
        """The head in float64, (S,) -> (S, C)."""
        return self.tokens.weights((points - self.origin)[:, None]) @ self.values


def bank_for(
    function: Callable[[Floats], Floats],
    low: float,
    high: float,
    aim: float,
    *,
    dtype: str = "float64",
    care: Care = QUICK,
) -> Bank:
    """A small bank that follows a function (S,) -> (S,) or (S, C), smooth on [low, high], to within `aim`.

    The caller compares `error` with `aim`: out of reach, the best bank found comes back.

    >>> found = bank_for(np.exp, -1.0, 1.0, 1e-6)
    >>> points = np.linspace(-1, 1, 999)
    >>> found.tokens.size < 8, bool(np.abs(found(points)[:, 0] - np.exp(points)).max() <= 1e-6)
    (True, True)
    """

    return bank_of(search_for(function, low, high, aim, dtype=dtype, care=care), dtype)


def search_for(
    function: Callable[[Floats], Floats],
    low: float,
    high: float,
    aim: float,
    *,
    dtype: str,
    care: Care,
    deadline: Deadline = NEVER,
) -> Search:
    """The search for such a bank, not yet begun."""

    def line(points: Floats) -> Floats:
        return np.asarray(function(points), dtype=np.float64).reshape(len(points), -1)

    seen = survey(line, low, high, aim, deadline)
    ridge = RIDGE * aim / seen.scale
    return Search(line, seen.mesh(), aim, dtype, ridge, alone=True, care=care, deadline=deadline)


def bank_of(search: Search, dtype: str) -> Bank:
    """The bank that a search finds."""
    axis, error = search.smallest(MOST)
    (axis,) = representable((axis,), dtype)
    return Bank(axis.tokens, axis.solved(search.line(axis.samples)), axis.origin, error)
