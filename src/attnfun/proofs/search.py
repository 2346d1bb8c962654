"""Look for the largest error with points, not boxes: random, corners, then climbing from the worst [T 11.10].

**What an estimate is worth.** The random points depend on the seed and the weights, so no construction has seen them.
Let M be the largest error at n of them, and q the fraction of the domain on which the error exceeds M. Were q larger
than `log(1/δ)/n`, all n points would have missed that set, which has probability `(1 - q)^n < e^{-qn} < δ`. So with
confidence `1 - δ`, errors above M occupy less than `log(1/δ)/n` of the domain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import log

import numpy as np
import numpy.typing as npt

from ..arithmetic.norms import mean
from ..domains.box import Box
from ..network import Network
from ..network.storage import pack
from ..resources.deadline import NEVER, Deadline, until
from ..resources.executors import in_order
from ..runtime.backends.numpy import Prepared, run
from ..targets import Target

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ErrorSearchTuning:
    """How large errors are looked for. An error that is missed makes no bound smaller."""

    climbers: int = 32
    """Points from which the search climbs. A round number."""
    climbs: int = 20
    """Steps of each climb. By trial."""
    smallest: int = 4
    """Points evaluated between two looks at the clock, at least. A round number."""
    largest: int = 256
    """Points evaluated between two looks at the clock, at most. A round number."""


TUNING = ErrorSearchTuning()

DOUBT = 1e-3
"""δ."""


ESTIMATED_FROM = "estimated from "


def worth(points: int) -> str:
    """What an estimate from so many random points says."""
    return (
        f"{ESTIMATED_FROM}{points} random points that the construction has not seen, and by search from the worst; "
        f"larger errors occupy less than {log(1 / DOUBT) / points:.2g} of the domain (confidence {1 - DOUBT:.1%})"
    )


def says_worth(line: str) -> bool:
    """Is it such a line?"""
    return line.startswith(ESTIMATED_FROM)


def stated_points(lines: Iterable[str]) -> int:
    """The number of random points in the first such line; 0 if there is none."""
    line = next(filter(says_worth, lines), f"{ESTIMATED_FROM}0")
    return max(int(line.removeprefix(ESTIMATED_FROM).split()[0]), 0)


def unseen(network: Network, seed: int) -> np.random.Generator:
    """Random numbers that depend on the seed and on every weight."""
    digest = hashlib.sha256()
    for name, tensor in sorted(pack(network)[0].items()):
        digest.update(name.encode() + tensor.tobytes())
    return np.random.default_rng([seed, int.from_bytes(digest.digest()[:8], "big")])


def network_rows(network: Network, rows: Floats) -> Floats:
    """The network on rows: (B, D) -> (B, m)."""
    return run(network, rows.reshape(len(rows), *network.shape_in)).reshape(len(rows), -1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Found:
    """An error met at points, and how many there were."""

    error: float
    points: int
    """All that were evaluated."""
    unseen: int
    """Those of them drawn at random."""
    worst: Floats
    """Where the largest errors are, (K, D); none in L_p."""


def largest_error(target: Target, network: Network, points: int, seed: int, deadline: Deadline = NEVER) -> Found:
    """The largest error at random points, corners, and where climbing leads; deterministic but for the deadline.

    When that is over the points evaluated by then count, one block of random ones at least.
    """
    rng, domain, errors_at = unseen(network, seed), target.domain, _Errors(target, network)
    rows = np.vstack([domain.sample(points, rng), corners(domain)])  # (P, D)
    errors = errors_at.until(deadline, rows)
    step, ends = 2.0 / max(points, 1) ** (1 / domain.size), (domain.lo.ravel(), domain.hi.ravel())
    top, worst, climbs = climbed(errors_at, rows[: len(errors)], errors, step, ends, rng, deadline)
    return Found(float(top.max()), len(errors) + climbs, min(points, len(errors)), worst[top > -np.inf])


class _Errors:
    """Errors of one network at rows: (B, D) -> (B,), -inf outside the domain, inf where an output is no number."""

    def __init__(self, target: Target, network: Network) -> None:
        self.target, self.run, self.shape = target, Prepared(network), network.shape_in

    def __call__(self, rows: Floats) -> Floats:
        inside, errors = self.target.domain.contains(rows), np.full(len(rows), -np.inf)
        if inside.any():
            rows = rows[inside]
            with np.errstate(over="ignore", invalid="ignore"):
                values = self.run(rows.reshape(len(rows), *self.shape)).reshape(len(rows), -1).astype(np.float64)
            with until(NEVER):  # a block is small, and the first one is evaluated in any case
                gaps = np.abs(values - self.target.values(rows))
            errors[inside] = np.where(np.isnan(values), np.inf, gaps).max(axis=1)
        return errors

    def until(self, deadline: Deadline, rows: Floats) -> Floats:
        """Errors at the first of the rows, as many blocks as there is time for, one at least."""
        size = min(max(TUNING.smallest, self.run.block), TUNING.largest)
        chunks = (rows[start : start + size] for start in range(0, len(rows), size))
        return np.concatenate(list(in_order(self, chunks, deadline=deadline)))


def climbed(
    error: Callable[[Floats], Floats],
    rows: Floats,
    errors: Floats,
    step: float,
    ends: tuple[Floats, Floats],
    rng: np.random.Generator,
    deadline: Deadline = NEVER,
) -> tuple[Floats, Floats, int]:
    """Climb from the worst of rows (P, D) inside a box: larger errors, where they are, and the points that took.

    A step is a fraction of the box; one that does not lead upwards is halved. Costs climbers * climbs points.
    """
    low, high = ends
    best = np.argsort(-errors)[: TUNING.climbers]
    rows, errors, spent = rows[best], errors[best], 0
    steps: Floats = np.full(len(rows), step)
    for _ in range(TUNING.climbs):
        if deadline.over:
            break
        tries = np.clip(rows + steps[:, None] * (high - low) * rng.uniform(-1, 1, rows.shape), low, high)
        new = error(tries)
        better = new > errors
        rows, errors = np.where(better[:, None], tries, rows), np.where(better, new, errors)
        steps, spent = np.where(better, steps, steps / 2), spent + len(rows)
    return errors, rows, spent


def mean_error(
    target: Target, network: Network, points: int, seed: int, norm: float, deadline: Deadline = NEVER
) -> Found:
    """The L_p error, estimated from random points of the enclosing box; those outside the domain count as zero."""
    rows = Box.sample(target.domain, points, unseen(network, seed))  # (P, D)
    errors = np.maximum(_Errors(target, network).until(deadline, rows), 0.0)
    return Found(mean(errors, norm) * target.domain.root_volume(norm), len(errors), len(errors), rows[:0])


def corners(domain: Box) -> Floats:
    """Corners of the box, at most 256 of them, (C, D)."""
    low, high = domain.lo.ravel(), domain.hi.ravel()
    axes = min(domain.size, 8)
    picks = np.array(list(product((0, 1), repeat=axes)))  # (C, axes)
    picks = np.hstack([picks, np.zeros((len(picks), domain.size - axes), dtype=int)])
    return np.where(picks == 1, high, low)
