"""The lasso: `min (1/2n) Σ_i (y_i - w·x_i)² + α Σ_j |w_j|`, by alternating directions.

    centre      x_i <- x_i - x̄                                          1 layer
    gather      G_j = mean_i x_ij x_i,  b_j = mean_i x_ij y_i              1
    double      P = (G + ρ)/c, V = 1/c;  (P, V) <- (P, V) + (I - P)(P, V)  DOUBLINGS
    then, n_steps times, two layers:
    multiply    w = V (b + ρ (s - u))
    shrink      a = τ w + (1-τ) s + u;   s <- soft(a, α/ρ);   u <- a - s
    predict     z_q = Σ_j x_qj s_j                                         1

`shrink` is soft(a, t) = ReLU(a - t) - ReLU(-a - t), two heads an output: a state row looks at itself, with score R (a
- t) and value a - t, and at a memory token with score and value 0. The result is within 0.27847/R of the rectifier for
every a, and exactly 0 where a is well below t. Where s and u come to rest, they solve the problem: V only has to be
exact.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from ..network import Attention, Layer, Network
from .layers import centre, double, finish, gather, multiply, predict
from .prompt import columns
from .readout import PRECISIONS
from .registers import Head, Move, Registers, Sum, attention, rewrite, select, widen

RHO, RELAX = 0.3, 1.7
"""ρ and τ; mean squares of the features are about 1."""
SHARPNESS = {"float64": (2.0**26, 2.0**44), "float32": (2.0**12, 2.0**22)}
"""R, and the lead of a row's own score over those of other rows."""
MIX: Sum = {"w": RELAX, "s": 1 - RELAX, "u": 1.0}


def network(n_features: int, n_outputs: int, intercept: bool, n_steps: int, dtype: str) -> Network:
    """The network for prompts of `n_features` columns of X and `n_outputs` columns of y."""
    precision, p, m = PRECISIONS[dtype], n_features + intercept, n_outputs
    given = columns(p, m)
    registers = Registers(**given, G=p, b=m, P=p, V=p, w=m, s=m, u=m, t=m, z=m, null=1)
    largest = p + RHO  # the trace of G + ρ, at least its largest eigenvalue
    sums = [Move({"x": 1.0}, "G"), Move({"y": 1.0}, "b")]
    layers: list[Layer] = [widen(registers, sum(given.values()))]
    layers += [centre(registers, n_features)] if intercept else []
    layers += [
        attention(gather(registers, precision, sums)),
        rewrite(registers, {"P": {"G": 1 / largest, "e": RHO / largest}, "V": {"e": 1 / largest}}),
    ]
    # Eigenvalues are at least ρ, so that 1 - P is at most (1 - ρ/c)^(2^k) < e^-40 in the end.
    layers += [double(registers, precision, p)] * ceil(log2(40 * largest / RHO))
    pull = Move({"b": 1.0, "s": RHO, "u": -RHO}, "w")
    average = multiply(registers, precision, p, {"V": 1.0}, [pull], largest=1 / RHO)
    go_on = rewrite(registers, {"w": {}, "t": {}, "s": {"t": 1.0}, "u": {**MIX, "t": -1.0}})
    layers += [average, shrink(registers, dtype), go_on] * n_steps
    heads = predict(registers, precision, p, [Move({"s": 1.0}, "z")])
    return finish([*layers, attention(heads), select(registers, "s", "z", "x")], dtype)


def shrink(registers: Registers, dtype: str) -> Attention:
    """t += soft(a, threshold/ρ) in every state row, for every output."""
    sharpness, lead = SHARPNESS[dtype]
    p, m = registers.size("e"), registers.size("w")
    mixed, threshold = registers.read(MIX), registers.read({"threshold": 1 / RHO})  # (F, m) each
    heads = []
    for output in range(m):
        for side in (1.0, -1.0):
            over = side * mixed[:, output] - threshold[:, output]  # (F,): ±a - t
            query, key = np.zeros((registers.width, p + 2)), np.zeros((registers.width, p + 2))
            query[:, :p] = lead * registers.read({"e": 1.0})  # own row: + lead, its mirror image: - lead
            key[:, :p] = registers.read({"e": 1.0})
            key[:, p] = sharpness * over
            key[registers["null"], p + 1] = 1.0
            place = np.zeros((1, registers.width))
            place[0, registers["t"].start + output] = side
            biases = np.append(np.zeros(p), [1.0, lead])
            heads.append(Head(query, biases, key, np.append(np.zeros(p + 1), 0.0), over[:, None], place))
    memory = np.zeros((1, registers.width))
    memory[0, registers["null"]] = 1.0  # scores `lead`, as a row does with itself
    return attention(heads, memory)
