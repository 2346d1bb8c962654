"""Points chosen to beat a bound: random, corners, ties between tokens, their float neighbours, and climbs."""

from __future__ import annotations

import numpy as np

import attnfun as af
from attnfun.certificates.search import corners
from attnfun.network import Attention
from attnfun.network.reference import apply
from attnfun.targets import Unanswerable


def hostile_points(net: af.Compiled, count: int, seed: int) -> np.ndarray:
    """Rows (B, D) inside the domain, in float64."""
    rng = np.random.default_rng(seed)
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()
    random = net.domain.sample(count, rng)
    ties = _ties(net, random, rng)
    edges = random.copy()
    axis = rng.integers(0, net.domain.size, count)
    edges[np.arange(count), axis] = np.where(rng.integers(0, 2, count) == 1, high[axis], low[axis])
    rows = np.vstack([random, ties, edges, corners(net.domain)])
    rows = np.vstack([rows, np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)])
    rows = np.clip(rows, low, high)
    return rows[net.domain.contains(rows)]


def _ties(net: af.Compiled, random: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points where two keys have equal scores, or where a piecewise-linear target has a kink, or close to that."""
    count, centre = len(random), ((net.domain.lo + net.domain.hi) / 2).ravel()
    try:
        planes = net.certificate.claim.target.maxima().groups.coefficients  # (G, N, 1+P)
        planes = planes[~planes[..., 1 + net.domain.size :].any(axis=(1, 2))][..., : 1 + net.domain.size]
        group, one, two = (rng.integers(0, size, count) for size in (len(planes), *planes.shape[1:2] * 2))
        plane = planes[group, one] - planes[group, two]
        change, offset = plane[:, 1:], plane[:, 0] + rng.normal(size=count) * 10.0 ** rng.uniform(-12, 0, count)
        centre = np.zeros_like(centre)
    except Unanswerable:
        keys = net.network.attention[0].keys()[0]  # (M, k)
        if len(keys) == 0:
            return random
        pick = rng.integers(0, len(keys), (count, 2))
        gap = keys[pick[:, 0]] - keys[pick[:, 1]]
        queries = _queries(net, np.vstack([centre, centre + np.eye(net.domain.size)]))  # affine in x: (1+D, k)
        change, offset = gap @ (queries[1:] - queries[0]).T, gap @ queries[0]
    near = random - centre
    gap = (change * near).sum(axis=1) + offset
    norm = np.maximum((change**2).sum(axis=1), 1e-300)
    return centre + near - change * (gap / norm)[:, None]


def _queries(net: af.Compiled, rows: np.ndarray) -> np.ndarray:
    """What the first token asks the first head of the first attention layer, (B, D) -> (B, k)."""
    tokens = rows.reshape(len(rows), *net.network.shape_in)
    for layer in net.network.layers:
        if isinstance(layer, Attention):
            return tokens[:, 0] @ layer.query[0] + layer.query_bias[0]
        tokens = apply(layer, tokens)
    raise AssertionError("a network without attention")


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
