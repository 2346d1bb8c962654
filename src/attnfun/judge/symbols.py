"""Formulas as sums of products of powers, so that equal ones look alike [T 11.13].

An *atom* is a variable, an elementary function of a sum, a rectifier `max(0, sum)`, or a sum itself where a power of it
is taken. A *sum* is `Σ c Π atom^q + δ` with numbers c in balls, fractions q, and a bound on |δ|. These rules make one
sum of what may be written in several ways, each where the atoms have the signs that it needs:

    e^{Σ r m} = Π (e^m)^r,    e^{r log a} = a^r,    log Π a^q = Σ q log a,    (Π a^q)^p = Π a^{pq},
    max(f, g) = f + max(0, g - f),    max(0, c f) = c max(0, f) for c > 0,    max(0, -f) = max(0, f) - f.

A number that stands for another one makes δ larger: an exponent is rounded to a fraction, and two atoms whose arguments
differ by at most d everywhere are one atom up to the modulus of continuity of their function at d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isfinite

from flint import arb, fmpq

from .errors import NotCovered
from .formula import Step
from .functions import function_of, is_function
from .models import total
from .ranges import INFINITE, ONE, ZERO, Range, larger, largest, size, smaller, up


@dataclass(frozen=True)
class SymbolLimits:
    """How large sums and products of symbols get."""

    most_terms: int = 4096
    """Terms of one sum. For time."""
    most_atoms: int = 4096
    """Functions of sums that have a name. For memory."""
    expanded: int = 8
    """Whole powers of sums up to this one are multiplied out. For time."""
    finest: int = 10**6
    """Denominators of exponents, at most. A round number."""
    alike: float = 2.0**-20
    """Arguments that differ by less than this fraction of their sizes may be one. By trial."""
    pieces: int = 64
    """Parts of an interval on which slopes are bounded, of one width. A round number."""
    tiny: float = 2.0**-44
    """Terms of a sum below this fraction of the largest are added to its error. By trial."""


TUNING = SymbolLimits()


Monomial = tuple[tuple[int, Fraction], ...]
"""Atoms by their numbers, ascending, and exponents, none of which is 0."""
NUMBER: Monomial = ()


@dataclass(frozen=True, eq=False)
class Sum:
    """`Σ c m + δ`, |δ| <= off."""

    terms: dict[Monomial, arb]
    off: arb = ZERO

    @property
    def number(self) -> arb:
        """Its constant term."""
        return self.terms.get(NUMBER, ZERO)

    @property
    def constant(self) -> bool:
        """Is it a number?"""
        return all(each == NUMBER for each in self.terms)


@dataclass(frozen=True, eq=False)
class Atom:
    """A function of the variables: what it is of which function, and where its values lie.

    That function is known as a sum and what it is off; the atom is of the function itself, and so is its range.
    """

    name: str
    inner: Sum
    range: Range


class Symbols:
    """The atoms of one argument."""

    def __init__(self, variables: Sequence[Range]) -> None:
        self.atoms = [Atom("variable", Sum({}), range_) for range_ in variables]
        self.variables = [Sum({((k, Fraction(1)),): ONE}) for k in range(len(variables))]
        self.learned = list[tuple[Sum, Range]]()
        """Sums whose ranges are known better than term by term: without a number, and divided by a coefficient."""

    # ------------------------------------------------------------ sizes

    def size(self, monomial: Monomial) -> arb:
        """At most the largest absolute value of a product of powers."""
        result = ONE
        for number, exponent in monomial:
            range_ = self.atoms[number].range
            end = range_.most if exponent > 0 else range_.least
            if exponent < 0 and not end > 0:
                return INFINITE
            result = result * _power(end, exponent)
        return up(result)

    def most(self, sum_: Sum) -> arb:
        """At most the largest absolute value of a sum."""
        return up(total([size(c) * self.size(m) for m, c in sum_.terms.items()]) + sum_.off)

    def range(self, sum_: Sum) -> Range:
        """Where a sum lies: term by term, or because a sum that differs by a factor and a number is known."""
        result = Range(-sum_.off, sum_.off)
        for monomial, c in sum_.terms.items():
            result = result + self._range(monomial) * Range.point(c)
        if (normed := self._varying(sum_)) is not None:
            lead, rest = normed
            for known, range_ in self.learned:
                if known.terms.keys() == rest.terms.keys():
                    apart = self.most(self.weighted([ONE, -ONE], [known, rest]))
                    wide = Range.of(range_.low - apart, range_.high + apart)
                    found = wide * Range.point(lead) + Range.point(sum_.number)
                    result = result.meet(found.low, found.high)
        return result

    def learn(self, sum_: Sum, range_: Range) -> None:
        """Remember a range of a sum."""
        if range_.bounded and (normed := self._varying(sum_)) is not None:
            lead, rest = normed
            off = Range(-sum_.off, sum_.off)
            inner = (range_ + off - Range.point(sum_.number)) * Range.point(1 / lead)
            self.learned.append((Sum(rest.terms), inner))

    def _varying(self, sum_: Sum) -> tuple[arb, Sum] | None:
        """A coefficient of a sum of several terms, and what varies of the sum, divided by it."""
        rest = Sum({m: c for m, c in sum_.terms.items() if m != NUMBER}, sum_.off)
        return None if not rest.terms or rest.terms[min(rest.terms)].contains(0) else self._normed(rest)

    def _range(self, monomial: Monomial) -> Range:
        result = Range(ONE, ONE)
        for number, exponent in monomial:
            range_ = self.atoms[number].range
            if exponent.denominator == 1:
                result = result * range_.power(int(exponent))
            else:
                largest = self.size(((number, exponent),))
                result = result * Range(ZERO, largest)
        return result

    # ------------------------------------------------------------ sums and products

    def number(self, value: arb) -> Sum:
        """A constant."""
        return Sum({NUMBER: value})

    def weighted(self, numbers: Sequence[arb], sums: Sequence[Sum]) -> Sum:
        """`Σ_k a_k f_k`."""
        terms, off = dict[Monomial, arb](), ZERO
        for a, each in zip(numbers, sums, strict=True):
            off = up(off + size(a) * each.off)
            for monomial, c in each.terms.items():
                terms[monomial] = terms.get(monomial, ZERO) + a * c
        return Sum({m: c for m, c in terms.items() if not c.is_zero()}, off)

    def times(self, f: Sum, g: Sum) -> Sum:
        """A product."""
        if len(f.terms) * len(g.terms) > TUNING.most_terms:
            raise NotCovered(f"a product with more than {TUNING.most_terms} terms")
        off = ZERO
        if not (f.off.is_zero() and g.off.is_zero()):
            off = up(self.most(f) * g.off + self.most(g) * f.off)
        terms = dict[Monomial, arb]()
        for m, c in f.terms.items():
            for n, d in g.terms.items():
                product = _product(m, n)
                terms[product] = terms.get(product, ZERO) + c * d
        return Sum({m: c for m, c in terms.items() if not c.is_zero()}, off)

    # ------------------------------------------------------------ atoms

    def _tidy(self, f: Sum) -> Sum:
        """A sum without terms that are tiny beside the largest; they are part of what it is off."""
        sizes = {m: up(size(c) * self.size(m)) for m, c in f.terms.items()}
        limit = TUNING.tiny * largest(list(sizes.values()))
        kept = {m: c for m, c in f.terms.items() if not sizes[m] < limit}
        return Sum(kept, up(f.off + total([each for m, each in sizes.items() if m not in kept])))

    def _found(self, name: str, inner: Sum) -> tuple[int, arb] | None:
        """The number of an atom that is known, and how far its argument is from the one given."""
        for number, atom in enumerate(self.atoms):
            if atom.name == name and atom.inner.terms.keys() == inner.terms.keys():
                apart = self.most(self.weighted([ONE, -ONE], [atom.inner, inner]))
                if apart <= TUNING.alike * self.most(inner):
                    return number, apart
        return None

    def _atom(self, name: str, inner: Sum, range_: Callable[[], Range]) -> tuple[int, arb]:
        """The same of any atom."""
        if (known := self._found(name, inner)) is not None:
            return known
        if len(self.atoms) >= TUNING.most_atoms:
            raise NotCovered(f"a formula with more than {TUNING.most_atoms} functions")
        self.atoms.append(Atom(name, inner, range_()))
        return len(self.atoms) - 1, ZERO

    def applied(self, name: str, f: Sum, known: Range | None = None) -> Sum:
        """An elementary function of a sum, whose range may be known better than term by term."""
        if f.constant and f.off.is_zero():
            return self.number(_value(name, f.number))
        f = self._tidy(f)
        match name:
            case "exp":
                return self._exponential(f)
            case "expm1":
                return self.weighted([ONE, -ONE], [self._exponential(f), self.number(ONE)])
            case "log":
                return self._logarithm(f, known)
            case "log1p":
                shifted = known and known + Range(ONE, ONE)
                return self._logarithm(self.weighted([ONE, ONE], [f, self.number(ONE)]), shifted)
            case "sqrt":
                return self.power(f, Fraction(1, 2), known)
        return self._function(name, f, known)

    def _function(self, name: str, f: Sum, known: Range | None = None) -> Sum:
        number, apart = self._atom(name, f, lambda: function_of(name).range_(known or self.range(f)))
        off = ZERO
        if not apart.is_zero():
            around = self.range(self.atoms[number].inner)
            reach = Range.of(around.low - apart, around.high + apart)
            slopes = [size(function_of(name).series(part.ball, 1)[1]) for part in _pieces(reach)]
            off = up(largest(slopes) * apart)
        return Sum({((number, Fraction(1)),): ONE}, off)

    def _exponential(self, f: Sum) -> Sum:
        """`e^{c + Σ r m} = e^c Π (e^m)^r`, where `(e^{log a})^r` is `a^r`."""
        factor, product, off = f.number.exp(), NUMBER, f.off
        for monomial, r in f.terms.items():
            if monomial == NUMBER:
                continue
            if not isfinite(float(r)):
                raise NotCovered("an exponent that no float holds")
            exponent = Fraction(float(r)).limit_denominator(TUNING.finest)
            off = up(off + size(r - _ball(exponent)) * self.size(monomial))
            if exponent == 0:
                continue
            atom = self.atoms[monomial[0][0]]
            if len(monomial) == 1 and monomial[0][1] == 1 and atom.name == "log":
                sign, base = self._absolute(atom.inner, exponent)
                factor, product = factor * sign, _product(product, base)
            else:
                inner = Sum({monomial: ONE})
                number, _ = self._atom("exp", inner, lambda inner=inner: function_of("exp").range_(self.range(inner)))
                product = _product(product, ((number, exponent),))
        beyond = ZERO if off.is_zero() else up(size(factor) * self.size(product) * off.expm1())
        return Sum({product: factor}, beyond)

    def _absolute(self, single: Sum, exponent: Fraction) -> tuple[arb, Monomial]:
        """`|a|^q` for an atom a: a sign, and a power of the atom."""
        ((((number, _),), _),) = single.terms.items()
        range_, even = self.atoms[number].range, exponent.denominator == 1 and exponent.numerator % 2 == 0
        negative = bool(range_.high < 0)
        if not (even or range_.low >= 0 or (negative and exponent.denominator == 1)):
            raise NotCovered("a power of what may be negative")
        return -ONE if negative and exponent.numerator % 2 else ONE, ((number, exponent),)

    def _logarithm(self, f: Sum, known: Range | None) -> Sum:
        """`log c + Σ q log |a|` of a product, which is positive."""
        c, monomial, apart = self._factored(f, known)
        for number, exponent in monomial:
            range_, odd = self.atoms[number].range, exponent.denominator != 1 or exponent.numerator % 2
            if odd and not range_.low >= 0:
                c = -c
                if not range_.high < 0:
                    raise NotCovered("a logarithm of what changes its sign")
        if not c > 0:
            raise NotCovered("a logarithm of what may not be positive")
        result = self.number(c.log())
        for number, exponent in monomial:
            if self.atoms[number].name == "exp":
                log = self.atoms[number].inner
            else:
                single = Sum({((number, Fraction(1)),): ONE})
                inside = self.atoms[number].range
                place, _ = self._atom("log", single, lambda inside=inside: function_of("log").range_(inside.absolute()))
                log = Sum({((place, Fraction(1)),): ONE})
            result = self.weighted([ONE, _ball(exponent)], [result, log])
        if not apart.is_zero():
            least = self._range(monomial).least * c - apart
            result = Sum(result.terms, up(result.off + (apart / least if least > 0 else INFINITE)))
        return result

    def power(self, f: Sum, exponent: Fraction, known: Range | None = None) -> Sum:
        """A power; small whole powers of sums are multiplied out."""
        if exponent.denominator == 1 and 0 <= exponent <= TUNING.expanded:
            result = self.number(ONE)
            for _ in range(int(exponent)):
                result = self.times(result, f)
            return result
        c, monomial, apart = self._factored(self._tidy(f), known)
        if exponent.denominator != 1 and not (c >= 0 and all(self.atoms[k].range.low >= 0 for k, _ in monomial)):
            raise NotCovered("a root of what may be negative")
        raised = tuple((number, each * exponent) for number, each in monomial)
        off = ZERO
        if not apart.is_zero():
            around = self._range(monomial) * Range.point(c)
            off = self._moved(Range.of(around.low - apart, around.high + apart), exponent, apart)
        return Sum({raised: _power(c, exponent)}, off)

    def _moved(self, around: Range, exponent: Fraction, apart: arb) -> arb:
        """How far powers are apart whose bases are; `|a^q - b^q| <= |a - b|^q` for 0 < q <= 1 and a, b >= 0."""
        q, ways = _ball(exponent), [INFINITE]
        if around.least > 0:
            end = around.most if exponent > 1 else around.least
            ways.append(up(abs(q) * _power(end, exponent - 1) * apart))
        if 0 < exponent <= 1 and around.low >= -apart:
            ways.append(up((2 * apart) ** q))
        return ways[0] if len(ways) == 1 else smaller(ways[1], ways[-1])

    def _factored(self, f: Sum, known: Range | None) -> tuple[arb, Monomial, arb]:
        """A number, a product of powers, and how far they are from a sum; sums of several terms become an atom."""
        if len(f.terms) == 1:
            ((monomial, c),) = f.terms.items()
            return c, monomial, f.off
        lead, inner = self._normed(f)
        scaled = (known or self.range(f)) * Range.point(1 / lead)
        opposite = self.weighted([-ONE], [inner])
        if self._found("sum", inner) is None and (scaled.high <= 0 or self._found("sum", opposite) is not None):
            lead, inner, scaled = -lead, opposite, -scaled
        number, apart = self._atom("sum", inner, lambda: scaled)
        return lead, ((number, Fraction(1)),), up(size(lead) * apart)

    def _normed(self, f: Sum) -> tuple[arb, Sum]:
        """The coefficient of the first term that is no number, and the sum divided by it."""
        lead = f.terms[min(monomial for monomial in f.terms if monomial != NUMBER)] if not f.constant else ZERO
        if lead.contains(0):
            raise NotCovered("a sum whose terms nearly cancel")
        return lead, self.weighted([1 / lead], [f])

    def rectified(self, f: Sum, known: Range | None = None) -> Sum:
        """max(0, f)."""
        range_, f = known or self.range(f), self._tidy(f)
        if range_.low >= 0:
            return f
        if range_.high <= 0:
            return self.number(ZERO)
        lead, inner = self._normed(f)
        scaled = range_ * Range.point(1 / lead)
        number, apart = self._atom("max", inner, lambda: Range(ZERO, larger(scaled.high, ZERO)))
        rest = Sum({((number, Fraction(1)),): ONE}, apart)
        if lead < 0:
            rest = self.weighted([ONE, -ONE], [rest, inner])
        return self.weighted([abs(lead)], [rest])

    # ------------------------------------------------------------ formulas

    def evaluated(
        self, steps: Sequence[Step], outputs: Sequence[int], variables: Sequence[Sum], known: Sequence[Range] | None
    ) -> list[Sum]:
        """The outputs of a formula as sums; `known` are the ranges of its steps, if they are known."""
        sums = list[Sum]()
        for kind, args, value in steps:
            ranges = [None if known is None else known[k] for k in args]
            sums.append(self._step(kind, [sums[k] for k in args], value, variables, ranges))
            if known is not None:
                self.learn(sums[-1], known[len(sums) - 1])
        return [sums[k] for k in outputs]

    def _step(
        self, kind: str, args: list[Sum], value: object, variables: Sequence[Sum], known: Sequence[Range | None]
    ) -> Sum:
        match kind, args:
            case "number", [] if isinstance(value, Fraction):
                return self.number(_ball(value))
            case "constant", []:
                return self.number(arb.pi() if value == "pi" else ONE.exp())
            case "variable", [] if isinstance(value, int):
                return variables[value]
            case "+", [f, g]:
                return self.weighted([ONE, ONE], [f, g])
            case "-", [f, g]:
                return self.weighted([ONE, -ONE], [f, g])
            case "neg", [f]:
                return self.weighted([-ONE], [f])
            case "*", [f, g]:
                return self.times(f, g)
            case "/", [f, g]:
                return self.times(f, self.power(g, Fraction(-1), known[1]))
            case "**", [f, g]:
                return self._raised(f, g, known[0])
            case "abs", [f]:
                return self.weighted([2 * ONE, -ONE], [self.rectified(f, known[0]), f])
            case "max" | "min", [f, g]:
                sign = ONE if kind == "max" else -ONE
                rise = self.weighted([sign, -sign], [g, f])
                apart = None if known[0] is None or known[1] is None else (known[1] - known[0]) * Range.point(sign)
                return self.weighted([ONE, sign], [f, self.rectified(rise, apart)])
            case _, [f] if is_function(kind):
                return self.applied(kind, f, known[0])
        raise NotCovered(f"the operation {kind!r} in a circuit")

    def _raised(self, f: Sum, g: Sum, known: Range | None) -> Sum:
        """A power with a constant exponent, or `e^{g log f}`."""
        if g.constant and g.off.is_zero():
            if not isfinite(float(g.number)):
                raise NotCovered("an exponent that no float holds")
            exponent = Fraction(float(g.number)).limit_denominator(TUNING.finest)
            if g.number == _ball(exponent):
                return self.power(f, exponent, known)
        return self._exponential(self._tidy(self.times(g, self._logarithm(self._tidy(f), known))))


def _ball(fraction: Fraction) -> arb:
    return arb(fmpq(fraction.numerator, fraction.denominator))


def _power(number: arb, exponent: Fraction) -> arb:
    return number ** int(exponent) if exponent.denominator == 1 else number ** _ball(exponent)


def _pieces(whole: Range) -> list[Range]:
    """An interval in parts of one width."""
    width = (whole.high - whole.low) / TUNING.pieces
    if not width.is_finite():
        return [whole]
    cuts = [(whole.low + k * width).mid() for k in range(1, TUNING.pieces)]
    ends = [whole.low, *cuts, whole.high]
    return [Range.of(smaller(a, b), larger(a, b)) for a, b in pairwise(ends)]


def _value(name: str, number: arb) -> arb:
    """A function of a number."""
    return function_of(name).series(number, 0)[0]


def _product(m: Monomial, n: Monomial) -> Monomial:
    """Exponents of equal atoms added."""
    exponents = dict(m)
    for number, exponent in n:
        exponents[number] = exponents.get(number, Fraction(0)) + exponent
    return tuple(sorted((number, exponent) for number, exponent in exponents.items() if exponent))
