"""Points chosen to beat a bound: random, corners, ties between tokens, their float neighbours, and climbs."""

from __future__ import annotations

import numpy as np

import attnfun as af
from attnfun.certificates.search import corners


def hostile_points(net: af.Compiled, count: int, seed: int) -> np.ndarray:
    """Rows (B, D) inside the domain, in float64."""
    rng = np.random.default_rng(seed)
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()
    memory = net.network.attention[0]
    keys = memory.keys()[0]  # (M, k)
    random = net.domain.sample(count, rng)
    pick = rng.integers(0, len(keys), (count, 2))
    slope, offset = keys[:, : net.domain.size], keys[:, net.domain.size]
    centre = ((net.domain.lo + net.domain.hi) / 2).ravel()
    change = slope[pick[:, 0]] - slope[pick[:, 1]]  # (count, D): points where two tokens tie
    near = random - centre
    gap = (change * near).sum(axis=1) + offset[pick[:, 0]] - offset[pick[:, 1]]
    norm = np.maximum((change**2).sum(axis=1), 1e-300)
    ties = centre + near - change * (gap / norm)[:, None]
    edges = random.copy()
    axis = rng.integers(0, net.domain.size, count)
    edges[np.arange(count), axis] = np.where(rng.integers(0, 2, count) == 1, high[axis], low[axis])
    rows = np.vstack([random, ties, edges, corners(net.domain)])
    rows = np.vstack([rows, np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)])
    return np.clip(rows, low, high)


def climb(error, rows: np.ndarray, low: np.ndarray, high: np.ndarray, seed: int, steps: int = 25) -> np.ndarray:
    """Random ascent of `error` from the worst rows; the points reached."""
    rng = np.random.default_rng(seed)
    best = rows[np.argsort(-error(rows))[:64]]
    value, step = error(best), np.full(len(best), 0.05)
    for _ in range(steps):
        tries = np.clip(best + step[:, None] * (high - low) * rng.normal(size=best.shape), low, high)
        new = error(tries)
        better = new > value
        best, value = np.where(better[:, None], tries, best), np.where(better, new, value)
        step = np.where(better, step, step / 2)
    return best
