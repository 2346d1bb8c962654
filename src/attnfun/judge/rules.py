"""From a claim to a verdict: the error is bounded on boxes that cover the domain [T 11.1, 11.2, 11.11, 11.12].

A stored cover is used where the proof has one; its leaves are cut further where the judge's enclosures are coarser.
Networks that compute maxima need no boxes (`structure.py`). Where there is neither, the judge cuts boxes itself,
`SEARCHED` at most. The number of boxes decides, never a clock; floats are hints, which move a bound in its last digits.
A caller may allow fewer boxes, or stop the judge between two of them: then there is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isinf, nextafter

import numpy as np
from flint import arb

from . import formula, rounding
from .circuits import bound_by_circuit
from .combined import parts_of
from .covers import Bound, Box, Leaf, leaves, settle
from .errors import NotCovered, Stopped, Unreadable
from .files import Attention, Claim, Domain, Floats, Proof
from .formats import FORMATS, rounded
from .in_context import bound_in_context
from .least import Sure, least_norm
from .limits import Limits, on_box
from .models import Model, Space, space, total
from .network import Evaluator, Feature, Focus
from .one_feature import reduced
from .one_token import alone
from .planes import Planes, Rectifiers
from .ranges import INFINITE, ZERO, Range, down, larger, largest, precision, size, smaller, up
from .slopes import modulus, program_of, reach
from .structure import bound_by_structure
from .tails import p_mean
from .targets import steps_of, target_of

ORDERS = {1: 10, 2: 6, 3: 3}
"""Degree of the Taylor models in D variables."""


@dataclass(frozen=True)
class RuleLimits:
    """How finely boxes are cut, and how large polynomials are."""

    higher: int = 2
    """Degree in more variables. By trial."""
    most_variables: int = 64
    """Polynomials in more variables have too many terms. For time."""
    refined: int = 20
    """Times that leaves are cut further in the L_p norm, at most: large powers dwell on the worst place. For
    time."""
    most_finer: int = 2048
    """Boxes up to which leaves are cut further there, beside those of the proof. For time."""
    terms: int = 2**10
    """Operations of a step where the target has a pole. By trial."""
    few: int = 64
    """Memory tokens in play up to which inner nodes of a cover are not looked at. By trial."""
    shown: int = 200
    """Letters of a formula that are shown. A round number."""


TUNING = RuleLimits()

NEARLY = 1.01
"""Searches that miss what is enough by less than this, by what rounding adds, have found a bound too."""
SEARCHED = {1: 1024, 2: 1024}
"""Boxes in D variables that the judge cuts by itself, at most; in more variables there would be too many."""
EDGE = "the target is defined on the whole domain"
"""How the assumption of certificates begins that hold wherever the target is defined."""


@dataclass(frozen=True)
class Verdict:
    """What the judge says of a claim."""

    agreed: bool
    stated: float
    judged: float
    """The bound that the judge found; infinite where it found none."""
    norm: float
    boxes: int
    reason: str = ""
    """Why it does not agree."""
    declared: tuple[str, ...] = ()
    """What the certificate takes for granted, and the judge with it."""
    covered: bool = True
    """Did the judge come to an end, and does it know what the claim is about?"""
    least: float = 0.0
    """The error, or its norm, is surely at least that; looked for where the judge does not agree."""

    @property
    def refuted(self) -> bool:
        """Is the claim false? A bound of the judge that is larger than the stated one does not say so."""
        return self.least > self.stated

    def __str__(self) -> str:
        what = "error" if isinf(self.norm) else f"L_{self.norm:g} norm of the error"
        if not self.agreed:
            return f"not agreed: {self.reason}"
        where = f"on {self.boxes} boxes" if self.boxes else "without boxes"
        lines = [f"agreed: {what} <= {self.stated:.6g} ({self.judged:.6g} found {where})"]
        return "\n".join([*lines, *(f"taken for granted: {line}" for line in self.declared)])


def judge(claim: Claim, limits: Limits | None = None) -> Verdict:
    """Check a claim, without limits unless some are given."""
    limits = limits or Limits()
    declared = () if claim.status == "proved" else claim.declared
    if claim.target.get("kind") == "traced" and "formula" in claim.target:
        declared = (f"the function is {str(claim.target['formula'])[: TUNING.shown]}", *declared)
    with precision(), np.errstate(all="ignore"):  # floats are hints, balls decide
        try:
            _refuse_estimates(claim)
            bound, boxes = _Judge(claim, limits).bound()
        except NotCovered as reason:
            return Verdict(False, claim.bound, inf, claim.norm, 0, f"not covered yet: {reason}", covered=False)
        except Stopped as reason:
            return Verdict(False, claim.bound, inf, claim.norm, 0, str(reason), covered=False)
        judged = nextafter(float(up(bound)), inf)
        if bound <= claim.bound:
            return Verdict(True, claim.bound, judged, claim.norm, boxes, "", declared)
        least = max(nextafter(float(_Judge(claim, Limits(over=limits.over)).least()), 0.0), 0.0)
    where = f"on {boxes} boxes" if boxes else "without boxes"
    reason = f"no bound below {judged:.6g} was found {where}, and {claim.bound:.6g} is stated"
    reason += f"; the error is at least {least:.6g}" if least > claim.bound else ""
    return Verdict(False, claim.bound, judged, claim.norm, boxes, reason, least=least)


def _refuse_estimates(claim: Claim) -> None:
    if claim.status not in ("proved", "conditional", "estimated"):
        raise Unreadable(f"the status {claim.status[:40]!r} is unknown")
    if claim.status == "estimated":
        raise NotCovered("an estimate, which claims no bound")


class _Judge:
    """Bounds the error of one claim on boxes."""

    def __init__(self, claim: Claim, limits: Limits, *, rounds_input: bool = True) -> None:
        self.claim, self.domain, self.limits, self.rounds_input = claim, claim.domain, limits, rounds_input
        self.target = target_of(claim)
        self.extent = np.maximum(claim.domain.high - claim.domain.low, np.finfo(np.float64).tiny)
        edge = any(line.startswith(EDGE) for line in claim.declared)
        self.format = FORMATS[claim.network.dtype]
        self.rounds = claim.network.dtype != "float64" and claim.target.get("kind") in ("expression", "traced")
        self.rounds = self.rounds and rounds_input and claim.domain.points is None and claim.domain.condition is None
        self.must_be_defined = claim.status == "proved" or not edge
        self.each = claim.bound if isinf(claim.norm) else -inf
        """A bound on one box that is good enough; in the L_p norm each box counts, and none is."""
        self.condition = None
        if claim.domain.condition is not None:
            self.condition = formula.read_condition(claim.domain.condition, claim.domain.names)

    @cached_property
    def network(self) -> Evaluator:
        """The network on boxes."""
        return Evaluator(self.claim.network)

    @cached_property
    def spaces(self) -> tuple[Space, Space]:
        """Polynomials for Taylor models: on leaves without and with series."""
        size = len(self.domain.low)
        if size > TUNING.most_variables:
            raise NotCovered(f"boxes in more than {TUNING.most_variables} variables")
        return space(size, 1), space(size, ORDERS.get(size, TUNING.higher))

    def bound(self) -> tuple[arb, int]:
        """A bound on the error in the norm of the claim, and the boxes that it took."""
        proof, norm, enough = self.claim.proof, self.claim.norm, self.claim.bound
        if proof is not None and proof.rule == "volume" and len(proof.premises) == 1:
            root = self._volume() ** (1 / arb(norm))
            worst, boxes = self._largest(proof.premises[0], float(down(enough / root)))
            return up(worst * root), boxes
        if isinf(norm):
            return self._largest(proof, enough)
        if proof is not None and proof.rule == "parts" and self.claim.target.get("kind") == "restricted":
            (part,) = parts_of(self.claim)
            if part.norm != norm:
                raise NotCovered("a part in another norm than the whole")
            return _Judge(replace(part, bound=enough), self.limits).bound()
        if proof is None or proof.rule not in ("boxes", "tails"):
            raise NotCovered(f"an L_p norm by the rule {_rule(proof)!r}")
        return self._norm(self._leaves(proof), self._with_tail if proof.rule == "tails" else self.on)

    def least(self) -> arb:
        """At least the error in the norm of the claim."""
        one_box = self.domain.points is None
        if not one_box and not isinf(self.claim.norm):
            return ZERO  # boxes around points overlap
        sure = self._at_points if isinf(self.claim.norm) else self._between
        return least_norm(self._roots(), self.extent, self.claim.norm, arb(self.claim.bound), sure)

    def _at_points(self, box: Box) -> Sure:
        """The largest error on a box, and the error at a point near its middle, one that the network reads as it is."""
        middle = box.middle
        read = rounded(middle, self.claim.network.dtype)
        point = np.where((box.low <= read) & (read <= box.high), read, middle)
        return self.on(Leaf(box, True, {}))[0], self._error_at_least(Box(point, point), moves=(point != read).any())

    def _between(self, box: Box) -> Sure:
        """What a box contributes to the p-th power of the norm, at most and at least."""
        p, volume = arb(self.claim.norm), _volume(box)
        most, least = self.on(Leaf(box, True, {}))[0], self._error_at_least(box, moves=True)
        return up(most**p * volume), down(least**p * volume)

    def _error_at_least(self, box: Box, *, moves: bool) -> arb:
        """The error is at least that at all points of a box; zero if they may lie outside of the domain."""
        variables = box.variables(self.spaces[1])
        outputs, _ = self.network(self._inputs(variables, moves=moves and self.rounds_input), {})
        if not self._inside(box, variables):
            return ZERO
        least = ZERO
        for value, output in zip(self.target(variables), outputs, strict=True):
            difference = (value - output.model).range
            if difference.defined and output.error.is_finite():
                least = larger(least, down(difference.least - output.error))
        return least

    def _volume(self) -> arb:
        """The volume of the box around the domain."""
        return up(_volume(self.domain))

    def _leaves(self, proof: Proof) -> Iterator[Leaf]:
        axes = proof.data.get("axes")
        each = on_box(self.claim.work * self.spaces[0].count)
        self.limits.must_allow(0 if axes is None else each * (axes.size // 2))  # its leaves are that many, or one more
        return leaves(proof, self._roots(), self._narrowed)

    def _narrowed(self, box: Box, focus: Focus) -> Focus:
        """What is in play on a box, where that is worth finding out."""
        known = sum(len(play.tokens) for play in focus.values()) if focus else self.network.memory
        return focus if known <= TUNING.few else self.on(Leaf(box, False, focus))[1]

    def _roots(self) -> list[Box]:
        domain = self.domain
        if domain.points is None:
            return [Box(domain.low, domain.high)]
        return [Box(*_cube(point, domain.fill)) for point in domain.points]

    def _largest(self, proof: Proof | None, enough: float) -> tuple[arb, int]:
        """A bound on the largest error by the rule of a proof, or by boxes; nobody needs it below `enough`."""
        if proof is None:
            return self._searched(proof, enough)
        attention = [layer for layer in self.claim.network.layers if isinstance(layer, Attention)]
        if proof.rule not in ("boxes", "parts") and any(layer.keyed for layer in attention):
            raise NotCovered(f"a network of two inputs by the rule {proof.rule!r}")
        rules = {
            "boxes": self._covered,
            "structure": self._structured,
            "planes": self._between_planes,
            "rectifiers": self._between_planes,
            "one feature": self._reduced,
            "circuit": self._stepwise,
            "parts": self._combined,
            "one token": self._each_token,
            "in context": self._fitted,
        }
        return rules.get(proof.rule, self._searched)(proof, enough)

    def _structured(self, _proof: Proof, _enough: float) -> tuple[arb, int]:
        """Forms on the whole domain [T 11.3]."""
        return bound_by_structure(self.claim, self._hull(), self.limits), 0

    def _fitted(self, proof: Proof, _enough: float) -> tuple[arb, int]:
        """The coefficients of a model fitted to data [T 11.17]."""
        return bound_in_context(self.claim, proof, self.limits), 0

    def _between_planes(self, proof: Proof, enough: float) -> tuple[arb, int]:
        """The distance of the target from maxima of planes, on a cover [T 11.6, 11.15]."""
        kind = Rectifiers if proof.rule == "rectifiers" else Planes
        planes = kind(self.claim.network, self._hull(), self.limits)

        def on(leaf: Leaf) -> tuple[arb, Focus]:
            self.limits.box(len(leaf.box.low), self.claim.work * self.spaces[1].count)
            variables = leaf.box.variables(self.spaces[1])
            if self._outside(leaf.box, variables):
                return ZERO, leaf.focus
            ranges = planes.differences(self.target(variables), variables)
            defined = all(each.defined for each in ranges) or not self.must_be_defined
            return largest([each.most for each in ranges]) if defined else INFINITE, leaf.focus

        return self._settled(leaves(proof, self._roots(), lambda _, focus: focus), enough, on)

    def _reduced(self, proof: Proof, enough: float) -> tuple[arb, int]:
        """A claim in one variable, and how far that is from what it should be [T 11.5]."""
        if len(proof.premises) != 1:
            raise Unreadable("the rule 'one feature' must have one premise")
        inner, apart = reduced(self.claim, self._hull(), proof.premises[0], self.limits)
        found, boxes = _Judge(inner, self.limits, rounds_input=False)._largest(inner.proof, float(down(enough - apart)))
        return up(found + apart), boxes

    def _each_token(self, proof: Proof, enough: float) -> tuple[arb, int]:
        """Claims about one token each [T 11.8]."""
        if len(proof.premises) != 1:
            raise Unreadable("the rule 'one token' must have one premise")
        before, worst = self.limits.used, ZERO
        for claim in alone(self.claim, proof.premises[0]):
            judge = _Judge(claim, self.limits, rounds_input=self.rounds_input)
            worst = larger(worst, judge._largest(claim.proof, enough)[0])
        return worst, self.limits.used - before

    def _stepwise(self, proof: Proof, enough: float) -> tuple[arb, int]:
        """Heads that compute one function each [T 11.4]; boxes where that does not settle it."""
        before = self.limits.used
        try:
            found, defined = bound_by_circuit(
                self.claim, proof, self._hull(), steps_of(self.claim), self._of_one_head, self.limits
            )
            reason = f"a circuit for which it finds no bound below {float(found):.6g}"
        except NotCovered as why:
            found, defined, reason = INFINITE, True, str(why)
        if found <= enough and (defined or not self.must_be_defined):
            return found, self.limits.used - before
        if len(self.domain.low) not in SEARCHED:
            raise NotCovered(reason)
        return self._searched(proof, enough)

    def _of_one_head(self, claim: Claim, enough: float) -> arb:
        """What is found for a head; infinite where that is so much more that other cuts would find less."""
        found, _ = _Judge(claim, self.limits, rounds_input=False)._largest(claim.proof, enough)
        return found if found <= NEARLY * enough else INFINITE

    def _combined(self, proof: Proof, enough: float) -> tuple[arb, int]:
        """Claims about the parts of a network [T 11.7]; boxes where those do not settle it."""
        before = self.limits.used
        try:
            found = largest(self._outputs(proof, enough))
            reason = f"a network made of others for which it finds no bound below {float(found):.6g}"
        except NotCovered as why:
            found, reason = INFINITE, str(why)
        if found <= enough:
            return found, self.limits.used - before
        if len(self.domain.low) not in SEARCHED:
            raise NotCovered(reason)
        return self._searched(proof, enough)

    def _outputs(self, proof: Proof | None, enough: float) -> list[arb]:
        """Bounds on the errors of all outputs; nobody needs them below `enough`."""
        if proof is None or proof.rule != "parts":
            return [self._largest(proof, enough)[0]] * self.claim.outputs
        parts = parts_of(self.claim)
        if self.claim.target.get("kind") == "composed":
            return self._through(parts[0], parts[1], enough)
        inner = [(_Judge(part, self.limits, rounds_input=self.rounds_input), part) for part in parts]
        return [off for judge, part in inner for off in judge._outputs(part.proof, min(enough, part.bound))]

    def _through(self, outer: Claim, inner: Claim, enough: float) -> list[arb]:
        """One network of the values of another, which are what it reads: nothing is rounded there."""
        first = _Judge(inner, self.limits, rounds_input=self.rounds_input)
        last = _Judge(outer, self.limits, rounds_input=False)
        off = first._outputs(inner.proof, inner.bound)
        region = first.reached(outer.domain, off)
        apart = modulus(program_of(outer), region, off, self.limits)
        own = last._outputs(outer.proof, float(down(enough - largest(apart))))
        return [up(a + b) for a, b in zip(own, apart, strict=True)]

    def reached(self, domain: Domain, off: list[arb]) -> Box:
        """A box around all values of the target, widened by `off`; NotCovered if it does not lie in a domain."""
        ends = list(zip(domain.low.tolist(), domain.high.tolist(), off, strict=True))
        room = [Range(up(arb(low) + d), down(arb(high) - d)) for low, high, d in ends]

        def values(box: Box) -> list[Range] | None:
            self.limits.step(on_box(self.claim.work * self.spaces[1].count))
            variables = box.variables(self.spaces[1])
            return None if self._outside(box, variables) else [f.range for f in self.target(variables)]

        found = reach(values, self._roots(), room)
        plain = domain.condition is None and domain.points is None
        if not plain or not all(a.low >= b.low and a.high <= b.high for a, b in zip(found, room, strict=True)):
            raise NotCovered("a composition whose inner values may lie outside of the outer domain")
        low = [np.nextafter(float(down(f.low - d)), -inf) for f, d in zip(found, off, strict=True)]
        high = [np.nextafter(float(up(f.high + d)), inf) for f, d in zip(found, off, strict=True)]
        return Box(np.maximum(low, domain.low), np.minimum(high, domain.high))

    def _hull(self) -> Box:
        """A box that holds the domain."""
        roots = self._roots()
        return Box(np.min([box.low for box in roots], axis=0), np.max([box.high for box in roots], axis=0))

    def _covered(self, proof: Proof, enough: float) -> tuple[arb, int]:
        """A cover of the domain [T 11.1]."""
        return self._settled(self._leaves(proof), enough, self.on)

    def _settled(self, every: Iterator[Leaf], enough: float, on: Bound) -> tuple[arb, int]:
        """The largest bound on leaves, up to the first that is too large."""
        worst, count = ZERO, 0
        for leaf in every:
            found, boxes = settle(leaf, self.extent, enough, on)
            worst, count = larger(worst, found), count + boxes
            if not worst <= enough:
                break
        return worst, count

    def _searched(self, proof: Proof | None, enough: float) -> tuple[arb, int]:
        """Boxes are cut, depth first, until each has a bound that is small enough."""
        worst, count, stack = ZERO, 0, [Leaf(root, True, {}) for root in reversed(self._roots())]
        most = SEARCHED.get(len(self.domain.low), 0)
        while stack:
            if count >= most:
                tried = f", which {most} boxes do not settle" if most else ""
                raise NotCovered(f"a proof by the rule {_rule(proof)!r} in {len(self.domain.low)} variables{tried}")
            here = stack.pop()
            (found, focus), count = self.on(here), count + 1
            halves = None if found <= enough else here.box.cut(here.box.longest(self.extent))
            if halves is not None:
                stack += [Leaf(half, True, focus) for half in reversed(halves)]
                continue
            worst = larger(worst, found)
            if not found <= enough:
                break
        return worst, count

    def _norm(self, every: Iterator[Leaf], on: Bound) -> tuple[arb, int]:
        """`(Σ b_i^p |box_i|)^{1/p}`; while that is too large, leaves that contribute more than others are cut."""
        p = arb(self.claim.norm)
        shares = [self._share(leaf, p, on) for leaf in every]
        count, enough = len(shares), self.claim.bound
        most = count + TUNING.most_finer
        for _ in range(TUNING.refined):
            norm = up(total([share for share, _ in shares]) ** (1 / p))
            if norm <= enough or count >= most:
                return norm, count
            fair = arb(enough) ** p / (2 * len(shares))
            finer = list[tuple[arb, Leaf]]()
            for share, leaf in shares:
                halves = None if share <= fair else leaf.box.cut(leaf.box.longest(self.extent))
                if halves is None:
                    finer.append((share, leaf))
                else:
                    finer += [self._share(Leaf(half, True, leaf.focus), p, on) for half in halves]
                    count += 2
            shares = finer
        return up(total([share for share, _ in shares]) ** (1 / p)), count

    def _share(self, leaf: Leaf, p: arb, on: Bound) -> tuple[arb, Leaf]:
        """`b^p |box|`, and the leaf with what is in play on it."""
        bound, focus = on(leaf)
        volume = up(_volume(leaf.box))
        share = ZERO if volume.is_zero() or bound.is_zero() else up(bound**p * volume)
        return share, Leaf(leaf.box, leaf.series, focus)

    def _with_tail(self, leaf: Leaf) -> tuple[arb, Focus]:
        """The same as `on`, or the target's p-mean and the network's largest value, if that is smaller [T 11.14].

        Where a pole is a hair outside of a box, the target is bounded there by a number that is large for nothing.
        What contributes no more than the claim's bound, spread over the whole domain, needs no p-mean.
        """
        bound, focus = self.on(leaf)
        if bound <= self._spread:
            return bound, focus
        steps, outputs = program_of(self.claim)
        self.limits.step(TUNING.terms * len(steps))
        mean, defined = p_mean(steps, outputs, leaf.box, self.claim.norm)
        variables = leaf.box.variables(self.spaces[0])
        outputs, _ = self.network(self._inputs(variables, moves=self.rounds_input), leaf.focus)
        largest_value = largest([up(output.most + output.error) for output in outputs])
        if defined or not self.must_be_defined:
            bound = smaller(bound, up(mean + largest_value))
        return bound, focus

    @cached_property
    def _spread(self) -> arb:
        """The error that makes the claim's L_p norm if it is the same everywhere."""
        return down(self.claim.bound / self._volume() ** (1 / arb(self.claim.norm)))

    def on(self, leaf: Leaf) -> tuple[arb, Focus]:
        """A bound on the error on a box, and what is in play there; where no point of the domain is, there is no error.

        As deployed, the network reads x' instead of x. Either its sensitivity says what that costs, or x' lies in a
        slightly wider box, on which target and network are compared, and the target changes little from x to x'
        [T 10.3].
        """
        box, space = leaf.box, self.spaces[leaf.series]
        self.limits.box(len(box.low), self.claim.work * space.count)
        variables = box.variables(space)
        if self._outside(box, variables):
            return ZERO, leaf.focus
        if not self.rounds:
            return self._compared(variables, leaf.focus, None)
        reach = self._reached(box)
        found, narrowed = self._compared(reach.variables(space), leaf.focus, reach)
        if not found <= self.each:
            found = smaller(found, self._compared(variables, leaf.focus, None)[0])
        return found, narrowed

    def _compared(self, variables: list[Model], focus: Focus, reach: Box | None) -> tuple[arb, Focus]:
        """The largest difference of target and network, with what the network is off; and what is in play.

        Without `reach` the network reads x' where the target has x. With it, x' lies in that box, and so do all points.
        """
        inputs = self._inputs(variables, moves=reach is None and self.rounds_input)
        outputs, narrowed = self.network(inputs, focus)
        worst = ZERO
        for value, output in zip(self.target(variables), outputs, strict=True):
            difference = value - output.model
            if not difference.range.defined and (self.must_be_defined or reach is not None):
                return INFINITE, narrowed
            change = ZERO if reach is None else self._change(value, reach)
            worst = larger(worst, up(difference.range.most + output.error + change))
        return worst, narrowed

    def _inputs(self, variables: list[Model], *, moves: bool) -> list[Feature]:
        """What the network reads; rounding may move it."""
        read = self.format.tiny if self.rounds_input else ZERO
        return [Feature(x, read + (rounding.moved(x.range.most, self.format) if moves else ZERO)) for x in variables]

    def _reached(self, box: Box) -> Box:
        """A box with all that its points are rounded to; numbers that are not normal may be flushed."""
        low, high = (rounded(ends, self.claim.network.dtype) for ends in (box.low, box.high))
        tiny = 2 * float(self.format.tiny)
        low = np.where((low > 0) & (low < tiny), 0.0, low)
        high = np.where((high < 0) & (high > -tiny), 0.0, high)
        return Box(np.minimum(low, box.low), np.maximum(high, box.high))

    def _change(self, value: Model, box: Box) -> arb:
        """How much the target changes when x moves as far as rounding moves it: by its slopes, or by its range.

        With `t' - t = τ` and `|t|, |t'| <= 1`, `|t'^α - t^α| <= Σ_k α_k |τ_k|`.
        """
        space, steps = value.space, list[arb]()
        for low, middle, high in zip(box.low.tolist(), box.middle.tolist(), box.high.tolist(), strict=True):
            radius = larger(up(arb(high) - arb(middle)), up(arb(middle) - arb(low)))
            move = rounding.moved(arb(max(abs(low), abs(high))), self.format) + self.format.tiny
            steps.append(smaller(up(move / radius), arb(2)) if radius > 0 else ZERO)
        by_slope = 2 * value.rest
        for exponents, coefficient in zip(space.exponents, value.polynomial, strict=True):
            if not coefficient.is_zero():
                by_slope += size(coefficient) * sum((n * step for n, step in zip(exponents, steps, strict=True)), ZERO)
        return smaller(up(by_slope), up(value.range.high - value.range.low))

    def _outside(self, box: Box, variables: list[Model]) -> bool:
        """Does the box surely hold no point of the domain?"""
        if self.condition is not None:
            (truth,) = formula.evaluate(*self.condition, variables)
            return bool(truth.range.high < 1)
        if self.domain.points is not None and self.domain.fill > 0:
            return all(
                _distance_above(point, box, self.domain.fill)
                for point in _near(self.domain.points, box, self.domain.fill)
            )
        return False

    def _inside(self, box: Box, variables: list[Model]) -> bool:
        """Are all points of the box surely in the domain?"""
        if self.domain.points is not None:
            return bool((box.low == box.high).all() and (self.domain.points == box.low).all(axis=1).any())
        if self.condition is not None:
            (truth,) = formula.evaluate(*self.condition, variables)
            return bool(truth.range.low >= 1 and truth.range.defined)
        return bool((self.domain.low <= box.low).all() and (box.high <= self.domain.high).all())


