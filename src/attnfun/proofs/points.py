"""What single points say about a bound in the sup norm: the last check before a certificate is issued.

A certificate says `|f(x) - net(x)| <= bound` at every real x of the domain, net(x) being whatever the network's dtype
computes there, in any order of summation. At a point x that is given in floats, and so exactly, let

    y        what NumPy computes in that dtype, one of the results that the certificate is about,
    [a, b]   an interval that holds f(x): a formula as the judge reads it, in ball arithmetic, which shares nothing with
             the proof; any other target by its own enclosure of the single point.

Then `max(a - y, y - b) <= |f(x) - y|`, and the left side is computed rounded down. So a true certificate always passes:
no rounding of the search, of f or of this comparison can make the left side larger than the bound. Where f(x) is not
enclosed, the left side is minus infinity. (Networks in bfloat16 and float16 are evaluated in float32, with x and the
weights in their format: it rounds less than the certificate allows for.)

In L_p nothing is compared: a mean over random points may be above a true bound.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import below
from ..domains.box import Box
from ..errors import InputError, SoundnessError
from ..judge import Unreadable, values_at
from ..network import Network
from ..targets import Expression, Status, Target
from .search import network_rows

Floats = npt.NDArray[np.float64]


def refuse_beaten(target: Target, network: Network, bound: float, rows: Floats) -> float:
    """The largest error that points (P, D) of the domain surely have; an error if it is larger than the bound.

    It is the user's if recorded values, or those at the point, contradict what was declared; otherwise attnfun's.
    """
    target = target.observed()
    errors = least_errors(target, network, rows)  # (P,)
    found = float(errors.max(initial=0.0))
    if not found > bound:
        return found
    worst = int(np.argmax(errors))
    place = _spelled(rows[worst], target.domain)
    if contradiction := target.contradiction(rows[worst]):
        raise InputError(
            f"what was declared must be true: {'; '.join(target.assumptions)}. It gives a bound of {bound:.6g}",
            got=f"an error of at least {found:.6g} at {place}, and {contradiction}",
            remedy="Declare a larger lipschitz=.",
        )
    declared = target.status is Status.CONDITIONAL
    reason = "follows from what was declared, which no value contradicts," if declared else "was proved"
    raise SoundnessError(
        f"the bound {bound:.17g} {reason} but does not hold", got=f"an error of at least {found:.17g} at {place}"
    )


def least_errors(target: Target, network: Network, rows: Floats) -> Floats:
    """At each of rows (P, D), an error that the network surely has in its dtype, (P,); infinite where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        values, exact = network_rows(network, rows), enclosed_at(target, rows)  # (P, m)
        errors = below(np.maximum(exact.lo - values, values - exact.hi))
    errors = np.where(np.isnan(errors) | ~np.broadcast_to(exact.defined, errors.shape), -np.inf, errors)
    return np.where(np.isfinite(values), errors, np.inf).max(axis=1)


def enclosed_at(target: Target, rows: Floats) -> Interval:
    """Intervals that hold the target's values at rows, (P, D) -> (P, m)."""
    if isinstance(target, Expression) and len(rows):
        with suppress(Unreadable):  # the judge reads formulas that are nested less deeply than Python's parser does
            return Interval(*values_at(target.text, target.domain.axes, rows))
    return target.enclose(Interval(rows))


def _spelled(row: Floats, domain: Box) -> str:
    """A point in words, to the last digit."""
    return ", ".join(f"{name} = {float(number)!r}" for name, number in zip(domain.shown_axes, row, strict=True))
