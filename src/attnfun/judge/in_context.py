"""The rule `in context`: coefficients that a network fits to the data in its prompt [T 10.9, 11.17].

What every execution holds is X + D ε, |ε_k| <= 1: X is followed in balls, D in floats, whose rounding is bounded too.
The minimiser is enclosed by Newton's method in balls, from the data of the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from flint import arb, arb_mat

from . import rounding
from .errors import NotCovered, Unreadable
from .files import Affine, Attention, Claim, Floats, Network, Proof, number_in
from .formats import FORMATS, Format, rounded
from .limits import Limits
from .models import total
from .network import Map, balls, matrix
from .ranges import INFINITE, ONE, ZERO, larger, largest, size, up

Balls = list[list[arb]]

FAR, LOST = arb(650), arb(2) ** -90
"""Tokens so far behind in every execution have no weight; more than they, and products that underflow, can add."""
MOST_MOVED = arb("0.25")
"""Scores that move more, or are off more, are not followed."""


@dataclass(frozen=True)
class StateLimits:
    """How many symbols enclosures of learners have."""

    dense: int = 6
    """Symbols for each number that varies, at most. For time."""


TUNING = StateLimits()

UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class State:
    """What all executions hold after a layer: centres, balls of radius zero, and D (n, d, K)."""

    centre: Balls
    D: Floats

    @property
    def reach(self) -> Balls:
        """How far executions may be from the centres."""
        return [balls(row) for row in 1.001 * np.abs(self.D).sum(axis=2)]

    def after(self, centre: Balls, D: Floats, off: Balls) -> State:
        """The state behind a layer, whose numbers may be off by so much more."""
        more = np.array(
            [[float(up(o + c.rad())) for o, c in zip(*pair, strict=True)] for pair in zip(off, centre, strict=True)]
        )
        if not (np.isfinite(more).all() and np.isfinite(D).all()):
            raise NotCovered("executions of a network whose numbers are large, or whose scores are not nearly known")
        more = np.where(more > 0, 1.001 * more + 1e-290, 0.0)
        places = np.argwhere(more > 0)
        fresh = np.zeros((*more.shape, len(places)))
        fresh[places[:, 0], places[:, 1], np.arange(len(places))] = more[places[:, 0], places[:, 1]]
        D = np.concatenate([D, fresh], axis=2)
        order = np.argsort(-np.abs(D).sum(axis=(0, 1)), kind="stable")
        most = TUNING.dense * int((np.abs(D).sum(axis=2) > 0).sum())
        middles = [[each.mid() for each in row] for row in centre]
        if len(order) <= most:
            return State(middles, D)
        rest = [balls(row) for row in np.abs(D[:, :, order[most // 2 :]]).sum(axis=2)]
        return State(middles, D[:, :, order[: most // 2]]).after(middles, D[:, :, order[: most // 2]], rest)


@dataclass(frozen=True, eq=False)
class Mapped:
    """Rows behind an affine map: centres, how far executions may be, and what those are off."""

    centre: Balls
    reach: Balls
    off: Balls

    @classmethod
    def of(cls, map_: Map, rows: Balls, reach: Balls, format_: Format) -> Mapped:
        """`x W + b` of each row."""
        columns = map_.columns
        weight = arb_mat([list(row) for row in zip(*(w for w, _, _ in columns), strict=True)])
        sizes = arb_mat([[abs(each) for each in row] for row in weight.tolist()])
        values, moved = (arb_mat(rows) * weight).tolist(), (arb_mat(reach) * sizes).tolist()
        centre = [[v + b for v, (_, b, _) in zip(row, columns, strict=True)] for row in values]
        far = [[up(each) for each in row] for row in moved]
        whole = [[up(abs(x) + r) for x, r in zip(*pair, strict=True)] for pair in zip(rows, reach, strict=True)]
        nothing = [ZERO] * len(rows[0])
        off = [
            [
                rounding.linear(column, w, nothing, up(size(v) + r), format_)
                for v, r, (_, _, column) in zip(row, reached, columns, strict=True)
            ]
            for row, reached, w in zip(centre, far, whole, strict=True)
        ]
        return cls(centre, far, off)

    @property
    def whole(self) -> Balls:
        """Sizes of what executions hold."""
        triples = zip(self.centre, self.reach, self.off, strict=True)
        return [[up(size(c) + r + o) for c, r, o in zip(*triple, strict=True)] for triple in triples]


def executions(network: Network, rows: Floats, limits: Limits) -> State:
    """All executions on the numbers of a prompt."""
    format_, state = FORMATS[network.dtype], State([balls(row) for row in rows], np.zeros((*rows.shape, 0)))
    if not format_.store.is_zero():
        raise NotCovered(f"executions in {network.dtype}")
    for layer, products in zip(network.layers, network.products, strict=True):
        limits.step(64 * products)
        match layer:
            case Affine():
                state = _affine(layer, state, format_)
            case Attention() if not layer.keyed:
                state = _attention(layer, state, format_)
            case _:
                raise NotCovered("executions of networks with other layers")
    return state


def _affine(layer: Affine, state: State, format_: Format) -> State:
    left = np.ones((1, 1, 1)) if layer.left is None else layer.left
    if layer.left is None:
        found = Mapped.of(Map.of(layer.right[0], layer.constant[0]), state.centre, state.reach, format_)
        D, terms = np.einsum("ifs,fg->igs", state.D, layer.right[0]), len(layer.right[0])
    else:
        flat = [list(chain(*part)) for part in (state.centre, state.reach)]
        found = Mapped.of(Map.of_sequence(layer, left), [flat[0]], [flat[1]], format_)
        shape = layer.constant.shape
        parts = (
            np.array(part[0], dtype=object).reshape(shape).tolist() for part in (found.centre, found.reach, found.off)
        )
        found = Mapped(*parts)
        D, terms = np.einsum("kni,ifs,kfg->ngs", left, state.D, layer.right), left[:, 0].size + layer.right[..., 0].size
    gamma = arb(4 * UNIT * (terms + 8))
    off = [[o + gamma * r for o, r in zip(*pair, strict=True)] for pair in zip(found.off, found.reach, strict=True)]
    return state.after(found.centre, D, off)


def _attention(layer: Attention, state: State, format_: Format) -> State:
    reach, n = state.reach, len(state.centre)
    memory = [balls(row) for row in layer.memory]
    T, T_reach = memory, [[ZERO] * len(row) for row in memory]
    if layer.attends_data:
        T, T_reach = state.centre + T, reach + T_reach
    varies = np.argwhere(np.abs(state.D).sum(axis=2) > 0)
    written = np.flatnonzero((layer.output != 0).any(axis=(0, 1)))
    slopes = np.zeros((n, len(written), *state.D.shape[:2]))
    extra = 32 + len(varies) + len(T) + layer.query.shape[2] + len(layer.output) * layer.output.shape[1]
    facts: list[list[list[arb]]] = [[[] for _ in range(n)] for _ in range(4)]  # averages, reach, off, curved
    for h, out in enumerate(layer.output[:, :, written]):
        maps = ((layer.query, layer.query_bias), (layer.key, layer.key_bias), (layer.value, layer.value_bias))
        q, k, v = (
            Mapped.of(Map.of(weight[h], bias[h]), *rows, format_)
            for (weight, bias), rows in zip(maps, ((state.centre, reach), (T, T_reach), (T, T_reach)), strict=True)
        )
        head = _Head(layer, q, k, v, format_, arb(4 * UNIT * extra))
        weights, centred = np.zeros((n, len(T))), np.zeros((n, len(T), len(v.centre[0])))
        for i in range(n):
            found = head.row(i)
            for fact, numbers in zip(facts, found[:4], strict=True):
                fact[i] += numbers
            weights[i], centred[i] = found[4], found[5]
        keys, queries = (np.array([[float(each.mid()) for each in row] for row in part.centre]) for part in (k, q))
        own = np.einsum("vo,ivk,gk->iog", out, np.einsum("ijv,jk->ivk", centred, keys), layer.query[h])
        slopes[np.arange(n), :, np.arange(n)] += own
        if layer.attends_data:
            slopes += np.einsum("ij,og->iojg", weights[:, :n], (layer.value[h] @ out).T)
            slopes += np.einsum("ijo,ig->iojg", centred[:, :n] @ out, queries @ layer.key[h].T)
    averages, moved, offs, curved = facts
    flat = Map.of(layer.output.reshape(-1, layer.output.shape[2]), layer.output_bias)
    found = Mapped.of(flat, averages, moved, format_)
    D = state.D.copy() if layer.residual else np.zeros((*slopes.shape[:1], len(layer.output_bias), state.D.shape[2]))
    D[:, written] += np.einsum(
        "ioa,as->ios", slopes[:, :, varies[:, 0], varies[:, 1]], state.D[varies[:, 0], varies[:, 1]]
    )
    centre, off = list[list[arb]](), list[list[arb]]()
    for i in range(n):
        sizes = [up(size(y) + m) for y, m in zip(averages[i], moved[i], strict=True)]
        centre.append([])
        off.append([])
        for f, (_, _, column) in enumerate(flat.columns):
            value, result = found.centre[i][f], up(size(found.centre[i][f]) + found.reach[i][f])
            wrong = rounding.linear(column, sizes, offs[i], result, format_)
            if layer.residual and (column.used or not column.bias.is_zero()):
                value += state.centre[i][f]
                wrong = rounding.added(up(result + size(state.centre[i][f]) + reach[i][f]), wrong, format_)
            elif layer.residual:
                value = state.centre[i][f]
            wrong += total([weight * curved[i][place] for place, weight, _ in column.used])
            centre[i].append(value)
            off[i].append(
                up(wrong + arb(8 * UNIT) * (found.reach[i][f] + reach[i][f] * layer.residual) * bool(column.used))
            )
    return state.after(centre, D, off)


class _Head:
    """One head, row by row."""

    def __init__(self, layer: Attention, q: Mapped, k: Mapped, v: Mapped, format_: Format, gamma: arb) -> None:
        self.layer, self.q, self.k, self.v, self.format, self.gamma = layer, q, k, v, format_, gamma
        self.scores = (arb_mat(q.centre) * arb_mat(k.centre).transpose()).tolist()
        self.parts = (k.whole, k.reach, k.off)
        self.all = [_largest(part, range(len(k.centre))) for part in self.parts]
        self.q_whole, self.v_whole = q.whole, v.whole
        everything = up(len(k.centre) * largest([each for row in self.v_whole for each in row]))
        root = arb(layer.stock_size).sqrt()
        heaviest = arb(float(max(np.abs(layer.query).max(initial=0.0), np.abs(layer.query_bias).max(initial=0.0))))
        self.sane = rounding.fits(up(root * heaviest), format_) and rounding.fits(everything, format_)
        parts = (q, k, v)
        fuzz = largest([each.rad() for part in parts for row in part.centre for each in row])
        self.lost = (LOST + fuzz) * (1 + total([each for part in parts for row in part.reach for each in row]))
        self.most = largest([each for row in self.v_whole for each in row])

    def _scores(self, i: int, keys: list[list[arb]]) -> tuple[arb, arb, arb]:
        """How far scores move, what of that is not linear, and what they are off; for keys of these sizes."""
        whole, far, wrong = keys
        q, reach, off, format_ = self.q_whole[i], self.q.reach[i], self.q.off[i], self.format
        bent = total([a * b for a, b in zip(reach, far, strict=True)])
        every = bent + total([a * b + c * d for a, b, c, d in zip(q, far, reach, whole, strict=True)])
        products = total([a * b for a, b in zip(q, whole, strict=True)])
        terms = sum(not (a.is_zero() or b.is_zero()) for a, b in zip(q, whole, strict=True))
        terms += rounding.scaling_roundings(self.layer)
        error = total([a * b + c * d for a, b, c, d in zip(q, wrong, off, whole, strict=True)])
        error += rounding.MARGIN * terms * format_.unit * products + (terms + 1) * format_.tiny
        root = arb(self.layer.stock_size).sqrt()
        if not (self.sane and rounding.fits(up(2 * root * larger(up(products), largest(q))), format_)):
            error = INFINITE
        return up(every), up(bent), up(error)

    def row(self, i: int) -> tuple[list[arb], list[arb], list[arb], list[arb], list[float], Floats]:
        """Averages, how far they move, what they are off and what is not linear; weights and distances as floats."""
        scores, format_, count = self.scores[i], self.format, len(self.scores[i])
        top, (every, _, wrong) = largest([up(each) for each in scores]), self._scores(i, self.all)
        rough = up(FAR + 4 * every + 16 * wrong + 4)
        live = [j for j, each in enumerate(scores) if not top - each > rough]
        each = [self._scores(i, [part[j] for part in self.parts]) for j in live]
        moves, bent, error = (largest(list(numbers)) for numbers in zip(*each, strict=True))
        alone = len(live) == 1  # then its weight is one, whatever its score
        tau = ZERO if alone else moves
        doubts = [
            rounding.doubt(ZERO if alone else own, error, count, format_)
            + rounding.MARGIN * format_.unit * up(top - scores[j] + 2 * moves + 1)
            for j, (_, _, own) in zip(live, each, strict=True)
        ]
        doubt = largest([up(number) for number in doubts])
        weights = [(scores[j] - top).exp() for j in live]
        whole = total(weights)
        weights = [w / whole for w in weights]
        known = tau <= MOST_MOVED and doubt <= MOST_MOVED and rough.is_finite()
        E, shift = (2 * (tau + doubt)).exp(), (2 * tau).expm1()
        lost = self.lost * (1 + self.most) * (1 + every)
        averages, moved, offs, curved = list[arb](), list[arb](), list[arb](), list[arb]()
        centred = np.zeros((count, len(self.v.centre[0])))
        for c in range(len(self.v.centre[0])):
            y = total([w * self.v.centre[j][c] for w, j in zip(weights, live, strict=True)])
            away = [self.v.centre[j][c] - y for j in live]
            drawn = total([w * d.expm1() * size(a) for w, d, a in zip(weights, doubts, away, strict=True)])
            known_of = ([part[j][c] for j in live] for part in (self.v.reach, self.v.off, self.v_whole))
            spread, reach, off, sizes = (
                up(total([w * number for w, number in zip(weights, part, strict=True)]))
                for part in ([size(a) for a in away], *known_of)
            )
            move = up(E * (shift * spread + reach) + lost)
            sums = rounding.sums(count, up(E * sizes), ZERO, ZERO, count, format_)
            averages.append(y)
            moved.append(move)
            offs.append(up(E * (drawn + doubt.expm1() * (reach + move) + off) + sums + lost) if known else INFINITE)
            curve = (bent + 2 * tau**2 * (2 * tau).exp()) * spread + shift * reach
            curved.append(up(curve + self.gamma * (moves * spread + reach) + lost))
            for w, j, a in zip(weights, live, away, strict=True):
                centred[j, c] = float((w * a).mid())
        floats = [0.0] * count
        for w, j in zip(weights, live, strict=True):
            floats[j] = float(w.mid())
        return averages, moved, offs, curved, floats, centred


def _largest(rows: Balls, tokens: Sequence[int]) -> list[arb]:
    """The largest number of each feature."""
    return [largest([rows[j][c] for j in tokens]) for c in range(len(rows[0]))]


def bound_in_context(claim: Claim, proof: Proof, limits: Limits) -> arb:
    """A bound on the distance of all coefficients from those of the minimiser."""
    domain, network = claim.domain, claim.network
    if claim.target.get("kind") != "fitted model" or domain.points is None or len(domain.points) != 1 or domain.fill:
        raise NotCovered("the rule 'in context' for another claim than a fitted model at one prompt")
    rows = domain.points[0].reshape(network.length, network.width)
    if not np.array_equal(rounded(rows, network.dtype), rows):
        raise NotCovered("a prompt that must be rounded")
    model = Fitted(claim)
    guess, away = model.minimiser(proof, limits)
    state = executions(network, rows, limits)
    held, reach = (list(chain(*part)) for part in (state.centre, state.reach))
    return largest([up(abs(c - g) + r + a) for c, r, g, a in zip(held, reach, guess, away, strict=True)])


class Fitted:
    """`Σ_i ℓ(z_i, y_i) + alpha |W|²/2 + n beta Σ|W|`, intercepts free; coefficients row by row."""

    def __init__(self, claim: Claim) -> None:
        words = claim.target
        X, y = (claim.arrays.get(name, np.empty(0)) for name in ("X", "y"))
        fits = all(each.dtype == np.float64 and each.ndim == 2 and np.isfinite(each).all() for each in (X, y))
        numbers = [number_in(words, name) for name in ("alpha", "beta", "delta")]
        if not fits or len(X) != len(y) or not X.size or type(words.get("intercept")) is not bool:
            raise Unreadable("a fitted model must have points, labels, and say if it has an intercept")
        if not numbers[2]:
            raise Unreadable("a fitted model must have a positive delta")
        self.alpha, self.beta, self.delta = (arb(each) for each in numbers)
        self.loss, self.intercept = words.get("loss"), bool(words["intercept"])
        self.m, self.P, self.y = y.shape[1], X.shape[1] + self.intercept, [balls(row) for row in y]
        self.free = [self.intercept and j == self.P - 1 for j in range(self.P) for _ in range(self.m)]
        if self.P * self.m != claim.outputs:
            raise Unreadable("a network must put out the coefficients of its fitted model")
        middle = [total(balls(column)) / len(X) if self.intercept else ZERO for column in X.T]
        self.points = arb_mat(
            [[arb(x) - c for x, c in zip(row, middle, strict=True)] + [ONE] * self.intercept for row in X.tolist()]
        )

    def _losses(self, z: list[arb], y: list[arb]) -> tuple[list[arb], list[list[arb]]]:
        """Derivatives by z of one example, and second derivatives."""
        match self.loss:
            case "squared":
                pairs = [(a - b, ONE) for a, b in zip(z, y, strict=True)]
            case "logistic":
                pairs = [((a / 2).tanh() / 2 - b, (1 - (a / 2).tanh() ** 2) / 4) for a, b in zip(z, y, strict=True)]
            case "poisson":
                pairs = [(a.exp() - b, a.exp()) for a, b in zip(z, y, strict=True)]
            case "log-cosh":
                t = [((a - b) / self.delta).tanh() for a, b in zip(z, y, strict=True)]
                pairs = [(self.delta * each, 1 - each**2) for each in t]
            case "softmax":
                p = [1 / total([(b - a).exp() for b in z]) for a in z]
                second = [[a * (1 - a) if i == k else -a * b for k, b in enumerate(p)] for i, a in enumerate(p)]
                return [a - b for a, b in zip(p, y, strict=True)], second
            case loss:
                raise NotCovered(f"fitted models with the loss {str(loss)[:40]}")
        second = [[s if i == k else ZERO for k in range(self.m)] for i, (_, s) in enumerate(pairs)]
        return [first for first, _ in pairs], second

    def derivatives(self, W: list[arb]) -> tuple[list[arb], arb_mat]:
        """Gradient and second derivatives without the penalty beta."""
        m, P, points = self.m, self.P, self.points
        z = (points * arb_mat(P, m, W)).tolist()
        each = [self._losses(row, y) for row, y in zip(z, self.y, strict=True)]
        gradient = list(chain(*(points.transpose() * arb_mat([first for first, _ in each])).tolist()))
        H = [[ZERO] * (P * m) for _ in range(P * m)]
        for k in range(m):
            for q in range(m):
                scaled = [
                    [x * second[k][q] for x in row] for row, (_, second) in zip(points.tolist(), each, strict=True)
                ]
                block = (points.transpose() * arb_mat(scaled)).tolist()
                for j in range(P):
                    for i in range(P):
                        H[j * m + k][i * m + q] = block[j][i]
        for a in range(P * m):
            if not self.free[a]:
                gradient[a] += self.alpha * W[a]
                H[a][a] += self.alpha
            elif self.loss == "softmax":
                gradient[a] += total(W[-m:])
                H[a][-m:] = [each + 1 for each in H[a][-m:]]
        return gradient, arb_mat(H)

    def minimiser(self, proof: Proof, limits: Limits) -> tuple[list[arb], list[arb]]:
        """The coefficients of a proof, and how far they may be from the minimiser's [T 11.17]."""
        count, strength = self.P * self.m, self.beta * len(self.y)
        shapes = {"coefficients": (self.P, self.m), "inverse": (count, count), "scale": (self.P, self.m)}
        arrays = [proof.data.get(name, np.empty(0)) for name in shapes]
        for array, shape in zip(arrays, shapes.values(), strict=True):
            if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
                raise Unreadable("a proof by the rule 'in context' must have coefficients, inverse and scale")
        limits.step(8 * len(self.y) * count**2 + count**3)
        guess, scale = balls(arrays[0]), balls(arrays[2])
        if not all(v > 0 for v in scale):
            raise Unreadable("a scale must be positive")
        used = [a for a in range(count) if self.beta.is_zero() or self.free[a] or not guess[a].is_zero()]
        push = [ZERO if self.free[a] else strength * (1 if guess[a] > 0 else -1) for a in used]
        slope = self.derivatives(guess)[0]
        C = matrix(arrays[1][np.ix_(used, used)])
        step = (C * arb_mat([[slope[a] + p] for a, p in zip(used, push, strict=True)])).tolist()
        epsilon = largest([up(size(s) / scale[a]) for (s,), a in zip(step, used, strict=True)])
        room = [up(2 * epsilon * v) if a in used else ZERO for a, v in enumerate(scale)]
        slopes, H = self.derivatives([arb(g, r) for g, r in zip(guess, room, strict=True)])
        inner = arb_mat([[H[a, b] for b in used] for a in used])
        left = (C * inner).tolist()
        kappa = ZERO
        for i, a in enumerate(used):
            total_ = total(
                [size(each - (i == j)) * scale[b] for j, (each, b) in enumerate(zip(left[i], used, strict=True))]
            )
            kappa = larger(kappa, up(total_ / scale[a]))
        if not kappa <= arb("0.5"):
            raise NotCovered("a proof by the rule 'in context' whose inverse is none")
        for a in range(count):
            if a in used and (self.free[a] or self.beta.is_zero() or abs(guess[a]) > room[a]):
                continue
            if a in used or not size(slopes[a]) < strength:
                raise NotCovered("a proof by the rule 'in context' that does not know which coefficients are zero")
        return guess, [up(epsilon * v / (1 - kappa)) if a in used else ZERO for a, v in enumerate(scale)]
