"""The lasso: `min (1/2n) Σ_i (y_i - w·x_i)² + α Σ_j |w_j|`, by Newton's method on active sets.

    centre      x_i <- x_i - x̄                                             1 layer
    gather      G_j = mean_i x_ij x_i,  b_j = mean_i x_ij y_i                 1
    then, n_steps times, with a weight μ that falls from step to step:
    multiply    q = G w                                                       1
    gate        a = μ w + b - q;  active: |a| > α;  E = e, v = w where active   1
    multiply    S = G E,  t = G v                                             1
    gate        Q = S, r = b - t ∓ α where a is above α or below -α            1
    invert      V = inverse of Q + μ on active rows, 1/c on the others         about log(p/μ)
    step        w = v + V r                                                   1
    and at last
    gate        s = w where active                                            1
    predict     z_q = Σ_j x_qj s_j                                            1

*Why.* A proximal step from v is the minimiser of the objective plus μ|w - v|²/2. There every coefficient is zero or
solves (G w - b)_j ± α + μ (w - v)_j = 0, the sign being that of a_j; so Newton's step is one linear system for those
that are active now. Where steps rest, b - G w = ±α for active coefficients and |b - G w| ≤ α for the others: the
solution, whatever μ is. Small weights converge fast, large ones are safe far from the solution; μ falls geometrically,
so more steps are also safer steps. There is a state row for each coefficient; outputs have active sets of their own.

*Gates.* A row looks at itself, with score R (±a - α) and its own register as value, and at a memory token with score
and value 0: it gets the value times σ(R (±a - α)), exactly 0 or 1 times it except where |±a - α| < 745/R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..network import Attention, Layer, Network
from .convex import closing
from .layers import centre, gather, inverting, largest_inverse, multiply
from .precision import precision_of
from .prompt import columns
from .registers import RegisterHead, RegisterMove, Registers, Sum, attention, moving, rewrite, widen


@dataclass(frozen=True)
class SparseTuning:
    """How the weight of the penalty falls."""

    first: float = -2.0
    """Base-two logarithm of the first μ; mean squares of the features are about 1. By trial."""
    rests: int = 2
    """Steps at the end with the last μ. By trial."""


TUNING = SparseTuning()


def weights(n_steps: int, dtype: str) -> list[float]:
    """μ for each step."""
    last = precision_of(dtype).least_weight
    falling = np.linspace(TUNING.first, last, max(1, n_steps - TUNING.rests))
    return np.exp2(np.append(falling, np.full(TUNING.rests, last)))[:n_steps].tolist()


def network(n_features: int, n_outputs: int, intercept: bool, n_steps: int, dtype: str) -> Network:
    """The network for prompts of `n_features` columns of X and `n_outputs` columns of y."""
    precision, p, m = precision_of(dtype), n_features + intercept, n_outputs
    given, registers = columns(p, m, m), registers_for(p, m)
    largest = p + 1.0  # the trace of G, and μ
    sums = [
        [RegisterMove({"x": 1.0}, registers.part("G", k, m)), RegisterMove({registers.part("y", k, m): 1.0}, "b")]
        for k in range(m)
    ]
    layers: list[Layer] = [widen(registers, sum(given.values()))]
    layers += [centre(registers, n_features)] if intercept else []
    layers += [attention(gather(registers, precision, sums))]
    image = multiply(registers, precision, {"G": 1.0}, [RegisterMove({"w": 1.0}, "q")], largest=2.0)
    images = multiply(
        registers, precision, {"G": 1.0}, [RegisterMove({"E": 1.0}, "S"), RegisterMove({"v": 1.0}, "t")], largest=2.0
    )
    invert, mus = inverting(registers, precision), weights(n_steps, dtype)
    for mu in mus:
        a: Sum = {"w": mu, "b": 1.0, "q": -1.0}
        start = {"Q": 1 / largest, "E": mu / largest - 1, "e": 1.0}  # 1 on rows that are not active
        top = largest_inverse(mu / largest, largest)
        residual = RegisterMove({"b": 1.0, "t": -1.0}, "r")
        layers += [
            image,
            gate(registers, a, [RegisterMove({"e": 1.0}, "E"), RegisterMove({"w": 1.0}, "v")], dtype),
            images,
            gate(
                registers,
                a,
                [RegisterMove({"S": 1.0}, "Q"), residual],
                dtype,
                beside=RegisterMove({"threshold": 1.0}, "r"),
            ),
            rewrite(registers, {"P": start, "V": {"e": 1 / largest}, "last": {"w": 1.0}, "w": {"v": 1.0}}),
            *invert(mu / largest),
            multiply(registers, precision, {"V": 1.0}, [RegisterMove({"r": 1.0}, "w")], largest=top),
            rewrite(registers, {name: {} for name in ("q", "E", "S", "Q", "v", "t", "r")}),
        ]
    layers += [image, gate(registers, {"w": mus[-1], "b": 1.0, "q": -1.0}, [RegisterMove({"w": 1.0}, "s")], dtype)]
    return closing(registers, layers, dtype, "s")


def registers_for(p: int, m: int) -> Registers:
    """What a row holds, for p features and m outputs."""
    matrices = dict.fromkeys(("G", "E", "S", "Q", "P", "V"), p * m)
    vectors = dict.fromkeys(("b", "q", "v", "t", "r", "w", "last", "s", "null"), 1)
    return Registers(**columns(p, m, m), **matrices, **vectors, z=m)


def gate(
    registers: Registers, a: Sum, moves: list[RegisterMove], dtype: str, beside: RegisterMove | None = None
) -> Attention:
    """Move registers within state rows where |a| is above the threshold; `beside` is taken off above, added below."""
    sharpness, lead = precision_of(dtype).gate
    count = registers.size("e")
    heads = []
    for side in (1.0, -1.0):
        over = side * registers.read(a) - registers.read({"threshold": 1.0})  # (F, 1): ±a - α
        query, key = np.zeros((registers.width, count + 2)), np.zeros((registers.width, count + 2))
        query[:, :count] = lead * registers.read({"e": 1.0})  # own row: + lead, its mirror image: - lead
        key[:, :count] = registers.read({"e": 1.0})
        key[:, count] = sharpness * over[:, 0]
        key[registers["null"], count + 1] = 1.0
        extra = [] if beside is None else [RegisterMove(beside.source, beside.target, -side * beside.factor)]
        value, output = moving(registers, [*moves, *extra], 1.0)
        biases = np.append(np.zeros(count), [1.0, lead])
        heads.append(RegisterHead(query, biases, key, np.zeros(count + 2), value, output))
    memory = np.zeros((1, registers.width))
    memory[0, registers["null"]] = 1.0  # scores `lead`, as a row does with itself
    return attention(heads, memory)
