"""Banks and functions for `kernels.py`, and how it takes times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import eye_array

import attnfun as af
from attnfun.constructions.heads import Head, assembled
from attnfun.network import Network
from attnfun.network.network import rounded
from attnfun.runtime.kernels import Evaluator

TURNS = 8
GHOSTS, GAMMA = 3, 1.0
RIDGE = 1e-13
"""Penalty on values when they are solved for: it keeps them moderate."""
MOST_SOLVED = 1024
"""Longer axes have sampled values: with so many tokens they are good enough."""


@dataclass(frozen=True)
class Contestant:
    """A way to evaluate, and how many queries it gets in one turn: so few that one thread does them."""

    name: str
    call: Callable[[np.ndarray], Any]
    count: int = 16_000


def rates(contestants: list[Contestant], queries: np.ndarray, turns: int = TURNS) -> list[float]:
    """Queries of each in a second of processor time; they take turns, and the best counts."""
    best = [np.inf] * len(contestants)
    for each in contestants:
        each.call(queries[: min(each.count, 100)])
    for _ in range(turns):
        for number, each in enumerate(contestants):
            part = queries[: each.count]
            began = time.process_time()
            each.call(part)
            best[number] = min(best[number], time.process_time() - began)
    return [min(each.count, len(queries)) / seconds for each, seconds in zip(contestants, best, strict=True)]


def wave(coordinate: np.ndarray, number: int) -> np.ndarray:
    """A factor of `smooth`."""
    return np.sin((7 + number) * coordinate + number)


def smooth(points: np.ndarray) -> np.ndarray:
    """A product of waves of different lengths, in any number of variables."""
    return np.prod([wave(points[..., k], k) for k in range(points.shape[-1])], axis=0)


def error_of(call: Callable[[np.ndarray], Any], rank: int, count: int = 20_000) -> float:
    """The largest error at random points."""
    points = np.random.default_rng(5).uniform(-1, 1, (count, rank))
    return float(np.abs(np.asarray(call(points)).reshape(-1) - smooth(points)).max())


def axis_of(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A uniform bank on [-1, 1]: slopes, offsets, sample points, and the matrix from samples to solved values."""
    spacing = 2 / (count - 1 - 2 * GHOSTS)
    centres, beta = -1 + spacing * (np.arange(count) - GHOSTS), GAMMA / spacing**2
    slopes, offsets = beta * centres, -beta * centres**2 / 2
    if count > MOST_SOLVED:
        return slopes, offsets, centres, eye_array(count)
    samples = np.cos(np.linspace(0, np.pi, 2 * count + 1))
    scores = np.multiply.outer(samples, slopes) + offsets
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return slopes, offsets, samples, np.linalg.solve(weights.T @ weights + RIDGE * np.eye(count), weights.T)


def grid_values(count: int, rank: int) -> np.ndarray:
    """Values of the tokens of `smooth`, which is a product, (count^rank,)."""
    _, _, samples, solve = axis_of(count)
    values = np.ones(1)
    for k in range(rank):
        values = np.multiply.outer(values, solve @ wave(samples, k)).reshape(-1)
    return values


def bank(count: int, rank: int, dtype: str = "float64") -> Network:
    """One head with count^rank tokens."""
    slopes, offsets, _, _ = axis_of(count)

    def grid(column: np.ndarray) -> np.ndarray:
        return np.stack([part.ravel() for part in np.meshgrid(*[column] * rank, indexing="ij")], axis=1)

    values = grid_values(count, rank)[:, None]
    head = Head(np.eye(rank), np.zeros(rank), grid(slopes), grid(offsets).sum(axis=1), values)
    layers = assembled([head], np.zeros(1), 1, (1,))
    return Network(tuple(rounded(layer, dtype) for layer in layers), 1, dtype)


def evaluated(network: Network, rank: int, room: float) -> Evaluator:
    """Fast evaluation of a bank on [-1, 1]^rank."""
    return Evaluator(network, af.Box(np.full(rank, -1.0), np.full(rank, 1.0)), room)
