"""What the questions about a network are answered with: numbers enclosed, each with its status."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import inf, nextafter
from typing import Any

from ..arithmetic import Interval
from ..targets import Status

UPWARDS = Context(prec=2, rounding=ROUND_CEILING)
DOWN, UP = Context(prec=6, rounding=ROUND_FLOOR), Context(prec=6, rounding=ROUND_CEILING)
NARROW = 1e-3
"""Ranges that are narrower than this fraction of their midpoint are shown with a radius."""
NO_DIGIT = 10
"""Of numbers that are smaller than this fraction of their radius no digit is known: they are shown as 0."""
Place = dict[str, tuple[float, float]]
"""A box: the range of each variable."""


@dataclass(frozen=True)
class Enclosure:
    """A number that lies in `[lo, hi]`: proved, conditional, or estimated, in which case both ends are the estimate.

    >>> root = Enclosure(1.4142, 1.4143, Status.PROVED)
    >>> print(root, 1.41421356 in root)
    1.41425 ± 0.000051, proved True
    """

    lo: float
    hi: float
    status: Status

    @property
    def mid(self) -> float:
        """A number in it."""
        return float(Interval(self.lo, self.hi).mid)

    @property
    def radius(self) -> float:
        """An upper bound on the distance from `mid` to either end."""
        return float(Interval(self.lo, self.hi).radius)

    def __contains__(self, number: float) -> bool:
        return self.lo <= number <= self.hi

    def __str__(self) -> str:
        if self.status is Status.ESTIMATED:
            return f"about {self.mid:.8g}, estimated"
        if not math.isfinite(self.radius):
            return f"between {self.lo:g} and {self.hi:g}, {self.status.value}"
        if self.radius == 0.0:
            return f"{self.mid!r}, {self.status.value}"
        return f"{_shown(self.mid, self.radius)}, {self.status.value}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"lo": self.lo, "hi": self.hi, "status": self.status.value}


@dataclass(frozen=True)
class _Answer(ABC):
    """What all answers have."""

    domain: Place
    """The box that it is about: the network's, which is bounded though a formula may have infinite ends."""

    def __str__(self) -> str:
        return f"{self.words()}\nfor {spelled(self.domain)}"

    @abstractmethod
    def words(self) -> str:
        """The answer without its domain."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return _plain(asdict(self))


@dataclass(frozen=True)
class Integral(_Answer):
    """The integral over the domain, of the target and of the network."""

    target: Enclosure
    network: Enclosure
    assumptions: tuple[str, ...] = ()
    """What is taken for granted."""

    def words(self) -> str:
        """Both integrals."""
        return f"integral of the target: {self.target}\nintegral of the network: {self.network}"


@dataclass(frozen=True)
class Extremum(_Answer):
    """The largest or the smallest value on the domain, of the target and of the network, and where it may be taken.

    `where` and `network_where` are boxes: outside of them the value is surely not taken.
    """

    kind: str
    """"maximum" or "minimum"."""
    target: Enclosure
    network: Enclosure
    where: tuple[Place, ...]
    network_where: tuple[Place, ...]
    assumptions: tuple[str, ...] = ()

    def words(self) -> str:
        """Both values, each with its places."""
        lines = [f"{self.kind} of the target: {self.target}", *(f"  at {spelled(place)}" for place in self.where)]
        lines += [f"{self.kind} of the network: {self.network}"]
        return "\n".join(lines + [f"  at {spelled(place)}" for place in self.network_where])


@dataclass(frozen=True)
class Roots(_Answer):
    """The roots of the target on an interval: each of `single` holds exactly one, there are none outside of both lists.

    An interval of `undecided` may hold any number of roots, or none: a root of even order, one at an end of the domain,
    one where the target has a kink.
    """

    single: tuple[Enclosure, ...]
    undecided: tuple[Enclosure, ...]
    status: Status
    assumptions: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.single)

    def words(self) -> str:
        """A line for each interval."""
        enclosed = self.status is not Status.ESTIMATED
        if not self.single and not self.undecided:
            return f"no root{'' if enclosed else ' found'}, {self.status.value}"
        lines = [f"one root: {root}" for root in self.single]
        lines += [f"undecided: [{each.lo!r}, {each.hi!r}]" for each in self.undecided]
        return "\n".join([*lines, f"none elsewhere, {self.status.value}"] if enclosed else lines)


def spelled(place: Place) -> str:
    """A box in words: `x = 0.5 ± 1e-09, y in [0, 1]`."""
    return ", ".join(f"{name} {_range(low, high)}" for name, (low, high) in place.items())


def _range(low: float, high: float) -> str:
    """A narrow range with its radius, a wide one with its ends, rounded outwards."""
    each = Enclosure(low, high, Status.PROVED)
    if low == high:
        return f"= {low!r}"
    if each.radius < NARROW * abs(each.mid):
        return f"= {_shown(each.mid, each.radius)}"
    return f"in [{_end(low, DOWN)}, {_end(high, UP)}]"


def _end(number: float, outwards: Context) -> str:
    """Six digits: the number itself, or one beyond it."""
    text = f"{number:.6g}"
    return text if float(text) == number else f"{outwards.create_decimal(Decimal(number)):g}"


def _shown(mid: float, radius: float) -> str:
    """A number with the digits that are known, and a radius that covers the digits left out."""
    if abs(mid) < max(radius / NO_DIGIT, sys.float_info.min):
        return f"0 ± {UPWARDS.create_decimal(Decimal(nextafter(radius + abs(mid), inf))):g}"
    known = math.log10(max(abs(mid), radius)) - math.log10(radius)
    text = f"{mid:.{min(17, max(3, math.ceil(known) + 2))}g}"
    wide = nextafter(radius + abs(float(text) - mid), inf)
    return f"{text} ± {UPWARDS.create_decimal(Decimal(wide)):g}"


def _plain(value: Any) -> Any:
    if isinstance(value, Status):
        return value.value
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
