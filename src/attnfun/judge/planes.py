"""The rule `planes`: smooth targets and networks that compute maxima of planes [T 11.6].

Followed as forms (`structure.py`), the network is `p + Σ_g c_g max_j p_gj` up to errors, all p affine in the
variables. On a box, let plane j_g of maximum g be one that leads at the centre. Then

    f - net <= max_k (f - p - Σ_{c_g > 0} c_g p_{g,j_g} + Σ_{c_g < 0} |c_g| p_{g,k_g}),

k one plane of each maximum, because a maximum is at least each of its planes; and likewise from below. Each term is
smooth, so Taylor models bound it well even where planes cross. No plane is taken from the construction.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from flint import arb

from .covers import Box
from .errors import NotCovered
from .files import Network
from .forms import Form, Unknowns
from .limits import Limits
from .models import Model, weighted
from .ranges import ONE, ZERO, Range, larger, largest, size, smaller, up
from .structure import Follower

MOST_CHOICES = 2**12
"""Choices of one plane of each maximum."""


class Planes:
    """A network that is affine up to maxima of affine functions, on a box that holds the domain."""

    def __init__(self, network: Network, box: Box, limits: Limits) -> None:
        self.unknowns = Unknowns(box.low, box.high)
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
            if prod(map(len, choices)) > MOST_CHOICES:
                raise NotCovered(f"more than {MOST_CHOICES} choices of planes")
            ends.append(largest([_highest(sum(chosen, bent)) for chosen in product(*choices)]))
        return Range(-ends[1], ends[0], rest.range.defined) - output.noise


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
