"""Questions about compiled networks; the work is done in the modules beside this one, and in `combine.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..arguments import real_number
from ..resources.deadline import TIME_LIMIT, Deadline
from .algebra import combining
from .extrema import extremum
from .functions import Subject
from .integrals import integral
from .roots import roots

if TYPE_CHECKING:
    from ..compiled import Compiled
    from .answers import Extremum, Integral, Roots

TOLERANCE = 1e-12
"""Width of an enclosure, relative to the size of the values, at which the work stops."""


class Calculus:
    """Integrals, extreme values, roots, derivatives and antiderivatives.

    The domain is `net.domain`, which is bounded even if a formula was given with infinite ends. Enclosures of the
    target are proved where the target can be enclosed. Enclosures of the network have the status of its certificate.
    Where the target can only be sampled, the answers are estimates and say so.
    """

    def integrate(
        self: Any,
        *,
        output: int | None = None,
        tolerance: float = TOLERANCE,
        time_limit: float | Deadline = TIME_LIMIT,
    ) -> Integral:
        """The integral over the domain, of the target and of the network.

        >>> import numpy as np, attnfun as af
        >>> net = af.compile("sin(x)*y", domain={"x": (0, 1), "y": (0, 2)}, eps=1e-2)
        >>> found = net.integrate()
        >>> 2 * (1 - np.cos(1)) in found.target, found.target.radius < 1e-11, found.network.status.value
        (True, True, 'proved')
        """
        return integral(Subject.of(self.certificate, output), _tolerance(tolerance), Deadline.of(time_limit))

    def max(
        self: Any,
        *,
        output: int | None = None,
        tolerance: float = TOLERANCE,
        time_limit: float | Deadline = TIME_LIMIT,
    ) -> Extremum:
        """The largest value on the domain and where it may be taken, of the target and of the network.

        >>> import attnfun as af
        >>> net = af.compile("x*(1 - x)", domain={"x": (0, 1)}, eps=1e-3)
        >>> 0.25 in net.max().target, net.max().network.radius < 2e-3, net.max().target.status.value
        (True, True, 'proved')
        """
        return _extremum(self, "maximum", output, tolerance, time_limit)

    def min(
        self: Any,
        *,
        output: int | None = None,
        tolerance: float = TOLERANCE,
        time_limit: float | Deadline = TIME_LIMIT,
    ) -> Extremum:
        """The smallest value on the domain and where it may be taken, of the target and of the network."""
        return _extremum(self, "minimum", output, tolerance, time_limit)

    def roots(self: Any, *, output: int | None = None, time_limit: float | Deadline = TIME_LIMIT) -> Roots:
        """Intervals that hold exactly one root of the target each, and undecided ones; there is none elsewhere.

        >>> import attnfun as af
        >>> net = af.compile("x**2 - 2", domain={"x": (0, 2)}, eps=1e-3)
        >>> [root] = net.roots().single
        >>> root.lo**2 < 2 < root.hi**2, root.radius < 1e-14, root.status.value
        (True, True, 'proved')
        """
        return roots(Subject.of(self.certificate, output), Deadline.of(time_limit))

    def diff(
        self: Any,
        variable: str | None = None,
        *,
        eps: float | None = None,
        time_limit: float | Deadline = TIME_LIMIT,
    ) -> Compiled:
        """The derivative by a variable as a network, certified against the target's derivative.

        Of one attention layer behind affine maps it is the derivative of the network itself, one attention layer. Of
        other networks, and where that misses `eps`, the target's derivative is compiled anew; `construction` tells
        which it is, "derivative" or the name of a theorem. Black boxes have no derivative, kinks are refused.

        >>> import attnfun as af
        >>> slope = af.compile("sin(3*x)", domain={"x": (-1, 1)}, eps=1e-3).diff()
        >>> slope.name, slope.construction, slope.certificate.status.value
        ('cos(3*x)*3', 'derivative', 'proved')
        """
        return combining().derivative(self, variable, _wanted(eps), Deadline.of(time_limit))

    def antiderivative(self: Any, *, eps: float | None = None, time_limit: float | Deadline = TIME_LIMIT) -> Compiled:
        """The integral of the target from the lower end of its interval, compiled anew, in one variable.

        Without `eps`, its error may be that of this network times the length of the interval.

        >>> import attnfun as af
        >>> area = af.compile("cos(x)", domain={"x": (0, 2)}, eps=1e-3).antiderivative()
        >>> bool(abs(area(1.0) - 0.8414709848) < area.certificate.bound), area.name
        (True, 'integral of cos(x)')
        """
        return combining().antiderivative(self, _wanted(eps), Deadline.of(time_limit))


def _extremum(net: Any, kind: str, output: int | None, tolerance: float, time_limit: float | Deadline) -> Extremum:
    subject = Subject.of(net.certificate, output)
    return extremum(subject, kind, _tolerance(tolerance), Deadline.of(time_limit))


def _wanted(eps: float | None) -> float | None:
    return None if eps is None else real_number("eps", eps, above=0.0)


def _tolerance(tolerance: float) -> float:
    return real_number("tolerance", tolerance, above=0.0)
