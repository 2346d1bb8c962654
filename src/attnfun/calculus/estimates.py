"""The same questions where nothing can be enclosed: black boxes and data. The answers are estimates and say so.

Values are the target's where it has values, otherwise the network's. Nothing of this is a proof [T 11.10].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from ..proofs.search import network_rows
from ..targets import Status
from .answers import Enclosure, Extremum, Integral, Roots
from .functions import Floats, Subject

Values = Callable[[Subject, Floats], Floats]

SAMPLES = 4096
"""Points at which target or network are evaluated."""
SHARPER = 3
"""Times that the search goes on around the best point."""


def estimated_integral(subject: Subject) -> Integral:
    """Means over random points, or over equal cells in one variable."""
    domain = subject.function.domain
    if domain.size == 1:
        shares = (np.arange(SAMPLES) + 0.5)[:, None] / SAMPLES  # (B, 1)
        rows = domain.lo.ravel() + shares * (domain.hi - domain.lo).ravel()
    else:
        rows = domain.sample(SAMPLES, np.random.default_rng(subject.certificate.seed))
    volume = float(np.prod(domain.hi - domain.lo))
    target, network = (volume * float(values.mean()) for values in (_target(subject, rows), _network(subject, rows)))
    return Integral(subject.box, _about(target), _about(network), subject.assumptions(True))


def estimated_extremum(subject: Subject, kind: str) -> Extremum:
    """The best of random points, and of points around it."""
    sign = 1.0 if kind == "maximum" else -1.0
    found = [_best(subject, sign, values) for values in (_target, _network)]
    axes = subject.function.domain.axes
    where = [{name: (float(x), float(x)) for name, x in zip(axes, row, strict=True)} for row, _ in found]
    values = [_about(value) for _, value in found]
    return Extremum(subject.box, kind, values[0], values[1], (where[0],), (where[1],), subject.assumptions(True))


def estimated_roots(subject: Subject) -> Roots:
    """Where values at equal distances change their sign."""
    domain = subject.function.domain
    points = np.linspace(float(domain.lo.ravel()[0]), float(domain.hi.ravel()[0]), SAMPLES)
    values = _target(subject, points[:, None])
    found = [_about(float(point)) for point in points[values == 0]]
    for k in np.flatnonzero(values[:-1] * values[1:] < 0):
        root = brentq(lambda x: float(_target(subject, np.array([[x]]))[0]), points[k], points[k + 1])
        found.append(_about(float(root)))  # type: ignore[arg-type]
    ordered = tuple(sorted(found, key=lambda each: each.lo))
    return Roots(subject.box, ordered, (), Status.ESTIMATED, subject.assumptions(True))


def _best(subject: Subject, sign: float, values: Values) -> tuple[Floats, float]:
    """A point (D,) and its value, the largest times `sign` that was found."""
    rng, domain = np.random.default_rng(subject.certificate.seed), subject.function.domain
    low, high = domain.lo.ravel(), domain.hi.ravel()
    rows = domain.sample(SAMPLES, rng)
    for step in range(1, SHARPER + 1):
        point = rows[np.argmax(sign * values(subject, rows))]  # (D,)
        around = point + (high - low) * 16.0**-step * rng.uniform(-1, 1, (SAMPLES // 4, domain.size))
        rows = np.concatenate([point[None], np.clip(around, low, high)])
    found = values(subject, rows)
    best = int(np.argmax(sign * found))
    return rows[best], float(found[best])


def _target(subject: Subject, rows: Floats) -> Floats:
    """Values of the target (B,), or of the network if it has none."""
    if not subject.target.evaluable:
        return _network(subject, rows)
    return subject.target.values(rows)[:, subject.function.output]


def _network(subject: Subject, rows: Floats) -> Floats:
    """Values of the network (B,)."""
    return network_rows(subject.certificate.claim.network, rows)[:, subject.function.output]


def _about(value: float) -> Enclosure:
    return Enclosure(value, value, Status.ESTIMATED)
