"""Layers of clipped affine maps as targets: rectifier networks and truncated linear maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number
from ..arithmetic import Interval, Jet
from ..arithmetic.directed import dot_up
from ..arithmetic.forms import Forms, Frame
from ..domains.box import WIDEST, Box
from ..errors import FileFormatError, InputError
from ..formula.maxima import Maxima, References, on_frame
from .base import Floats, Status, Target


class Family(ABC):
    """A function that a user describes without its domain."""

    @abstractmethod
    def on(self, domain: Box) -> Target:
        """The function as a target on a domain."""


@dataclass(frozen=True, eq=False)
class Stage:
    """`clip(h weight + bias, low, high)`, ends may be infinite; rectifiers have low = 0, plain affine maps no ends."""

    weight: Floats  # (d, m)
    bias: Floats  # (m,)
    low: Floats  # (m,)
    high: Floats  # (m,)

    @classmethod
    def affine(cls, weight: Floats, bias: Floats) -> Stage:
        """No clipping."""
        return cls(weight, bias, np.full(len(bias), -np.inf), np.full(len(bias), np.inf))

    def clipped(self, low: float, high: float) -> Stage:
        """The stage with these ends for every unit."""
        return Stage(self.weight, self.bias, np.full(len(self.bias), low), np.full(len(self.bias), high))

    @classmethod
    def restored(cls, arrays: dict[str, Floats], number: int, width: int) -> Stage:
        """A stage from a file, if it is one of so many inputs."""
        weight, bias, low, high = (arrays[f"{number}.{name}"] for name in ("weight", "bias", "low", "high"))
        units = weight.shape[-1:]
        shapes = (weight.shape, bias.shape, low.shape, high.shape) == ((width, *units), units, units, units)
        floats = all(array.dtype == np.float64 for array in (weight, bias, low, high))
        ends = shapes and ((low <= high) & (low < np.inf) & (high > -np.inf)).all()
        if not (ends and floats and np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise FileFormatError(
                f"stage {number} of a target must have float64 weights ({width}, m), biases and ends low <= high",
                got=f"shapes {weight.shape}, {bias.shape}, {low.shape}, {high.shape} of {weight.dtype}, {bias.dtype}",
            )
        return cls(weight, bias, low, high)

    @property
    def is_affine(self) -> bool:
        """Does it clip nothing?"""
        return bool(np.isneginf(self.low).all() and np.isposinf(self.high).all())


class PiecewiseLinear(Target):
    """Stages of clipped affine maps, in real arithmetic, with the very floats given as weights.

    >>> relu = Stage(np.array([[1.0, -1.0]]), np.zeros(2), np.zeros(2), np.full(2, np.inf))
    >>> absolute = PiecewiseLinear([relu, Stage.affine(np.ones((2, 1)), np.zeros(1))], Box(-1, 1), (), "abs")
    >>> absolute.values(np.array([[-0.5], [0.25]]))
    array([[0.5 ],
           [0.25]])
    """

    stages: tuple[Stage, ...]
    name: str
    status = Status.PROVED
    kind = "piecewise linear"

    @property
    def continuous(self) -> bool:
        """Yes."""
        return True

    def __init__(
        self,
        stages: Sequence[Stage],
        domain: Box,
        output_shape: tuple[int, ...],
        name: str,
        assumptions: Sequence[str] = (),
    ) -> None:
        vars(self).update(stages=tuple(stages), domain=domain, output_shape=output_shape, name=name)
        vars(self).update(assumptions=tuple(assumptions))

    def values(self, rows: Floats) -> Floats:
        """The stages in float64."""
        for stage in self.stages:
            rows = np.clip(rows @ stage.weight + stage.bias, stage.low, stage.high)  # (B, m)
        return rows

    def enclose(self, boxes: Interval) -> Interval:
        """The stages in interval arithmetic."""
        for stage in self.stages:
            z = boxes @ stage.weight + stage.bias
            boxes = Interval(np.clip(z.lo, stage.low, stage.high), np.clip(z.hi, stage.low, stage.high), z.defined)
        return boxes

    def jets(self, variables: Jet) -> Jet | None:
        """A single clipped unit of one variable, or an affine map, in Taylor arithmetic; proofs need no more."""
        stage, *more = self.stages
        if not more and stage.is_affine:
            return variables.linear(stage.weight, stage.bias)
        if more or stage.weight.size > 1:
            return None
        z: Any = variables * float(stage.weight[0, 0]) + float(stage.bias[0])
        z = np.maximum(z, float(stage.low[0])) if np.isfinite(stage.low[0]) else z
        return np.minimum(z, float(stage.high[0])) if np.isfinite(stage.high[0]) else z

    def maxima(self) -> Maxima:
        """`clip(z, a, b) = z + max(0, a - z) - max(0, z - b)`, and `max(0, z)` where a = 0 and there is no b."""
        ends = [(np.isfinite(stage.low), np.isfinite(stage.high)) for stage in self.stages]  # ((m,), (m,)) each
        count = sum(int(low.sum() + high.sum()) for low, high in ends)
        references = References(self.domain.lo.ravel(), self.domain.hi.ravel(), count)
        values = references.variables()
        for stage, (low, high) in zip(self.stages, ends, strict=True):
            z = on_frame(values, references).mapped(stage.weight, stage.bias)  # (m,)
            values = z
            rectified = (stage.low == 0) & ~high
            for units, over, sign, kept in (
                (low & rectified, z, 1.0, 0.0),
                (low & ~rectified, _shifted(z, stage.low, -1.0), 1.0, 1.0),
                (high, _shifted(z, -stage.high, 1.0), -1.0, 1.0),
            ):
                if units.any():
                    zero = Forms.constants(np.zeros((int(units.sum()), 1)), z.frame)
                    new = references.maximum(Forms.join([zero, over[units][:, None]], axis=1))  # (units,)
                    values = _added(on_frame(values, references), units, new, sign, kept)
        return references.finished(on_frame(values, references))

    def modulus(self, distances: Floats) -> Floats:
        """Distances through the absolute values of the weights; clipping does not widen them."""
        for stage in self.stages:
            distances = dot_up(distances, np.abs(stage.weight))  # (P, m)
        return distances

    def as_dict(self) -> dict[str, Any]:
        """Kind, name and number of stages; the weights are in `arrays`."""
        given = {"assumptions": list(self.assumptions)} if self.assumptions else {}
        return {"kind": self.kind, "name": self.name, "stages": len(self.stages), **given}

    def arrays(self) -> dict[str, Floats]:
        """The weights by name."""
        return {f"{k}.{name}": array for k, stage in enumerate(self.stages) for name, array in vars(stage).items()}

    @classmethod
    def restored(
        cls, description: dict[str, Any], arrays: dict[str, Floats], domain: Box, output_shape: tuple[int, ...]
    ) -> PiecewiseLinear:
        """The target of a saved network."""
        stages, width = list[Stage](), domain.size
        for number in range(description["stages"]):
            stages.append(Stage.restored(arrays, number, width))
            width = len(stages[-1].bias)
        if not stages or width != prod(output_shape):
            raise FileFormatError(f"a target must have stages that end in {prod(output_shape)} numbers", got=width)
        return PiecewiseLinear(stages, domain, output_shape, description["name"], description.get("assumptions", ()))

    def __repr__(self) -> str:
        widths = [self.stages[0].weight.shape[0], *(len(stage.bias) for stage in self.stages)]
        return f"{type(self).__name__}({self.name}, {'-'.join(map(str, widths))}, {self.domain!r})"


def _shifted(z: Forms, by: Floats, sign: float) -> Forms:
    """`sign * z + by`; infinite shifts are for units that are not used."""
    return z.scaled(np.full(len(by), sign)) + Forms.constants(np.where(np.isfinite(by), by, 0.0), z.frame)


def _added(values: Forms, units: npt.NDArray[np.bool_], new: Forms, sign: float, kept: float) -> Forms:
    """`kept * values + sign * new` at some units."""
    size = int(units.sum())
    total = values[units].scaled(np.full(size, kept)) + new.scaled(np.full(size, sign))
    coefficients, slack = values.coefficients.copy(), values.slack.copy()
    coefficients[units], slack[units] = total.coefficients, total.slack
    return Forms(coefficients, slack, new.frame)


class TruncatedLinear(Family):
    """`f_i(X) = clip(w_i · x_i + t_i, a, b)` for each token x_i of a sequence X (n, d): (..., n, d) -> (..., n).

    >>> f = TruncatedLinear(w=[[1.0, 2.0], [0.0, 1.0]], t=0.5, a=-1, b=1)
    >>> f(np.ones((2, 2)))
    array([1., 1.])
    """

    def __init__(self, w: npt.ArrayLike, t: npt.ArrayLike, a: float, b: float) -> None:
        self.w, shift = np.array(real_array("w", w, most=WIDEST)), real_array("t", t, most=WIDEST)
        if self.w.ndim != 2 or self.w.size == 0:
            raise InputError("w of a truncated linear map must have shape (n, d)", got=self.w.shape)
        try:
            self.t = np.array(np.broadcast_to(shift, self.w.shape[:1]))
        except ValueError:
            raise InputError(
                f"t must be one number, or one for each of {len(self.w)} tokens", got=shift.shape
            ) from None
        self.a, self.b = (real_number(name, end, least=-WIDEST, most=WIDEST) for name, end in (("a", a), ("b", b)))
        if not self.a < self.b:
            raise InputError("the ends of a truncated linear map must have a < b", got=f"a={self.a:g}, b={self.b:g}")

    def __call__(self, X: npt.ArrayLike) -> Floats:
        """Evaluate in float64."""
        points = real_array("points", X)
        if points.shape[-2:] != self.w.shape:
            raise InputError(f"points must have shape (..., {', '.join(map(str, self.w.shape))})", got=points.shape)
        return np.clip((points * self.w).sum(axis=-1) + self.t, self.a, self.b)

    def on(self, domain: Box) -> TruncatedLinearTarget:
        """The target on a box of shape (n, d), or (d,) for a single token."""
        if domain.tokens != self.w.shape:
            raise InputError(
                f"the domain must have the shape {self.w.shape} of w", got=domain.shape, remedy="Use af.Box(lo, hi)."
            )
        return TruncatedLinearTarget(self, domain)


class TruncatedLinearTarget(PiecewiseLinear):
    """A truncated linear map on a domain: one stage with a block for each token."""

    family: TruncatedLinear
    kind = "truncated linear"

    def __init__(self, family: TruncatedLinear, domain: Box) -> None:
        vars(self).update(family=family)
        length, width = family.w.shape
        weight = np.zeros((length, width, length))
        weight[np.arange(length), :, np.arange(length)] = family.w
        stage = Stage.affine(weight.reshape(-1, length), family.t).clipped(family.a, family.b)
        super().__init__([stage], domain, (length,), f"clip(w x + t, {family.a:g}, {family.b:g})")

    def linear_forms(self, frame: Frame) -> Forms:
        """The maps z_i before they are clipped, (n,)."""
        coefficients = np.zeros((len(self.family.w), len(frame.lo)))
        coefficients[:, 0] = self.family.t
        coefficients[:, 1 : 1 + self.domain.size] = self.stages[0].weight.T
        return Forms.exact(coefficients, frame)

    def as_dict(self) -> dict[str, Any]:
        """Kind, name and the two ends."""
        return {"kind": self.kind, "name": self.name, "ends": [self.family.a, self.family.b]}

    def arrays(self) -> dict[str, Floats]:
        """Weights and offsets."""
        return {"w": self.family.w, "t": self.family.t}

    @classmethod
    def restored(
        cls, description: dict[str, Any], arrays: dict[str, Floats], domain: Box, output_shape: tuple[int, ...]
    ) -> PiecewiseLinear:
        """The target of a saved network."""
        del output_shape
        return TruncatedLinear(arrays["w"], arrays["t"], *description["ends"]).on(domain)
