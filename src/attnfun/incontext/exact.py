"""The exact algorithms, in extended precision, and bounds on what the network adds to their errors in one step [T 8.2].

An algorithm is a map from one iterate to the next. `step` returns what it makes of an iterate, and a bound on how far a
network is from that which starts the step from the same iterate. Let W_t be what the network holds and w_t the iterates
of the algorithm. Then

    |W_{t+1} - w_{t+1}|  ≤  |step(W_t) - step(w_t)| + bound(W_t),

and the first term is computed, not estimated: errors of earlier steps are carried on exactly as the algorithm does. So
is the inverse: step(W_t) is taken with the V that the network holds, step(w_t) with the algorithm's own.

**Bound of a step.** Arrays E hold bounds, entry by entry. A product by the read-out errs by at most `report.Errors`; a
product of quantities that err themselves by |A| E_B + E_A (|B| + E_B) more. Then

    z = X w          E_z: read-out, and the error of centring
    d = ψ(z)         E_d = ψ'max E_z + θ A(z): θ is the error of an average relative to |values|, A is ψ with those
    g, q             E_r: read-out, and means of |x| E_d
    w - V r          ‖V E_r‖ + read-out + rounding.

Gates of the lasso are exact but for rounding if no |±a - α| is within its error and 745/R; otherwise the bound is
infinite. ∎
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic.rounding import all_orders, average_error
from ..constructions.sharpness import RECTIFIER
from ..network import Attention, Network
from ..runtime.backends import prompts
from . import convex, sparse
from .banks import LossBank
from .descent import LARGEST, sharpness
from .layers import DOUBLINGS, LOW, largest_inverse, stretches
from .losses import Loss
from .precision import precision_of
from .prompt import REACH, Prompt, columns
from .registers import Registers
from .report import Errors, Iterate, Report, norm

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


OTHERS = 3
"""Products of a score in a bank beside those with its points: with 1 and with two flags (`banks.py`)."""


@dataclass(frozen=True)
class Examples:
    """Centred examples of a prompt, what they are divided by in means, and errors of sums over them."""

    prompt: Prompt
    dtype: str

    @cached_property
    def place(self) -> Registers:
        """Where things stand in a prompt."""
        return Registers(**columns(self.prompt.features, len(self.prompt.units.y), self.prompt.blocks))

    @cached_property
    def state(self) -> Array:
        """State rows without mirror images, (P, .)."""
        return self.prompt.rows[: 2 * self.prompt.features * self.prompt.blocks : 2].astype(np.longdouble)

    @cached_property
    def data(self) -> Array:
        """Examples without mirror images, (n, .)."""
        first = 2 * len(self.state) + 1
        return self.prompt.rows[first : first + 2 * self.prompt.examples : 2].astype(np.longdouble)

    @cached_property
    def X(self) -> Array:  # noqa: N802
        """Centred points, (n, p)."""
        X = self.data[:, self.place["x"]].copy()
        if self.prompt.intercept and self.prompt.centred:
            X[:, :-1] -= X[:, :-1].mean(axis=0)
        return X

    @cached_property
    def Y(self) -> Array:  # noqa: N802
        """Targets, (n, m)."""
        return self.data[:, self.place["y"]]

    @cached_property
    def farthest(self) -> float:
        """The largest coordinate of an example."""
        return float(np.abs(self.X).max()) + self.rough

    @cached_property
    def rough(self) -> float:
        """Error of centring: of a mean over n rows, in any order; without it, of rounding to the format."""
        roundings = len(self.data) + 8 if self.prompt.centred else 1
        farthest = float(np.abs(self.data[:, self.place["x"]]).max())
        return all_orders(farthest * roundings * precision_of(self.dtype).unit)

    @cached_property
    def count(self) -> int:
        """Rows over which means are taken."""
        return len(self.data) + int(self.state[:, self.place["counts"]].any()) * len(self.state)

    @cached_property
    def over_rows(self) -> Errors:
        """Errors of sums over all rows."""
        return Errors(precision_of(self.dtype), len(self.state), len(self.prompt.rows))

    @cached_property
    def over_state(self) -> Errors:
        """Errors of sums over state rows."""
        return Errors(precision_of(self.dtype), len(self.state), 2 * len(self.state))

    def mean(self, values: Array, error: Array | float = 0.0) -> tuple[Array, Array]:
        """mean_i x_i values_i, (p, v), and a bound on the error of the network's, for values that err by `error`."""
        size = np.abs(values).astype(np.float64) + error  # (n, v)
        off = self.over_rows.entries(self.X.T, size / self.count, largest=REACH, data=True)
        spread = np.abs(self.X).T.astype(np.float64) @ np.broadcast_to(error, size.shape) / self.count
        return self.X.T @ values / self.count, off + spread + all_orders(self.rough * size.sum(axis=0)) / self.count

    def penalty(self) -> tuple[Array, Array]:
        """K, the penalty in means, (P, P), and a bound on the error of the network's."""
        given = self.state[:, self.place["penalty"]] / self.count
        return given, self.over_rows.entries(np.eye(len(given)), np.abs(given), largest=REACH, data=True)


