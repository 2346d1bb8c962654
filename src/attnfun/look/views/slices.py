"""A network and its target along lines and planes through a point of the domain.

>>> import attnfun as af
>>> net = af.compile("x*y + z", domain={"x": (0, 1), "y": (0, 1), "z": (0, 1)}, eps=0.1)
>>> window = look(net)
>>> window.point.tolist(), [line.names for line in lines(window, most=2)]
([0.5, 0.5, 0.5], [('z',), ('x',)])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isinf, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arguments import whole_number
from ...domains.box import Box
from ...errors import InputError
from ...targets import Status
from ...targets.samples import SamplesTarget
from .scales import value_scale

if TYPE_CHECKING:
    from ...compiled import Compiled

Floats = npt.NDArray[np.float64]

COARSE, PROBED = 5, 64
"""Points of a line that only shows how much a network varies along it; axes that are looked at, the first ones."""
TRIES = 512
"""Points among which that of a region is chosen which is nearest to the centre of its box."""
SECTIONS, SECTION_AXES, DULL, FAINT = 16, 16, 0.5, 0.01
"""Points tried for sections of three and more variables; axes along which they are compared; the centre stays unless
the network varies there by less than this fraction of what it does elsewhere; axes count along which it varies by more
than this fraction of what it does along the liveliest."""
NAMED = 6
"""Coordinates of a point that are written out."""


@dataclass(frozen=True, eq=False)
class Window:
    """A network as looked at: one of its outputs, from one point of its domain."""

    net: Compiled
    point: Floats  # (D,)
    output: int = 0
    seen: dict[tuple[str, bytes], Floats] = field(default_factory=dict, repr=False)
    """All outputs at rows, kept so that no panel and no output evaluates them twice."""

    def of_output(self, output: int) -> Window:
        """The same window on another output."""
        return replace(self, output=output)

    @property
    def domain(self) -> Box:
        """Of the network."""
        return self.net.domain

    @cached_property
    def has_target(self) -> bool:
        """May the target be evaluated? Black boxes with a declared constant are not called for a picture."""
        target = self.net.certificate.claim.target
        return target is not None and target.evaluable and target.status is not Status.CONDITIONAL

    @cached_property
    def has_poles(self) -> bool:
        """May the target be unbounded, as in an L_p norm it may?"""
        target = self.net.certificate.claim.target
        if target is None or self.bounded_everywhere or not target.enclosable:
            return False
        return not np.isfinite(target.enclose(target.hull).magnitude).all()

    def ends(self, *values: Floats | None) -> tuple[float, float]:
        """Of one scale for all these values, some of which may be NaN or not be known."""
        known = np.concatenate([each for each in values if each is not None])
        return value_scale(known) if self.has_poles else (float(np.nanmin(known)), float(np.nanmax(known)))

    def values(self, rows: Floats) -> tuple[Floats, Floats | None]:
        """Network and, where it may be evaluated, target: rows (B, D) -> (B,). NaN outside the domain and at poles."""
        found, target = self.network_values(rows), self.net.certificate.claim.target
        if target is None or not self.has_target:
            return found, None
        return found, self._once("target", rows, target.values_or_nan)

    def network_values(self, rows: Floats) -> Floats:
        """Of the network alone: rows (B, D) -> (B,). NaN outside the domain."""
        return self._once("network", rows, lambda some: self.net(self.domain.unflatten(some), outside="allow"))

    def _once(self, kind: str, rows: Floats, function: Callable[[Floats], Floats]) -> Floats:
        """The output looked at, where rows are in the domain; all outputs are kept."""
        key = kind, rows.tobytes()
        if key not in self.seen:
            inside = self.domain.contains(rows)
            outputs = np.full((len(rows), prod(self.net.output_shape)), np.nan)
            outputs[inside] = np.reshape(function(rows[inside]), (int(inside.sum()), outputs.shape[1]))
            self.seen[key] = outputs
        return self.seen[key][:, self.output]

    def slice(self, axes: tuple[int, ...], points: int) -> Slice:
        """The line (one axis) or plane (two) through the point, `points` along each axis."""
        low, high = self.domain.lo.ravel(), self.domain.hi.ravel()
        ticks = tuple(np.linspace(low[axis], high[axis], points) for axis in axes)
        rows = np.tile(self.point, (points ** len(axes), 1))  # (B, D)
        for axis, mesh in zip(axes, np.meshgrid(*ticks, indexing="ij"), strict=True):
            rows[:, axis] = mesh.ravel()
        found, truth = self.values(rows)
        return Slice(axes, tuple(self.domain.axes[axis] for axis in axes), ticks, found, truth)

    @property
    def place(self) -> str:
        """The point in words: x=0.5, y=-0.5, ..."""
        pairs = [f"{name}={value:.3g}" for name, value in zip(self.domain.axes, self.point, strict=True)]
        return ", ".join(pairs[:NAMED]) + (", ..." if len(pairs) > NAMED else "")

    @property
    def cloud(self) -> Floats | None:
        """The points (S, D) of a domain that is a cloud; None for others."""
        return self.domain.cloud

    @property
    def bounded_everywhere(self) -> bool:
        """Does the bound speak of every point, as it does in the sup norm? An L_p bound speaks of the whole."""
        return isinf(self.net.certificate.norm)

    @property
    def word(self) -> str:
        """What to call the bound: an estimate is never called one."""
        status = self.net.certificate.status
        return "estimate" if status is Status.ESTIMATED else f"bound ({status.value})"


@dataclass(frozen=True, eq=False)
class Slice:
    """Values along axes; arrays are (P,) for a line and (P * P,), first axis first, for a plane."""

    axes: tuple[int, ...]
    names: tuple[str, ...]
    ticks: tuple[Floats, ...]
    network: Floats
    target: Floats | None

    @property
    def error(self) -> Floats:
        """|target - network|; NaN where the target may not be evaluated."""
        return np.abs(self.network - (np.nan if self.target is None else self.target))

    def as_map(self, numbers: Floats) -> Floats:
        """Numbers of a plane as an image, (second axis, first axis)."""
        return numbers.reshape(len(self.ticks[0]), len(self.ticks[1])).T

    def growing_error(self, p: float) -> Floats:
        """The L_p error from the lower end of a line up to each of its points, by the trapezoidal rule, (P,)."""
        error = np.nan_to_num(self.error)
        most, length = float(error.max()) or 1.0, float(self.ticks[0][-1] - self.ticks[0][0])
        shares = (error / most) ** p
        steps = np.diff(self.ticks[0]) / length * (shares[1:] + shares[:-1]) / 2
        return np.append(0.0, np.cumsum(steps)) ** (1 / p) * most * length ** (1 / p)


def look(net: Compiled, at: npt.ArrayLike | None = None, output: int = 0) -> Window:
    """The window of a network at a point of its domain.

    By default that is the centre or what is nearest to it; of three and more variables, a point whose sections show
    more, if the network hardly varies along those through the centre.
    """
    outputs = prod(net.output_shape)
    output = whole_number("output", output, 0, outputs - 1)
    if at is None:
        middle = Window(net, _central(net.domain), output)
        return middle if net.domain.size < 3 or middle.cloud is not None else _livelier(middle)
    rows, lead = net.domain.flatten(at)
    if lead or len(rows) != 1:
        raise InputError("at must be one point of the domain", got=f"{len(rows)} points")
    return Window(net, net.domain.admit(rows, "raise")[0], output)


def lines(window: Window, most: int, points: int = 201) -> list[Slice]:
    """The lines through the point along which the network varies most, the first one most."""
    return [window.slice((axis,), points) for axis in leading_axes(window)[:most]]


def leading_axes(window: Window) -> list[int]:
    """The first PROBED axes, ordered by how much the network varies along them. Cost: COARSE evaluations an axis."""
    return np.argsort(-_spreads(window, PROBED), kind="stable").tolist()


def _spreads(window: Window, most: int) -> Floats:
    """How much the network varies along each of the first axes through the point, (A,)."""
    size, (low, high) = window.domain.size, (window.domain.lo.ravel(), window.domain.hi.ravel())
    axes = np.arange(min(size, most))
    rows = np.tile(window.point, (len(axes), COARSE, 1))  # (A, C, D)
    rows[axes, :, axes] = np.linspace(low, high, COARSE, axis=1)[axes]
    found = window.network_values(rows.reshape(-1, size)).reshape(len(axes), COARSE)
    known = np.where(np.isnan(found), window.network_values(window.point[None]), found)
    return np.ptp(known, axis=1).round(9)


def _livelier(middle: Window) -> Window:
    """The window at the centre, or at one of SECTIONS points halfway to the sides if much more can be seen there.

    What is seen along an axis counts beside the most that is seen along it from any of the points, and the axis along
    which least is seen decides; axes along which the network hardly varies anywhere do not count.
    """
    domain, rng = middle.domain, np.random.default_rng(0)
    low, high = domain.lo.ravel(), domain.hi.ravel()
    shares = rng.choice([0.25, 0.75], (SECTIONS, domain.size))  # (S, D)
    rows = low + shares * (high - low)
    windows = [middle, *(replace(middle, point=row) for row in rows[domain.contains(rows)])]
    seen = np.stack([_spreads(window, SECTION_AXES) for window in windows])  # (W, A)
    most = seen.max(axis=0)
    counts = (most > FAINT * most.max()) & (most > 0)
    least = (seen[:, counts] / most[counts]).min(axis=1, initial=1.0)  # (W,)
    return windows[0 if least[0] >= DULL * least.max() else int(np.argmax(least))]


def _central(domain: Box) -> Floats:
    """The centre, or the point of the domain found nearest to it."""
    middle = (domain.lo.ravel() + domain.hi.ravel()) / 2
    if domain.contains(middle[None])[0]:
        return middle
    some = domain.sample(TRIES, np.random.default_rng(0)) if domain.cloud is None else domain.cloud
    scale = (domain.hi - domain.lo).ravel()
    return some[np.argmin((((some - middle) / scale) ** 2).sum(axis=1))]


class HeldOutRows(NamedTuple):
    """The rows of the data, one output of what was measured there, and its prediction while the row was held out."""

    X: Floats  # (n, D)
    y: Floats  # (n,)
    predicted: Floats  # (n,)

    @property
    def residuals(self) -> Floats:
        """Prediction minus truth, (n,)."""
        return self.predicted - self.y


def held_out_rows(window: Window) -> HeldOutRows | None:
    """The rows of a network that was fitted to data in this process; None for others: files do not hold the data."""
    target = window.net.certificate.claim.target
    if not isinstance(target, SamplesTarget) or target.study is None:
        return None
    y = target.samples.y[:, window.output]
    return HeldOutRows(target.samples.X, y, y + target.study.residuals[:, window.output])
