"""Tokens of one solved head against the tolerance, beside the sizes that others take for the same function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import attnfun as af
from attnfun.domains.box import as_box
from attnfun.experiments.base import Curve, Panel
from attnfun.experiments.drawing import BLUE, GREEN, GREY, ORANGE, SKY
from attnfun.targets import as_target

from . import peers

Domain = dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Row:
    """One tolerance: our network, and the sizes that others take (None: too many)."""

    eps: float
    net: af.types.Compiled
    chebyshev: int | None
    spline: int | None
    rational: int


def on_unit(formula: str, domain: Domain) -> peers.Line:
    """A function of one variable, moved to [-1, 1]."""
    target = as_target(formula, as_box(domain))
    low, high = next(iter(domain.values()))
    return lambda t: target.values(np.clip(low + (high - low) * (t + 1) / 2, low, high)[:, None])[:, 0]


def reached(formula: str, domain: Domain, tolerances: Iterable[float], limit: float) -> list[Row]:
    """Rows at falling tolerances, up to the first that is not proved within the limit (seconds)."""
    rows, function = [], on_unit(formula, domain)
    for eps in tolerances:
        try:
            net = af.compile(formula, domain, eps, construction="spectral", time_limit=limit)
        except af.errors.ToleranceNotMet:
            break
        sizes = peers.chebyshev(function, eps), peers.spline(function, eps), peers.rational(function, eps)
        rows.append(Row(eps, net, *sizes))
    return rows


def panel(title: str, rows: list[Row]) -> Panel:
    """Tokens against eps."""
    eps = [row.eps for row in rows]
    curves = (
        Curve("grid of the paper (its bound)", eps, [row.net.paper_tokens for row in rows], ":", GREY),
        Curve("Chebyshev coefficients", eps, [row.chebyshev for row in rows], "--", ORANGE),
        Curve("cubic spline knots", eps, [row.spline for row in rows], "-.", GREEN),
        Curve("AAA support points", eps, [row.rational for row in rows], "--", SKY),
        Curve("spectral attention, proved", eps, [row.net.network.tokens for row in rows], "o-", BLUE),
    )
    return Panel(title, "eps", "size", curves, limits=(1, 1e5))
