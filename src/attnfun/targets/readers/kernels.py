"""Kernel expansions `Σ_i a_i k(x, x_i)` of scikit-learn: kernel ridge, support vectors, means of Gaussian processes.

Every kernel is written out of operations of the graph. Distances stay sums of squares of differences, so that their
ranges are known; how many heads that takes is for the circuit to find out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import InputError
from .graph import Floats
from .writer import Argument, Value, Writer, unsupported

# ---------------------------------------------------------------- kernels by name


def _apart(write: Writer, x: Value, points: Floats, function: str) -> Value:
    """`Σ_d function(x_d - p_d)` for all points (n, D): (1, n)."""
    differences = write.subtract(write.reshape(x, (1, 1, -1)), points)  # (1, n, D)
    return write.reduce("sum", write.apply(function, differences), [2], keep=False)


def _times(write: Writer, x: Value, gamma: float | None, variables: int) -> Value:
    """gamma x; without one it is one over the number of variables."""
    if gamma is None:
        return write.divide(x, np.array(float(variables)))
    return write.multiply(x, np.array(gamma))


def _affine(write: Writer, x: Value, points: Floats, gamma: float | None, shift: float) -> Value:
    """gamma x·p + shift for all points: (1, n)."""
    return write.add(_times(write, write.linear(x, points.T), gamma, points.shape[1]), np.array(shift))


def named_kernel(
    write: Writer, x: Value, points: Floats, kernel: object, gamma: float | None, degree: float, shift: float
) -> Value:
    """k(x, x_i) for all points (n, D), by the name of the kernel: (1, n)."""
    variables = points.shape[1]
    match kernel:
        case "linear":
            return write.linear(x, points.T)
        case "poly" | "polynomial":
            return write.power(_affine(write, x, points, gamma, shift), float(degree))
        case "sigmoid":
            return write.apply("tanh", _affine(write, x, points, gamma, shift))
        case "rbf" | "laplacian":
            apart = _apart(write, x, points, "square" if kernel == "rbf" else "abs")
            fall = write.multiply(_times(write, apart, gamma, variables), np.array(-1.0))
            return write.apply("exp", fall)
        case _:
            raise unsupported(f"kernel={kernel!r} of {write.name}", ["laplacian", "linear", "poly", "rbf", "sigmoid"])


def kernel_ridge(write: Writer, x: Value, model: Any) -> Value:
    """`Σ_i a_i k(x, x_i)`."""
    points = np.asarray(model.X_fit_, dtype=np.float64)  # (n, D)
    weights = np.asarray(model.dual_coef_, dtype=np.float64).reshape(len(points), -1)  # (n, m)
    gamma = None if model.gamma is None else float(model.gamma)
    values = named_kernel(write, x, points, model.kernel, gamma, model.degree, float(model.coef0))
    return write.linear(values, weights)


# ---------------------------------------------------------------- support vectors


def support_vectors(write: Writer, x: Value, model: Any) -> Value:
    """`Σ_i a_i k(x, x_i) + b` over the support vectors; one output for each pair of classes."""
    points = model.support_vectors_
    if not isinstance(points, np.ndarray):
        raise InputError(f"{write.name} must have been fitted to dense arrays", got=type(points).__name__)
    classes = len(getattr(model, "classes_", (0, 1)))
    if classes > 2 and model.decision_function_shape != "ovo":
        raise InputError(
            f"{write.name} of more than two classes must decide between pairs: votes of pairs are not continuous",
            got=f"{classes} classes, decision_function_shape={model.decision_function_shape!r}",
            remedy='Set decision_function_shape="ovo": one output for each pair of classes.',
        )
    weights = np.asarray(model.dual_coef_, dtype=np.float64)  # (classes - 1, n)
    columns = weights.T if classes == 2 else _of_pairs(weights, np.cumsum([0, *model.n_support_]))  # (n, pairs)
    values = named_kernel(
        write, x, points.astype(np.float64), model.kernel, float(model._gamma), model.degree, float(model.coef0)
    )
    return write.linear(values, columns, np.asarray(model.intercept_, dtype=np.float64))


def _of_pairs(weights: Floats, starts: Floats) -> Floats:
    """The weight of each support vector in each pair of classes; the vectors are sorted by class, from `starts` on."""
    classes = len(weights) + 1
    columns = []
    for i in range(classes):
        for j in range(i + 1, classes):
            column = np.zeros(weights.shape[1])
            for own, row in ((i, j - 1), (j, i)):
                place = slice(starts[own], starts[own + 1])
                column[place] = weights[row, place]
            columns.append(column)
    return np.column_stack(columns)


# ---------------------------------------------------------------- Gaussian processes


def gaussian_process(write: Writer, x: Value, model: Any) -> Value:
    """The mean of a process given its data, `σ Σ_i a_i k(x, x_i) + μ` with the scale and the mean of the data."""
    points = np.asarray(model.X_train_, dtype=np.float64)  # (n, D)
    weights = np.asarray(model.alpha_, dtype=np.float64).reshape(len(points), -1)  # (n, m)
    values = write.value(_process_kernel(write, x, points, model.kernel_))
    mean, scale = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in
                   (model._y_train_mean, model._y_train_std))  # fmt: skip
    return write.add(write.multiply(write.linear(values, weights), scale), mean)


def _process_kernel(write: Writer, x: Value, points: Floats, kernel: Any) -> Argument:
    """k(x, x_i) for all points, (1, n), through sums, products and powers of kernels."""
    name = type(kernel).__name__
    if name not in PROCESS_KERNELS:
        raise unsupported(f"the kernel {name} of {write.name}", [*PROCESS_KERNELS])
    return PROCESS_KERNELS[name](write, x, points, kernel)


def _scaled_squares(write: Writer, x: Value, points: Floats, kernel: Any) -> Value:
    """`|x - x_i|²` in units of the kernel's lengths."""
    differences = write.subtract(write.reshape(x, (1, 1, -1)), points)  # (1, n, D)
    lengths = np.asarray(kernel.length_scale, dtype=np.float64)
    return write.reduce("sum", write.apply("square", write.divide(differences, lengths)), [2], keep=False)


