"""Prompts: examples, queries and state rows as one sequence, in units that suit attention.

Rows, in this order (p = number of features, one more for the intercept; m = number of outputs):

    state   2p rows: one for each feature, and its mirror image; or 2pm rows, p for each output, where outputs do not
            share their matrices
    origin  1 row: the point zero of the units, as a query
    data    2n rows: the examples (x_i, y_i) and their mirror images (-x_i, -y_i)
    query   any number of rows x
    padding any number of rows of zeros

The columns of a row are `COLUMNS`. A row and its mirror image differ in the sign of everything but the flags.

*Units.* Column j is measured in a unit u_j, a power of two, so that examples deviate from their mean by at most REACH
and by at most 1 in root mean square. Changing units by powers of two is exact; coefficients come back in the user's
units. A column whose mean is more than FAR units away from zero is measured from a whole number of units near its mean,
as one counts years from 2000: scores of rows that nobody should look at must not outweigh masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..network import Affine
from .registers import Registers

Floats = npt.NDArray[np.float64]
REACH = 8.0
"""Largest deviation from the mean, in units."""
FAR = 64.0
"""Largest mean, in units, of a column that is measured from zero."""


@dataclass(frozen=True)
class PromptTuning:
    """When columns and coefficients count as constant or as zero."""

    constant: float = 2.0**-44
    """Relative spread up to which a column is taken for constant: that of rounding. By trial."""
    small: float = 2.0**-10
    """Coefficients that are all below this count as zero when it comes to relative changes. A round number."""


TUNING = PromptTuning()


def columns(features: int, outputs: int, blocks: int = 1) -> dict[str, int]:
    """Registers that a prompt fills, and their widths; `blocks` times `features` state rows."""
    return {
        "x": features,  # the point; zero in state rows
        "y": outputs,  # the targets
        "e": features * blocks,  # state rows: which coefficient this row stands for
        "penalty": features * blocks,  # state rows: quadratic penalty, a row of its matrix
        "threshold": 1,  # state rows: linear penalty of that coefficient
        "data": 1,  # flag: an example
        "state": 1,  # flag: a state row
        "counts": 1,  # flag: this row takes part in sums over examples
        "sign": 1,  # 1, or -1 for a mirror image
    }


@dataclass(frozen=True)
class Units:
    """Units of the columns of X and y, and what X is measured from."""

    x: Floats  # (d,)
    y: Floats  # (m,)
    zero: Floats  # (d,)

    @classmethod
    def of(cls, X: Floats, y: Floats, centred: bool, least: float, common: bool, y_unit: float | None) -> Units:
        """Powers of two that fit the examples; `least` bounds those of x from below, `common` makes them equal."""
        away = X - X.mean(axis=0) if centred else X
        spread = np.maximum(np.abs(away).max(axis=0) / REACH, np.sqrt(np.square(away).mean(axis=0)))
        spread = np.where(spread > TUNING.constant * np.abs(X).max(axis=0), spread, 0.0)
        if common:
            spread = np.full_like(spread, spread.max())
        y_units = power_of_two(np.abs(y).max(axis=0)) if y_unit is None else np.full(y.shape[1], y_unit)
        units = power_of_two(np.maximum(spread, least))
        middle = np.rint(X.mean(axis=0) / units) if centred else np.zeros(len(units))
        return cls(units, y_units, np.where(np.abs(middle) > FAR, middle * units, 0.0))

    def points(self, X: Floats) -> Floats:
        """Points in these units."""
        return (X - self.zero) / self.x


def power_of_two(sizes: Floats) -> Floats:
    """The smallest powers of two that are not smaller; 1 for zero.

    >>> power_of_two(np.array([0.3, 4.0, 0.0]))
    array([0.5, 4. , 1. ])
    """
    mantissa, exponent = np.frexp(np.where(sizes > 0, sizes, 1.0))
    return np.ldexp(1.0, exponent - (mantissa == 0.5))


@dataclass(frozen=True)
class Answer:
    """What a learner says: coefficients (m, d), intercepts (m,) and values at the queries (k, m)."""

    coefficients: Floats
    intercept: Floats
    values: Floats
    change: float
    """Largest change of a coefficient in the last step, relative to the largest (or `small`), in the prompt's units."""
    peaks: Floats
    """For each step, the largest value of the linear model at an example; empty where the learner needs no bound."""


