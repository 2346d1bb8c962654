"""Long lines: thousands of tokens in one variable, in time linear in their number [T 6.4].

One lattice of tokens (`lattices.py`) follows the whole line. It is cut into heads, each with its own origin, so that
scores stay small: head h *owns* the tokens from J_h to J_{h+1} and has those up to `overlap` places beyond as well,
with value zero. At any x the tokens that a head lacks have a weight beside those that it owns of at most the product of
two tails, about `exp(-γ overlap²/4)`. So the heads add up to the one head of the whole lattice, whatever the values,
and where x is far from what a head owns, it adds zero.

At a sample only the tokens nearby have weight, so the values solve a banded least-squares problem
(`solve.solved_in_windows`). Where errors are too large, the pieces there get more tokens, and all is solved again. A
round costs O(N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, log, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import FORMATS, Format, round_to
from ..errors import TimeLimitReached
from ..resources.deadline import NEVER, Deadline
from .lattices import GAMMA, GHOSTS, Lattice
from .resolution import Resolution, levelled
from .singularities import Line
from .solve import Integers, solved_in_windows
from .tokens import Tokens

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ChainTuning:
    """How a chain of heads is sized. Nothing that is proved depends on these values; they decide tokens and time."""

    rounds: int = 12
    """Times that pieces may get more tokens, or heads. By trial: sizes settle in fewer."""
    samples: int = 3
    """Samples, and as many checks, between neighbouring ties. The least that shows an oscillation between ties."""
    faint: float = 45.0
    """Tokens whose score is so far below the largest have no weight. `e^-45` is below the roundoff of float64."""
    growth: tuple[float, float] = (1.1, 1.5)
    """The least and the largest growth of a piece in a round. By trial."""
    good: float = 0.5
    """Errors below this fraction of the aim are left alone. By trial."""
    without_tokens: float = 10.0
    """The error without any tokens, beside the largest value. A round number."""
    stubborn: float = 0.5
    """A piece whose error is more than this fraction of what it was, though it grew, may be halved: near corners errors
    fall no faster than spacings do. By trial."""
    notable: float = 1.3
    """It is halved if its error is also more than this multiple of the aim. By trial."""
    sizings: int = 3
    """Times that densities are scaled to come to a given number of tokens. By trial: the number of tokens is then right
    within a few."""
    resolved: float = 30.0
    """Values are as large as they will be where errors are below this multiple of the aim: rounding can be judged then.
    By trial."""
    ridge: float = 1e-4
    """Penalty on values as a fraction of the tolerance, beside the largest value of the functions. By trial."""
    rounding: float = 0.15
    """The share of the aim that rounding may take before the line is cut into more heads. By trial."""
    proved: float = 3.0
    """Rounding counts so many times: a proof adds its own, of the same scores. By trial: with less, some proofs of ten
    digits cut boxes without end."""
    most_heads: int = 64
    """More heads than this are not made of one line. A round number."""
    smallest_head: int = 8
    """Tokens that a head owns at the least. By trial: smaller heads cost more ties than they save."""


TUNING = ChainTuning()


@dataclass(frozen=True, eq=False)
class Link:
    """One head of a chain: its tokens, those it owns, and their values."""

    tokens: Tokens
    origin: float
    first: int
    """The place of its first token in the lattice."""
    owned: tuple[int, int]
    """The places in the lattice, from .. to, of the tokens that it owns."""
    values: Floats  # (n, C)


@dataclass(frozen=True, eq=False)
class Chain:
    """Heads that add up to functions of one variable."""

    links: tuple[Link, ...]
    error: float
    """The largest error at samples and checks, and about what rounding may add; not a proof."""
    rounding: float
    """That share of it."""
    aim: float

    @property
    def limit(self) -> float:
        """About the smallest error in the deployed arithmetic, where rounding alone is above the aim; 0 elsewhere."""
        return self.rounding if self.rounding > self.aim else 0.0

    @property
    def size(self) -> int:
        """Number of tokens of all heads, as they are stored: as many for each."""
        return len(self.links) * max(link.tokens.size for link in self.links)


def chained(
    line: Line,
    pieces: Resolution,
    aim: float,
    dtype: str = "float64",
    *,
    most: int = 2**18,
    most_heads: int = TUNING.most_heads,
    deadline: Deadline = NEVER,
) -> Chain:
    """Heads that follow functions (S,) -> (S, C) to within `aim`, or the best found with about `most` tokens."""
    share: Floats = pieces.tokens_each
    last: Floats = np.full(pieces.count, np.inf)
    heads = 1
    best = fit = _Fit(line, pieces, Lattice.of(pieces, share), heads, aim, dtype)
    for _ in range(TUNING.rounds):
        if best.chain.error <= aim or fit.chain.size > most or deadline.over:
            break
        more = _more_heads(fit, aim, most_heads)
        if more == heads and (fit.errors.max() <= TUNING.good * aim or fit.hopeless):
            break
        heads, growth = more, fit.growth()
        notable = fit.worst > TUNING.notable * max(aim, fit.chain.rounding)
        stubborn = notable & (fit.worst > TUNING.stubborn * last) & pieces.divisible
        pieces, share = pieces.halved(stubborn), np.repeat(share * np.where(stubborn, 1.0, growth), 1 + stubborn)
        last = np.repeat(fit.worst, 1 + stubborn)
        try:
            fit = _Fit(line, pieces, Lattice.of(pieces, share), heads, aim, dtype)
        except TimeLimitReached:
            break
        best = min(best, fit, key=lambda each: each.chain.error)
    return best.chain


def chain_of(line: Line, pieces: Resolution, tokens: int, aim: float, dtype: str = "float64") -> Chain:
    """One head of so many tokens, as dense as the pieces say, that does what it can."""
    share = pieces.tokens_each
    lattice = Lattice.of(pieces, share)
    for _ in range(TUNING.sizings):
        share *= max(tokens - 2 * GHOSTS - 2, 1) / (lattice.size - 2 * GHOSTS - 1)
        lattice = Lattice.of(pieces, share)
    return _Fit(line, pieces, lattice, 1, aim, dtype).chain


def _more_heads(fit: _Fit, aim: float, most: int) -> int:
    """Rounding falls with the square of the number of heads."""
    heads, rounding, error = len(fit.chain.links), fit.chain.rounding, float(fit.errors.max())
    if rounding <= TUNING.rounding * aim or error > max(TUNING.resolved * aim, rounding):
        return heads
    wanted = ceil(1.2 * heads * sqrt(min(rounding / (TUNING.rounding * aim), 1e6)))
    return max(heads, min(wanted, most, fit.lattice.size // TUNING.smallest_head))


class _Fit:
    """Values solved for one lattice and number of heads, and what errors they leave where."""

    def __init__(self, line: Line, pieces: Resolution, lattice: Lattice, heads: int, aim: float, dtype: str) -> None:
        self.pieces, self.lattice, self.aim = pieces, lattice, aim
        format_ = FORMATS[dtype]
        links = self._links(heads, dtype)
        points = lattice.points(2 * TUNING.samples)
        values = line(points)  # (S, C)
        windows = _Windows.of(lattice, links, points)
        scores = float(np.median(windows.scores))
        ridge = max(TUNING.ridge * aim / pieces.scale, format_.grain * scores) / sqrt(lattice.size)
        solved = solved_in_windows(windows.first[::2], windows.weights[::2], values[::2], ridge, lattice.size)
        self.points, self.errors = points, np.abs(windows.average(solved) - values).max(axis=1)  # (S,)
        self.rounding = windows.rounding(solved, format_)
        both = self.errors + TUNING.proved * self.rounding
        self.chain = Chain(
            tuple(_with_values(link, solved, dtype) for link in links),
            float(both.max()),
            float(self.rounding.max()),
            aim,
        )

    def _links(self, heads: int, dtype: str) -> list[Link]:
        """Heads with as many tokens each, values unknown."""
        size, lattice = self.lattice.size, self.lattice
        overlap = (
            ceil(sqrt(4 * log(TUNING.without_tokens**3 * self.pieces.scale / self.aim) / GAMMA)) if heads > 1 else 0
        )
        cuts = np.round(np.linspace(0, size, heads + 1)).astype(np.int64)
        links = []
        for start, end in pairwise(cuts.tolist()):
            first, last = max(0, start - overlap), min(size, end + overlap)
            tokens, origin = lattice.head(first, last)
            origin = float(round_to(origin, dtype))
            rounded = Tokens(round_to(tokens.slopes, dtype), round_to(tokens.offsets, dtype))
            links.append(Link(rounded, origin, first, (start, end), np.empty((0, 0))))
        return links

    @property
    def hopeless(self) -> bool:
        """Is rounding all there is to the error?"""
        return self.chain.rounding > self.aim and self.errors.max() < self.chain.rounding

    @cached_property
    def worst(self) -> Floats:
        """The largest error on each piece, (P,)."""
        piece = np.clip(np.searchsorted(self.pieces.edges, self.points) - 1, 0, self.pieces.count - 1)
        worst = np.zeros(self.pieces.count)
        np.maximum.at(worst, piece, self.errors)
        return worst

    def growth(self) -> Floats:
        """By how much the tokens of each piece should grow, (P,); digits are about in proportion to tokens."""
        worst, zero = self.worst, TUNING.without_tokens * self.pieces.scale
        missing = log(zero / (TUNING.good**2 * self.aim)) / np.log(
            zero / np.clip(worst, 1e-300, zero / TUNING.without_tokens)
        )
        powers = np.log(np.where(worst > TUNING.good * self.aim, np.clip(missing, *TUNING.growth), 1.0))
        return np.exp(levelled(powers))


@dataclass(frozen=True, eq=False)
class _Windows:
    """At each point the tokens that may have weight: `first` and those that follow."""

    first: Integers  # (S,)
    weights: Floats  # (S, w), of owned tokens in their heads; zero for tokens that do not exist
    scores: Floats  # (S, w), units of roundoff by which scores may be off

    @classmethod
    def of(cls, lattice: Lattice, links: list[Link], points: Floats) -> _Windows:
        """For increasing points (S,)."""
        top = np.searchsorted(lattice.ties, points)  # (S,), the tokens with the largest score
        reach = _reach(lattice, points, top)
        first, width = top - reach, 2 * reach + 1
        weights, scores = np.zeros((len(points), width)), np.zeros((len(points), width))
        for link in links:
            start, end = link.owned
            rows = np.arange(np.searchsorted(top, start - reach), np.searchsorted(top, end + reach))
            places = first[rows, None] + np.arange(width)  # (R, w)
            known = np.clip(places - link.first, 0, link.tokens.size - 1)
            away = (points[rows] - link.origin)[:, None]
            slopes, offsets = link.tokens.slopes[known, 0], link.tokens.offsets[known]
            exists = (places >= link.first) & (places < link.first + link.tokens.size)
            score = np.where(exists, slopes * away + offsets, -np.inf)
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            weight /= weight.sum(axis=1, keepdims=True)
            owned = (places >= start) & (places < end)
            weights[rows] += np.where(owned, weight, 0.0)
            scores[rows] += np.where(owned, 3 * np.abs(slopes * away) + np.abs(offsets), 0.0)
        return cls(first, weights, scores)

    def average(self, values: Floats) -> Floats:
        """(N, C) -> (S, C)."""
        return np.einsum("sw,swc->sc", self.weights, values[self._places(len(values))])

    def rounding(self, values: Floats, format_: Format) -> Floats:
        """About what rounding costs (S,): that of scores and exponentials times the spread of values, and of sums."""
        near, output = values[self._places(len(values))], self.average(values)  # (S, w, C), (S, C)
        apart = np.abs(near - output[:, None]).max(axis=2)  # (S, w)
        moved = self.weights * (format_.exp_units + self.scores)
        sums = 2 * (self.weights > format_.grain).sum(axis=1) + 3
        size = (self.weights * np.abs(near).max(axis=2)).sum(axis=1)
        return format_.grain * ((moved * apart).sum(axis=1) + sums * size)

    def _places(self, count: int) -> Integers:
        return np.clip(self.first[:, None] + np.arange(self.weights.shape[1]), 0, count - 1)


def _reach(lattice: Lattice, points: Floats, top: Integers) -> int:
    """How many tokens away the last one is, at any point, whose score is not `TUNING.faint` below the largest."""
    reach, size = 4, lattice.size
    padded = np.concatenate([[0.0], np.cumsum(lattice.rises)])
    ties = np.concatenate([[0.0], np.cumsum(lattice.rises * (lattice.ties - lattice.low))])
    while reach < size:
        gaps = [np.inf]
        for side in (-reach, reach):
            other = top + side
            inside = (other >= 0) & (other < size)
            rise, moment = (table[other[inside]] - table[top[inside]] for table in (padded, ties))
            gaps.append(float((moment - rise * (points[inside] - lattice.low)).min(initial=np.inf)))
        if min(gaps) > TUNING.faint:
            return reach
        reach = int(1.25 * reach) + 1
    return size


def _with_values(link: Link, values: Floats, dtype: str) -> Link:
    """Zero for the tokens that it does not own."""
    own, (start, end) = np.zeros((link.tokens.size, values.shape[1])), link.owned
    own[start - link.first : end - link.first] = round_to(values[start:end], dtype)
    return Link(link.tokens, link.origin, link.first, link.owned, own)
