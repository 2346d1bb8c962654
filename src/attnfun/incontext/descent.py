"""Gradient descent in the user's units [T 8.4]: `w <- w - step ∇L(w)`, L(w) = mean_i ℓ(w·x_i, y_i) + α |w|²/2.

    evaluate    z_i = Σ_j x_ij w_j;   q_j = Σ_k K_jk w_k                1 layer
    derive      d_i = ψ(z_i, y_i), see `losses.py`                       1, none for squares
    gather      g_j = mean_i x_ij d_i                                    1
    scale       s_j = ρ_j (g_j + q_j)                                    1
    step        new = w - s;  w <- new + μ (new - last);  last <- new     an affine layer

The prompt holds feature j in a unit u_j, and the coefficient in the unit 1/u_j of the labels'. A step that is the same
number for all coefficients of the user is another one for each row here, `ρ_j = step u_j² (rows in means)/n`. There is
no centring: it would be another algorithm.

**Scale.** A number in a row is multiplied by another one of the same row by a softmax over two keys: the row itself,
score 0 and value v, and a memory token of value 0 with the score `log(LARGEST/ρ - 1)`, which the prompt holds. The
average is `v ρ/LARGEST`, exactly; other rows are 1024 below.

**Huber's loss** needs the row itself among its keys too: scores 0, -R (r + δ) and R (r - δ), values r, -δ and δ, are
within 0.27847/R of r clipped to ±δ [T 4.3]. Rows know themselves by a code of signs, the binary digits of their
number; any two differ in a digit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..network import Affine, Attention, Layer, Network
from .banks import derivatives, looked_up
from .convex import closing, evaluate, opening
from .layers import gather
from .losses import Loss
from .precision import precision_of
from .prompt import columns, power_of_two
from .registers import MASK, RegisterHead, RegisterMove, Registers, Sum, attention, moving, rewrite, widen

Floats = npt.NDArray[np.float64]
LARGEST = 2.0**16
"""Rates ρ stay below this."""
SMALLEST = 2.0**-64
"""And not below this: units are chosen so."""
DIGITS = 20
"""Of a row's number, where rows must know themselves."""


def given_columns(p: int, m: int, loss: Loss) -> dict[str, int]:
    """Registers that a prompt fills: also where steps start, the score of `scale`, and codes."""
    codes = {} if loss.delta is None else {"code": DIGITS}
    return columns(p, m) | {"start": m, "odds": 1} | codes


def registers_for(p: int, m: int, loss: Loss, n_steps: int) -> Registers:
    """What a row holds, for p features and m outputs."""
    sizes = dict.fromkeys(("z", "q", "d", "g", "s", "w", "last", "before"), m)
    watched = {"peak": m, "peaks": m * n_steps} if loss.reach < np.inf else {}
    return Registers(**given_columns(p, m, loss), K=p, **sizes, null=1, high=1, **watched)


def network(
    n_features: int, n_outputs: int, loss: Loss, intercept: bool, n_steps: int, dtype: str, momentum: float
) -> Network:
    """The network for prompts of `n_features` columns of X and `n_outputs` columns of y."""
    p, m = n_features + intercept, n_outputs
    registers, precision = registers_for(p, m, loss, n_steps), precision_of(dtype)
    error: Sum = {"d": 1.0}
    if loss.name == "squared":
        error = {"z": 1.0, "y": -1.0}
    elif loss.name in ("logistic", "poisson"):
        error = {"d": 1.0, "y": -1.0}
    blank: dict[str, Sum] = {name: {} for name in ("z", "q", "d", "g", "s")}
    watch = [] if loss.reach == np.inf else watched(registers, dtype)
    push = {"peaks": "peak"} if watch else None
    new = {"w": 1.0, "s": -1.0}
    further = {name: factor * (1 + momentum) for name, factor in new.items()} | {"last": -momentum}
    step: list[Layer] = [
        evaluate(registers, dtype, 1),
        *derived(registers, loss, dtype),
        attention([*gather(registers, precision, [[RegisterMove(error, "g")]]), *watch]),
        scale(registers),
        rewrite(
            registers,
            {**blank, **({"peak": {}} if watch else {}), "w": further, "last": new, "before": {"last": 1.0}},
            push=push,
        ),
    ]
    layers = opening(registers, given_columns(p, m, loss), n_features, False, dtype, 1)
    layers[0] = started(registers, sum(given_columns(p, m, loss).values()))
    return closing(registers, layers + step * n_steps, dtype, "last", "before")


