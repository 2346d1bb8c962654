"""Functions of one variable put together from operations, as targets of their own [T 7.3].

A composite is a straight line of steps on the variable u; constants are intervals that hold the numbers meant. It runs
on floats, intervals and Taylor series alike, and composites that are surely one function are equal, so that they can
be looked up.

>>> u = Composite.variable()
>>> f = Composite.of("exp", Composite.of("*", u, Composite.number(Interval(2.0))))
>>> f(np.array([0.0, 0.5])), f == Composite.of("exp", Composite.of("*", u, Composite.number(Interval(2.0))))
(array([1.        , 2.71828183]), True)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import Interval, Jet, as_interval
from ..arithmetic.jets import variables
from .functions import FUNCTIONS, LINE, OPERATIONS
from .program import Floats


@dataclass(frozen=True)
class CompositeTuning:
    """How finely the ranges of composed functions are cut."""

    remembered: int = 4096
    """Ranges and slopes that are kept: a proof needs the same ones when it is searched for and when it is checked.
    For memory."""
    largest: float = 1e300
    """Slopes beyond this are none. A round number."""
    cells: int = 64
    """Pieces into which a range is cut to bound a function or its slope. A round number."""
    halvings: int = 60
    """Pieces next to the ends are this many times halved. A round number."""
    edge_steps: int = 200
    """Halvings in the search for the edge of a natural domain. A round number."""


TUNING = CompositeTuning()


class Identity:
    """Which real number an interval stands for: itself if it holds just one, otherwise known by the object alone.

    Different numbers may have equal enclosures. Two intervals are taken for the same number only if they are one
    object, made for that number.
    """

    def __init__(self, interval: Interval) -> None:
        self.interval = interval

    @classmethod
    def of(cls, interval: Interval) -> float | Identity:
        """Something to compare."""
        return float(interval.lo) if interval.lo == interval.hi else cls(interval)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.interval is other.interval

    def __hash__(self) -> int:
        return id(self.interval)


class CompositeStep(NamedTuple):
    """One operation on earlier steps; "variable" and "constant" have none."""

    kind: str
    args: tuple[int, ...] = ()
    value: float | Identity = 0.0
    """The number of a constant."""


@dataclass(frozen=True)
class Composite:
    """A function of one variable; the last step is its value."""

    steps: tuple[CompositeStep, ...]

    @classmethod
    def variable(cls) -> Composite:
        """The identity."""
        return cls((CompositeStep("variable"),))

    @classmethod
    def number(cls, value: Interval) -> Composite:
        """A constant function."""
        return cls((CompositeStep("constant", (), Identity.of(value)),))

    @classmethod
    def of(cls, kind: str, *parts: Composite) -> Composite:
        """An operation applied to composites; common steps are shared."""
        steps: dict[CompositeStep, int] = {}
        last = [part._copied_into(steps) for part in parts]
        step = CompositeStep(kind, tuple(last))
        if step in steps:  # the very operation was a step before: it must come last
            return cls(tuple(steps)[: steps[step] + 1])
        return cls((*steps, step))

    def after(self, inner: Composite) -> Composite:
        """This function of another one."""
        steps: dict[CompositeStep, int] = {}
        last = self._copied_into(steps, inner._copied_into(steps))
        return Composite(tuple(steps)[: last + 1])

    def _copied_into(self, steps: dict[CompositeStep, int], variable: int | None = None) -> int:
        """Add own steps to those there, the variable being an earlier step perhaps; the place of the last one."""
        places: list[int] = []
        for step in self.steps:
            if step.kind == "variable" and variable is not None:
                places.append(variable)
                continue
            moved = step._replace(args=tuple(places[k] for k in step.args))
            places.append(steps.setdefault(moved, len(steps)))
        return places[-1]

    def scaled(self, factor: Interval, shift: Interval) -> Composite:
        """factor · f + shift."""
        result = self if _is(factor, 1.0) else Composite.of("*", self, Composite.number(factor))
        return result if _is(shift, 0.0) else Composite.of("+", result, Composite.number(shift))

    def clipped(self, low: float, high: float) -> Composite:
        """f(min(max(u, low), high)); an infinite end is no end."""
        inner = Composite.variable()
        if np.isfinite(low):
            inner = Composite.of("max", inner, Composite.number(Interval(low)))
        if np.isfinite(high):
            inner = Composite.of("min", inner, Composite.number(Interval(high)))
        return self.after(inner)

    @property
    def text(self) -> str:
        """As a formula in z, constants as midpoints.

        >>> Composite.of("*", Composite.variable(), Composite.of("exp", Composite.variable())).text
        '(z)*(exp(z))'
        """
        texts = list[str]()
        for step in self.steps:
            args = [texts[k] for k in step.args]
            if step.kind == "variable":
                texts.append("z")
            elif step.kind == "constant":
                number = step.value.interval.mid if isinstance(step.value, Identity) else step.value
                texts.append(repr(float(number)))
            elif step.kind == "neg":
                texts.append(f"-({args[0]})")
            elif step.kind == "*" and args[0] == args[1]:
                texts.append(f"({args[0]})**2")
            elif step.kind in ("+", "-", "*", "/", "**"):
                texts.append(f"({args[0]}){step.kind}({args[1]})")
            else:
                texts.append(f"{step.kind}({', '.join(args)})")
        return texts[-1]

    def __call__(self, u: Any) -> Any:
        """On floats (constants as midpoints), intervals or series."""
        return self.run(u)[-1]

    def run(self, u: Any) -> list[Any]:
        """Every step."""
        done: list[Any] = []
        for step in self.steps:
            if step.kind == "variable":
                done.append(u)
            elif step.kind == "constant":
                number = step.value.interval if isinstance(step.value, Identity) else Interval(step.value)
                done.append(_number_for(u, number))
            else:
                done.append(OPERATIONS[step.kind](*(done[k] for k in step.args)))
        return done

    def range(self, low: float, high: float) -> Interval:
        """An enclosure of the values on [low, high], with `defined`."""
        return _range(self, low, high)

    def natural(self, low: float, high: float) -> tuple[float, float]:
        """[low, high] without stretches at its ends on which the function is defined nowhere."""
        return self._edge(high, low), self._edge(low, high)

    def inside(self, low: float, high: float) -> tuple[float, float]:
        """Points next to `low` and `high`, between them, at which the function is surely defined."""
        return _inside(self, low, high)

    def _sure(self, points: Floats) -> Any:
        value = as_interval(self(Interval(points)))
        return np.broadcast_to(value.defined & np.isfinite(value.lo) & np.isfinite(value.hi), points.shape)

    def _edge(self, inner: float, outer: float) -> float:
        """The last place before `outer` that cannot be told from one where the function is defined."""
        bad, good = outer, inner
        if not self._nowhere(outer, outer):
            return outer
        for _ in range(TUNING.edge_steps):
            middle = bad / 2 + good / 2
            if self._nowhere(min(middle, bad), max(middle, bad)):
                bad = middle
            else:
                good = middle
        return bad

    def _nowhere(self, low: float, high: float) -> bool:
        """Is some operation's operand surely outside that operation's natural domain?"""
        done = [as_interval(step) for step in self.run(Interval(low, high))]
        for step in self.steps:
            least, most = self._natural(step)
            if step.args and (done[step.args[0]].hi < least or done[step.args[0]].lo > most):
                return True
        return False

    def _natural(self, step: CompositeStep) -> tuple[float, float]:
        """Where an operation is defined, as far as its first operand goes."""
        if step.kind == "**":
            power = self.steps[step.args[1]]
            number = power.value
            whole = power.kind != "constant" or (isinstance(number, float) and number == np.round(number))
            return LINE if whole else (0.0, np.inf)
        return FUNCTIONS[step.kind].natural if step.kind in FUNCTIONS else LINE

    def quotients(self, low: float, high: float) -> Interval:
        """An interval that holds all difference quotients over [low, high], for they lie between values of f'."""
        return _quotients(self, low, high)

    def steepness(self, low: float, high: float) -> float:
        """A bound on |f'| over [low, high]; inf if there is none."""
        return float(self.quotients(low, high).magnitude)

    def modulus(self, low: float, high: float, distance: float) -> float:
        """A bound on |f(s) - f(t)| over s, t in [low, high] no further apart than `distance`.

        Where f has a bounded slope, slope times distance. At an end where it has none, s or t lies within a window of
        twice the distance from that end, and |f(s) - f(t)| is at most the width of f's range there:

            ω(e) <= max(width f[low, low + 2e], e · sup |f'| on [low + e, high - e], width f[high - 2e, high]).

        (If the smaller of s, t is below low + e, the larger is below low + 2e; otherwise, if the larger is above
        high - e, the smaller is above high - 2e; otherwise both are between.)
        """
        if distance == 0.0 or low == high:
            return 0.0
        slope = self.steepness(low, high)
        if np.isfinite(slope):
            return float(np.nextafter(slope * distance, np.inf))
        if 4 * distance >= high - low:
            return _width(self.range(low, high))
        windows = (low, low + 2.1 * distance), (high - 2.1 * distance, high)
        inner = self.steepness(low + 0.9 * distance, high - 0.9 * distance)
        return max(float(np.nextafter(inner * distance, np.inf)), *(_width(self.range(*ends)) for ends in windows))


