"""Which few coordinates a function really has: sums of parts, and parts that vary along one direction only.

`f = Σ_g f_g` over groups of variables that do not interact needs one head a group instead of a product of all axes, and
`f(x) = g(p·x)` needs one line. Both are found by sampling to within a tolerance; whatever network is built on them is
certified against the target itself, so a wrong guess costs tokens or a failed proof, never a false certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import ULP
from ..arithmetic.jets import variables
from ..targets import Target

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PartTuning:
    """How interactions and directions of a black box are tried. What is overlooked is left to the proof."""

    pairs: int = 96
    """Random points by which interactions and directions are tried. A round number."""
    numbers: int = 2**22
    """Numbers in the largest temporary array. For memory: 32 MiB."""
    step: float = 2.0**-17
    """Difference quotients where no derivative is at hand, as a fraction of the width. About the cube root of
    roundoff."""


TUNING = PartTuning()


@dataclass(frozen=True, eq=False)
class Part:
    """A summand of a target in coordinates `u = P x` of its own."""

    project: Floats  # (r, D), P
    low: Floats  # (r,)
    high: Floats  # (r,)
    anchor: Floats  # (D,), the point of the domain that u = `base` stands for
    base: Floats  # (r,)
    lift: Floats  # (r, D), x = anchor + (u - base) lift
    constant: Floats  # (m,), subtracted from the target

    @property
    def rank(self) -> int:
        """Number of coordinates, r."""
        return len(self.project)

    def values(self, target: Target, coordinates: Floats) -> Floats:
        """The summand at rows of coordinates, (B, r) -> (B, m)."""
        rows = self.anchor + (coordinates - self.base) @ self.lift
        exact = (self.lift != 0).any(axis=0) & np.isin(self.lift, (0.0, 1.0)).all(axis=0)  # copied, not computed
        rows[:, exact] = coordinates @ self.lift[:, exact]
        low, high = target.domain.lo.ravel(), target.domain.hi.ravel()
        return target.values(np.clip(rows, low, high)) - self.constant


def parts_of(target: Target, visible: float, *, lines: bool = True) -> list[Part]:
    """Summands that together differ from the target by about `visible` at most, as far as samples tell.

    Without `lines`, directions other than the axes are not looked for.
    """
    domain = target.domain
    low, high = domain.lo.ravel(), domain.hi.ravel()
    anchor = low + (high - low) / 2
    at_anchor = target.values(anchor[None])[0]
    parts = []
    for number, group in enumerate(_groups(target, visible)):
        constant = np.zeros_like(at_anchor) if number == 0 else at_anchor
        part = _along_axes(group, low, high, anchor, constant)
        line = _along_a_line(target, group, low, high, anchor, constant) if lines and len(group) > 1 else None
        parts.append(line if line is not None and _agree(target, part, line, visible) else part)
    return parts


def _groups(target: Target, visible: float) -> list[list[int]]:
    """Variables that interact, transitively: `f(x) - f(x, x_i→y_i) - f(x, x_j→y_j) + f(x, both)` is not zero."""
    size, rng = target.domain.size, np.random.default_rng(1)
    x, y = target.domain.sample(TUNING.pairs, rng), target.domain.sample(TUNING.pairs, rng)  # (S, D)
    before = target.values(x)
    moved = [_with(x, y, [i]) for i in range(size)]
    alone = [target.values(rows) for rows in moved]
    noise = 64 * ULP * max(float(np.abs(values).max()) for values in [before, *alone])
    label = list(range(size))
    for i in range(size):
        for j in range(i):
            if label[i] == label[j]:
                continue
            mixed = before - alone[i] - alone[j] + target.values(_with(x, y, [i, j]))
            if np.abs(mixed).max() > max(visible, noise):
                old, new = label[i], label[j]
                label = [new if name == old else name for name in label]
    idle = [i for i in range(size) if np.abs(alone[i] - before).max() <= noise]
    groups = [[i for i in range(size) if label[i] == name and i not in idle] for name in sorted(set(label))]
    return [group for group in groups if group] or [[0]]


def _with(x: Floats, y: Floats, axes: list[int]) -> Floats:
    mixed = x.copy()
    mixed[:, axes] = y[:, axes]
    return mixed


def _along_axes(group: list[int], low: Floats, high: Floats, anchor: Floats, constant: Floats) -> Part:
    """The summand of a group of variables, the others at the anchor."""
    select = np.eye(len(low))[group]  # (r, D)
    return Part(select, low[group], high[group], anchor, anchor[group], select, constant)


def _along_a_line(
    target: Target, group: list[int], low: Floats, high: Floats, anchor: Floats, constant: Floats
) -> Part | None:
    """The same summand if its gradients are parallel: along the diagonal of the domain on which p·x varies most."""
    rows = np.tile(anchor, (TUNING.pairs, 1))
    rows[:, group] = target.domain.sample(TUNING.pairs, np.random.default_rng(2))[:, group]
    slopes = gradients(target, rows)[:, :, group].reshape(-1, len(group)) * (high - low)[group]
    _, sizes, axes = np.linalg.svd(slopes, full_matrices=False)
    if sizes[1] > 1e-4 * sizes[0]:
        return None
    direction = np.zeros_like(low)
    direction[group] = axes[0] / (high - low)[group]
    direction /= direction[np.argmax(np.abs(direction))]
    start, end = anchor.copy(), anchor.copy()
    start[group] = np.where(direction < 0, high, low)[group]
    end[group] = np.where(direction < 0, low, high)[group]
    ends = np.array([start @ direction, end @ direction])
    lift = (end - start) / (ends[1] - ends[0])
    return Part(direction[None], ends[:1], ends[1:], start, ends[:1], lift[None], constant)


def gradients(target: Target, rows: Floats) -> Floats:
    """Derivatives at rows, (S, D) -> (S, m, D); by Taylor series where the target has them."""
    size = rows.shape[1]
    step = max(1, TUNING.numbers // (size * (size + 1)))  # series of all variables at a row
    starts = range(0, len(rows), step)
    series = [jet for k in starts if (jet := target.jets(variables(Interval(rows[k : k + step]), 1))) is not None]
    if len(series) == len(starts) and all(np.isfinite(jet.rad).all() for jet in series):
        return np.concatenate([jet.mid[..., 1:] for jet in series])
    low, high = target.domain.lo.ravel(), target.domain.hi.ravel()
    columns = []
    for axis in range(rows.shape[1]):
        step = TUNING.step * (high[axis] - low[axis])
        after, before = (np.clip(rows + sign * step * np.eye(rows.shape[1])[axis], low, high) for sign in (1, -1))
        apart = (after - before)[:, axis, None]
        columns.append((target.values(after) - target.values(before)) / apart)
    return np.stack(columns, axis=2)


def _agree(target: Target, part: Part, line: Part, visible: float) -> bool:
    """Do two descriptions of one summand agree at random points?"""
    rows = target.domain.sample(TUNING.pairs, np.random.default_rng(3))
    first, second = (each.values(target, rows @ each.project.T) for each in (part, line))
    return bool(np.abs(first - second).max() <= visible + 256 * ULP * np.abs(first).max())
