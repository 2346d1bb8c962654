"""Taylor models with noise symbols: what earlier operations left open is known to be one number wherever it is used.

A number is `f = g + Σ_k n_k ε_k` with a Taylor model g in the inputs, and symbols |ε_k| <= 1 that are the same wherever
they occur [T 12.9]. Sums keep coefficients. With N = Σ|n_k|, c the value of the model's polynomial at the centre and
`|g - c| <= r`, products and smooth functions leave

    f f' :  r N' + r' N + N N',          φ(f) :  |φ''| (r N + N²/2)

beside the product of the models and φ(g), if coefficients are `c n'_k + c' n_k` and `φ'(c) n_k`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from flint import arb

from .functions import function_of
from .models import Model, Space, total
from .models import weighted as sum_of_models
from .ranges import INFINITE, ONE, ZERO, Range, down, larger, size, smaller, up

Noise = Mapping[int, arb]

NUMBERS = count()
"""Every symbol has a number of its own."""


@dataclass(frozen=True)
class NoiseTuning:
    """Which rests get symbols."""

    small: float = 1e-12
    """Rests that are a smaller share of the reach get no symbol. A round number."""


TUNING = NoiseTuning()


@dataclass(frozen=True, eq=False)
class Noisy:
    """A number that depends on the inputs and on symbols."""

    model: Model
    noise: Noise
    natural: Range
    """Its range as found from the ranges of what it is made of."""

    @classmethod
    def of(cls, model: Model) -> Noisy:
        """A number without symbols."""
        return cls(model, {}, model.range)

    @classmethod
    def ranging(cls, space: Space, range_: Range) -> Noisy:
        """Any number with this range."""
        return cls(Model.ranging(space, range_), {}, range_)

    @cached_property
    def loud(self) -> arb:
        """The sum of absolute coefficients of the symbols."""
        return up(total([size(each) for each in self.noise.values()]))

    @cached_property
    def inner(self) -> Model:
        """The model, with what its range must be."""
        near = Range(down(self.natural.low - self.loud), up(self.natural.high + self.loud), self.natural.defined)
        return Model(self.model.space, self.model.polynomial, self.model.rest, near)

    @property
    def centre(self) -> arb:
        """The value of the polynomial at the centre."""
        return self.model.polynomial[0]

    @cached_property
    def reach(self) -> arb:
        """How far values may be from that."""
        return up(self.model.reach + self.loud)

    @cached_property
    def range(self) -> Range:
        """Its range, from both."""
        return self.natural.meet(down(self.centre - self.reach), up(self.centre + self.reach))

    def _settled(self, model: Model, noise: Noise, natural: Range) -> Noisy:
        """A number, or its range alone where that is closer."""
        if not (model.rest.is_finite() and all(each.is_finite() for each in model.polynomial)):
            return Noisy.ranging(model.space, natural)
        result = Noisy(model, noise, natural)
        wide = result.reach.is_finite() and result.reach <= up(natural.high - natural.low)
        return result if wide else Noisy.ranging(model.space, result.range)

    def __neg__(self) -> Noisy:
        return Noisy(-self.model, {k: -each for k, each in self.noise.items()}, -self.natural)

    def __add__(self, other: Noisy) -> Noisy:
        return Noisy(self.model + other.model, merged(self.noise, ONE, other.noise, ONE), self.range + other.range)

    def __sub__(self, other: Noisy) -> Noisy:
        return self + -other

    def __mul__(self, other: Noisy) -> Noisy:
        product = self.inner * other.inner
        crossed = _times(self.model.reach, other.loud) + _times(other.model.reach, self.loud)
        middle, open_ = self._noise_times(other)
        model = _more(product.shifted(middle), up(crossed + open_))
        noise = merged(self.noise, other.centre, other.noise, self.centre)
        natural = self.range.power(2) if self is other else self.range * other.range
        return self._settled(model, noise, natural)

    def _noise_times(self, other: Noisy) -> tuple[arb, arb]:
        """The product of both noises: a middle, and how far it may be from that, by `¼(tN + N'/t)² - ¼(tN - N'/t)²`."""
        if not (self.loud > 0 and other.loud > 0 and self.loud.is_finite() and other.loud.is_finite()):
            return ZERO, _times(self.loud, other.loud)
        ratio = (other.loud / self.loud).sqrt().mid()
        sums = [merged(self.noise, ratio, other.noise, sign / ratio) for sign in (ONE, -ONE)]
        high, low = (up(total([size(each) for each in terms.values()])) ** 2 / 4 for terms in sums)
        middle = ((high - low) / 2).mid()
        return middle, larger(up(high - middle), up(low + middle))

    def scaled(self, factor: arb) -> Noisy:
        """The number times a constant."""
        noise = {k: factor * each for k, each in self.noise.items()}
        return Noisy(self.model.scaled(factor), noise, self.natural * Range.point(factor))

    def shifted(self, by: arb) -> Noisy:
        """The number plus a constant."""
        return Noisy(self.model.shifted(by), self.noise, self.natural + Range.point(by))

    def after(self, name: str) -> Noisy:
        """An elementary function."""
        function, hull = function_of(name), self.range.join(self.inner.range)
        bend = size(function.series(hull.ball, 2)[2]) if hull.bounded else INFINITE
        slope = function.series(self.centre, 1)[1]
        return self._smooth(self.inner.after(name), slope, bend, function.range_(self.range))

    def inverse(self) -> Noisy:
        """1/f."""
        least = smaller(self.range.least, self.inner.range.least)
        bend = up(1 / least**3) if least > 0 else INFINITE
        one = Model.constant(self.model.space, ONE)
        return self._smooth(one / self.inner, -1 / self.centre**2, bend, Range(ONE, ONE) / self.range)

    def _smooth(self, model: Model, slope: arb, bend: arb, natural: Range) -> Noisy:
        """A function of this number: of its model, its slope at the centre, half of its largest second derivative."""
        if not self.noise:
            return self._settled(model, {}, natural)
        left = up(bend * (2 * self.model.reach * self.loud + self.loud**2))
        if not (left.is_finite() and slope.is_finite()):
            return Noisy.ranging(model.space, natural)
        noise = {k: slope * each for k, each in self.noise.items()}
        return self._settled(_more(model, left), noise, natural)

    def known(self, low: arb, high: arb) -> Noisy:
        """The number, which is known to lie between these."""
        return Noisy(self.model, self.noise, self.range.meet(low, high))

    def widened(self, off: arb) -> Noisy:
        """A number that may be off by so much."""
        if off.is_zero():
            return self
        if not off.is_finite():
            return Noisy.ranging(self.model.space, Range(-INFINITE, INFINITE))
        near = self.range
        return Noisy(_more(self.model, off), self.noise, Range(down(near.low - off), up(near.high + off), near.defined))

    def promoted(self) -> Noisy:
        """The same with the rest of the model in a symbol."""
        rest = self.model.rest
        if not rest.is_finite() or not rest > TUNING.small * self.reach:
            return self
        model = Model(self.model.space, self.model.polynomial, ZERO, Range(-INFINITE, INFINITE))
        return Noisy(model, {**self.noise, next(NUMBERS): rest}, self.natural)

    def closer(self, other: Noisy) -> Noisy:
        """Two of one number as one."""
        best = self if self.reach <= other.reach else other
        near = self.range.meet(other.range.low, other.range.high)
        return Noisy(best.model, best.noise, near)

    def kinked(self, left: arb, right: arb, corner: arb) -> Noisy:
        """The function with slope `left` below the corner, `right` above it, and 0 there: its chord, and a symbol."""
        moved = self.shifted(-corner)
        low, high = moved.range.low, moved.range.high
        if low >= 0 or high <= 0:
            return moved.scaled(right if low >= 0 else left)
        natural = _hull([left * low, ZERO, right * high], moved.range.defined)
        if not natural.bounded:
            return Noisy.ranging(self.model.space, natural)
        slope = ((right * high - left * low) / (high - low)).mid()
        gaps = _hull([(left - slope) * low, ZERO, (right - slope) * high])
        chord, middle = moved.scaled(slope), gaps.centre
        open_ = larger(up(gaps.high - middle), up(middle - gaps.low))
        result = Noisy(_more(chord.model.shifted(middle), open_), chord.noise, natural)
        return self._settled(result.model, result.noise, natural).promoted()


def weighted(numbers: Sequence[arb], terms: Sequence[Noisy], constant: arb, space_: Space) -> Noisy:
    """`Σ_k a_k f_k + constant`."""
    pairs = [(a, f) for a, f in zip(numbers, terms, strict=True) if not a.is_zero()]
    model = sum_of_models([a for a, _ in pairs], [f.model for _, f in pairs], constant, space_)
    noise: dict[int, arb] = {}
    natural = Range.point(constant)
    for a, f in pairs:
        for k, each in f.noise.items():
            noise[k] = noise[k] + a * each if k in noise else a * each
        natural = natural + f.range * Range.point(a)
    return Noisy(model, noise, natural)


def merged(first: Noise, a: arb, second: Noise, b: arb) -> Noise:
    """`a Σ n_k ε_k + b Σ m_k ε_k`."""
    result = {k: a * each for k, each in first.items()}
    for k, each in second.items():
        result[k] = result[k] + b * each if k in result else b * each
    return result


def _more(model: Model, off: arb) -> Model:
    """A model that may be off by so much more; its range follows from its polynomial."""
    return Model(model.space, model.polynomial, up(model.rest + off), Range(-INFINITE, INFINITE))


def _hull(balls: Sequence[arb], defined: bool = True) -> Range:
    low, high = down(balls[0]), up(balls[0])
    for each in balls[1:]:
        low, high = smaller(low, down(each)), larger(high, up(each))
    return Range(low, high, defined)


def _times(a: arb, b: arb) -> arb:
    """A product of sizes; nothing times infinity is nothing."""
    return ZERO if a.is_zero() or b.is_zero() else up(a * b)
