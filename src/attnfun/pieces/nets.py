"""Nets: centres within a distance r of every point of a set that is no box (the covering numbers of [A]) [T 3.6].

*Points*: a subset of the cloud, chosen in one sweep: the next point that no centre covers becomes one. So centres are
more than r apart, and there are at most as many as balls of radius r/2 can be packed. *Region*: the centres of a
lattice of cubes with half-diagonal r, without the cubes that are proved to lie outside. A centre outside the region
takes its value from the nearest point known to be inside (its source), at most `drift` away.

**Bound (ours).** Let every x of the set have a centre within r, N centres, scores `-β|x - c_j|²/2`. Then

    Σ_j w_j |x - c_j|² <= r² + 2 W((N-1)/e)/β,        W = Lambert's function,

so by Jensen a function with Lipschitz constant L has `|f - head| <= L (√(r² + 2 W((N-1)/e)/β) + drift)`. *Proof.* Let
`s_j = -|x - c_j|²/2` and 0 the leader; the left side is `-2 Σ_j w_j s_j`. As `log w_j = log w_0 - β (s_0 - s_j)`,

    β (s_0 - Σ_j w_j s_j) = log w_0 - Σ_j w_j log w_j,

which for a given w_0 is largest if all other weights are equal, that is at equal gaps δ. Then it is
`βδ (N-1) e^{-βδ}/(1 + (N-1) e^{-βδ})`, largest where `βδ - 1 = (N-1) e^{-βδ}`, so at `βδ = 1 + W((N-1)/e)`, and there
it is W((N-1)/e). ∎ We take β such that the square root is 1.1 r.

[A] has `ω(ρ) + osc N e^{-β(ρ² - r²)/2}` for any ρ > r, which falls as β grows and is quoted at a large β.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, e, log, prod, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import lambert_up, norm_up, sum_error
from ..domains.box import Box
from ..resources.deadline import NEVER, Deadline
from ..targets import Target
from ..targets.callables import Lipschitz

Floats = npt.NDArray[np.float64]

STRETCH = 1.1
"""√(mean square distance) over r."""


@dataclass(frozen=True)
class NetTuning:
    """How a net covers a region. Its radius is proved by the cover itself."""

    samples: int = 2048
    """Points at which slopes are taken. A round number."""
    neighbours: int = 8
    """Nearest points that are compared for a slope. By trial."""
    most_cells: int = 2**21
    """Lattice cells looked at; a finer lattice is only counted. For memory."""
    block: int = 2**14
    """Cells looked at a time. For memory."""


TUNING = NetTuning()


@dataclass(frozen=True, eq=False)
class Net:
    """Centres, where their values are taken, and how well they cover the set."""

    centres: Floats  # (N, D)
    sources: Floats  # (N, D)
    radius: float
    """Every point of the set has a centre within this distance."""
    drift: float
    """Largest distance from a centre to its source."""
    size: int
    """N; the arrays are empty if it is only an estimate."""

    @classmethod
    def of(cls, domain: Box, radius: float, deadline: Deadline = NEVER) -> Net:
        """A net for this radius, or TimeLimitReached."""
        cloud = domain.cloud
        return _lattice(domain, radius, deadline) if cloud is None else _sweep(cloud, domain.fill, radius, deadline)

    def beta(self, radius: float) -> float:
        """The sharpness at which the root of the mean square distance is at most STRETCH times `radius`."""
        return max(2 * lambert_up((self.size - 1) / e), 1.0) / ((STRETCH**2 - 1) * radius**2)

    def error(self, slope: float, beta: float) -> float:
        """The bound above."""
        return slope * (sqrt(self.radius**2 + 2 * lambert_up((self.size - 1) / e) / beta) + self.drift)

    def paper_error(self, slope: float, osc: float, beta: float) -> float:
        """[A]'s bound with the best ρ of a list; sources as they are."""
        squares = self.radius**2 + np.linspace(0, 4 * log(self.size) + 80, 400) / beta
        tail = np.exp(log(self.size) + beta * (self.radius**2 - squares) / 2)
        return float((slope * (np.sqrt(squares) + self.drift) + osc * tail).min())


def sampled_slope(target: Target) -> float:
    """A Euclidean Lipschitz constant: declared, or the largest quotient between samples, near ones and random pairs."""
    if isinstance(target, Lipschitz):
        return target.constant
    from scipy.spatial import KDTree

    rng = np.random.default_rng(0)
    rows = np.unique(target.domain.sample(TUNING.samples, rng), axis=0)  # (S, D)
    count = min(TUNING.neighbours + 1, len(rows))
    if count < 2:
        return 0.0
    values = target.values(rows)  # (S, m)
    near = np.asarray(KDTree(rows).query(rows, count)[1])[:, 1:]  # (S, k)
    pairs = np.hstack([near, rng.integers(0, len(rows), (len(rows), TUNING.neighbours))])  # (S, k')
    distance = np.sqrt(((rows[pairs] - rows[:, None]) ** 2).sum(axis=2))
    change = np.abs(values[pairs] - values[:, None]).max(axis=2)
    return float((change / np.where(distance > 0, distance, np.inf)).max())


def _sweep(points: Floats, fill: float, radius: float, deadline: Deadline) -> Net:
    """Points (S, D) and all within `fill` of them; O(S log S) for well spread clouds, one query a centre."""
    from scipy.spatial import KDTree

    tree = KDTree(points)
    covered, chosen = np.zeros(len(points), dtype=bool), []
    for place in range(len(points)):
        if not covered[place]:
            deadline.check("covering the points")
            chosen.append(place)
            covered[tree.query_ball_point(points[place], radius)] = True
    centres = points[chosen]
    distance, _ = KDTree(centres).query(points)
    return Net(centres, centres, float(np.max(distance)) + fill, 0.0, len(centres))


def _lattice(domain: Box, radius: float, deadline: Deadline) -> Net:
    """The cubes of side `2r/√D` that may meet the domain."""
    low, widths = domain.lo.ravel(), (domain.hi - domain.lo).ravel()
    counts = [ceil(min(width / (2 * radius / sqrt(domain.size)), 1e18)) for width in widths]
    sides = widths / counts
    half = sides / 2 + sum_error(np.abs(low) + np.abs(domain.hi.ravel()), 4)  # centres are rounded
    reach, total = float(norm_up(half, axis=0)), prod(counts)
    empty = np.empty((0, domain.size))
    if total > TUNING.most_cells:
        return Net(empty, empty, reach, 0.0, total)
    kept = []
    for start in range(0, total, TUNING.block):
        deadline.check("covering the region")
        index = np.unravel_index(np.arange(start, min(start + TUNING.block, total)), counts)
        centres = low + (np.stack(index, axis=1) + 0.5) * sides  # (b, D)
        kept.append(centres[~domain.excludes(centres - half, centres + half)])
    centres = np.concatenate(kept)
    inside = domain.contains(centres)
    sources = centres.copy()
    if not inside.all():
        from scipy.spatial import KDTree

        known = np.vstack([centres[inside], domain.sample(TUNING.samples, np.random.default_rng(0))])
        sources[~inside] = known[KDTree(known).query(centres[~inside])[1]]
    drift = float(np.sqrt(((sources - centres) ** 2).sum(axis=1)).max())
    return Net(centres, sources, reach, drift, len(centres))