def inverted(P: Array, c: float, least: float) -> Array:
    """V as the layers of `layers.inverting` compute it from P, exactly."""
    one = np.eye(len(P), dtype=np.longdouble)
    V = one / c
    for low in [LOW] * stretches(least) + [1.0] * DOUBLINGS:
        R = 4 / (1 + low) ** 2 * ((1 + low) * one - P)
        P, V = R @ P, R @ V
    return V


def solved(V: Array, r: Array, Er: Array, top: float, errors: Errors) -> tuple[Array, float]:
    """V r, and a bound on the error of the network's."""
    size = np.abs(V).astype(np.float64)
    return V @ r, norm(size @ Er) + norm(errors.entries(size, np.abs(r) + Er, largest=top))


@dataclass(frozen=True)
class Newton:
    """The algorithm of `convex.network`; iterates are (P, 1)."""

    examples: Examples
    bank: LossBank
    n_steps: int

    @property
    def start(self) -> Array:
        """The first iterate."""
        return np.zeros((len(self.examples.state), 1), dtype=np.longdouble)

    def step(self, number: int, w: Array, V: Array | None = None) -> tuple[Array, float]:
        """One Newton step, and the bound."""
        some, bank = self.examples, self.bank
        p, m, c = some.X.shape[1], some.Y.shape[1], convex.scale(some.X.shape[1], bank)
        W, least = w.reshape(m, p).T, precision_of(some.dtype).least_eigenvalue
        g, Eg = (np.concatenate(parts) for parts in zip(*(gradient(some, bank, W, k) for k in range(m)), strict=True))
        K, EK = some.penalty()
        if V is None:
            share = convex.floors(bank, self.n_steps)[number]
            G = some.X.T @ some.X / some.count if share else 0.0
            V = inverted(((1 - share) * curvature(some, bank, W) + share * G + K) / c, c, least)
        pull, Epull = product(some.over_state, K, EK, w, 2.0)
        change, bound = solved(V, g + pull, Eg + Epull, largest_inverse(least, c), some.over_state)
        return w - change, bound + 4 * some.over_state.precision.unit * norm(w)


def product(errors: Errors, A: Array, EA: Array, B: Array, largest: float) -> tuple[Array, Array]:
    """A B for an A that errs, and a bound on the error of the network's."""
    size = np.abs(B).astype(np.float64)
    return A @ B, errors.entries(np.abs(A) + EA, size, largest=largest) + EA @ size


def gradient(some: Examples, bank: LossBank, W: Array, k: int) -> tuple[Array, Array]:
    """g for output k of coefficients W (p, m), and a bound on the error of the network's, (p, 1) each."""
    z, size = some.X @ W, np.abs(W).astype(np.float64)  # (n, m)
    Ez = some.over_rows.entries(some.X, size, largest=REACH, far=some.farthest) + some.rough * size.sum(axis=0)
    Ez += some.over_rows.noise(REACH, data=True) * size.sum()  # rows of other outputs
    Y = some.Y
    inputs = z - Y if bank.residual else z
    theta = bank_error(some, bank, inputs)  # (n,)
    lipschitz = bank.curvature * np.sqrt(np.square(Ez).sum(axis=1))  # (n,)
    Ed = lipschitz + (theta * bank.sizes(inputs)[:, k]).astype(np.float64)
    error = bank(inputs)[:, k] - (0.0 if bank.residual else Y[:, k])
    return some.mean(error[:, None], Ed[:, None])


def bank_error(some: Examples, bank: LossBank, points: Array) -> Floats:
    """θ of a bank at points (.., k), (..)."""
    lead = 0.0 if bank.odd else precision_of(some.dtype).lead
    scores = np.abs(points) @ np.abs(bank.slopes).T + np.abs(bank.offsets) + 4 * lead  # (.., T)
    tokens, largest = len(bank.slopes), scores.max(axis=-1).astype(np.float64)
    keys = tokens + len(some.prompt.rows)
    return average_error(largest, points.shape[-1] + OTHERS, tokens, keys, precision_of(some.dtype).format)


