"""Look for the largest error with points, not boxes: random, corners, then climbing from the worst.

**What an estimate is worth.** The random points depend on the seed and the weights, so no construction has seen them.
Let M be the largest error at n of them, and q the fraction of the domain on which the error exceeds M. Were q larger
than `log(1/δ)/n`, all n points would have missed that set, which has probability `(1 - q)^n < e^{-qn} < δ`. So with
confidence `1 - δ`, errors above M occupy less than `log(1/δ)/n` of the domain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import product
from math import log

import numpy as np
import numpy.typing as npt

from ..backends.numpy import run
from ..domain import Box
from ..interval.norms import mean
from ..network import Network
from ..network.storage import pack
from ..targets import Target

Floats = npt.NDArray[np.float64]

CLIMBERS = 32
CLIMBS = 20
DOUBT = 1e-3
"""δ."""


def worth(points: int) -> str:
    """What an estimate from so many random points says."""
    return (
        f"estimated from {points} random points that the construction has not seen, and by search from the worst; "
        f"larger errors occupy less than {log(1 / DOUBT) / points:.2g} of the domain (confidence {1 - DOUBT:.1%})"
    )


def unseen(network: Network, seed: int) -> np.random.Generator:
    """Random numbers that depend on the seed and on every weight."""
    digest = hashlib.sha256()
    for name, tensor in sorted(pack(network)[0].items()):
        digest.update(name.encode() + tensor.tobytes())
    return np.random.default_rng([seed, int.from_bytes(digest.digest()[:8], "big")])


def network_rows(network: Network, rows: Floats) -> Floats:
    """The network on rows: (B, D) -> (B, m)."""
    return run(network, rows.reshape(len(rows), *network.shape_in)).reshape(len(rows), -1).astype(np.float64)


def largest_error(target: Target, network: Network, points: int, seed: int) -> tuple[float, Floats, int]:
    """(largest error found, where (D,), points evaluated); deterministic for a seed."""
    rng, domain = unseen(network, seed), target.domain
    low, high = domain.lo.ravel(), domain.hi.ravel()

    def error(rows: Floats) -> Floats:
        inside, errors = domain.contains(rows), np.full(len(rows), -np.inf)
        if inside.any():
            rows = rows[inside]
            errors[inside] = np.abs(network_rows(network, rows) - target.values(rows)).max(axis=1)
        return errors

    rows = np.vstack([corners(domain), domain.sample(points, rng)])  # (P, D)
    step = 2.0 / max(points, 1) ** (1 / domain.size)
    errors, tops = climbed(error, rows, error(rows), step, (low, high), rng)
    peak = int(np.argmax(errors))
    return float(errors[peak]), tops[peak], len(rows) + CLIMBS * len(tops)


def climbed(
    error: Callable[[Floats], Floats],
    rows: Floats,
    errors: Floats,
    step: float,
    ends: tuple[Floats, Floats],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Climb from the worst of rows (P, D) inside a box: larger errors, and where they are.

    A step is a fraction of the box; one that does not lead upwards is halved. Costs CLIMBERS * CLIMBS points.
    """
    low, high = ends
    best = np.argsort(-errors)[:CLIMBERS]
    rows, errors = rows[best], errors[best]
    steps = np.full(len(rows), step)
    for _ in range(CLIMBS):
        tries = np.clip(rows + steps[:, None] * (high - low) * rng.uniform(-1, 1, rows.shape), low, high)
        new = error(tries)
        better = new > errors
        rows, errors = np.where(better[:, None], tries, rows), np.where(better, new, errors)
        steps = np.where(better, steps, steps / 2)
    return errors, rows


def mean_error(target: Target, network: Network, points: int, seed: int, norm: float) -> float:
    """The L_p error, estimated from random points of the enclosing box; those outside the domain count as zero."""
    rows = Box.sample(target.domain, points, unseen(network, seed))  # (P, D)
    error, inside = np.zeros(len(rows)), target.domain.contains(rows)
    if inside.any():
        rows = rows[inside]
        error[inside] = np.abs(network_rows(network, rows) - target.values(rows)).max(axis=1)
    return mean(error, norm) * target.domain.root_volume(norm)


def corners(domain: Box) -> Floats:
    """Corners of the box, at most 256 of them, (C, D)."""
    low, high = domain.lo.ravel(), domain.hi.ravel()
    axes = min(domain.size, 8)
    picks = np.array(list(product((0, 1), repeat=axes)))  # (C, axes)
    picks = np.hstack([picks, np.zeros((len(picks), domain.size - axes), dtype=int)])
    return np.where(picks == 1, high, low)
