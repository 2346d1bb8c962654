"""The rule `structure`: networks that compute maxima, in any number of variables and without boxes [T 11.3].

Every feature is followed *as computed*, as an affine form of unknowns (`forms.py`): the variables, the target's maxima
and errors, among them what each operation rounds [T 10]. Affine maps are sums of forms. A head whose values and scores
rise and fall together is a maximum of its values [T 1.4]. At the end target and network are forms of the same
unknowns. Nothing is taken from the construction: a weight that is misread makes an error large, never the bound wrong.

**Fan.** Let token 0 be the base, P and Q two classes of other tokens with `s_j - s_0 = (v_j - v_0)/λ` for j in P and
`s_k - s_0 = (v_0 - v_k)/λ` for k in Q, and `v_j - v_k <= λ ξ`, ξ >= 0, for each j in P and k in Q. Then the head is
within `λ (W(n/e) + ξ)`, n = max(|P|, |Q|), of

    φ = v_0 + max(0, max_P (v_j - v_0)) - max(0, max_Q (v_0 - v_k)),

and not above φ if Q is empty, not below φ if P is empty, because it is an average and φ the largest or smallest value.
*Proof.* Let token τ lead, `g_j = s_τ - s_j`. If it is the base, φ = v_0, and P and Q add terms `w_j λ g_j` of opposite
signs to y - φ. Otherwise let τ be in P; Q is the mirror image. φ is in `[v_τ - λ ξ, v_τ]`. For the base and for j in
P, `v_j - v_τ = -λ g_j`. For k in Q, `v_k - v_τ` is at most `λ g_k`, because `s_τ >= s_0`, and at least `-λ ξ`. So `y -
v_τ` lies between `-λ (Σ w_j g_j + ξ)` and `λ Σ w_k g_k`, sums over n tokens beside τ, which are at most W(n/e) [T
1.2]. ∎

**Perturbed scores.** Let the computed weights be those of scores `s_j + θ_j`, `|θ_j| <= β + u' (g_j + 2β)`, `u' <=
0.005`. Then the sums above are at most `G_n = (W(n/e) + 2.02 β)/(1 - u')`, so that the head is within `λ (G_n + ξ)` of
φ. With m = |P| + |Q| and G = G_m, it is also within

    λ (W(n/e) + ξ) + λ (2.02 β (G + ξ) + u' (0.55 m e^{2.02 β} + G² + 2 ξ G)).

*Proof.* With g'_j the gaps of the perturbed scores from that of τ, `g_j <= (g'_j + 2.02 β)/(1 - u')`, and T 1.2 holds
for g'. On the way from s to s + θ, y moves by `∫ Σ w_j θ_j (v_j - y)`. As `|v_j - v_τ| <= λ (g_j + ξ)`, `|v_j - y|` is
at most `λ (g_j + G + 2ξ)`, and `|θ_j| <= 1.01 β + u' g_j`. Averages of g_j on the way are at most G, those of g_j² at
most `m e^{2.02 β} max_g g² e^{-(1-u') g} <= 0.55 m e^{2.02 β}`. ∎
What scores deviate from a fan is part of θ_j, and so is η_j of T 10.2. A number that is added to all θ_j changes
nothing: β is half of the sum of the two largest.

**Errors of values.** φ is within λξ of `max(min(v_0, min_Q v_k), max_P v_j)`, which grows with each value: if each
changes by something between a and b, so does it. So the judge drops the errors of values, at the cost of the range
that holds them all and of λξ before and after.

Tokens that are surely far below another have little weight [T 10.2] and need not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from flint import arb

from . import rounding
from .covers import Box
from .errors import NotCovered
from .files import Attention, Claim, Network, Softmax
from .formats import FORMATS
from .forms import TUNING as FORMS
from .forms import Form, Unknowns, size
from .limits import Limits, on_box
from .models import total
from .network import Evaluator, Head, Map, balls, power_of_two, tokens_read
from .ranges import ONE, ZERO, Range, down, larger, largest, smaller, up
from .rounding import MARGIN
from .targets import planes_of, stages_of


@dataclass(frozen=True)
class StructureLimits:
    """How many scores and pairs of tokens are looked at."""

    far: int = 30
    """Tokens whose computed scores are surely so far below another need not fit. By trial."""
    most_scores: int = 2**20
    """Scores of one layer. For memory."""
    most_pairs: int = 2**12
    """Pairs of tokens of both classes that are looked at one by one. For time."""


TUNING = StructureLimits()


Tokens = list[list[Form]]


def bound_by_structure(claim: Claim, box: Box, limits: Limits) -> arb:
    """A bound on `|target - network|` on a box that holds the domain."""
    unknowns = Unknowns(box.low, box.high)
    target = maxima_of(claim, unknowns)
    outputs = Follower(claim.network, unknowns, limits).outputs()
    return largest([(f - g).most for f, g in zip(target, outputs, strict=True)])


def maxima_of(claim: Claim, unknowns: Unknowns) -> list[Form]:
    """A piecewise-linear target: `clip(z, a, b) = z + max(0, a - z) - max(0, z - b)`, or maxima of planes."""
    zero, values = unknowns.number(ZERO), unknowns.variables
    if claim.target.get("kind") == "max-affine":
        maxima = [
            unknowns.maximum(
                [unknowns.weighted(balls(row), values, b) for row, b in zip(slopes, balls(offsets), strict=True)],
                target=True,
            )
            for slopes, offsets in planes_of(claim)
        ]
        return [unknowns.weighted([ONE, -ONE][: len(maxima)], maxima)]
    for weight, bias, low, high in stages_of(claim):
        if not (low <= high).all():
            raise NotCovered("a clip whose lower end is above its upper end")
        sums = [unknowns.weighted(balls(column), values, b) for column, b in zip(weight.T, balls(bias), strict=True)]
        values = list[Form]()
        for z, a, b in zip(sums, low.tolist(), high.tolist(), strict=True):
            below = [zero, unknowns.number(arb(a)) - z] if np.isfinite(a) else [zero]
            above = [zero, z - unknowns.number(arb(b))] if np.isfinite(b) else [zero]
            values.append(z + unknowns.maximum(below, target=True) - unknowns.maximum(above, target=True))
    return values


class Follower:
    """Follows the features of one network."""

    def __init__(self, network: Network, unknowns: Unknowns, limits: Limits) -> None:
        self.network, self.unknowns, self.limits = network, unknowns, limits
        self.evaluator, self.format = Evaluator(network), FORMATS[network.dtype]

    def inputs(self) -> Tokens:
        """The variables, rounded to the format of the network."""
        forms = [
            x + self.unknowns.error(up(rounding.moved(x.most, self.format) + self.format.tiny))
            for x in self.unknowns.variables
        ]
        width = self.network.width
        return [forms[k * width : (k + 1) * width] for k in range(self.network.length)]

    def outputs(self) -> list[Form]:
        """The outputs of the network, token by token."""
        tokens = self.inputs()
        for number in range(len(self.network.layers)):
            tokens = self.after(number, tokens)
        return list(chain(*tokens))

    def after(self, number: int, tokens: Tokens) -> Tokens:
        """The features behind a layer."""
        layer, layers = self.network.layers[number], self.network.layers
        self.limits.step(on_box(self.network.products[number] * len(self.unknowns.ranges)))
        if isinstance(layer, Softmax):
            raise NotCovered("an argument by structure for a softmax over features")
        map_ = self.evaluator.maps[number]
        if isinstance(layer, Attention):
            read = tokens_read(layers[number + 1] if number + 1 < len(layers) else None, len(tokens))
            return self.attention(layer, self.evaluator.heads[number], map_, tokens, read)
        if layer.left is None:
            return [self.mapped(map_, token) for token in tokens]
        flat, features = self.mapped(map_, list(chain(*tokens))), layer.constant.shape[1]
        return [flat[k : k + features] for k in range(0, len(flat), features)]

    def mapped(self, map_: Map, forms: Sequence[Form]) -> list[Form]:
        """An affine map of features as computed."""
        sizes, results = [form.most for form in forms], list[Form]()
        for weights, bias, column in map_.columns:
            exact = self.unknowns.weighted(weights, forms, bias)
            own = rounding.linear(column, sizes, [ZERO] * len(sizes), exact.most, self.format)
            results.append(exact + self.unknowns.error(own))
        return results

    def attention(self, layer: Attention, heads: list[Head], map_: Map, tokens: Tokens, read: list[bool]) -> Tokens:
        """A layer of heads on the tokens that are read behind it."""
        unknowns, seen = self.unknowns, [[self.unknowns.number(x) for x in balls(row)] for row in layer.memory]
        seen += tokens if layer.attends_data else []
        if len(heads) * len(tokens) * len(seen) > TUNING.most_scores:
            raise NotCovered(f"an argument by structure for a layer with more than {TUNING.most_scores} scores")
        shown = [[(self.mapped(head.key, each), self.mapped(head.value, each)) for each in seen] for head in heads]
        results: Tokens = []
        for token, needed in zip(tokens, read, strict=True):
            if not needed:
                results.append([unknowns.number(ZERO)] * layer.output.shape[2])
                continue
            averages: list[Form] = []
            for head, pairs in zip(heads, shown, strict=True):
                self.limits.step()
                query = self.mapped(head.query, token)
                keys = [self._key(layer, query, key, values) for key, values in pairs]
                keys = self._merged(keys)
                averages += [_Column(keys, column, self).average() for column in range(layer.value.shape[2])]
            results.append(self.with_residual(layer, self.mapped(map_, averages), token))
        return results

    def with_residual(self, layer: Attention, row: list[Form], token: list[Form]) -> list[Form]:
        """What a layer returns for a token; where it adds nothing, the token stays as it is."""
        if not layer.residual:
            return row
        return [b if not a.terms else self._sum(a, b) for a, b in zip(row, token, strict=True)]

    def _key(self, layer: Attention, query: list[Form], key: list[Form], values: list[Form]) -> _Key:
        """A token as a query sees it."""
        score = self.unknowns.number(ZERO)
        for q, k in zip(query, key, strict=True):
            score = score + self.unknowns.product(q, k)
        none = [ZERO] * len(query)
        exact = [q.constant and power_of_two(q.start) for q in query]
        of_query, sizes = rounding.Query([q.most for q in query], none, exact), [k.most for k in key]
        return _Key(score, values, rounding.score(of_query, none, sizes, none, score.most, layer, self.format))

    def _merged(self, keys: list[_Key]) -> list[_Key]:
        """Tokens with equal scores and values, but for errors, as one: n of them have the score `s + log n`."""
        alike: dict[tuple[float, ...], list[_Key]] = {}
        for key in keys:
            forms = [key.score, *key.values]
            hint = [float(form.terms.get(place, ZERO)) for form in forms for place in self.unknowns.named]
            alike.setdefault(tuple(hint), []).append(key)
        return [self._one(same) if len(same) > 1 else same[0] for same in alike.values()]

    def _one(self, same: list[_Key]) -> _Key:
        def common(forms: list[Form]) -> Form:
            """Something between the smallest and the largest of forms."""
            return forms[0] + self.unknowns.error(largest([(form - forms[0]).most for form in forms]))

        values = [common(list(forms)) for forms in zip(*(key.values for key in same), strict=True)]
        score = common([key.score for key in same])
        apart = largest([(key.score - score).most for key in same])
        return _Key(score, values, up(largest([key.error for key in same]) + apart), len(same))

    def _sum(self, a: Form, b: Form) -> Form:
        """A residual connection."""
        exact = a + b
        return exact + self.unknowns.error(rounding.added(exact.most, ZERO, self.format))


@dataclass(frozen=True, eq=False)
class _Key:
    """A token that a head shows to a query: its score, its values, what the score is off as computed, its copies."""

    score: Form
    values: list[Form]
    error: arb
    copies: int = 1


@dataclass(frozen=True, eq=False)
class _Fan:
    """A column read as a fan around a token: its classes, and what the average is off."""

    base: Form
    higher: list[Form]
    lower: list[Form]
    error: Range

    @classmethod
    def of(cls, base: Form, higher: list[Form], lower: list[Form], deviation: arb, beside: arb) -> _Fan:
        """The fan of values without their errors."""
        rises, falls = [rise.quiet for rise in higher], [fall.quiet for fall in lower]
        beside = up(beside + _crossing(higher, lower) + _crossing(rises, falls))
        above = deviation if lower or not higher else ZERO
        below = deviation if higher or not lower else ZERO
        noise = base.noise
        for value in chain((base + rise for rise in higher), (base - fall for fall in lower)):
            noise = noise.join(value.noise)
        return cls(base.quiet, rises, falls, noise + Range(-up(below + beside), up(above + beside)))


class _Column:
    """One column of the values of a head, for one query."""

    def __init__(self, keys: list[_Key], column: int, follower: Follower) -> None:
        self.unknowns, self.format = follower.unknowns, follower.format
        self.copies, self.values = [key.copies for key in keys], [key.values[column] for key in keys]
        ranges, errors = [value.range for value in self.values], [key.error for key in keys]
        self.spread = up(largest([each.high for each in ranges]) + largest([-each.low for each in ranges]))
        loud = int(np.argmax([float(key.score.range.low) for key in keys]))
        gaps = [-(key.score - keys[loud].score).range.high for key in keys]
        self.gaps = [down(gap - error - errors[loud]) for gap, error in zip(gaps, errors, strict=True)]
        worst, count = largest(errors), sum(self.copies)
        self.doubts = [up(rounding.doubt(error, worst, count, self.format)) for error in errors]
        self.scores = [key.score for key in keys]
        self.together = [key.score + self.unknowns.number(arb(key.copies).log()) for key in keys]
        self.near = [k for k, gap in enumerate(self.gaps) if not gap >= TUNING.far]
        self.bases = self.near if len(self.near) <= FORMS.few else [loud]

    def average(self) -> Form:
        """The average as computed, by the closest fan."""
        ways = (True, False) if max(self.copies) > 1 else (True,)
        fans = [self._fan(base, together=way) for base in self.bases for way in ways]
        fans += [self._flat(base) for base in self.bases]
        fan = fans[int(np.argmin([float(each.error.most) for each in fans]))]
        zero, maximum = self.unknowns.number(ZERO), self.unknowns.maximum
        above, below = maximum([zero, *fan.higher]), maximum([zero, *fan.lower])
        return fan.base + above - below + self.unknowns.new(fan.error)

    def _flat(self, base: int) -> _Fan:
        """All tokens that are near have about the value of the base."""
        off = largest([(self.values[k] - self.values[base]).most for k in self.near])
        return _Fan.of(self.values[base], [], [], off, self._beside(self.near))

    def _fan(self, base: int, *, together: bool) -> _Fan:
        """Every token in the class to which it is closest; one that is far and does not fit is left out.

        Copies are one token with a higher score, or so many tokens. In the latter case copies of the base count in
        both classes.
        """
        scores = self.together if together else self.scores
        rises, steps = ([f - each[base] for f in each] for each in (self.values, scores))
        slopes = [_slope(rise, step) for rise, step in zip(rises, steps, strict=True)]
        scale = largest([abs(slopes[k]) for k in self.near])  # λ
        if scale.is_zero():
            return self._flat(base)
        counted = [1] * len(self.values) if together else self.copies
        classes: tuple[list[Form], list[Form]] = [], []
        counts, inside, doubts = [counted[base] - 1] * 2, [base], [self.doubts[base]] * min(counted[base], 2)
        for k, (rise, step, slope) in enumerate(zip(rises, steps, slopes, strict=True)):
            lower = bool(slope < 0)
            part = rise.scaled(-ONE) if lower else rise
            off = up((part - step.scaled(scale)).most / scale)
            left_out = self.gaps[k] >= TUNING.far and self._weight(k) * self.spread < scale * off
            if k != base and not left_out:
                classes[lower].append(part)
                counts[lower] += counted[k]
                inside.append(k)
                doubts += [up(self.doubts[k] + off)] * min(counted[k], 2)
        deviation = scale * self._deviation(counts[0], counts[1], doubts, up(_crossing(*classes) / scale))
        return _Fan.of(self.values[base], *classes, up(deviation), self._beside(inside))

    def _deviation(self, higher: int, lower: int, doubts: list[arb], crossing: arb) -> arb:
        """How far an average with perturbed scores is from φ, divided by λ."""
        drift = MARGIN * self.format.unit  # u'
        worst = int(np.argmax([float(each) for each in doubts]))
        beta = up((largest(doubts) + largest([each for k, each in enumerate(doubts) if k != worst])) / 2)
        exact, whole = _lambert(max(higher, lower)), _lambert(higher + lower)
        direct = (exact + arb("2.02") * beta) / (1 - drift)
        reach = (whole + arb("2.02") * beta) / (1 - drift)  # G
        squares = arb("0.55") * (higher + lower) * (arb("2.02") * beta).exp()
        along = arb("2.02") * beta * (reach + crossing)
        along += drift * (squares + reach**2 + 2 * crossing * reach)
        return up(smaller(up(direct), up(exact + along)) + crossing)

    def _weight(self, k: int) -> arb:
        """The computed weight of tokens whose score is far below another one's, as a fraction of all [T 10.2]."""
        return up(arb("1.2") * self.copies[k] * (-arb("0.999") * self.gaps[k]).exp())

    def _beside(self, inside: list[int]) -> arb:
        """What tokens that are left out and the sums over all tokens add to an average."""
        share = up(total([self._weight(k) for k in range(len(self.values)) if k not in set(inside)]))
        most = largest([self.values[k].most for k in inside])
        tokens, keys = sum(self.copies[k] for k in inside), sum(self.copies)
        sums = rounding.sums(tokens, most, share, self.spread, keys, self.format)
        return up(smaller(share, ONE) * self.spread + sums)


def _slope(rise: Form, step: Form) -> arb:
    """About how much a value rises for each unit of its score; 0 where the score does not vary."""
    sizes = {place: float(abs(a) * size(step.unknowns.ranges[place])) for place, a in step.terms.items()}
    if not sizes:
        return ZERO
    place = max(sizes, key=sizes.__getitem__)
    slope = rise.terms.get(place, ZERO) / step.terms[place]
    return slope.mid() if slope.is_finite() else ZERO


def _lambert(tokens: int) -> arb:
    """W(n/e)."""
    return up((tokens / ONE.exp()).lambertw())


def _crossing(higher: list[Form], lower: list[Form]) -> arb:
    """ξ times λ: the largest `v_j - v_k` for a token of each class, or 0."""
    if len(higher) * len(lower) > TUNING.most_pairs:
        return larger(up(largest([f.range.high for f in higher]) + largest([f.range.high for f in lower])), ZERO)
    return largest([ZERO, *((f + g).range.high for f in higher for g in lower)])