def _radial(write: Writer, x: Value, points: Floats, kernel: Any) -> Value:
    return write.apply("exp", write.multiply(_scaled_squares(write, x, points, kernel), np.array(-0.5)))


def _rational(write: Writer, x: Value, points: Floats, kernel: Any) -> Value:
    """`(1 + s/(2α))^-α` with the scaled squares s."""
    part = write.divide(_scaled_squares(write, x, points, kernel), np.array(2.0 * kernel.alpha))
    return write.power(write.add(part, np.array(1.0)), -float(kernel.alpha))


def _dot(write: Writer, x: Value, points: Floats, kernel: Any) -> Value:
    """`σ² + x·x_i`."""
    shift = write.apply("square", np.array(float(kernel.sigma_0)))
    return write.add(write.linear(x, points.T), shift)


def _both(operation: Callable[[Writer, Argument, Argument], Argument]) -> Callable[..., Argument]:
    """A kernel made of two."""

    def written(write: Writer, x: Value, points: Floats, kernel: Any) -> Argument:
        parts = (_process_kernel(write, x, points, part) for part in (kernel.k1, kernel.k2))
        return operation(write, *parts)

    return written


def _power(write: Writer, x: Value, points: Floats, kernel: Any) -> Value:
    return write.power(_process_kernel(write, x, points, kernel.kernel), float(kernel.exponent))


PROCESS_KERNELS: dict[str, Callable[[Writer, Value, Floats, Any], Argument]] = {
    "RBF": _radial,
    "RationalQuadratic": _rational,
    "DotProduct": _dot,
    "ConstantKernel": lambda _, __, points, kernel: np.full((1, len(points)), float(kernel.constant_value)),
    "WhiteKernel": lambda _, __, points, ___: np.zeros((1, len(points))),
    "Sum": _both(lambda write, a, b: write.add(a, b)),
    "Product": _both(lambda write, a, b: write.multiply(a, b)),
    "Exponentiation": _power,
}
"""Kernels of Gaussian processes, by their classes; noise is no part of a mean."""
