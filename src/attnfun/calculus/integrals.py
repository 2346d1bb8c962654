"""Enclosures of integrals over the domain [T 13.2].

The domain is cut into boxes; on each the integral of the Taylor model, and the volume times the range, hold the
integral of the target; where the target is not bounded, the mean of its absolute value [T 3.7] bounds it. The boxes
that are known least are cut further. What the network's integral differs by is at
most the bound of the certificate times the volume; in L_p, times `volume^(1 - 1/p)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from ..arithmetic import Interval, join
from ..arithmetic.directed import above, below, rounded_up, times_up
from ..resources.deadline import Deadline
from ..targets import Status
from .answers import Enclosure, Integral
from .estimates import estimated_integral
from .functions import Flags, Function, Subject, halves, longest_axis

DEGREES = {1: 12, 2: 8, 3: 6, 4: 4}
"""Degree of the remainder by the number of variables; 2 beyond."""


@dataclass(frozen=True)
class IntegralTuning:
    """How boxes are cut for integrals. Enclosures hold whatever is cut."""

    most_boxes: int = 2**16
    """Boxes into which a domain is cut, at most. For memory."""
    rounds: int = 200
    """Rounds of cutting, at most. A round number."""
    patience: int = 16
    """Rounds of cutting that must halve the width of the enclosure. By trial."""


TUNING = IntegralTuning()


def integral(subject: Subject, tolerance: float, deadline: Deadline) -> Integral:
    """The integral over the domain; its enclosure is about as wide as `tolerance` says, relative to that of |f|."""
    if not subject.target.enclosable:
        return estimated_integral(subject)
    value, seen = enclosed_integral(subject.function, tolerance, deadline)
    defined = seen or subject.certificate.proved  # in L_p almost everywhere, which is enough
    target = Enclosure(float(value.lo), float(value.hi), subject.target_status(defined))
    off = _distance(subject)
    low, high = below(value.lo - off), above(value.hi + off)
    network = Enclosure(float(low), float(high), subject.network_status(defined))
    if network.status is Status.ESTIMATED:
        network = Enclosure(target.mid, target.mid, Status.ESTIMATED)
    return Integral(subject.box, target, network, subject.assumptions(defined))


def _distance(subject: Subject) -> float:
    """How far the integrals of target and network are apart."""
    norm, domain = subject.certificate.norm, subject.function.domain
    bound = subject.bound if isinf(norm) else subject.certificate.bound
    conjugate = 1.0 if isinf(norm) else (inf if norm == 1 else norm / (norm - 1))
    return rounded_up(bound * domain.root_volume(conjugate), 4)


def enclosed_integral(function: Function, tolerance: float, deadline: Deadline) -> tuple[Interval, bool]:
    """An enclosure of the integral over the domain, and whether the function is surely defined there."""
    low, high = function.domain.starts()
    whole = Interval(low, high)
    boxes, values, defined = whole, *_on_boxes(function, whole)
    history: list[float] = []
    for _ in range(TUNING.rounds):
        with np.errstate(over="ignore"):
            widths = values.hi - values.lo
        known = np.isfinite(widths)
        goal, width = tolerance * float(values.magnitude[known].sum()), float(widths.sum())
        history.append(width)
        stalled = len(history) > TUNING.patience and width > history[-1 - TUNING.patience] / 2
        if width <= goal or len(boxes) >= TUNING.most_boxes or deadline.over or (stalled and known.all()):
            break
        cut = widths > max(goal, width / 64) / len(boxes) if known.all() else ~known
        cut &= (boxes.mid > boxes.lo).any(axis=1)
        if not cut.any():
            break
        parts = halves(boxes[cut], longest_axis(boxes[cut], whole))
        new, sure = _on_boxes(function, parts)
        boxes, values = join([boxes[~cut], parts]), join([values[~cut], new])
        defined = np.concatenate([defined[~cut], sure])
    return values.sum(), bool(defined.all())


def _on_boxes(function: Function, boxes: Interval) -> tuple[Interval, Flags]:
    """Integrals over boxes (B, D), (B,), and where the function is surely defined."""
    natural = function.enclose(boxes)
    sides = Interval(boxes.hi) - boxes.lo
    volume = sides[:, 0]
    for axis in range(1, boxes.shape[1]):
        volume = volume * sides[:, axis]
    crude = natural * volume
    models = function.models(boxes, DEGREES.get(boxes.shape[1], 2))
    if models is not None:
        series = models.integral()
        crude = Interval(np.maximum(crude.lo, series.lo), np.minimum(crude.hi, series.hi))
    low, high, defined = crude.lo.copy(), crude.hi.copy(), np.broadcast_to(natural.defined, natural.shape).copy()
    poles = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
    means = function.target.p_means(boxes[poles], 1.0) if len(poles) else None
    if means is not None:
        most = times_up(means[0], volume.hi[poles])
        low[poles], high[poles] = np.fmax(low[poles], -most), np.fmin(high[poles], most)
        defined[poles] |= means[1]
    return Interval(low, high), defined
