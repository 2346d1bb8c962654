"""Tokens of a long line: as many as it takes, as dense as each place demands [T 2.2].

Tokens of one coordinate are told by the points t_j at which neighbours have equal scores, and by how much slopes rise
there, b_j: with slopes `a_{j+1} = a_j + b_j` and offsets that make scores equal at t_j, all scores are the tangents of
a convex function. Let m(x) be the tokens a unit of length. With t_j equidistant in `τ = ∫ m` and `b_j = γ m(t_j)`, each
token is a kernel 1/√γ token spacings wide, whatever m is.

Kernels resolve as many digits as m is smooth: kinks of m at the ends of pieces cost all but four of them. So m is made
of the pieces of a resolution (`resolution.py`) with centres c_i, widths w_i and k_i tokens each by analytic functions,

    m(x) = (Σ_i (k_i / w_i)^q max(1/(1 + ((x - c_i)/(δ w_i))²) - l, 0)^{q/2})^{1/q},     q = 8, δ = 3.

Near a short piece it is the piece's own density; away from it, it falls like the distance, so that spacings grow by a
constant factor from token to token; and for equal pieces it is constant but for a ripple of about e^{-6π}.
Pieces more than `FAR` widths away add nothing, and l makes their share end there with three derivatives: a jump of 1e-9
would cost all but ten digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..resources.deadline import in_force
from .potentials import sums_from
from .resolution import Resolution
from .tokens import Tokens

Floats = npt.NDArray[np.float64]

POWER, WIDTH, FAR = 8, 3.0, 40.0
"""q, δ, and the reach of a piece in widths."""
LAST = 1 / (1 + (FAR / WIDTH) ** 2)
"""l: a piece's share ends smoothly where its reach ends."""
GAMMA = 0.4
"""γ: sharpness of tokens."""
GHOSTS = 6
"""Tokens beyond each end."""
PARTS = 12
"""Parts of a piece on each of which m is integrated by `NODES` Gauss points. By trial: with half as many, chains of
many digits took a third more tokens."""
NODES = 2
BEYOND = 128
"""Such parts beyond each end, as wide as those of the last piece."""
LEVELS = 65
"""Places among which the origin of scores and the level of slopes are chosen."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """N tokens by their ties and by how much slopes rise at them."""

    low: float
    high: float
    ties: Floats  # (N-1,), increasing
    rises: Floats  # (N-1,), positive

    @classmethod
    def of(cls, pieces: Resolution, share: Floats) -> Lattice:
        """With about `share` (P,) tokens a piece; O(P) at a given ratio of neighbours' widths."""
        from scipy.interpolate import CubicHermiteSpline

        widths = np.diff(pieces.edges)
        density = _Density(pieces.edges[:-1] + widths / 2, widths, share)
        inner = (pieces.edges[:-1, None] + widths[:, None] * (np.arange(PARTS) / PARTS)).ravel()
        steps = np.arange(1, BEYOND + 1) / PARTS
        before, after = pieces.low - widths[0] * steps[::-1], pieces.high + widths[-1] * steps
        edges = np.concatenate([before, inner, [pieces.high], after])  # (E,)
        turns, weights = np.polynomial.legendre.leggauss(NODES)
        spots = edges[:-1, None] + np.diff(edges)[:, None] * (turns + 1) / 2  # (E-1, NODES)
        mass = (density(spots.ravel()).reshape(spots.shape) @ weights) * np.diff(edges) / 2
        variable = np.concatenate([[0.0], np.cumsum(mass)])  # τ, (E,)
        variable -= variable[BEYOND]
        total = variable[-1 - BEYOND]
        cells = int(np.ceil(total))
        places = (np.arange(cells + 2 * GHOSTS) - GHOSTS + 0.5) * (total / cells)  # (N-1,)
        ties = CubicHermiteSpline(variable, edges, 1 / density(edges))(places)
        return cls(pieces.low, pieces.high, ties, GAMMA * density(ties) * (cells / total))

    @property
    def size(self) -> int:
        """Number of tokens, N."""
        return len(self.ties) + 1

    def points(self, each: int) -> Floats:
        """Points from end to end, `each` between neighbouring ties, (S,)."""
        inside = self.ties[(self.ties > self.low) & (self.ties < self.high)]
        marks = np.concatenate([[self.low], inside, [self.high]])
        between = marks[:-1, None] + np.diff(marks)[:, None] * (np.arange(each) / each)
        return np.clip(np.append(between.ravel(), self.high), self.low, self.high)

    def head(self, first: int, last: int) -> tuple[Tokens, float]:
        """The tokens first .. last-1 with scores in `x - origin`, and the origin.

        Origin and level, where slope and offset are zero, are chosen so that scores are small where they matter:
        `max over x of |x - origin| |slope(x) - slope(level)|` is least.
        """
        ties, rises = self.ties[first : last - 1], self.rises[first : last - 1]
        count = last - first
        looked = np.unique(np.linspace(0, count - 1, min(LEVELS, count)).astype(np.int64))
        slopes = np.concatenate([[0.0], np.cumsum(rises)])  # (n,)
        spots = np.concatenate([ties[:1], ties])[looked] if len(ties) else np.array([self.low])
        span = spots[0] + (spots[-1] - spots[0]) / 2
        finest = spots[int(np.argmax(np.concatenate([rises[:1], rises])[looked]))] if len(ties) else span
        far = np.abs(slopes[looked][:, None] - slopes[looked])  # (places, levels)
        worst = [(np.abs(spots - origin)[:, None] * far).max(axis=0) for origin in (span, finest)]
        choice = int(np.argmin([each.min() for each in worst]))
        origin, level = float((span, finest)[choice]), int(looked[int(np.argmin(worst[choice]))])
        return Tokens(sums_from(rises, level)[:, None], sums_from(-rises * (ties - origin), level)), origin


@dataclass(frozen=True, eq=False)
class _Density:
    """m(x)."""

    centres: Floats  # (P,)
    widths: Floats  # (P,)
    share: Floats  # (P,)

    def __call__(self, points: Floats) -> Floats:
        """At increasing points (S,); each piece adds to those within its reach."""
        unit = float(self.widths.max())  # powers of 1/width would overflow
        first = np.searchsorted(points, self.centres - FAR * self.widths)
        last = np.searchsorted(points, self.centres + FAR * self.widths)
        heights = (self.share * (unit / self.widths)) ** POWER
        total, deadline = np.zeros(len(points)), in_force()
        for start, end, centre, width, height in zip(first, last, self.centres, self.widths, heights, strict=True):
            deadline.check("planning")
            away = (points[start:end] - centre) / (WIDTH * width)
            total[start:end] += height * np.maximum(1 / (1 + away * away) - LAST, 0.0) ** (POWER // 2)
        return np.maximum(total, np.finfo(np.float64).tiny) ** (1 / POWER) / unit
