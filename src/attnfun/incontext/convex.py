"""Generalised linear models and other convex losses: `min Σ_i ℓ(w·x_i, y_i) + α |w|²/2`, by Newton's method.

    centre      x_i <- x_i - x̄                                                         once
    gather      K_j = mean_i (penalty of j),  G_j = mean_i x_ij x_i if there is a floor     once
    then, in every step:
    predict     z_i = Σ_j x_ij w_j;   q_j = Σ_k K_jk w_k
    derivatives d_i = ψ(z_i),  D_i = ψ'(z_i) x_i
    gather      g_j = mean_i x_ij (d_i - y_i),  H_j = mean_i x_ij D_i
    invert      P = C/c, V = 1/c, C = (1 - φ) H + φ G + K;  see `layers.inverting`
    step        w <- w - V (g + q)

There is a state row for each coefficient: with m outputs (multinomial regression) j runs over m blocks of features,
and C is the whole matrix of second derivatives. All means run over the same rows with the same weights, so the penalty
keeps its meaning whatever the number of examples. V only has to be near the inverse of C: where g + q = 0 the steps
stop, whatever V is. Steps are not damped: from zero they nearly always converge, and where they do not the learner
says so.
"""

from __future__ import annotations

import numpy as np

from ..network import Layer, Network
from .banks import LossBank, derivatives
from .layers import centre, finish, gather, in_sums, inverting, largest_inverse, multiply, predict
from .precision import precision_of
from .prompt import columns
from .registers import RegisterHead, RegisterMove, Registers, Sum, attention, moving, products, rewrite, select, widen


def network(n_features: int, bank: LossBank, intercept: bool, n_steps: int, dtype: str) -> Network:
    """Newton's method."""
    p, m, precision = n_features + intercept, bank.slopes.shape[1], precision_of(dtype)
    registers, given, largest = registers_for(p, bank, n_steps), columns(p, m, m), scale(p, bank)
    slopes = [_slopes(registers, bank, k) for k in range(m)]
    top = largest_inverse(precision.least_eigenvalue, largest)
    blank: dict[str, Sum] = {name: {} for name in ("z", "q", "d", "D", "g", "H", "peak")}
    before: list[Layer] = [
        evaluate(registers, dtype, m),
        derivatives(registers, bank, dtype, slopes=True),
        attention([*gather(registers, precision, slopes), *highest(registers, dtype)]),
    ]
    after: list[Layer] = [
        *inverting(registers, precision)(precision.least_eigenvalue),
        multiply(registers, precision, {"V": 1.0}, [RegisterMove({"g": -1.0, "q": -1.0}, "w")], largest=top),
        rewrite(registers, blank, push={"peaks": "peak"}),
    ]
    layers = opening(registers, given, n_features, intercept, dtype, m)
    for share in floors(bank, n_steps):
        curvature = {"H": (1 - share) / largest, "K": 1 / largest} | ({"G": share / largest} if share else {})
        start = {"P": curvature, "V": {"e": 1 / largest}, "last": {"w": 1.0}}
        layers += [*before, rewrite(registers, start), *after]
    return closing(registers, layers, dtype, "w")


def registers_for(p: int, bank: LossBank, n_steps: int) -> Registers:
    """What a row holds in Newton's method, for p features."""
    m = bank.slopes.shape[1]
    count, watched = p * m, 0 if bank.odd else m
    sizes = {"K": count, "H": count, "P": count, "V": count, "D": m * count, "z": m, "d": m, "q": 1, "g": 1}
    sizes |= {"w": 1, "last": 1, "peak": watched, "peaks": watched * n_steps} | ({"G": count} if bank.floor else {})
    return Registers(**columns(p, m, m), **sizes)


def scale(p: int, bank: LossBank) -> float:
    """c: bounds the eigenvalues of H, or of the penalty on sums, where H is zero; and of penalties."""
    return max(bank.curvature * p, 1.0) + 1.0


def floors(bank: LossBank, n_steps: int) -> list[float]:
    """φ for each step: the bank's, which makes every step descend, in the first half; then halved from step to step.

    >>> from attnfun.incontext import banks
    >>> floors(banks.huber(1.0), 4)
    [0.5, 0.5, 0.25, 0.125]
    """
    return [bank.floor * 0.5 ** max(0, step + 1 - n_steps // 2) for step in range(n_steps)]


def _slopes(registers: Registers, bank: LossBank, k: int) -> list[RegisterMove]:
    """First and second derivatives with respect to the coefficients of output k."""
    m = bank.slopes.shape[1]
    error = {registers.part("d", k, m): 1.0} | ({} if bank.residual else {registers.part("y", k, m): -1.0})
    return [RegisterMove(error, "g"), RegisterMove({registers.part("D", k, m): 1.0}, "H")]


def highest(registers: Registers, dtype: str) -> list[RegisterHead]:
    """The largest z at an example, for each output: peak += Σ_i softmax_i(S z_i) z_i, at most log(n)/S below it."""
    heads, (sharpness, lead) = [], precision_of(dtype).peak
    for k in range(registers.size("peak")):
        z, peak = (registers.part(name, k, registers.size("peak")) for name in ("z", "peak"))
        key = sharpness * registers.read({z: 1.0})  # (F, 1)
        key[registers["data"]] = key[registers["sign"]] = lead  # examples, not their mirror images
        value, output = moving(registers, [RegisterMove({z: 1.0}, peak)], 1.0)
        heads.append(RegisterHead(np.zeros_like(key), np.ones(1), key, np.zeros(1), value, output))
    return heads


def opening(
    registers: Registers, given: dict[str, int], n_features: int, intercept: bool, dtype: str, blocks: int
) -> list[Layer]:
    """Centred points, and the penalty in the units of the means."""
    layers: list[Layer] = [widen(registers, sum(given.values()))]
    layers += [centre(registers, n_features)] if intercept else []
    moves = [RegisterMove({"penalty": 1.0}, "K")] + ([RegisterMove({"x": 1.0}, "G")] if "G" in registers.places else [])
    return [*layers, attention(gather(registers, precision_of(dtype), [moves] * blocks))]


def evaluate(registers: Registers, dtype: str, blocks: int) -> Layer:
    """The linear model at all points, and the gradient of the penalty, in one layer."""
    precision = precision_of(dtype)
    points = predict(registers, precision, values(registers, "w", blocks))
    pull = in_sums(registers, [RegisterMove({"w": 1.0}, "q")])
    return attention([*points, *products(registers, precision, {"K": 1.0}, {"e": 1.0}, "state", pull, largest=2.0)])


def values(registers: Registers, w: str, blocks: int) -> list[list[RegisterMove]]:
    """Coefficients to values of the linear model, block by block."""
    return [[RegisterMove({w: 1.0}, registers.part("z", k, blocks))] for k in range(blocks)]


def closing(registers: Registers, layers: list[Layer], dtype: str, w: str, before: str = "last") -> Network:
    """Predictions with the coefficients `w`, and what is put out."""
    blocks = registers.size("e") // registers.size("x")
    heads = predict(registers, precision_of(dtype), values(registers, w, blocks))
    watched = [name for name in ("peaks",) if name in registers.places]
    return finish([*layers, attention(heads), select(registers, "z", "x", before, w, *watched)], dtype)
