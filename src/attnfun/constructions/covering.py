"""One head over a net: what `grid` and `cross` build on clouds of points and on regions ([A], covering numbers).

The bound and its proof are in `pieces/nets.py`. The centres take samples of f, in L_p too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isinf

import numpy as np

from ..domains.box import Box
from ..errors import InputError
from ..pieces.nets import STRETCH, Net, sampled_slope
from ..targets import Target
from .base import Plan, PlanRequest
from .one_head import Layout, Lookup, sizes_of

STEPS = 24
"""Halvings in the search for the radius that a number of tokens allows."""
SHARPER = 1e5
"""The bound by the paper's argument is quoted for heads so many times as sharp: it falls as they get sharper."""


@dataclass(frozen=True, eq=False)
class NetDetails:
    """A net, its sharpness and layout."""

    net: Net
    beta: float
    layout: Layout
    slope: float
    """A Euclidean Lipschitz constant, declared or estimated from samples."""

    def lookup(self, target: Target, dtype: str) -> Lookup:
        """Samples at the sources, to be looked up at the centres."""
        beta = np.full(target.domain.size, self.beta)
        depth = self.beta * self.net.radius**2 / 2  # x has a centre within the radius
        return Lookup.at_places(target.domain, self.net.centres, beta, target.values(self.net.sources), depth, dtype)

    def paper_tokens(self, eps: float) -> int:
        """[A] with ρ = 2r: the covering number at `r = eps/(2L)`, by scaling the one at hand."""
        wanted = eps / max(2 * self.slope, 1e-300)
        return ceil(self.net.size * max(self.net.radius / wanted, 1.0) ** self.net.centres.shape[1]) * self.layout.rows


def plan_net(target: Target, request: PlanRequest, layout: Layout, attends_data: bool) -> Plan[NetDetails]:
    """The net whose bound is `aim`, or the finest one with at most the number of tokens requested."""
    domain = target.domain
    if domain.cloud is not None and not isinf(request.norm):
        raise InputError('norm must be "inf" for a domain of points, which has no volume', got=request.norm)
    peak, between = sizes_of(target, layout.rows)
    slope = sampled_slope(target)
    widest = float(np.sqrt(((domain.hi - domain.lo) ** 2).sum()))
    fill = domain.fill
    if request.aim is not None:
        allowed = request.aim / (
            STRETCH * max(slope, 1e-300)
        )  # the bound is pessimistic, so a coarser fill is tried too
        radius = min(max(allowed - fill, fill / 4), widest)
        if allowed < fill / 2:
            raise InputError(
                "the fill distance of the points must be small enough for eps",
                got=f"a fill distance of {fill:g}, a slope of {slope:.3g} and an allowed error of {request.aim:.3g}",
                remedy="Allow a larger eps, or give points that lie closer together and a smaller fill=.",
            )
    else:
        radius = _radius_for(domain, request, layout.rows, widest)
    net = Net.of(domain, radius, request.deadline)
    beta = net.beta(radius + fill)
    error = net.error(slope, beta)
    layout = layout.sharp_enough(error, between)
    leak = layout.leak(peak, between, attends_data)
    return Plan(
        tokens=net.size * layout.rows,
        a_priori=error + leak,
        details=NetDetails(net, beta, layout, slope),
        paper_bound=net.paper_error(slope, 2 * peak, SHARPER * beta) + leak,
        figures={"cells": net.size, "net radius": net.radius, "beta": beta, "kappa": layout.kappa},
    )


def _radius_for(domain: Box, request: PlanRequest, rows: int, widest: float) -> float:
    """The smallest radius whose net has at most the number of tokens requested."""
    tokens = request.requested_tokens(rows)
    low, high = -30.0, 0.0  # logarithms of fractions of the width
    for _ in range(STEPS):
        middle = (low + high) / 2
        fits = Net.of(domain, widest * 2.0**middle, request.deadline).size * rows <= tokens
        low, high = (low, middle) if fits else (middle, high)
    return widest * 2.0**high
