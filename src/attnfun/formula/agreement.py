"""Is what was read the function itself? Its own values, called again and in other batches, against what was read.

A Python function is run on numbers and on symbols. A function that remembers earlier calls, draws random numbers, looks
at the other points of a batch or at the type of its argument is not the same on both, and a proof about one says
nothing about the other. So its operations are compared with its values at random points of the domain. The comparison
finds mistakes; it does not prove that there are none.

No tolerance is chosen: float arithmetic, in whatever order it adds up, stays within `Program.computed`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet, Untraceable, directed, join
from ..arithmetic.jets import variables
from ..errors import InputError
from .program import Floats


@dataclass(frozen=True)
class AgreementTuning:
    """How many points and coefficients two readings are compared at."""

    points: int = 128
    """Random points of the domain at which readings are compared. A round number."""
    alone: int = 8
    """Points of these that are also sampled one by one. A round number."""
    numbers: int = 2**18
    """Coefficients of Taylor series that are made for a comparison, at most. For memory."""
    seed: int = 20504
    """Of the random points. Any number: so that the same points come again."""


TUNING = AgreementTuning()


Flags = npt.NDArray[np.bool_]
Values = Callable[[Floats], Floats]
Enclosures = Callable[[Interval], Interval]
Series = Callable[[Jet], Jet | None]


class Sampled(Protocol):
    """Something with random points: a domain."""

    @property
    def size(self) -> int:
        """Number of coordinates, D."""
        ...

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Random rows, (count, D)."""
        ...


def rows_of(domain: Sampled, count: int = TUNING.points) -> Floats:
    """Random points of a domain, (count, D)."""
    return domain.sample(count, np.random.default_rng(TUNING.seed))


def outside(values: Floats, enclosure: Interval) -> Flags:
    """Which finite values (B, m) lie outside their enclosures."""
    return np.isfinite(values) & ~((enclosure.lo <= values) & (values <= enclosure.hi))


def refuse_disagreement(
    name: str, domain: Sampled, values: Values, enclose: Enclosures, first: tuple[Floats, Floats]
) -> None:
    """Compare values with enclosures of single points, in one batch, again, in reverse order and point by point.

    `first` are points and values from the first call. InputError if values at one point differ from call to call by
    more than their enclosure is wide; Untraceable if they do not, but lie outside.
    """
    rows = np.vstack([first[0], rows_of(domain)])
    whole = values(rows)
    batches = np.stack(
        [
            np.vstack([first[1], whole[len(first[1]) :]]),
            whole,
            values(rows),
            values(rows[::-1])[::-1],
            np.vstack([*(values(row[None]) for row in rows[: TUNING.alone]), values(rows[TUNING.alone :])]),
        ]
    )  # (5, B, m)
    regions = [enclose(Interval(rows)), enclose(Interval(rows[::-1]))[::-1]]  # (B, m) each
    with np.errstate(invalid="ignore"):
        least, most = batches.min(axis=0), batches.max(axis=0)  # (B, m)
        changed = most - least > regions[0].hi - regions[0].lo
    for row, column in np.argwhere(changed)[:1]:
        raise InputError(
            f"{name} must return the same value at a point in every call, whatever the other points are",
            got=f"{least[row, column]:.17g} and {most[row, column]:.17g} at {rows[row].tolist()}",
            remedy="Remove random numbers, counters and sums over the batch.",
        )
    for region in regions:
        for row, column in np.argwhere(outside(whole, region))[:1]:
            low, high = region.lo[row, column], region.hi[row, column]
            raise Untraceable(
                f"its value {whole[row, column]:.17g} at {rows[row].tolist()} is not the one that its operations have, "
                f"in [{low:.17g}, {high:.17g}]; it must not look at the type or the number of its arguments"
            )


def refuse_other_series(domain: Sampled, values: Values, enclose: Enclosures, jets: Series) -> None:
    """Compare Taylor series with values, and their slopes with differences; Untraceable where they contradict.

    A function without series has none to compare.

    For x and c in a box on which f has the partial derivatives D_k, `f(x) - f(c)` lies in `Σ_k D_k (x_k - c_k)`.
    """
    size = domain.size
    rows = rows_of(domain, 2 * max(1, min(TUNING.points, TUNING.numbers // (size * (size + 1)))))
    x, c = np.array_split(rows, 2)  # (B, D) each
    series = jets(variables(Interval(np.minimum(x, c), np.maximum(x, c)), 1))  # (B, m)
    if series is None:
        return
    mid, rad = series.mid[..., 1:], series.rad[..., 1:]
    slopes = Interval(directed.add_down(mid, -rad), directed.add_up(mid, rad))  # (B, m, D)
    steps = (Interval(x) - Interval(c)).reshape(len(x), 1, size)
    predicted = (slopes * steps).sum(axis=2)  # (B, m)
    ends = enclose(join([Interval(x), Interval(c)]))
    change = ends[: len(x)] - ends[len(x) :]  # (B, m)
    apart = (change.lo > predicted.hi) | (change.hi < predicted.lo)
    wrong = outside(values(x), series.value) | apart
    if wrong.any():
        row = int(np.argwhere(wrong)[0, 0])
        raise Untraceable(f"its Taylor series contradict its values between {c[row].tolist()} and {x[row].tolist()}")