def started(registers: Registers, width: int) -> Affine:
    """All registers of a row, and in those of the iterates where steps start."""
    start = rewrite(registers, {name: {"start": 1.0} for name in ("w", "last", "before")})
    return Affine(widen(registers, width).right @ start.right, start.constant)


def derived(registers: Registers, loss: Loss, dtype: str) -> list[Layer]:
    """The layer that puts ψ into d, or ψ + y where y is a summand of it; none for squares."""
    if loss.delta is not None:
        return [clipped(registers, loss.delta, dtype)]
    if not loss.banks:
        return []
    if loss.banks[0].slopes.shape[1] == 1:
        return [derivatives(registers, loss.banks[0], dtype, slopes=False)]
    return [looked_up(registers, loss.banks, dtype)]


def scale(registers: Registers) -> Attention:
    """State rows: s += ρ (g + q), see above; other rows get the memory token's zero."""
    p = registers.size("e")
    query, key = np.zeros((registers.width, p + 2)), np.zeros((registers.width, p + 2))
    query[:, :p], key[:, :p] = MASK * registers.read({"e": 1.0}), registers.read({"e": 1.0})
    query[registers["odds"], p + 1] = key[registers["null"], p + 1] = 1.0
    key[registers["null"], p] = MASK
    value, output = moving(registers, [RegisterMove({"g": 1.0, "q": 1.0}, "s")], LARGEST)
    biases = np.eye(p + 2)[p], -MASK * np.eye(p + 2)[p]
    memory = np.zeros((1, registers.width))
    memory[0, registers["null"]] = 1.0
    return attention([RegisterHead(query, biases[0], key, biases[1], value, output)], memory)


def clipped(registers: Registers, delta: float, dtype: str) -> Attention:
    """d += z - y clipped to ±δ, for every output."""
    outputs, sharp, far = registers.size("z"), sharpness(delta, dtype), DIGITS * MASK
    memory, heads = np.zeros((2, registers.width)), []
    memory[:, registers["null"]] = 1.0  # low, high
    memory[:, registers["high"]] = [[-1.0], [1.0]]
    for k in range(outputs):
        z, y, d = (registers.part(name, k, outputs) for name in ("z", "y", "d"))
        residual = registers.read({z: 1.0, y: -1.0})  # (F, 1)
        query, key = np.zeros((2, registers.width, DIGITS + 3))
        query[:, :DIGITS], key[:, :DIGITS] = MASK * registers.read({"code": 1.0}), registers.read({"code": 1.0})
        key[registers["null"], DIGITS] = far
        query[:, DIGITS + 1], key[registers["high"], DIGITS + 1] = sharp * residual[:, 0], 1.0
        key[registers["null"], DIGITS + 2] = -sharp * delta
        query_bias, key_bias = np.zeros(DIGITS + 3), np.zeros(DIGITS + 3)
        query_bias[[DIGITS, DIGITS + 2]], key_bias[DIGITS] = 1.0, -far
        value, output = moving(registers, [RegisterMove({z: 1.0, y: -1.0}, d)], 1.0)
        value[registers["high"], 0] = delta
        heads.append(RegisterHead(query, query_bias, key, key_bias, value, output))
    return attention(heads, memory)


def sharpness(delta: float, dtype: str) -> float:
    """R of huber's loss, a power of two."""
    return float(precision_of(dtype).gate[0] / power_of_two(np.array(delta)))


def codes(rows: int) -> Floats:
    """Binary digits of the numbers of rows as signs, (rows, DIGITS).

    >>> codes(3)[:, :3]
    array([[-1., -1., -1.],
           [ 1., -1., -1.],
           [-1.,  1., -1.]])
    """
    return (2 * (np.arange(rows)[:, None] >> np.arange(DIGITS) & 1) - 1).astype(np.float64)


def watched(registers: Registers, dtype: str) -> list[RegisterHead]:
    """The largest |z| at an example, for each output: mirror images hold -z, so it is the largest z of all of them."""
    heads, (sharp, lead) = [], precision_of(dtype).peak
    for k in range(registers.size("peak")):
        z, peak = (registers.part(name, k, registers.size("peak")) for name in ("z", "peak"))
        key = sharp * registers.read({z: 1.0})  # (F, 1)
        key[registers["data"]] = lead
        value, output = moving(registers, [RegisterMove({z: 1.0}, peak)], 1.0)
        heads.append(RegisterHead(np.zeros_like(key), np.ones(1), key, np.zeros(1), value, output))
    return heads
