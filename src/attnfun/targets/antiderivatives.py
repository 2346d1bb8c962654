"""The integral of a formula from the lower end of its interval, as a target [T 13.7].

`F(x) = ∫_a^x f`. The interval is cut into panels at whose ends F is enclosed by sums of integrals of Taylor models;
inside a panel F is its value at the nearer end and the integral from there. Its Taylor coefficients are those of f,
`F_{k+1} = f_k/(k+1)`.

>>> from ..domains.box import Box
>>> F = Antiderivative(Expression("cos(x)", Box(0, 2, None).renamed(("x",))))
>>> F.values(np.array([[1.0]])).round(8)
array([[0.84147098]])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arithmetic import Interval, Jet
from ..arithmetic.models import TaylorModels
from ..errors import InputError
from .base import Floats, Status, Target, describe, refuse_nonfinite
from .expression import Expression


@dataclass(frozen=True)
class PanelTuning:
    """How panels are cut. Integrals are enclosed on whatever panels there are."""

    degree: int = 12
    """Degree of the remainder of Taylor models. By trial."""
    first: int = 32
    """Panels to begin with. A round number."""
    most: int = 4096
    """Panels, at most. For time."""
    close: float = 1e-14
    """Panels are cut whose integrals are known to less than this fraction of the integral of |f|. Some units of
    roundoff."""


TUNING = PanelTuning()


class Antiderivative(Target):
    """The integral of a formula in one variable from the lower end of its domain."""

    formula: Expression
    status = Status.PROVED
    kind = "antiderivative"
    output_shape = ()

    def __init__(self, formula: Expression) -> None:
        if formula.domain.size != 1 or formula.output_shape != ():
            raise InputError(
                "an antiderivative needs one variable and one output",
                got=f"{formula.domain.size} variables and values of shape {formula.output_shape}",
            )
        vars(self).update(formula=formula, domain=formula.domain)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the formula."""
        return self.formula.assumptions

    @property
    def continuous(self) -> bool:
        """The integral of a bounded function is."""
        return True

    @property
    def may_jump(self) -> bool:
        """It does not."""
        return False

    def values(self, rows: Floats) -> Floats:
        """Midpoints of enclosures, (B, 1) -> (B, 1)."""
        found = self._at(rows[:, 0])
        known = np.isfinite(found.lo) & np.isfinite(found.hi)
        return refuse_nonfinite(self, rows, np.where(known, found.mid, np.nan)[:, None])

    def explain(self, box: Interval) -> str:
        """That the integral is not known, which is so where the formula is not bounded."""
        return (
            f"the integral of {self.formula.text!r} up to {describe(box, self.domain)} is not: is the formula bounded?"
        )

    def enclose(self, boxes: Interval) -> Interval:
        """From the value at the middle and the range of f: `F(x) = F(m) + ∫_m^x f`, (B, 1) -> (B, 1)."""
        middle, slopes = boxes.mid, self.formula.enclose(boxes)
        off = slopes * (boxes - middle)
        around = self._at(middle[:, 0]).reshape(-1, 1) + Interval(np.minimum(off.lo, 0.0), np.maximum(off.hi, 0.0))
        return Interval(around.lo, around.hi, slopes.defined)

    def jets(self, variables: Jet) -> Jet | None:
        """Series at the variable itself; None at series of it."""
        base, one = variables.basis, np.zeros(variables.basis.size - 1)
        one[:1] = 1.0
        plain = base.variables == 1 and variables.shape[1:] == (1,)
        if not plain or (variables.mid[:, 0, 1:] != one).any() or variables.rad[:, 0, 1:].any():
            return None
        slopes, value = self.formula.jets(variables), self.enclose(variables.value)
        if slopes is None:
            return None
        orders = np.arange(1.0, base.size)
        mid, rad = slopes.mid[..., :-1] / orders, slopes.rad[..., :-1] / orders  # (B, 1, C - 1)
        rad = np.nextafter(rad + np.spacing(np.abs(mid)), np.inf)
        first = Jet.constant(base, value)
        return Jet(
            base,
            np.concatenate([first.mid[..., :1], mid], axis=-1),
            np.concatenate([first.rad[..., :1], rad], axis=-1),
        )

    @cached_property
    def _panels(self) -> tuple[Floats, Interval]:
        """Ends of panels (P + 1,) and enclosures of F there."""
        low, high = self.formula.domain.starts()  # also where this is restricted to a part of it
        ends: Floats = np.linspace(float(low[0, 0]), float(high[0, 0]), TUNING.first + 1)
        while True:
            parts = self._integrals(Interval(ends[:-1, None], ends[1:, None]))
            width = parts.hi - parts.lo
            goal = TUNING.close * parts.magnitude[np.isfinite(width)].sum() / len(width)
            wide = ~(width <= goal) & (ends[:-1] / 2 + ends[1:] / 2 > ends[:-1])
            if not wide.any() or len(ends) + np.count_nonzero(wide) > TUNING.most:
                break
            ends = np.sort(np.concatenate([ends, (ends[:-1] / 2 + ends[1:] / 2)[wide]]))
        sums = [Interval(0.0)]
        for k in range(len(parts)):
            sums.append(sums[-1] + parts[k])
        return ends, Interval(np.array([each.lo for each in sums]), np.array([each.hi for each in sums]))

    def _integrals(self, boxes: Interval) -> Interval:
        """Integrals of f over intervals (B, 1), (B,)."""
        natural = (self.formula.enclose(boxes) * (Interval(boxes.hi) - boxes.lo))[:, 0]
        models = TaylorModels.of(self._slopes, boxes, TUNING.degree)
        if models is None:
            return natural
        series = models.integral()
        return Interval(np.maximum(natural.lo, series.lo), np.minimum(natural.hi, series.hi))

    def _slopes(self, variables: Jet) -> Jet | None:
        """Series of f, (B,)."""
        series = self.formula.jets(variables)
        return None if series is None else series[:, 0]

    def _at(self, points: Floats) -> Interval:
        """Enclosures of F at points of the interval, (B,)."""
        ends, sums = self._panels
        panel = np.clip(np.searchsorted(ends, points, side="right") - 1, 0, len(ends) - 2)
        nearer = panel + (ends[panel + 1] - points < points - ends[panel])
        start = ends[nearer]
        low, high = np.minimum(start, points), np.maximum(start, points)
        step = self._integrals(Interval(low[:, None], high[:, None]))
        back = points < start
        step = Interval(np.where(back, -step.hi, step.lo), np.where(back, -step.lo, step.hi))
        return sums[nearer] + step

    @classmethod
    def described(cls, formula: str) -> dict[str, Any]:
        """What a file says about the integral of a formula."""
        return {"kind": cls.kind, "name": f"integral of {formula}", "formula": formula}

    def as_dict(self) -> dict[str, Any]:
        """Its kind and the formula."""
        return self.described(self.formula.text)

    def identity(self) -> Any:
        """The operations of the formula, and where the integral begins."""
        return [self.kind, self.formula.identity(), float(self.formula.domain.lo.ravel()[0])]

    def __repr__(self) -> str:
        return f"Antiderivative({self.formula!r})"