def _volume(box: Box | Domain) -> arb:
    """The volume of a box, a ball."""
    return prod_of(arb(high) - arb(low) for low, high in zip(box.low.tolist(), box.high.tolist(), strict=True))


def prod_of(numbers: Iterable[arb]) -> arb:
    """The product of balls."""
    result = arb(1)
    for number in numbers:
        result = result * number
    return result


def _rule(proof: Proof | None) -> str:
    return "none" if proof is None else proof.rule


def _cube(point: Floats, fill: float) -> tuple[Floats, Floats]:
    """All points within `fill` of a point along each axis, rounded outwards."""
    return (point, point) if fill == 0 else (np.nextafter(point - fill, -np.inf), np.nextafter(point + fill, np.inf))


def _near(points: Floats, box: Box, fill: float) -> Iterator[Floats]:
    """Points that may be within `fill` of a box; the others are farther away along some axis by a wide margin."""
    apart = np.maximum(np.maximum(box.low - points, points - box.high), 0.0)  # (S, D)
    yield from points[(apart <= 2 * fill).all(axis=1)]


def _distance_above(point: Floats, box: Box, fill: float) -> bool:
    """Is a point surely farther than `fill` from every point of a box?"""
    square = ZERO
    for p, low, high in zip(point.tolist(), box.low.tolist(), box.high.tolist(), strict=True):
        apart = arb(low) - arb(p) if p < low else arb(p) - arb(high) if p > high else ZERO
        square += apart * apart
    return bool(square > arb(fill) * arb(fill))
