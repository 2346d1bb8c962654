"""Is what was read from a network what it computes? Its own outputs against the stages that were read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arithmetic.directed import LIBRARY_ULPS
from ..errors import InputError
from ..formula.agreement import Values, rows_of
from .piecewise import PiecewiseLinear


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
