"""What others take instead: polynomials, splines, rational functions, radial functions, Gaussian processes.

Functions are given on [-1, 1]^D, by their values. A `Fit` of some size is made by its `FITS` entry; `chebyshev`,
`spline` and `rational` say which size a tolerance takes in one variable. Nothing here is proved.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial.chebyshev import chebvander
from scipy.interpolate import AAA, NdBSpline, RBFInterpolator, make_interp_spline
from scipy.stats import qmc

Floats = npt.NDArray[np.float64]
Line = Callable[[Floats], Floats]
"""(S,) -> (S,) on [-1, 1]."""
Function = Callable[[Floats], Floats]
"""(S, D) -> (S,) on [-1, 1]^D."""

CHECKS, SUPPORT = (np.cos(np.linspace(0, np.pi, count)) for count in (1001, 4001))
"""Points at which sizes are checked, and from which AAA picks its support."""
MOST_COEFFICIENTS, MOST_KNOTS = 2**11, 2**14
CUBIC = 3
RADIAL = "cubic"
"""The kernel |r|³ of interpolation by radial functions: no length has to be chosen."""


@dataclass(frozen=True)
class Fit:
    """An approximation: (S, D) -> (S,), and how many numbers it stores."""

    values: Function
    numbers: int


def scattered(count: int, variables: int, seed: int = 0) -> Floats:
    """Halton's points in [-1, 1]^D, which fill it evenly: (count, D)."""
    return 2 * qmc.Halton(variables, rng=seed).random(count) - 1


def sites(size: int, variables: int) -> Floats:
    """Scattered points; the corners of the cube are among them unless they would be more than a quarter."""
    few = 4 * 2**variables <= size
    ends = np.array(list(product((-1.0, 1.0), repeat=variables))) if few else np.empty((0, variables))  # (2^D, D)
    return np.concatenate([ends, scattered(size - len(ends), variables)])


def chebyshev_fit(function: Function, variables: int, size: int) -> Fit:
    """Tensor interpolation at size^D Chebyshev points; evaluation costs S size^D."""
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    values = _on_grid(function, nodes, variables)
    inverse = 2 * chebvander(nodes, size - 1).T / size  # discrete orthogonality
    inverse[0] /= 2
    for axis in range(variables):
        values = np.moveaxis(np.tensordot(inverse, values, (1, axis)), 0, axis)

    def evaluate(rows: Floats) -> Floats:
        bases = [chebvander(column, size - 1) for column in rows.T]  # D of (S, size)
        found = bases[0] @ values.reshape(size, -1)  # (S, size^(D-1))
        for basis in bases[1:]:
            found = np.einsum("sk,skr->sr", basis, found.reshape(len(rows), size, -1))
        return found[:, 0]

    return Fit(in_parts(evaluate, size ** max(variables - 1, 1)), size**variables)


def spline_fit(function: Function, variables: int, size: int) -> Fit:
    """Tensor cubic spline through size^D equidistant points; the knots follow from the size."""
    nodes = np.linspace(-1, 1, size)
    values, knots = _on_grid(function, nodes, variables), np.empty(0)
    for axis in range(variables):
        line = make_interp_spline(nodes, np.moveaxis(values, axis, 0), CUBIC)
        values, knots = np.moveaxis(line.c, 0, axis), line.t
    return Fit(NdBSpline((knots,) * variables, np.ascontiguousarray(values), CUBIC), size**variables)


def rational_fit(function: Function, variables: int, size: int) -> Fit:
    """AAA with so many support points, each with its value and its weight; of one variable."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that so many points leave an error
        found = AAA(SUPPORT, function(SUPPORT[:, None]), rtol=0.0, max_terms=size, clean_up=False)
    return Fit(lambda rows: np.real(found(rows[:, 0])), 3 * len(found.support_points))


def radial_fit(function: Function, variables: int, size: int) -> Fit:
    """Interpolation by radial functions at so many scattered points, with a linear part; time size³."""
    points = sites(size, variables)
    found = RBFInterpolator(points, function(points), kernel=RADIAL)
    return Fit(found, size * (variables + 1) + variables + 1)


def process_fit(function: Function, variables: int, size: int) -> Fit:
    """The mean of a Gaussian process at so many scattered points, one length a variable, chosen by likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    points = sites(size, variables)
    lengths: Any = np.full(variables, 0.5)
    kernel = ConstantKernel(1.0, (1e-4, 1e6)) * RBF(lengths, (1e-3, 1e3))
    found: Any = GaussianProcessRegressor(kernel, alpha=1e-12, normalize_y=True, random_state=0)
    found.fit(points, function(points))
    return Fit(found.predict, size * (variables + 1) + variables + 1)


FITS: dict[str, Callable[[Function, int, int], Fit]] = {
    "Chebyshev": chebyshev_fit,
    "spline": spline_fit,
    "AAA": rational_fit,
    "RBF": radial_fit,
    "GP": process_fit,
}
"""Each makes a fit of a function of D variables in a size."""


def _on_grid(function: Function, nodes: Floats, variables: int) -> Floats:
    """Values at all points of a product grid, (size,) * D."""
    mesh = np.stack(np.meshgrid(*[nodes] * variables, indexing="ij"), axis=-1)
    return function(mesh.reshape(-1, variables)).reshape(mesh.shape[:-1])


def in_parts(evaluate: Function, width: int) -> Function:
    """The same, a few rows at a time: never more than about 2^22 numbers."""
    step = max(1, 2**22 // width)
    return lambda rows: np.concatenate([evaluate(rows[k : k + step]) for k in range(0, len(rows), step)])


def _shortest(
    fit: Callable[[Function, int, int], Fit], function: Line, eps: float, start: int, most: int
) -> int | None:
    """The first size whose errors are at most eps, sizes growing by a tenth; None beyond the largest."""
    truth, size = function(CHECKS), start
    while size <= most:
        found = fit(lambda rows: function(rows[:, 0]), 1, size)
        if np.abs(found.values(CHECKS[:, None]) - truth).max() <= eps:
            return size
        size += max(1, size // 10)
    return None


def chebyshev(function: Line, eps: float) -> int | None:
    """Coefficients of a Chebyshev interpolant."""
    return _shortest(chebyshev_fit, function, eps, 2, MOST_COEFFICIENTS)


def spline(function: Line, eps: float) -> int | None:
    """Knots of a cubic spline, equidistant."""
    return _shortest(spline_fit, function, eps, 4, MOST_KNOTS)


def rational(function: Line, eps: float) -> int:
    """Support points of a rational interpolant found by AAA."""
    values = function(CHECKS)
    return len(AAA(CHECKS, values, rtol=eps / np.abs(values).max(), max_terms=150).support_points)
