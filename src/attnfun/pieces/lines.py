"""The fewest tokens that follow functions on a line: sizes tried upwards, each polished."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..dtypes import round_to
from .polish import Fit, Task, lawson
from .potentials import Mesh
from .singularities import Line
from .solve import NOISE, solved
from .tokens import Tokens

Floats = npt.NDArray[np.float64]
Shapes = tuple[tuple[float, int], ...]

SIZES = (
    1,
    2,
    3,
    4,
    6,
    8,
    10,
    12,
    14,
    16,
    20,
    24,
    28,
    32,
    40,
    48,
    56,
    64,
    72,
    80,
    96,
    112,
    128,
    160,
    192,
    256,
    320,
    384,
)
"""Token counts to try."""
SHAPES = ((0.3, 2), (0.5, 1), (1.0, 1), (0.2, 3))
"""Sharpness γ and ghosts to start from."""
FEWEST = 33
"""Points sampled at least."""
SAMPLES = 10
"""Points a token; every other one is a check."""
SURE, LARGE, LARGEST = 6, 20, 96
"""Sizes from which on errors predict the next size, fewer shapes are tried, and nothing is polished."""
HASTE = 0.7
CLOSE = 0.1
"""Sizes that differ by this fraction are as good as equal."""
PATIENCE, CONVERGING = 4, 0.01
"""Sizes tried without a better error before giving up, once the error is this fraction of the functions."""
NEGLIGIBLE = 0.1
"""Mixtures of functions this small beside the aim are left out."""
STEPS = 25
BURSTS = 4
"""Polishing goes on while a burst of STEPS halves the error."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Tokens along one coordinate, scores written in `u - origin`."""

    mesh: Mesh
    tokens: Tokens
    origin: float
    ridge: float
    samples: Floats  # (S,), where the tokens were fitted
    emphasis: Floats  # (S,) or (1,)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return self.tokens.size

    def rounded(self, dtype: str, quantum: float) -> Axis:
        """Slopes and origin in `dtype`, offsets in multiples of `quantum`, so that sums of offsets are exact."""
        tokens = Tokens(round_to(self.tokens.slopes, dtype), np.round(self.tokens.offsets / quantum) * quantum)
        return replace(self, tokens=tokens, origin=float(round_to(self.origin, dtype)))

    def thinned(self, count: int) -> Axis:
        """The same axis with fewer samples, all of them equal."""
        return replace(self, samples=self.mesh.points(count), emphasis=np.ones(1))

    def solved(self, data: Floats) -> Floats:
        """Values of the tokens (N, C) for data at the samples (S, C)."""
        weights = self.tokens.weights((self.samples - self.origin)[:, None])
        return solved(weights, data, self.ridge, self.emphasis)


