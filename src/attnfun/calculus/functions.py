"""One output of a target as a function that can be enclosed on boxes, by intervals and by Taylor models [T 13.1]."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet
from ..arithmetic.models import TaylorModels
from ..domains.box import Box
from ..errors import InputError
from ..proofs import Certificate
from ..proofs.claim import EDGE_ASSUMPTION
from ..proofs.rules.parts import errors_of
from ..targets import Status, Target

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

BATCH = 2**20
"""Coefficients of series that are computed at a time."""


@dataclass(frozen=True)
class Function:
    """One real output of a target on a box, times `sign`."""

    target: Target
    output: int
    sign: float = 1.0

    @property
    def domain(self) -> Box:
        """Where it is looked at."""
        return self.target.domain

    def enclose(self, boxes: Interval) -> Interval:
        """Ranges on boxes (B, D), (B,)."""
        values = self.target.enclose(boxes)[:, self.output]
        return values if self.sign > 0 else -values

    def models(self, boxes: Interval, degree: int) -> TaylorModels | None:
        """Taylor models on boxes; None where the target has no series."""
        step = max(1, BATCH // (2 * degree ** max(1, min(self.domain.size, 4))))
        parts = []
        for start in range(0, len(boxes), step):
            models = TaylorModels.of(self._series, boxes[start : start + step], degree)
            if models is None:
                return None
            parts.append(models)
        mid, rad = (np.concatenate([getattr(part, end) for part in parts]) for end in ("mid", "rad"))
        return TaylorModels(parts[0].basis, mid, rad, boxes)

    def _series(self, variables: Jet) -> Jet | None:
        series = self.target.jets(variables)
        if series is None:
            return None
        values = series[:, self.output]
        return values if self.sign > 0 else -values


@dataclass(frozen=True)
class Subject:
    """The subject of a question: a certified network, one of its outputs, and what is known of both."""

    certificate: Certificate
    function: Function

    @classmethod
    def of(cls, certificate: Certificate, output: int | None) -> Subject:
        """One output of a certificate's network and target."""
        claim = certificate.claim
        count = int(np.prod(claim.output_shape))
        if claim.domain.kind != Box.kind:
            raise InputError(
                "integrals, extreme values and roots need a box as the domain",
                got=repr(claim.domain),
                remedy="Use af.Box.",
            )
        if claim.target is None:
            raise InputError(
                "the code of the target must be available",
                got=repr(claim.description["name"]),
                remedy="Compile the function anew: the code of a Python function is not in a file.",
            )
        if output is None and count > 1:
            raise InputError(
                f"output= must say which of {count} outputs is meant",
                got="none",
                remedy="Pass output=0 for the first one.",
            )
        number = 0 if output is None else output
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
            raise InputError(f"output must be a whole number from 0 to {count - 1}", got=repr(output))
        return cls(certificate, Function(claim.target, number))

    @property
    def target(self) -> Target:
        """The function that the network imitates."""
        return self.function.target

    @property
    def box(self) -> dict[str, tuple[float, float]]:
        """The range of each variable."""
        domain = self.function.domain
        ends = zip(domain.axes, domain.lo.ravel().tolist(), domain.hi.ravel().tolist(), strict=True)
        return {name: (low, high) for name, low, high in ends}

    @property
    def bound(self) -> float:
        """How far target and network are apart, evaluation included, at every point."""
        each = float(errors_of(self.certificate)[self.function.output, -1])
        return min(self.certificate.bound, each + self.certificate.allowance)

    def defined_everywhere(self, seen: bool) -> bool:
        """Was it seen to be defined on the boxes, or does a bound at every point of the domain say so?"""
        return seen or (self.certificate.proved and isinf(self.certificate.norm))

    def target_status(self, defined: bool) -> Status:
        """What an enclosure of the target is worth; it needs no certificate."""
        return (
            self.target.status
            if self.defined_everywhere(defined)
            else Status.weakest([self.target.status, Status.CONDITIONAL])
        )

    def network_status(self, defined: bool) -> Status:
        """What follows for the network."""
        return Status.weakest([self.target_status(defined), self.certificate.status])

    def assumptions(self, defined: bool) -> tuple[str, ...]:
        """Everything that is taken for granted."""
        edge = () if self.defined_everywhere(defined) else (EDGE_ASSUMPTION,)
        return tuple(dict.fromkeys([*self.target.assumptions, *self.certificate.assumptions, *edge]))


def enclosures(function: Function, boxes: Interval, models: TaylorModels | None) -> Interval:
    """The ranges on boxes by intervals and by Taylor models, whichever end is closer, (B,)."""
    natural = function.enclose(boxes)
    if models is None:
        return natural
    series = models.value()
    # both hold the range wherever the function is defined, so that one never misses the other
    low, high = np.maximum(natural.lo, series.lo), np.minimum(natural.hi, series.hi)
    return Interval(low, high, natural.defined)


def halves(boxes: Interval, axis: npt.NDArray[np.int64]) -> Interval:
    """Boxes (B, D) cut in the middle of one axis each, (2B, D); a box whose middle is an end stays as it is, twice."""
    rows, middle = np.arange(len(boxes)), boxes.mid
    first, second = boxes.hi.copy(), boxes.lo.copy()
    first[rows, axis] = second[rows, axis] = middle[rows, axis]
    return Interval(np.concatenate([boxes.lo, second]), np.concatenate([first, boxes.hi]))


def longest_axis(boxes: Interval, whole: Interval) -> npt.NDArray[np.int64]:
    """The axis along which each box is longest, measured by the domain, (B,)."""
    return np.argmax((boxes.hi - boxes.lo) / (whole.hi - whole.lo), axis=1)


def relative_width(boxes: Interval, whole: Interval) -> Floats:
    """The longest side of each box as a share of the domain's, (B,)."""
    return ((boxes.hi - boxes.lo) / (whole.hi - whole.lo)).max(axis=1)
