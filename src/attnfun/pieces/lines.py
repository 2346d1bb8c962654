"""The fewest tokens that follow functions on a line: sizes tried upwards, each polished."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import FORMATS, round_to
from ..resources.deadline import NEVER, Deadline
from .polish import TokenFit, TokenTask, lawson
from .potentials import Mesh
from .rounding import levelled
from .singularities import Line
from .solve import NOISE, solved
from .tokens import Tokens

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LineTuning:
    """How the smallest bank on a line is looked for. Sizes are checked on samples and proved later, so these values
    decide tokens and time."""

    unpolished: tuple[tuple[float, int], ...] = ((0.5, 4), (0.3, 6), (0.2, 3))
    """Sharpness γ and ghosts that do well without polish. By trial."""
    starts: tuple[tuple[float, int], ...] = ((0.5, 3), (1.0, 1), (0.3, 3), (0.5, 2), (0.7, 2))
    """Those to start polishing from, most promising first. By trial."""
    few: int = 6
    """Below so many tokens other starts serve better. By trial."""
    few_starts: tuple[tuple[float, int], ...] = ((0.3, 2), (0.5, 1), (1.0, 1), (0.2, 3))
    """The starts for fewer tokens. By trial."""
    tiny: tuple[int, ...] = (1, 2, 3)
    """Sizes always tried. Constants, lines and steps need no more."""
    smallest: int = 8
    """Unpolished sizes grow from here. By trial."""
    growth: float = 1.25
    """They grow by this factor. By trial."""
    polished_share: float = 0.45
    """Polished sizes are tried from this share of the unpolished size. By trial: polish saves about half."""
    largest: int = 96
    """No more tokens than this are polished. Polishing takes the cube of the tokens."""
    per_digit: float = 0.12
    """Expected growth for each missing digit. By trial."""
    shrink: float = 0.7
    """The factor to the next smaller size. By trial."""
    points: int = 10
    """Points sampled for each token; every other one is a check. By trial."""
    fewest_points: int = 33
    """Points sampled at least. By trial."""
    patience: int = 4
    """Sizes tried without a better error before giving up. By trial."""
    converging: float = 0.01
    """Patience counts once the error is this fraction of the functions. By trial."""
    hopeless: float = 1e3
    """Above this multiple of the aim polishing does not go on. By trial."""
    nearly: float = 3.0
    """Below this multiple of the aim the worst samples get emphasis. By trial."""
    negligible: float = 0.1
    """Mixtures of functions this small beside the aim are left out. A round number."""
    worthwhile: float = 1.5
    """An error must fall by this factor for polishing to go on. By trial."""
    parts: int = 8
    """Of banks that reach the aim one token in so many is taken away at a time, then half as many, down to one. By
    trial."""
    candidates: int = 24
    """Tokens without which the values are solved anew, to see which matter least. By trial."""
    levels: int = 129
    """Points at which scores are looked at, to make them small. A round number."""


TUNING = LineTuning()


@dataclass(frozen=True)
class Care:
    """How much work goes into saving tokens."""

    starts: int
    """Shapes to polish from."""
    steps: int
    """Evaluations in a burst of polishing."""
    bursts: int
    """Bursts, as long as each gains a factor of `TUNING.worthwhile`, and as many with emphasis."""
    close: float
    """Sizes that differ by this fraction are as good as equal."""
    removals: int
    """Ways to take a token away that are polished."""


THOROUGH = Care(starts=5, steps=25, bursts=4, close=0.1, removals=3)
QUICK = Care(starts=2, steps=15, bursts=2, close=0.25, removals=0)
"""Less time, more tokens."""


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

    def levelled(self) -> Axis:
        """The same weights, scores as small as can be where they matter."""
        points = np.linspace(self.mesh.low, self.mesh.high, TUNING.levels) - self.origin  # (S,)
        return replace(self, tokens=levelled(self.tokens, points[:, None]))

    def thinned(self, count: int) -> Axis:
        """The same axis with fewer samples, all of them equal."""
        return replace(self, samples=self.mesh.points(count), emphasis=np.ones(1))

    def weights(self, points: Floats) -> Floats:
        """Weights at points of the line, (S,) -> (S, N)."""
        return self.tokens.weights((points - self.origin)[:, None])

    def solved(self, data: Floats) -> Floats:
        """Values of the tokens (N, C) for data at the samples (S, C)."""
        return solved(self.weights(self.samples), data, self.ridge, self.emphasis)


def representable(axes: tuple[Axis, ...], dtype: str) -> tuple[Axis, ...]:
    """Axes whose keys are numbers of `dtype`, sums of offsets included, so that the softmax factors exactly."""
    if FORMATS[dtype].store:
        axes = tuple(axis.levelled() for axis in axes)
    largest = sum(float(np.abs(axis.tokens.offsets).max()) for axis in axes)
    quantum = 2.0 ** (np.ceil(np.log2(max(largest, 1e-300))) + 1 - FORMATS[dtype].bits)
    return tuple(axis.rounded(dtype, quantum) for axis in axes)


class Search:
    """Looks for a small bank on one line, for functions that are sampled as needed."""

    def __init__(
        self,
        line: Line,
        mesh: Mesh,
        aim: float,
        dtype: str,
        least_ridge: float,
        alone: bool,
        care: Care = THOROUGH,
        deadline: Deadline = NEVER,
    ) -> None:
        """Functions `line`: (S,) -> (S, C); the error wanted; the deployed arithmetic.

        Values are penalised by `least_ridge` at least, more if the arithmetic needs it (`solve.py`).
        Samples may be emphasised only if the line is `alone`, not an axis of a product. After the deadline nothing new
        is begun: the best so far is the result.
        """
        self.line, self.mesh, self.aim, self.format = line, mesh, aim, FORMATS[dtype]
        self.least_ridge, self.alone, self.care, self.deadline = least_ridge, alone, care, deadline
        self.origin = mesh.origin
        self.points = mesh.points(TUNING.fewest_points)
        self.values = line(self.points)
        self.tiny, self.unpolished = cache(self._tiny), cache(self._unpolished)  # as long as the search lives

    def smallest(self, most: int) -> tuple[Axis, float]:
        """The smallest axis found that reaches the aim, or the best one with at most `most` tokens, and its error."""
        tried = self.tiny(most)
        if tried[-1].error <= self.aim:
            return self.axis(tried[-1]), tried[-1].error
        tried = [*tried, self.unpolished(most)]
        size = max(TUNING.tiny[-1] + 1, min(int(TUNING.polished_share * tried[-1].tokens.size), TUNING.largest // 2))
        while size <= most and not self.deadline.over:
            tried.append(self.polished(size))
            size = self.next_size(tried, most)
        best = self.leaner(min(tried, key=self.preference))
        return self.axis(best), best.error

    def leaner(self, fit: TokenFit) -> TokenFit:
        """Without the tokens that polishing can make up for, then from starts of their own with one or two fewer."""
        fit = self.removed(fit)
        if self.care.removals < 2:
            return fit
        for size in (fit.tokens.size - 1, fit.tokens.size - 2):
            if self.spares(fit, 1) and size < fit.tokens.size <= TUNING.largest:
                fit = min(fit, self.removed(self.polished(size)), key=self.preference)
        return fit

    def removed(self, fit: TokenFit) -> TokenFit:
        """Tokens taken away, several at a time, as long as what is left can be polished to the aim.

        Each start ends in a minimum of its own. A bank that reaches the aim is a better start for the next smaller one
        than a potential.
        """
        count = max(1, fit.tokens.size // TUNING.parts)
        while count:
            found = self.shortened(fit, count) if self.spares(fit, count) else None
            fit, count = (found, min(count, max(1, found.tokens.size // TUNING.parts))) if found else (fit, count // 2)
        return fit

    def spares(self, fit: TokenFit, count: int) -> bool:
        """May so many tokens be taken from a bank?"""
        enough = TUNING.tiny[-1] + count <= fit.tokens.size <= TUNING.largest
        return enough and fit.error <= self.aim and self.care.removals > 0 and not self.deadline.over

    def shortened(self, fit: TokenFit, count: int) -> TokenFit | None:
        """A bank with so many tokens fewer that is polished to the aim, if one is found."""
        for tokens in self.shorter(fit, count)[: self.care.removals]:
            found = self.improved(self.task(tokens).polished(tokens, self.care.steps, self.deadline))
            if found.error <= self.aim:
                return found
        return None

    def shorter(self, fit: TokenFit, count: int) -> list[Tokens]:
        """Banks with so many tokens fewer: one, or several without a single token, the best first.

        Without token j the average y moves by `w_j (y - v_j) / (1 - w_j)`, which says what to leave out: no two
        neighbours. Two neighbours may also be put together.
        """
        weights = fit.tokens.weights(fit.task.samples)  # (S, N)
        apart = np.abs((weights @ fit.values)[:, None] - fit.values).max(axis=2)  # (S, N)
        moved = (weights * apart / np.maximum(1 - weights, 1e-12)).max(axis=0)  # (N,)
        order = np.argsort(fit.tokens.slopes[:, 0], kind="stable")
        idle = np.argsort(moved[order], kind="stable")  # places along the line
        if count > 1:
            gone = list[int]()
            for place in idle:
                if len(gone) < count and not {place - 1, place + 1} & set(gone):
                    gone.append(int(place))
            return [fit.tokens.without(order[gone])]
        places = idle[: TUNING.candidates]
        tried = [fit.tokens.without(order[place : place + 1]) for place in places]
        tried += [fit.tokens.merged(*order[place : place + 2]) for place in places if place + 1 < len(order)]
        task = self.task(fit.tokens)
        return [found.tokens for found in sorted(map(task.fit, tried), key=lambda found: found.error)]

    def outlook(self, most: int) -> int:
        """About the fewest tokens that polishing will get along with; quick."""
        last = self.tiny(most)[-1]
        return (
            last.tokens.size
            if last.error <= self.aim
            else max(2, int(TUNING.polished_share * self.unpolished(most).tokens.size))
        )

    def foresees(self, tokens: int) -> bool:
        """Is the outlook so many tokens or fewer? Quicker than the outlook where it is not."""
        last = self.tiny(tokens)[-1]
        beyond = int((tokens + 1) / TUNING.polished_share)
        return last.error <= self.aim or self.unpolished(beyond).error <= self.aim

    def _tiny(self, most: int) -> list[TokenFit]:
        """The smallest sizes, until one of them reaches the aim: some functions are heads of two tokens."""
        tried = list[TokenFit]()
        for size in TUNING.tiny[:most]:
            tried.append(self.polished(size))
            if tried[-1].error <= self.aim or self.deadline.over:
                break
        return tried

    def preference(self, fit: TokenFit) -> tuple[bool, float]:
        """Fits that reach the aim come first, by their size; then the others, by their error."""
        reached = fit.error <= self.aim
        return not reached, fit.tokens.size if reached else fit.error

    def next_size(self, tried: list[TokenFit], most: int) -> int:
        """A size between the largest that fails and the smallest that does; beyond `most` if there is nothing to try.

        The error is expected to fall by a digit for every `TUNING.per_digit` more tokens.
        """
        best = min(tried, key=self.preference)
        reached, size = best.error <= self.aim, best.tokens.size
        short = [fit for fit in tried if fit.error > self.aim and not (reached and fit.tokens.size > size)]
        last = max(short, key=lambda fit: fit.tokens.size)
        grown = last.tokens.size * (1 + TUNING.per_digit * min(max(np.log10(last.error / self.aim), 1.0), 5.0))
        if not reached:
            return most + 1 if self.stalled(tried) or last.tokens.size >= TUNING.largest else int(np.ceil(grown))
        if size - last.tokens.size <= max(1, self.care.close * size):
            return most + 1
        return min((size + last.tokens.size) // 2, int(np.ceil(max(grown, TUNING.shrink * size))))

    def stalled(self, tried: list[TokenFit]) -> bool:
        """Do errors no longer fall?"""
        best = min(fit.error for fit in tried)
        return best < min(
            TUNING.converging * np.abs(self.values).max(), *(fit.error for fit in tried[-TUNING.patience :])
        )

    def _unpolished(self, most: int) -> TokenFit:
        """The smallest bank whose potential needs no polish, or the best one if errors stop falling."""
        tried, size = list[TokenFit](), min(TUNING.smallest, most)
        while size <= most:
            shapes = [shape for shape in TUNING.unpolished if size > 2 * shape[1]] or [TUNING.unpolished[-1]]
            tried.append(min((self.start(size, shape) for shape in shapes), key=lambda fit: fit.error))
            if tried[-1].error <= self.aim or self.stalled(tried) or self.deadline.over:
                break
            size = int(np.ceil(TUNING.growth * size))
        return min(tried, key=self.preference)

    def start(self, size: int, shape: tuple[float, int]) -> TokenFit:
        """The potential's own tokens."""
        tokens = self.mesh.tokens(size, *shape)
        return self.task(tokens).fit(tokens)

    def sized(self, size: int) -> tuple[Axis, float]:
        """The best axis of one size, and its error."""
        fit = min(self.polished(size), self.start(size, TUNING.unpolished[0]), key=lambda fit: fit.error)
        return self.axis(fit), fit.error

    def axis(self, fit: TokenFit) -> Axis:
        """The result of a fit."""
        samples = np.clip(fit.task.samples[:, 0] + self.origin, self.mesh.low, self.mesh.high)
        return Axis(self.mesh, fit.tokens, self.origin, fit.task.ridge, samples, fit.task.emphasis)

    def polished(self, size: int) -> TokenFit:
        """The best bank of one size: a burst of polishing from each start, then more for the best."""
        starts = (
            TUNING.few_starts if size < TUNING.few else [shape for shape in TUNING.starts if size > 2 * shape[1] + 1]
        )
        found = list[TokenFit]()
        for shape in starts[: self.care.starts]:
            found.append(self.explored(size, shape))
            if self.deadline.over:
                break
        return self.improved(min(found, key=lambda fit: fit.error))

    def explored(self, size: int, shape: tuple[float, int]) -> TokenFit:
        """One burst of polishing from the potential's own tokens."""
        start = self.start(size, shape)
        return start.task.polished(start.tokens, self.care.steps, self.deadline) if self.worth(start) else start

    def worth(self, fit: TokenFit) -> bool:
        """Is polishing needed, possible and affordable?"""
        return fit.error > self.aim and 1 < fit.tokens.size <= TUNING.largest and not self.deadline.over

    def improved(self, fit: TokenFit) -> TokenFit:
        """More bursts, then emphasis on the worst samples if that may be enough."""
        task, steps = self.task(fit.tokens), self.care.steps
        for _ in range(self.care.bursts):
            if not self.worth(fit) or fit.error > TUNING.hopeless * self.aim:
                return fit
            before, fit = fit, min(fit, task.polished(fit.tokens, steps, self.deadline), key=lambda fit: fit.error)
            if fit.error > before.error / TUNING.worthwhile:
                break
        emphasis = np.ones(len(task.samples))
        for _ in range(self.care.bursts):
            if not self.worth(fit) or fit.error > TUNING.nearly * self.aim or not self.alone:
                break
            emphasis = lawson(emphasis, fit.at_samples)
            moved = replace(task, emphasis=emphasis).polished(fit.tokens, steps // 3, self.deadline)
            fit = min(fit, moved, key=lambda fit: fit.error)
        return fit

    def task(self, tokens: Tokens) -> TokenTask:
        """Samples and checks, enough for so many tokens."""
        points, values = self.sampled(TUNING.points * tokens.size)
        points = (points - self.origin)[:, None]
        values = values @ self.essence(values)
        level = np.array([self.mesh.level - self.origin])
        return TokenTask(points[::2], values[::2], points[1::2], values[1::2], self.ridge(tokens), self.format, level)

    def sampled(self, count: int) -> tuple[Floats, Floats]:
        """At least so many nested points (S,) and values there (S, C); no point is sampled twice."""
        wanted = max(TUNING.fewest_points, 2 ** int(np.ceil(np.log2(count))) + 1)
        while len(self.points) < wanted:
            points = self.mesh.points(2 * len(self.points) - 1)
            points[::2] = self.points
            values = np.empty((len(points), self.values.shape[1]))
            values[::2], values[1::2] = self.values, self.line(points[1::2])
            self.points, self.values = points, values
        step = (len(self.points) - 1) // (wanted - 1)
        return self.points[::step], self.values[::step]

    def essence(self, values: Floats) -> Floats:
        """Orthonormal mixtures (C, C') of many functions that say all there is to `aim`: fewer columns to follow."""
        _, sizes, mixtures = np.linalg.svd(values, full_matrices=False)
        kept = sizes > TUNING.negligible * self.aim
        return mixtures[kept].T if kept.any() else mixtures[:1].T

    def ridge(self, tokens: Tokens) -> float:
        """The penalty on values: what the deployed arithmetic needs, or what costs nothing."""
        logit = float(np.abs(tokens.offsets).max() + 1)
        return max(NOISE * self.format.grain * logit / np.sqrt(tokens.size), self.least_ridge)