class Search:
    """Looks for a small bank on one line, for functions that are sampled as needed."""

    def __init__(self, line: Line, mesh: Mesh, aim: float, unit: float, least_ridge: float, alone: bool) -> None:
        """Functions `line`: (S,) -> (S, C); the error wanted; the unit roundoff of the deployed arithmetic.

        Values are penalised by `least_ridge` at least, more if the arithmetic asks for it (`solve.py`).
        Samples may be emphasised only if the line is `alone`, not an axis of a product.
        """
        self.line, self.mesh, self.aim, self.unit = line, mesh, aim, unit
        self.least_ridge, self.alone = least_ridge, alone
        self.origin = mesh.origin
        self.points = mesh.points(FEWEST)
        self.values = line(self.points)

    def smallest(self, most: int) -> tuple[Axis, float]:
        """The smallest axis found that reaches the aim, or the best one with at most `most` tokens, and its error."""
        tried, shapes = [self.best(1, SHAPES)[0]], SHAPES
        while tried[-1].error > self.aim and (size := self.next_size(tried)) <= most:
            fit, shapes = self.best(size, shapes)
            tried.append(fit)
            best = min(fit.error for fit in tried)
            if best < min(CONVERGING * np.abs(self.values).max(), *(fit.error for fit in tried[-PATIENCE:])):
                break
        best = min(tried, key=lambda fit: (fit.error > self.aim, fit.error))
        if best.error <= self.aim:
            best = self.shrunk(best, max((fit.tokens.size for fit in tried if fit.error > self.aim), default=0), shapes)
        return self.axis(best), best.error

    def sized(self, size: int) -> tuple[Axis, float]:
        """The best axis of one size, and its error."""
        fit, _ = self.best(size, SHAPES)
        return self.axis(fit), fit.error

    def axis(self, fit: Fit) -> Axis:
        """The result of a fit."""
        samples = np.clip(fit.task.samples[:, 0] + self.origin, self.mesh.low, self.mesh.high)
        return Axis(self.mesh, fit.tokens, self.origin, fit.task.ridge, samples, fit.task.emphasis)

    def next_size(self, tried: list[Fit]) -> int:
        """Errors fall geometrically with the size: go most of the way to where the aim is expected."""
        size, error = tried[-1].tokens.size, tried[-1].error
        ahead = [other for other in SIZES if other > size] or [2 * size]
        if size < SURE or error >= tried[-2].error:
            return ahead[0]
        rate = np.log(tried[-2].error / error) / (size - tried[-2].tokens.size)
        expected = size + HASTE * np.log(error / self.aim) / rate
        return max((other for other in ahead if other <= min(expected, 2 * size)), default=ahead[0])

    def shrunk(self, best: Fit, failed: int, shapes: Shapes) -> Fit:
        """Bisect between a size that failed and one that did not."""
        while best.tokens.size - failed > max(1, CLOSE * best.tokens.size):
            size = (best.tokens.size + failed) // 2
            fit, shapes = self.best(size, shapes)
            best, failed = (fit, failed) if fit.error <= self.aim else (best, size)
        return best

    def best(self, size: int, shapes: Shapes) -> tuple[Fit, Shapes]:
        """The best polished bank of one size, and the shapes to try next, best first."""
        chosen = tuple(shape for shape in shapes if size < SURE or size - 1 > 2 * shape[1])
        chosen = chosen[:2] if size >= LARGE else chosen
        fits = {shape: self.explore(size, shape) for shape in chosen}
        order = sorted(chosen, key=lambda shape: fits[shape].error)
        others = tuple(shape for shape in SHAPES if shape not in order)
        return self.improve(fits[order[0]]), (*order, *others)

    def explore(self, size: int, shape: tuple[float, int]) -> Fit:
        """One burst of polishing from the potential's own tokens."""
        tokens = self.mesh.tokens(size, *shape).about(np.array([self.origin]))
        task = self.task(tokens)
        start = task.fit(tokens)
        return task.polished(tokens, STEPS) if self.worth(start) else start

    def worth(self, fit: Fit) -> bool:
        """Is polishing needed, possible and affordable?"""
        return fit.error > self.aim and 1 < fit.tokens.size <= LARGEST

    def improve(self, fit: Fit) -> Fit:
        """More bursts, then emphasis on the worst samples if that may be enough."""
        task = self.task(fit.tokens)
        for _ in range(BURSTS):
            if not self.worth(fit):
                return fit
            before, fit = fit, min(fit, task.polished(fit.tokens, STEPS), key=lambda fit: fit.error)
            if fit.error > before.error / 2:
                break
        emphasis = np.ones(len(task.samples))
        for _ in range(BURSTS):
            if not self.worth(fit) or fit.error > 3 * self.aim or not self.alone:
                break
            emphasis = lawson(emphasis, fit.at_samples)
            fit = min(fit, replace(task, emphasis=emphasis).polished(fit.tokens, STEPS // 3), key=lambda fit: fit.error)
        return fit

    def task(self, tokens: Tokens) -> Task:
        """Samples and checks, enough for so many tokens."""
        wanted = max(FEWEST, 2 ** int(np.ceil(np.log2(SAMPLES * tokens.size))) + 1)
        while len(self.points) < wanted:
            points = self.mesh.points(2 * len(self.points) - 1)
            points[::2] = self.points
            values = np.empty((len(points), self.values.shape[1]))
            values[::2], values[1::2] = self.values, self.line(points[1::2])
            self.points, self.values = points, values
        step = (len(self.points) - 1) // (wanted - 1)
        points, values = (self.points[::step] - self.origin)[:, None], self.values[::step]
        values = values @ self.essence(values)
        return Task(points[::2], values[::2], points[1::2], values[1::2], self.ridge(tokens), self.unit)

    def essence(self, values: Floats) -> Floats:
        """Orthonormal mixtures (C, C') of many functions that say all there is to `aim`: fewer columns to follow."""
        _, sizes, mixtures = np.linalg.svd(values, full_matrices=False)
        kept = sizes > NEGLIGIBLE * self.aim
        return mixtures[kept].T if kept.any() else mixtures[:1].T

    def ridge(self, tokens: Tokens) -> float:
        """The penalty on values: what the deployed arithmetic asks for, or what costs nothing."""
        logit = float(np.abs(tokens.offsets).max() + 1)
        return max(NOISE * self.unit * logit / np.sqrt(tokens.size), self.least_ridge)