def cells(low: float, high: float, count: int = TUNING.cells) -> Interval:
    """Pieces that cover [low, high], about `count` of equal width in the middle, finer and finer towards both ends."""
    shares = np.concatenate([[0.0], 2.0 ** np.arange(-TUNING.halvings, -1), np.linspace(0.0, 0.5, count // 2)])
    cuts = np.concatenate([low + shares * (high - low), [low / 2 + high / 2], high - shares * (high - low)])
    cuts = np.unique(np.clip(np.concatenate([cuts, [low, high]]), low, high))
    return Interval(cuts[:-1], cuts[1:]) if len(cuts) > 1 else Interval(cuts)


def _hull(pieces: Interval) -> Interval:
    return Interval(pieces.lo.min(), pieces.hi.max(), bool(np.all(pieces.defined)))


def _width(range_: Interval) -> float:
    return float(np.nextafter(range_.hi - range_.lo, np.inf))


def _number_for(u: Any, number: Interval) -> Any:
    """A constant in the arithmetic of the variable: a series, an interval or a float."""
    if isinstance(u, Jet):
        return Jet.constant(u.basis, number)
    return number if isinstance(u, Interval) else float(number.mid)


def _is(value: Interval, number: float) -> bool:
    return bool(value.lo == number == value.hi)


@lru_cache(maxsize=TUNING.remembered)
def _range(composite: Composite, low: float, high: float) -> Interval:
    """Composites are values: what is known of one is remembered."""
    return _hull(as_interval(composite(cells(low, high))))


@lru_cache(maxsize=TUNING.remembered)
def _inside(composite: Composite, low: float, high: float) -> tuple[float, float]:
    """Composites are values: what is known of one is remembered."""
    steps = np.concatenate([[0.0], (high - low) * 2.0 ** np.arange(-TUNING.edge_steps, -1)])
    sure = [points[np.argmax(composite._sure(points))] for points in (low + steps, high - steps)]
    return float(sure[0]), float(sure[1])


@lru_cache(maxsize=TUNING.remembered)
def _quotients(composite: Composite, low: float, high: float) -> Interval:
    """Composites are values: what is known of one is remembered."""
    pieces = cells(low, high)
    with np.errstate(all="ignore"):
        series = composite(variables(pieces.reshape(-1, 1), 1)[:, 0])
    if not isinstance(series, Jet):
        return Interval(0.0)
    mid, rad = series.mid[:, 1], series.rad[:, 1]
    least, most = np.nextafter((mid - rad).min(), -np.inf), np.nextafter((mid + rad).max(), np.inf)
    return Interval(least if least > -TUNING.largest else -np.inf, most if most < TUNING.largest else np.inf)
