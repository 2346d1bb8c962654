"""Functions on the whole domain as affine forms of unknowns [T 11.3].

An *unknown* is a function of the input of which the judge knows a range: a variable, a maximum of forms, or an error.
The number 1 is unknown number 0. A form `Σ_i a_i S_i` is an identity: at every point of the domain the function has
that very value, S_i being the values of the unknowns there and a_i numbers in balls. So forms that are made of the
same unknowns cancel, and what is left of a difference is bounded term by term.

A maximum of forms is one of them and a new unknown, `max_j a_j = a_k + r` with `0 <= r <= max_j sup (a_j - a_k)`. Or
it is compared with an earlier maximum M of forms s_1, s_2, ...: if, for a number c > 0, a form ρ and any π and σ,

    |a_j - c s_π(j) - ρ| <= e    for all j    and    |a_σ(k) - c s_k - ρ| <= e    for all k,

then `|max_j a_j - c M - ρ| <= e`, because each a_j is at most `c M + ρ + e`, and `c M + ρ` at most the largest `a_σ(k)
+ e`. A bad choice makes e large, never the bound wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from .errors import NotCovered
from .files import Floats
from .ranges import ONE, ZERO, Range, down, larger, largest, smallest, up


@dataclass(frozen=True)
class FormLimits:
    """How many forms of a maximum are compared."""

    same: float = 2.0**-60
    """Maxima of the target that differ by less than this fraction of their sizes are one. A round number."""
    closest: int = 4
    """Earlier maxima that a new one is compared with. For time."""
    few: int = 4
    """Among so few forms each is tried as the one to start from. For time."""
    most_forms: int = 4096
    """Forms of one maximum. For memory."""
    most_compared: int = 64
    """Forms of one maximum of which each is compared with each other. For time."""


TUNING = FormLimits()


class Form:
    """A function `Σ_i a_i S_i` of unknowns."""

    def __init__(self, unknowns: Unknowns, terms: dict[int, arb]) -> None:
        self.unknowns = unknowns
        self.terms = {place: a for place, a in terms.items() if not a.is_zero()}

    @cached_property
    def range(self) -> Range:
        """Where its values lie, each unknown on its own."""
        centre, reach = ZERO, ZERO
        for place, a in self.terms.items():
            middle, radius = self.unknowns.ranges[place]
            centre += a * middle
            reach += abs(a) * radius
        return Range(down(centre - reach), up(centre + reach))

    @property
    def most(self) -> arb:
        """The largest absolute value."""
        return self.range.most

    @property
    def constant(self) -> bool:
        """Is it a number?"""
        return all(place == 0 for place in self.terms)

    @property
    def start(self) -> arb:
        """The coefficient of 1."""
        return self.terms.get(0, ZERO)

    @cached_property
    def quiet(self) -> Form:
        """Without its errors."""
        return Form(self.unknowns, {k: a for k, a in self.terms.items() if k not in self.unknowns.errors})

    @property
    def noise(self) -> Range:
        """The range of its errors."""
        return (self - self.quiet).range

    def __add__(self, other: Form) -> Form:
        return self.unknowns.weighted([ONE, ONE], [self, other])

    def __sub__(self, other: Form) -> Form:
        return self.unknowns.weighted([ONE, -ONE], [self, other])

    def scaled(self, factor: arb) -> Form:
        """The function times a number."""
        return self.unknowns.weighted([factor], [self])


@dataclass(frozen=True, eq=False)
class Maximum:
    """An earlier maximum: its forms, itself as a form, and about the directions of its forms from their mean."""

    forms: list[Form]
    form: Form
    rough: Floats  # (N, P)


class Unknowns:
    """The unknowns of one argument, variables first, and the maxima among them."""

    def __init__(self, low: Floats, high: Floats, *, sparing: bool = True) -> None:
        self.sparing = sparing
        """May a maximum that is known through another one up to an error do without an unknown of its own?"""
        self.ranges: list[tuple[arb, arb]] = [(ONE, ZERO)]
        """Centre and radius of each."""
        self.named = [0]
        """The number 1, the variables and the maxima."""
        self.errors = set[int]()
        """All others."""
        self.maxima: dict[int, Maximum] = {}
        """By the number of the unknown that each brought."""
        ends = zip(low.tolist(), high.tolist(), strict=True)
        self.variables = [self.new(Range(arb(a), arb(b)), named=True) for a, b in ends]

    def new(self, range_: Range, *, named: bool = False) -> Form:
        """One more unknown."""
        if not range_.bounded:
            raise NotCovered("an argument by structure without a finite bound")
        centre = range_.centre
        self.ranges.append((centre, larger(up(range_.high - centre), up(centre - range_.low))))
        place = len(self.ranges) - 1
        if named:
            self.named.append(place)
        else:
            self.errors.add(place)
        return Form(self, {place: ONE})

    def number(self, value: arb) -> Form:
        """A constant."""
        return Form(self, {0: value})

    def error(self, size: arb) -> Form:
        """Something of at most this absolute value."""
        return self.number(ZERO) if size.is_zero() else self.new(Range(-size, size))

    def weighted(self, numbers: Iterable[arb], forms: Iterable[Form], constant: arb = ZERO) -> Form:
        """`Σ_k a_k f_k + constant`."""
        terms = {0: constant}
        for a, form in zip(numbers, forms, strict=True):
            if not a.is_zero():
                for place, b in form.terms.items():
                    terms[place] = terms[place] + a * b if place in terms else a * b
        return Form(self, terms)

    def product(self, f: Form, g: Form) -> Form:
        """`f g = c g + d f - c d + (f - c)(g - d)`, c and d the middles of their ranges; the last term is an error."""
        if f.constant or g.constant:
            return g.scaled(f.start) if f.constant else f.scaled(g.start)
        c, d = f.range.centre, g.range.centre
        bent = up((f - self.number(c)).most * (g - self.number(d)).most)
        return self.weighted([c, d], [g, f], -c * d) + self.error(bent)

    def maximum(self, forms: Sequence[Form], *, target: bool = False) -> Form:
        """`max_j a_j`, through the most similar earlier maximum or by an unknown of its own.

        A maximum of the target is written through an earlier one only if they are the same: it must have no error.
        Forms that are nowhere above another one are left out: a network may leave its own out, too.
        """
        if len(forms) > TUNING.most_forms:
            raise NotCovered(f"a maximum of more than {TUNING.most_forms} forms")
        forms = _leading(forms) if len(forms) <= TUNING.most_compared else forms
        tried = range(len(forms)) if len(forms) <= TUNING.few else [int(np.argmax([float(f.range.low) for f in forms]))]
        gaps = [up(largest([(f - forms[k]).range.high for f in forms])) for k in tried]
        gap = smallest(gaps)
        first = forms[next(k for k, each in zip(tried, gaps, strict=True) if each <= gap)]
        if gap <= 0:
            return first
        rough = self._rough(forms)
        ways = [self._through(earlier, forms, rough) for earlier in self._similar(rough)]
        enough = gap if self.sparing and not target else up(TUNING.same * gap)
        if ways and (error := smallest([each for _, each in ways])) <= enough:
            return next(form for form, each in ways if each <= error) + self.error(error)
        new = self.new(Range(ZERO, gap), named=True)
        self.maxima[len(self.ranges) - 1] = Maximum([form - first for form in forms], new, rough)
        return first + new

    def _rough(self, forms: Sequence[Form]) -> Floats:
        """Forms about their mean, each unknown by its size, (N, P); only a hint, so floats will do."""
        sizes = [float(size(self.ranges[place])) for place in self.named]
        table = np.array(
            [
                [float(form.terms.get(place, ZERO)) * each for place, each in zip(self.named, sizes, strict=True)]
                for form in forms
            ]
        )
        return table - table.mean(axis=0)

    def _similar(self, rough: Floats) -> list[Maximum]:
        """The few earlier maxima with as many forms and the most similar directions."""
        same = [each for each in self.maxima.values() if len(each.rough) == len(rough)]
        alike = [
            -abs(float(each.rough[0] @ rough[0, : each.rough.shape[1]]))
            / max(float(np.linalg.norm(each.rough)), 1e-300)
            for each in same
        ]
        return [same[k] for k in np.argsort(alike, kind="stable")[: TUNING.closest].tolist()]

    def _through(self, earlier: Maximum, forms: Sequence[Form], rough: Floats) -> tuple[Form, arb]:
        """`c M + ρ` for an earlier maximum M, and how far the maximum of the forms is from it."""
        wide = np.zeros_like(rough)
        wide[:, : earlier.rough.shape[1]] = earlier.rough
        scale = float(np.linalg.norm(rough)) / max(float(np.linalg.norm(wide)), 1e-300)
        apart = _distances(rough, scale * wide)  # (N, N)
        if not (scale > 0 and np.isfinite(apart).all()):
            return earlier.form, up(arb.pos_inf())
        c = arb(scale)
        theirs = [form.scaled(c) for form in earlier.forms]
        mine, other = apart.argmin(axis=1).tolist(), apart.argmin(axis=0).tolist()
        rest = forms[0] - theirs[mine[0]]
        pairs = [(forms[j], theirs[k]) for j, k in enumerate(mine)] + [
            (forms[j], theirs[k]) for k, j in enumerate(other)
        ]
        error = largest([(self.weighted([ONE, -ONE, -ONE], [a, b, rest])).most for a, b in pairs])
        return rest + earlier.form.scaled(c), error


def size(range_: tuple[arb, arb]) -> arb:
    """The largest absolute value of a range given by centre and radius."""
    return up(abs(range_[0]) + range_[1])


def _leading(forms: Sequence[Form]) -> list[Form]:
    """Those that are somewhere above each other one; of equal ones the first."""
    kept = list[Form]()
    for form in forms:
        if not any((form - other).range.high <= 0 for other in kept):
            kept = [other for other in kept if not (other - form).range.high <= 0] + [form]
    return kept


def _distances(a: Floats, b: Floats) -> Floats:
    """Squared distances between rows, (N, N)."""
    return (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