@dataclass(frozen=True)
class Prompt:
    """A prompt, `rows` (N, width), and what is needed to read the answer: units, and how many rows there are."""

    rows: Floats
    units: Units
    features: int
    intercept: bool
    examples: int
    queries: int
    blocks: int = 1
    centred: bool = True
    """Does the network take off the means of the examples, where there is an intercept?"""

    def read(self, out: Floats) -> Answer:
        """What a network made of this prompt, in the user's units.

        Its output (N, .) is z, x, then the coefficients before and after the last step, then peaks.
        """
        m, p = len(self.units.y), self.features
        each = m // self.blocks  # coefficients of a state row
        state, rest = out[: 2 * p * self.blocks], out[2 * p * self.blocks :]
        last, scaled = (self._coefficients(state[:, at : at + each]) for at in (m + p, m + p + each))  # (p, m) each
        change = float(np.abs(scaled - last).max() / max(np.abs(scaled).max(), TUNING.small))
        w = scaled * self.units.y
        coefficients = (w[: len(self.units.x)] / self.units.x[:, None]).T  # (m, d)
        intercept = np.zeros(m)
        if self.intercept:
            centred = rest[0, m : m + len(self.units.x)] * self.units.x  # (d,): the units' zero minus the mean
            intercept = w[-1] + coefficients @ (centred - self.units.zero)
        first = 1 + 2 * self.examples
        values = rest[first : first + self.queries, :m] * self.units.y  # (k, m)
        return Answer(coefficients, intercept, values, change, state[0, m + p + 2 * each :])

    def reader(self, width: int, shift: float = 0.0) -> Affine:
        """A last layer that puts out coefficients (p, m) in the user's units; outputs are so wide, see `read`.

        `shift` is added to the intercepts, which are in the last row.
        """
        p, m = self.features, len(self.units.y)
        left, right = np.zeros((m, p, len(self.rows))), np.zeros((m, width, m))
        scale = 0.5 / np.append(self.units.x, np.ones(p - len(self.units.x)))  # (p,)
        for k in range(m):
            block, column = (k, 0) if self.blocks > 1 else (0, k)
            rows = 2 * (block * p + np.arange(p))
            left[k, np.arange(p), rows], left[k, np.arange(p), rows + 1] = scale, -scale
            right[k, m + p + m // self.blocks + column, k] = self.units.y[k]
        constant = np.zeros((p, m))
        if shift:
            constant[-1] = shift
        return Affine(right, constant, left)

    def _coefficients(self, state: Floats) -> Floats:
        """State rows (2 p blocks, m / blocks) as coefficients (p, m): what mirror images have in common is rounding."""
        halves = (state[::2] - state[1::2]) / 2
        return np.moveaxis(halves.reshape(self.blocks, self.features, -1), 0, 1).reshape(self.features, -1)


def write(
    X: Floats,
    y: Floats,
    queries: Floats,
    *,
    intercept: bool,
    penalty: float = 0.0,
    threshold: float = 0.0,
    least_unit: float = 0.0,
    common_unit: bool = False,
    y_unit: float | None = None,
    blocks: int = 1,
    gauge: bool = False,
    centred: bool | None = None,
) -> Prompt:
    """The prompt for examples X (n, d), y (n, m) and queries (k, d).

    `penalty` is the factor of Σ w_j²/2 beside the sum over examples (0 for none), `threshold` that of Σ |w_j|; the
    intercept has neither. `blocks` is m for learners with a state row for each coefficient, else 1.

    A softmax loss does not change when all outputs are shifted by the same function, and the solution wanted is that
    with Σ_k w_jk = 0. With `gauge` these sums are penalised, which changes nothing there and makes it unique.

    Points are measured from the mean of the examples if the network takes it off: with an intercept, unless `centred`
    says otherwise.
    """
    centred = intercept if centred is None else centred
    (n, d), m, units = X.shape, y.shape[1], Units.of(X, y, centred, least_unit, common_unit, y_unit)
    features = d + intercept
    count = features * blocks
    _check_reach(queries - (X.mean(axis=0) if centred else 0.0), units)
    X, queries = units.points(X), units.points(queries)
    place = Registers(**columns(features, m, blocks))
    rows = np.zeros((2 * count + 1 + 2 * n + len(queries), place.width))
    state, origin, data, query_rows = np.split(rows, np.cumsum([2 * count, 1, 2 * n]))
    state[:, place["e"]] = mirrored(np.eye(count))
    state[:, place["state"]] = 1.0
    state[:, place["sign"]] = mirrored(np.ones((count, 1)))
    data[:, place["x"]] = mirrored(_points(X, intercept))
    data[:, place["y"]] = mirrored(y / units.y)
    data[:, [place["data"].start, place["counts"].start]] = 1.0
    data[:, place["sign"]] = mirrored(np.ones((n, 1)))
    origin[:, place["x"]] = _points(np.zeros((1, d)), intercept)
    query_rows[:, place["x"]] = _points(queries, intercept)
    origin[:, place["sign"]] = query_rows[:, place["sign"]] = 1.0
    free = np.zeros(int(intercept))
    if penalty or gauge:
        of_one = np.diag(np.append(penalty / units.x**2, free))  # (p, p)
        sums = np.full((blocks, blocks), (n + count) / blocks) * gauge  # 1 on the sum over outputs, in means
        state[:, place["penalty"]] = mirrored(np.kron(np.eye(blocks), of_one) + np.kron(sums, np.eye(features)))
        state[:, place["counts"]] = 1.0
    if threshold:
        strength = np.append(threshold / units.x, free)[None] / units.y[:, None]  # (m, p)
        state[:, place["threshold"]] = np.repeat(strength.reshape(-1, 1), 2, axis=0)
    return Prompt(rows, units, features, bool(intercept), n, len(queries), blocks, bool(centred))


def _check_reach(away: Floats, units: Units) -> None:
    """Queries too far from the examples would break the bound of the read-out."""
    farthest = np.abs(away / units.x).max(initial=0.0)
    if farthest > 1.001 * REACH:
        raise InputError(
            f"queries of a prompt must be within {REACH:g} units of the mean of the examples",
            got=f"{farthest:.3g} units",
            remedy="Use predict, which scales such points; a unit is about the spread of a column.",
        )


def mirrored(rows: Floats) -> Floats:
    """Each row followed by its mirror image: (n, w) -> (2n, w). Neighbours nearly cancel, so sums stay small."""
    return np.stack([rows, -rows], axis=1).reshape(-1, rows.shape[1])


def _points(X: Floats, intercept: bool) -> Floats:
    """Points (k, d) with a feature 1 for the intercept, (k, p)."""
    return np.concatenate([X, np.ones((len(X), int(intercept)))], axis=1)


def stack(prompts: list[Prompt]) -> Floats:
    """Prompts of one width as one batch (B, N, width), the shorter ones padded with rows of zeros."""
    widths = {prompt.rows.shape[1] for prompt in prompts}
    if len(widths) != 1:
        raise InputError(
            "prompts of one batch must have the same numbers of features and outputs", got=f"widths {sorted(widths)}"
        )
    longest = max(len(prompt.rows) for prompt in prompts)
    out = np.zeros((len(prompts), longest, widths.pop()))
    for place, prompt in zip(out, prompts, strict=True):
        place[: len(prompt.rows)] = prompt.rows
    return out
