"""Is what was read the function itself? Its own values, called again and in other batches, against what was read.

A Python function is run on numbers, on intervals, on Taylor series and on symbols. A function that remembers earlier
calls, draws random numbers, looks at the other points of a batch or at the type of its argument is not the same in all
of them, and a proof about one says nothing about the others. So each reading is compared with the values at random
points of the domain. The comparison finds mistakes; it does not prove that there are none.

No tolerance is chosen: float arithmetic stays within outward-rounded intervals, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arithmetic import Interval, Jet, Untraceable, directed, join
from ..arithmetic.directed import LIBRARY_ULPS
from ..arithmetic.jets import variables
from ..domain import Box, Flags
from ..errors import InputError
from .base import Floats

if TYPE_CHECKING:
    from .piecewise import PiecewiseLinear

POINTS = 128
"""Random points of the domain at which readings are compared."""
ALONE = 8
"""Points of these that are also sampled one by one."""
NUMBERS = 2**18
"""Coefficients of Taylor series that are made for a comparison, at most."""
SEED = 20504

Values = Callable[[Floats], Floats]
Enclosures = Callable[[Interval], Interval]
Series = Callable[[Jet], Jet]


def rows_of(domain: Box, count: int = POINTS) -> Floats:
    """Random points of a domain, (count, D)."""
    return domain.sample(count, np.random.default_rng(SEED))


def outside(values: Floats, enclosure: Interval) -> Flags:
    """Which finite values (B, m) lie outside their enclosures."""
    return np.isfinite(values) & ~((enclosure.lo <= values) & (values <= enclosure.hi))


def refuse_disagreement(
    name: str, domain: Box, values: Values, enclose: Enclosures, first: tuple[Floats, Floats]
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
            np.vstack([*(values(row[None]) for row in rows[:ALONE]), values(rows[ALONE:])]),
        ]
    )  # (5, B, m)
    regions = [enclose(Interval(rows)), enclose(Interval(rows[::-1]))[::-1]]  # (B, m) each
    with np.errstate(invalid="ignore"):
        least, most = batches.min(axis=0), batches.max(axis=0)  # (B, m)
        changed = most - least > regions[0].hi - regions[0].lo
    for row, column in np.argwhere(changed)[:1]:
        raise InputError(
            f"{name} must return the same value at a point whenever it is called, whatever points come with it",
            got=f"{least[row, column]:.17g} and {most[row, column]:.17g} at {rows[row].tolist()}",
            remedy="Take random numbers, counters and sums over the batch out of it.",
        )
    for region in regions:
        for row, column in np.argwhere(outside(whole, region))[:1]:
            low, high = region.lo[row, column], region.hi[row, column]
            raise Untraceable(
                f"its value {whole[row, column]:.17g} at {rows[row].tolist()} is not the one that it has on intervals, "
                f"[{low:.17g}, {high:.17g}]"
            )


def refuse_misread(
    target: PiecewiseLinear, run: Values, dtype: np.dtype[Any], activate: Values = lambda values: values
) -> None:
    """Compare stages that were read from a network with the framework's own output, `activate(stages)` in `dtype`.

    Both may be off by rounding: in a stage of n inputs, sums in any order add at most `(n + 2) u (|h| |W| + |b|)`, and
    earlier errors go through |W|. Clipping widens nothing, nor do the output activations that classifiers have; these
    are accurate to a few units in the last place of numbers up to 1.
    """
    low, high = target.domain.lo.reshape(1, -1), target.domain.hi.reshape(1, -1)
    rows = np.vstack([low, high, rows_of(target.domain)]).astype(dtype).astype(np.float64)  # (B, D)
    limits = np.finfo(dtype)
    unit, least = (
        2 * float(limits.eps),
        float(limits.tiny),
    )  # four times the unit roundoff: both round, and squares of it
    error, values = np.zeros_like(rows), rows
    for stage in target.stages:
        terms, sizes = len(stage.weight), np.abs(stage.weight)
        error = error @ sizes
        error += (terms + 2) * (unit * (np.abs(values) @ sizes + np.abs(stage.bias) + error) + least)
        values = np.clip(values @ stage.weight + stage.bias, stage.low, stage.high)  # (B, m)
    if activate(values) is not values:
        error, values = error.max(axis=1, keepdims=True) + LIBRARY_ULPS * unit, activate(values)
    found = run(rows.copy()).astype(np.float64)
    if found.size != values.size:
        raise InputError(
            f"{target.name} must return {values.shape[1]} numbers a point, as was read from it",
            got=f"shape {found.shape} for {len(rows)} points",
        )
    found = found.reshape(values.shape)
    for row, column in np.argwhere(~(np.abs(found - values) <= error))[:1]:
        raise InputError(
            f"what was read from {target.name} must be what it computes",
            got=f"{values[row, column]:.9g} as it was read and {found[row, column]:.9g} as it runs, at "
            f"{rows[row].tolist()}",
            remedy="Write it with plain layers: no operation in place, no state, nothing that runs beside them.",
        )


def refuse_other_series(domain: Box, values: Values, enclose: Enclosures, jets: Series) -> None:
    """Compare Taylor series with values, and their slopes with differences; Untraceable where they contradict.

    For x and c in a box on which f has the partial derivatives D_k, `f(x) - f(c)` lies in `Σ_k D_k (x_k - c_k)`.
    """
    size = domain.size
    rows = rows_of(domain, 2 * max(1, min(POINTS, NUMBERS // (size * (size + 1)))))
    x, c = np.array_split(rows, 2)  # (B, D) each
    series = jets(variables(Interval(np.minimum(x, c), np.maximum(x, c)), 1))  # (B, m)
    mid, rad = series.mid[..., 1:], series.rad[..., 1:]
    slopes = Interval(directed.add(mid, -rad)[0], directed.add(mid, rad)[1])  # (B, m, D)
    steps = (Interval(x) - Interval(c)).reshape(len(x), 1, size)
    predicted = (slopes * steps).sum(axis=2)  # (B, m)
    ends = enclose(join([Interval(x), Interval(c)]))
    change = ends[: len(x)] - ends[len(x) :]  # (B, m)
    apart = (change.lo > predicted.hi) | (change.hi < predicted.lo)
    wrong = outside(values(x), series.value) | apart
    if wrong.any():
        row = int(np.argwhere(wrong)[0, 0])
        raise Untraceable(f"its Taylor series contradict its values between {c[row].tolist()} and {x[row].tolist()}")
