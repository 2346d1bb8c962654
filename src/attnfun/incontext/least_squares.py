"""Least squares and ridge regression: `min Σ_i |y_i - w·x_i|² + α |w|²`.

    centre      x_i <- x_i - x̄                                      1 layer
    gather      G_j = mean_i x_ij x_i (+ penalty),  b_j = mean_i x_ij y_i   1
    double      P = G/c, V = 1/c;  (P, V) <- (P, V) + (I - P)(P, V)         n_steps
    solve       w <- w + V (b - q),  q = G w                            2 REFINEMENTS - 1
    predict     z_q = Σ_j x_qj w_j                                      1

n_steps doublings do the work of 2^n_steps steps of gradient descent. The residual b - G w is computed afresh before
each use of V, so errors of V do no harm as long as V G is near the identity.
"""

from __future__ import annotations

from ..network import Layer, Network
from .layers import centre, double, finish, gather, multiply, predict
from .precision import precision_of
from .prompt import columns
from .registers import RegisterMove, Registers, attention, rewrite, select, widen

REFINEMENTS = 3
"""Uses of the inverse."""


def network(n_features: int, n_outputs: int, intercept: bool, n_steps: int, dtype: str) -> Network:
    """The network for prompts of `n_features` columns of X and `n_outputs` columns of y."""
    precision, p, m = precision_of(dtype), n_features + intercept, n_outputs
    registers = registers_for(p, m)
    largest = 2.0 * p  # the trace of G: mean squares are at most 1 in the prompt's units, and so are penalties
    sums = [RegisterMove({"x": 1.0, "penalty": 1.0}, "G"), RegisterMove({"y": 1.0}, "b")]
    layers: list[Layer] = [widen(registers, sum(columns(p, m).values()))]
    layers += [centre(registers, n_features)] if intercept else []
    layers += [
        attention(gather(registers, precision, [sums])),
        rewrite(registers, {"P": {"G": 1 / largest}, "V": {"e": 1 / largest}}),
    ]
    layers += [double(registers, precision)] * n_steps
    layers += solve(registers, n_steps, largest, dtype)
    heads = predict(registers, precision, [[RegisterMove({"w": 1.0}, "z")]])
    return finish([*layers, attention(heads), select(registers, "z", "x", "last", "w")], dtype)


def registers_for(p: int, m: int) -> Registers:
    """What a row holds, for p features and m outputs."""
    images = {f"q{use}": m for use in range(1, REFINEMENTS)}
    return Registers(**columns(p, m), G=p, b=m, P=p, V=p, w=m, last=m, **images, z=m)


def solve(registers: Registers, n_steps: int, largest: float, dtype: str) -> list[Layer]:
    """w = V b, refined."""
    precision = precision_of(dtype)
    top = 2.0**n_steps / largest  # bounds the entries of V
    layers: list[Layer] = []
    for use in range(REFINEMENTS):
        residual = {"b": 1.0} | ({f"q{use}": -1.0} if use else {})
        if use:
            layers.append(
                multiply(registers, precision, {"G": 1.0}, [RegisterMove({"w": 1.0}, f"q{use}")], largest=2.0)
            )
            layers.append(rewrite(registers, {"last": {"w": 1.0}}))
        layers.append(multiply(registers, precision, {"V": 1.0}, [RegisterMove(residual, "w")], largest=top))
    return layers