def curvature(some: Examples, bank: LossBank, W: Array) -> Array:
    """H, (P, P), by the differences that the network takes."""
    z, h = some.X @ W - (some.Y if bank.residual else 0.0), precision_of(some.dtype).step
    plain, rows = bank(z), list[Array]()  # (n, m)
    for output in range(z.shape[1]):
        for feature in range(some.X.shape[1]):
            moved = z.copy()
            moved[:, output] += h * some.X[:, feature]
            slopes = (bank(moved) - plain) / h  # (n, m)
            rows.append((some.X.T @ slopes / some.count).T.reshape(-1))  # (P,)
    return np.stack(rows, axis=1)


@dataclass(frozen=True)
class Descent:
    """The algorithm of `descent.network`; iterates are (2p, m): extrapolated coefficients, then the last ones."""

    examples: Examples
    loss: Loss
    step_size: float
    momentum: float
    first: Array  # (p, m)
    """Where it starts."""

    @property
    def start(self) -> Array:
        """The first iterate."""
        return np.concatenate([self.first, self.first]).astype(np.longdouble)

    @cached_property
    def units(self) -> Array:
        """u_j, and 1 for the intercept, (p, 1)."""
        prompt = self.examples.prompt
        return np.append(prompt.units.x, np.ones(int(prompt.intercept)))[:, None].astype(np.longdouble)

    @property
    def scale(self) -> Array:
        """What turns coefficients into the user's, (2p, m)."""
        one = self.examples.prompt.units.y / self.units
        return np.concatenate([one, one])

    def step(self, number: int, pair: Array, V: None = None) -> tuple[Array, float]:
        """One step, and the bound, in the user's units."""
        some, (w, last), beta = self.examples, np.split(pair, 2), self.momentum
        u, n, keys = some.over_rows.precision.unit, len(some.data), len(some.prompt.rows)
        rates = np.longdouble(self.step_size) * self.units**2 * some.count / n  # (p, 1)
        z, Ez = self.predictions(w)
        d, Ed = self.derivatives(z, Ez)
        g, Eg = some.mean(d, Ed)
        q, Eq = product(some.over_state, *some.penalty(), w, 2.0)
        s = rates * (g + q)
        odds = np.abs(np.log(LARGEST / rates - 1))
        relative = average_error(odds, 1, keys, keys, some.over_rows.precision.format)  # (p, 1)
        Es = rates * (Eg + Eq) * (1 + relative) + relative * np.abs(s)
        new = w - s
        size = (1 + 2 * beta) * (np.abs(w) + np.abs(s) + Es) + beta * np.abs(last)
        bounds = np.concatenate([(1 + beta) * Es + 8 * u * size, Es + 8 * u * size])
        return np.concatenate([(1 + beta) * new - beta * last, new]), norm(bounds * self.scale)

    def predictions(self, w: Array) -> tuple[Array, Floats]:
        """z at the examples, (n, m), and a bound on the error of the network's."""
        some, size = self.examples, np.abs(w).astype(np.float64)
        off = some.over_rows.entries(some.X, size, largest=REACH, far=some.farthest) + some.rough * size.sum(axis=0)
        return some.X @ w, off

    def derivatives(self, z: Array, Ez: Floats) -> tuple[Array, Floats]:
        """ψ at the examples, (n, m), and a bound on the error of the network's, for values z that err by Ez.

        |computed - ψ(z)| ≤ |computed - bank(z')| + |bank(z') - ψ(z')| + |ψ(z') - ψ(z)|, z' as held. The first is at
        most θ A(z'), A the bank with the absolute values of its tokens' values, and weights change by no more than a
        factor e^(2 |slope| |z' - z|), so A(z') is at most that times A(z).
        """
        some, loss, u = self.examples, self.loss, self.examples.over_rows.precision.unit
        Y, Ey = some.Y, u * np.abs(some.Y).astype(np.float64)
        d, rough = loss.derivative(z, Y)
        sizes = (np.abs(z) + np.abs(Y)).astype(np.float64) + Ez
        Ed = loss.curvature * (Ez + Ey) + loss.error + rough + 4 * u * sizes
        if loss.delta is not None:
            largest = sizes + loss.delta
            Ed += RECTIFIER / sharpness(loss.delta, some.dtype) + u * largest * (2 * len(some.prompt.rows) + 64)
        for bank in loss.banks:
            inputs = [z - Y] if bank.residual else [z, Y][: bank.slopes.shape[1]]
            points = np.stack(inputs, axis=-1)  # (n, m, k)
            steepest = np.abs(bank.slopes).max(axis=0).sum()
            size = bank.sizes(points)[..., 0] * np.exp(2 * steepest * (Ez + Ey))
            Ed = Ed + (bank_error(some, bank, points) * size).astype(np.float64)
        outside = (np.abs(z) + Ez > loss.reach) | (Y + loss.shift < loss.labels[0]) | (Y + loss.shift > loss.labels[1])
        return d, np.where(outside, inf, Ed.astype(np.float64))


