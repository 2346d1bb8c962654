"""Generalised linear models and other convex losses: `min Σ_i ℓ(w·x_i, y_i) + α |w|²/2`, by Newton's method.

    centre      x_i <- x_i - x̄                                                         once
    gather      G_j = mean_i x_ij x_i,  K_j = mean_i (penalty of j)                        once
    predict     z_i = Σ_j x_ij w_j;   q_j = Σ_k K_jk w_k                                  every step
    derivatives d_i = ψ(z_i),  D_i = ψ'(z_i) x_i                                          every step
    gather      g_j = mean_i x_ij (d_i - y_i),  H_j = mean_i x_ij D_i                      every step
    double      P = (H + floor G + K)/c, V = 1/c;  (P, V) <- (P, V) + (I - P)(P, V)       when V is renewed
    step        w <- w - V (g + q), and momentum                                         every step

All means run over the same rows with the same weights, so the penalty keeps its meaning whatever the number of
examples. V only has to be near the inverse of H + K: where g + q = 0 the steps stop, whatever V is.

`descend` is plain gradient descent: the same without V.
"""

from __future__ import annotations

from ..network import Layer, Network
from .banks import Bank, derivatives
from .layers import centre, double, finish, gather, multiply, predict
from .prompt import columns
from .readout import PRECISIONS
from .registers import Move, Registers, Sum, attention, products, rewrite, select, widen

DOUBLINGS = {"float64": 20, "float32": 14}
"""Layers that renew V; more would not survive rounding."""


def network(
    n_features: int,
    bank: Bank,
    intercept: bool,
    n_steps: int,
    dtype: str,
    *,
    renew: set[int],
    momentum: float,
    floor: float,
) -> Network:
    """Newton's method, V renewed before the steps in `renew`; `floor` is added to all curvatures ψ'."""
    p, m = n_features + intercept, bank.slopes.shape[1]
    registers = Registers(**columns(p, m), K=p, G=p, z=m, q=m, d=m, D=p, g=m, H=p, P=p, V=p, w=m, last=m)
    precision, largest = PRECISIONS[dtype], (bank.curvature + floor) * p + 1.0  # the traces of H, floor G and K
    top = 2.0 ** DOUBLINGS[dtype] / largest
    layers = opening(registers, n_features, intercept, dtype)
    look = evaluate(registers, dtype)
    slope, curve = derivatives(registers, bank, dtype, slopes=False), derivatives(registers, bank, dtype, slopes=True)
    error: Sum = {"d": 1.0} if bank.residual else {"d": 1.0, "y": -1.0}
    sums = attention(gather(registers, precision, [Move(error, "g"), Move({"D": 1.0}, "H")]))
    curvature = {"H": 1 / largest, "G": floor / largest, "K": 1 / largest}
    start = rewrite(registers, {"P": curvature, "V": {"e": 1 / largest}})
    twice = double(registers, precision, p)
    step = multiply(registers, precision, p, {"V": 1.0}, [Move({"g": -1.0, "q": -1.0}, "w")], largest=top)
    blank: dict[str, Sum] = {name: {} for name in ("z", "q", "d", "D", "g", "H")}
    go_on = rewrite(registers, {**blank, "w": {"w": 1 + momentum, "last": -momentum}, "last": {"w": 1.0}})
    for number in range(n_steps):
        layers += [look, curve if number in renew else slope, sums]
        if number in renew:
            layers += [start, *[twice] * DOUBLINGS[dtype]]
        layers += [step, go_on]
    return closing(registers, layers, dtype)


def descend(
    n_features: int, n_outputs: int, bank: Bank | None, intercept: bool, n_steps: int, dtype: str, *, momentum: float
) -> Network:
    """Gradient descent with the step 1/(p ψ' + 1); without a bank the loss is (z - y)²/2."""
    p, m = n_features + intercept, n_outputs
    registers = Registers(**columns(p, m), K=p, G=p, z=m, q=m, d=m, g=m, w=m, last=m)
    rate = 1 / ((bank.curvature if bank else 1.0) * p + 1.0)
    layers = opening(registers, n_features, intercept, dtype)
    error: Sum = {"z": 1.0, "y": -1.0}
    if bank is not None:
        error = {"d": 1.0} if bank.residual else {"d": 1.0, "y": -1.0}
    middle = [] if bank is None else [derivatives(registers, bank, dtype, slopes=False)]
    sums = attention(gather(registers, PRECISIONS[dtype], [Move(error, "g")]))
    new = {"w": 1.0, "g": -rate, "q": -rate}
    extrapolated = {name: factor * (1 + momentum) for name, factor in new.items()} | {"last": -momentum}
    blank: dict[str, Sum] = {name: {} for name in ("z", "q", "d", "g")}
    go_on = rewrite(registers, {**blank, "w": extrapolated, "last": new})
    layers += [evaluate(registers, dtype), *middle, sums, go_on] * n_steps
    return closing(registers, layers, dtype)


def opening(registers: Registers, n_features: int, intercept: bool, dtype: str) -> list[Layer]:
    """Centred points, and the penalty in the units of the means."""
    given = columns(registers.size("x"), registers.size("y"))
    layers: list[Layer] = [widen(registers, sum(given.values()))]
    layers += [centre(registers, n_features)] if intercept else []
    return [
        *layers,
        attention(gather(registers, PRECISIONS[dtype], [Move({"penalty": 1.0}, "K"), Move({"x": 1.0}, "G")])),
    ]


def evaluate(registers: Registers, dtype: str) -> Layer:
    """The linear model at all points, and the gradient of the penalty, in one layer."""
    precision, p = PRECISIONS[dtype], registers.size("e")
    points = predict(registers, precision, p, [Move({"w": 1.0}, "z")])
    pull = [Move({"w": 1.0}, "q", float(p))]
    return attention([*points, *products(registers, precision, {"K": 1.0}, {"e": 1.0}, "state", pull, largest=1.0)])


def closing(registers: Registers, layers: list[Layer], dtype: str) -> Network:
    """Predictions with the last coefficients, and what is put out."""
    heads = predict(registers, PRECISIONS[dtype], registers.size("e"), [Move({"last": 1.0}, "z")])
    return finish([*layers, attention(heads), select(registers, "last", "z", "x")], dtype)
