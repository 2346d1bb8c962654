"""One head for a function of one variable, quickly: what larger networks are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import FORMATS
from ..resources.deadline import NEVER, Deadline
from .chains import Chain, chained
from .lines import QUICK, Care, Search, representable
from .resolution import Resolution, resolution
from .singularities import Line, survey
from .tokens import Tokens

Floats = npt.NDArray[np.float64]

MOST = 384
"""Tokens of a bank, but for long lines."""
LONG, LONGEST = 150, 2**17
"""From about so many tokens on, a line is followed without polish (`chains.py`); and the most that it gets."""
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


@dataclass(frozen=True, eq=False)
class LongSearch:
    """The search for a bank along a line that takes many tokens."""

    line: Line
    pieces: Resolution
    aim: float
    dtype: str
    deadline: Deadline

    def outlook(self, most: int) -> int:
        """About the fewest tokens."""
        del most
        return self.pieces.tokens

    def chain(self) -> Chain:
        """One head, as many tokens as it takes."""
        return chained(self.line, self.pieces, self.aim, self.dtype, most=LONGEST, most_heads=1, deadline=self.deadline)


def search_for(
    function: Callable[[Floats], Floats],
    low: float,
    high: float,
    aim: float,
    *,
    dtype: str = "float64",
    care: Care = QUICK,
    deadline: Deadline = NEVER,
) -> Search | LongSearch:
    """The search, not yet begun, for a small bank that follows a function (S,) -> (S,) or (S, C) to within `aim`.

    The function is smooth on [low, high]. The caller compares the bank's `error` with `aim`: out of reach, the best
    bank found comes back.

    >>> search = search_for(np.exp, -1.0, 1.0, 1e-6)
    >>> found, points = bank_of(search, "float64"), np.linspace(-1, 1, 999)
    >>> found.tokens.size < 8, bool(np.abs(found(points)[:, 0] - np.exp(points)).max() <= 1e-6)
    (True, True)
    """

    def line(points: Floats) -> Floats:
        return np.asarray(function(points), dtype=np.float64).reshape(len(points), -1)

    if not FORMATS[dtype].store:
        pieces = resolution(line, low, high, aim, LONGEST, deadline)
        if pieces.tokens > LONG:
            return LongSearch(line, pieces, aim, dtype, deadline)
    seen = survey(line, low, high, aim, deadline)
    ridge = RIDGE * aim / seen.scale
    return Search(line, seen.mesh(), aim, dtype, ridge, alone=True, care=care, deadline=deadline)


def bank_of(search: Search | LongSearch, dtype: str) -> Bank:
    """The bank that a search finds."""
    if isinstance(search, LongSearch):
        chain = search.chain()
        (link,) = chain.links
        return Bank(link.tokens, link.values, link.origin, chain.error)
    axis, error = search.smallest(MOST)
    (axis,) = representable((axis,), dtype)
    return Bank(axis.tokens, axis.solved(search.line(axis.samples)), axis.origin, error)