@dataclass(frozen=True)
class ExactLasso:
    """The algorithm of `sparse.network`; iterates are (P, 1)."""

    examples: Examples
    n_steps: int

    @property
    def start(self) -> Array:
        """The first iterate."""
        return np.zeros((len(self.examples.state), 1), dtype=np.longdouble)

    def step(self, number: int, w: Array, V: Array | None = None) -> tuple[Array, float]:
        """One step, and the bound."""
        some, errors, u = self.examples, self.examples.over_state, self.examples.over_state.precision.unit
        m, c, mu = some.Y.shape[1], some.X.shape[1] + 1.0, sparse.weights(self.n_steps, some.dtype)[number]
        one, alpha = np.eye(m), some.state[:, some.place["threshold"]]  # (P, 1)
        G, EG = (np.kron(one, part) for part in some.mean(some.X, some.rough))
        b, Eb = (np.concatenate(np.split(part, m, axis=1)) for part in some.mean(some.Y))
        q, Eq = product(errors, G, EG, w, 2.0)
        a, Ea = mu * w + b - q, Eb + Eq + 8 * u * (np.abs(w) + np.abs(b) + np.abs(q)).astype(np.float64)
        active = np.abs(a) >= alpha  # (P, 1)
        sure = (np.abs(np.abs(a) - alpha) > Ea + 2 * 745 / precision_of(some.dtype).gate[0]) | (alpha == 0)
        v = np.where(active, w, 0.0)
        Ev = 16 * u * np.abs(v).astype(np.float64)
        t, Et = product(errors, G, EG, v, 2.0)
        r = np.where(active, b - t - np.sign(a) * alpha, 0.0)
        Er = Eb + Et + np.abs(G).astype(np.float64) @ Ev + 32 * u * (np.abs(b) + np.abs(t) + alpha).astype(np.float64)
        if V is None:
            on = active[:, 0]
            V = inverted((np.where(active & active.T, G, 0.0) + np.diag(np.where(on, mu, c))) / c, c, mu / c)
        change, bound = solved(V, r, np.where(active, Er, 0.0), largest_inverse(mu / c, c), errors)
        return v + change, bound + norm(Ev) + 4 * u * norm(w) if sure.all() else inf


Algorithm = Newton | Descent | ExactLasso


@np.errstate(over="ignore", invalid="ignore")  # hopeless bounds are infinite
def follow(network: Network, prompt: Prompt, place: Registers, algorithm: Algorithm) -> Report:
    """Run a network layer by layer beside its algorithm. Cost: a forward pass, and the algorithm's three times over."""
    held = exact = algorithm.start
    held = held.astype(network.dtype).astype(np.longdouble)
    found, scale = list[Iterate](), algorithm.scale if isinstance(algorithm, Descent) else 1.0
    for layer, now, V in iterates(network, prompt, place):
        from_held, local = algorithm.step(len(found), held, V)
        exact, _ = algorithm.step(len(found), exact)
        bound, away = norm(scale * (from_held - exact)) + local, norm(scale * (now - exact))
        known, added = (number if number < inf else inf for number in (bound, local))  # neither overflow nor nan
        found.append(Iterate(layer, "w", away, known, norm(scale * exact), added))
        held = now
    return Report(tuple(found))


def iterates(network: Network, prompt: Prompt, place: Registers) -> Iterator[tuple[int, Array, Any]]:
    """Numbers of attention layers, and the w and V that the network then holds: half the difference of mirror images.

    Newton's steps end with attention that adds to w. In descent, where there is no V, a step ends with the affine layer
    that rewrites w, and w has the register `last` below it.
    """
    rows, number, descends = prompt.rows[None].astype(network.dtype), 0, "V" not in place.places
    for at, layer in enumerate(network.layers[:-2]):  # up to the predictions
        rows = prompts.apply(layer, rows, prompts.in_dtype(layer, network.dtype))
        attends = isinstance(layer, Attention)
        number += attends
        if at and (not attends if descends else attends and layer.output[:, :, place["w"]].any()):
            state = rows[0, : 2 * prompt.features * prompt.blocks].astype(np.longdouble)
            halves = (state[::2] - state[1::2]) / 2
            if descends:
                yield number, np.concatenate([halves[:, place["w"]], halves[:, place["last"]]]), None
            else:
                yield number, halves[:, place["w"]], halves[:, place["V"]]
