"""The rules `planes` and `rectifiers`: any target, and networks that compute maxima of planes [T 11.6, 11.15].

Followed as forms (`structure.py`), the network is `p + Σ_g c_g max_j p_gj` up to errors, all p affine in the
variables. On a box, let plane j_g of maximum g be one that leads at the centre. Then

    f - net <= max_k (f - p - Σ_{c_g > 0} c_g p_{g,j_g} + Σ_{c_g < 0} |c_g| p_{g,k_g}),

k one plane of each maximum, because a maximum is at least each of its planes; and likewise from below. Each term is
smooth, so Taylor models bound it well even where planes cross. No plane is taken from the construction.

Of many maxima there are too many choices. Then each is written as one of its planes and what is left,

    max(p, q) = p + λ z + e,    z = q - p in [l, u],    0 <= e <= max(-λ l, (1 - λ) u),    λ from 0 to 1,

so that a smooth function is compared with an affine one, up to `Σ_g c_g e_g` [T 11.15]. No unit is taken from the
construction either.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from flint import arb, arb_mat

from .covers import Box
from .errors import NotCovered
from .files import Network
from .forms import Form, Unknowns
from .limits import Limits
from .models import Model, total, weighted
from .ranges import ONE, ZERO, Range, larger, largest, size, smaller, up
from .structure import Follower


@dataclass(frozen=True)
class PlaneLimits:
    """How many choices of planes are looked at."""

    most_choices: int = 2**12
    """Choices of one plane of each maximum. For time."""


TUNING = PlaneLimits()


class Planes:
    """A network that is affine up to maxima of affine functions, on a box that holds the domain."""

    def __init__(self, network: Network, box: Box, limits: Limits, *, sparing: bool = True) -> None:
        self.limits, self.unknowns = limits, Unknowns(box.low, box.high, sparing=sparing)
        self.outputs = Follower(network, self.unknowns, limits).outputs()
        used = {place for output in self.outputs for place in output.terms if place in self.unknowns.maxima}
        self.maxima = {place: self.unknowns.maxima[place].forms for place in sorted(used)}
        if any(place > len(box.low) for forms in self.maxima.values() for form in forms for place in form.terms):
            raise NotCovered("maxima of maxima with a target that is not piecewise linear")

    def differences(self, values: list[Model], variables: list[Model]) -> list[Range]:
        """Where `f - net` lies on a box."""
        planes = {place: [_model(form, variables) for form in forms] for place, forms in self.maxima.items()}
        return [self._difference(f, form, variables, planes) for f, form in zip(values, self.outputs, strict=True)]

    def _difference(self, value: Model, output: Form, variables: list[Model], planes: dict[int, list[Model]]) -> Range:
        rest = value - _model(output, variables)
        scaled = {place: output.terms[place] for place in planes if place in output.terms}
        if any(c.contains(0) for c in scaled.values()):
            raise NotCovered("maxima with weights near zero")
        ends = []
        for sign in (ONE, -ONE):  # f - net, net - f
            bent = rest.scaled(sign)
            choices = list[list[Model]]()
            for place, c in scaled.items():
                terms = [plane.scaled(-sign * c) for plane in planes[place]]
                if sign * c > 0:
                    bent = bent + terms[int(np.argmax([float(plane.polynomial[0]) for plane in planes[place]]))]
                else:
                    choices.append(terms)
            if prod(map(len, choices)) > TUNING.most_choices:
                raise NotCovered(f"more than {TUNING.most_choices} choices of planes")
            self.limits.step(len(choices) * prod(map(len, choices)) * len(bent.polynomial))
            ends.append(largest([_highest(sum(chosen, bent)) for chosen in product(*choices)]))
        return Range(-ends[1], ends[0], rest.range.defined) - output.noise


class Rectifiers(Planes):
    """The same with many maxima, each replaced on a box by an affine function and what is left."""

    def __init__(self, network: Network, box: Box, limits: Limits) -> None:
        super().__init__(network, box, limits, sparing=False)
        self.first = list[int]()
        """The first plane of each maximum among all planes."""
        rows = list[arb]()
        for forms in self.maxima.values():
            self.first.append(len(rows) // (1 + len(box.low)))
            rows += [form.terms.get(place, ZERO) for form in forms for place in range(1 + len(box.low))]
        self.planes = arb_mat(len(rows) // (1 + len(box.low)), 1 + len(box.low), rows)  # (P, 1 + D)

    def differences(self, values: list[Model], variables: list[Model]) -> list[Range]:
        """Where `f - net` lies on a box."""
        space, lines = values[0].space, self._lines(variables)
        results = list[Range]()
        for value, output in zip(values, self.outputs, strict=True):
            line, left = _model(output, variables), output.noise
            for place in lines.keys() & output.terms.keys():
                slopes, bend = lines[place]
                own = Model(space, space.affine(slopes[0], slopes[1:]), ZERO, _reached(slopes))
                line, left = line + own.scaled(output.terms[place]), left + bend * Range.point(output.terms[place])
            results.append((value - line).range - left)
        return results

    def _lines(self, variables: list[Model]) -> dict[int, tuple[list[arb], Range]]:
        """For each maximum the affine function `p + λ z` in the coordinates of a box, and where e lies."""
        size_, axes = len(variables), variables[0].space.axes
        turn = arb_mat(1 + size_, 1 + size_)  # x = centre + radius t
        turn[0, 0] = ONE
        for k, variable in enumerate(variables):
            turn[1 + k, 0], turn[1 + k, 1 + k] = variable.polynomial[0], variable.polynomial[axes[k]]
        rows, lines = (self.planes * turn).tolist(), dict[int, tuple[list[arb], Range]]()
        for (place, forms), first in zip(self.maxima.items(), self.first, strict=True):
            planes = rows[first : first + len(forms)]
            lines[place] = line_near(planes)
        return lines


def line_near(planes: list[list[arb]]) -> tuple[list[arb], Range]:
    """An affine function near the largest of affine functions, and where the latter minus the former lies."""
    leader = int(np.argmax([float(plane[0]) for plane in planes]))
    base = planes[leader]
    others = [[a - b for a, b in zip(plane, base, strict=True)] for k, plane in enumerate(planes) if k != leader]
    reached = [_reached(other) for other in others]
    if len(others) != 1 or not (reached[0].low < 0 < reached[0].high):
        return base, Range(ZERO, larger(largest([each.high for each in reached]), ZERO))
    (other,), low, high = others, reached[0].low, reached[0].high
    share = (high / (high - low)).mid()  # λ
    bend = larger(up(-share * low), up((1 - share) * high))
    return [a + share * b for a, b in zip(base, other, strict=True)], Range(ZERO, bend)


def _reached(slopes: list[arb]) -> Range:
    """Where an affine function lies on a box."""
    reach = total([size(a) for a in slopes[1:]])
    return Range.of(slopes[0] - reach, slopes[0] + reach)


def _model(form: Form, variables: list[Model]) -> Model:
    """The affine part of a form on a box."""
    slopes = [form.terms.get(place, ZERO) for place in range(1, 1 + len(variables))]
    return weighted(slopes, variables, form.start, variables[0].space)


def _highest(model: Model) -> arb:
    """At most the largest value of a model: `t^α` is in [0, 1] where all exponents are even, else in [-1, 1]."""
    highest = model.polynomial[0] + model.rest
    for exponents, a in zip(model.space.exponents[1:], model.polynomial[1:], strict=True):
        highest += larger(up(a), ZERO) if all(n % 2 == 0 for n in exponents) else size(a)
    return smaller(up(highest), model.range.high)
