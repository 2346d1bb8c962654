"""Functions of NumPy and SciPy on arrays of symbols, said in sums, products, quotients, maxima and minima.

NumPy's protocol hands over those of `FUNCTIONS` and `HANDED_OVER`; those of `IN_PLACE_OF` are ordinary Python functions
and are exchanged before a function is run (`tracing.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from .symbols import (
    FUNCTIONS,
    HANDED_OVER,
    MOVING,
    Cells,
    Symbol,
    by_name,
    cells,
    dot,
    elementwise,
    fold,
    matmul,
    refusal,
    symbolic,
    tensordot,
    where,
    wrapped,
)


@dataclass(frozen=True)
class ArrayTuning:
    """How large the arrays are that are written out as formulas."""

    largest_sort: int = 8
    """Numbers that are put in order by comparing all pairs. For time: the comparisons grow as the square."""
    largest_matrix: int = 4
    """Rows of a matrix whose determinant is written down. For time: the products grow as the factorial."""


TUNING = ArrayTuning()


# ---------------------------------------------------------------- sums of products, choices, lines


def einsum(subscripts: Any, *operands: Any, **_: Any) -> Any:
    """As np.einsum, with subscripts in text; without an ellipsis only where all axes are named."""
    if not isinstance(subscripts, str):
        raise refusal("np.einsum without subscripts in text", 'write "ij,j->i"')
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    tables, names = [cells(operand) for operand in operands], left.split(",")
    spare = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in subscripts]
    pairs = list(zip(tables, names, strict=True))
    wide = max((table.ndim - len(name) + 3 for table, name in pairs if "..." in name), default=0)
    for k, (table, name) in enumerate(pairs):
        width = table.ndim - len(name) + 3
        names[k] = name.replace("...", "".join(spare[wide - width : wide]))
    free = "".join(spare[:wide])
    if not arrow:
        letters = [letter for name in names for letter in name if letter not in free]
        out = free + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    out = out.replace("...", free)
    summed = [letter for letter in dict.fromkeys("".join(names)) if letter not in out]
    order = [*out, *summed]
    parts = []
    for table, name in zip(tables, names, strict=True):
        while len(set(name)) < len(name):  # a diagonal
            letter = next(letter for letter in name if name.count(letter) > 1)
            first, second = name.index(letter), name.rindex(letter)
            table = np.diagonal(table, 0, first, second)
            name = name[:first] + name[first + 1 : second] + name[second + 1 :] + letter
        moved = table.transpose(*(name.index(letter) for letter in order if letter in name))
        places = iter(moved.shape)
        parts.append(symbolic(moved.reshape(*(next(places) if letter in name else 1 for letter in order))))
    product = reduce(np.multiply, parts)
    return fold("+", product, tuple(range(len(out), len(order)))) if summed else wrapped(cells(product))


def select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0.0) -> Any:
    """As np.select: the first condition that holds."""
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = where(condition, choice, result)
    return result


def piecewise(x: Any, conditions: Any, functions: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """As np.piecewise, for functions that act on each number alone: the last condition that holds."""
    several = isinstance(conditions, list | tuple) and np.ndim(cells(conditions[0])) == np.ndim(cells(x))
    conditions = list(conditions) if several else [conditions]
    pieces = [function(x, *args, **kwargs) if callable(function) else function for function in functions]
    result = pieces[len(conditions)] if len(pieces) > len(conditions) else 0.0
    for condition, piece in zip(conditions, pieces, strict=False):
        result = where(condition, piece, result)
    return result


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """As np.linalg.norm of vectors, and the Frobenius norm of matrices."""
    table = symbolic(cells(x))
    matrix = (isinstance(axis, tuple) and len(axis) == 2) or (axis is None and table.ndim == 2)
    power = isinstance(ord, int | float) and ord >= 1
    if not (ord in (None, "fro") or (power and not matrix)):
        raise refusal(f"np.linalg.norm with ord={ord!r}", "use ord 1 to np.inf of vectors")
    if ord == 1:
        return fold("+", np.abs(table), axis, keepdims)
    if ord == np.inf:
        return fold("max", np.abs(table), axis, keepdims)
    if isinstance(ord, int | float) and ord != 2:
        return fold("+", np.abs(table) ** float(ord), axis, keepdims) ** (1.0 / ord)
    return np.sqrt(fold("+", table**2, axis, keepdims))


def polyval(coefficients: Any, x: Any) -> Any:
    """As np.polyval: Horner's rule, the highest power first."""
    return reduce(lambda total, each: total * x + each, list(coefficients))


def interp(x: Any, knots: Any, values: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """As np.interp: `f_0 + Σ_k (s_k - s_{k-1}) max(x - t_k, 0)` with the slopes s between the knots t and 0 outside."""
    if left is not None or right is not None or period is not None:
        raise refusal("np.interp with left=, right= or period=", "use np.where")
    if any(isinstance(cell, Symbol) for part in (knots, values) for cell in cells(part).flat):
        raise refusal("np.interp with knots that are computed", "use constant knots")
    t, f = np.asarray(knots, dtype=np.float64), np.asarray(values, dtype=np.float64)
    return elementwise(lambda cell: _interp(cell, t, f) if isinstance(cell, Symbol) else np.interp(cell, t, f), x)


def _interp(x: Symbol, t: npt.NDArray[np.float64], f: npt.NDArray[np.float64]) -> Any:
    constant, build = x.tape.builder.constant, x.tape.builder

    def less(a: float, b: float) -> int:
        return build.apply("-", [constant(a), constant(b)])

    zero = constant(0.0)
    pieces = zip(pairwise(t.tolist()), pairwise(f.tolist()), strict=True)
    slopes = [build.apply("/", [less(f1, f0), less(t1, t0)]) for (t0, t1), (f0, f1) in pieces]
    slopes = [zero, *slopes, zero]
    total = constant(float(f[0]))
    for (before, after), knot in zip(pairwise(slopes), t, strict=True):
        ramp = build.apply("max", [build.apply("-", [x.number, constant(float(knot))]), zero])
        total = build.apply("+", [total, build.apply("*", [build.apply("-", [after, before]), ramp])])
    return x.tape.symbol(total)


def _average(a: Any, axis: Any = None, weights: Any = None, **more: Any) -> Any:
    if more:
        raise refusal(f"np.average with {', '.join(more)}=", "leave it out")
    table = symbolic(cells(a))
    if weights is None:
        return table.mean(axis)
    shares = cells(weights)
    if shares.ndim < table.ndim and isinstance(axis, int):  # one weight for each place along the axis
        shares = np.moveaxis(np.broadcast_to(shares, (*np.delete(table.shape, axis), len(shares))), -1, axis)
    return (table * shares).sum(axis) / wrapped(shares).sum(axis)


# ---------------------------------------------------------------- order


def sort(a: Any, axis: int | None = -1, **more: Any) -> Any:
    """As np.sort: neighbours are exchanged in n rounds, each pair by a minimum and a maximum."""
    if any(value is not None for value in more.values()):
        raise refusal(f"np.sort with {', '.join(more)}=", "leave it out")
    table = cells(a).ravel() if axis is None else np.moveaxis(cells(a), axis, 0)
    count, rows = len(table), [symbolic(np.asarray(row)) for row in table]
    if count > TUNING.largest_sort:
        raise refusal(f"an order of {count} numbers", f"put at most {TUNING.largest_sort} in order")
    for turn in range(count):
        for k in range(turn % 2, count - 1, 2):
            rows[k], rows[k + 1] = np.minimum(rows[k], rows[k + 1]), np.maximum(rows[k], rows[k + 1])
    placed = np.stack([cells(row) for row in rows])  # (n, ...)
    return wrapped(placed if axis is None else np.moveaxis(placed, 0, axis))


def quantile(a: Any, q: Any, axis: int | None = None, keepdims: bool = False, **more: Any) -> Any:
    """As np.quantile of one fraction q, a straight line between neighbours."""
    if any(value not in (None, False, "linear") for value in more.values()) or np.ndim(q) > 0:
        raise refusal("np.quantile of several fractions or with settings", "take one fraction at a time")
    ordered = cells(sort(a, axis))
    ordered = ordered if axis is None else np.moveaxis(ordered, axis, 0)  # (n, ...)
    place = float(q) * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    if not 0 <= low <= high < len(ordered):
        raise refusal(f"a fraction of {q}", "use one between 0 and 1")
    share = place - low
    least, most = wrapped(ordered[low]), wrapped(ordered[high])
    result = least if low == high else least + (most - least) * share
    if not keepdims:
        return result
    return wrapped(cells(result).reshape([1] * np.ndim(a)) if axis is None else np.expand_dims(cells(result), axis))


def median(
    a: Any, axis: int | None = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """As np.median."""
    if out is not None:
        raise refusal("np.median with out=", "leave it out")
    return quantile(a, 0.5, axis, keepdims)


# ---------------------------------------------------------------- small matrices


def _rows(a: Any, *others: Any) -> tuple[Cells, int]:
    """Square matrices (..., n, n) as symbols alone: what is computed of their numbers is not rounded before."""
    table = cells(a).copy()
    tape = next(cell.tape for part in (a, *others) for cell in cells(part).flat if isinstance(cell, Symbol))
    for index, cell in np.ndenumerate(table):
        table[index] = cell if isinstance(cell, Symbol) else tape.symbol(tape.number_of(cell))
    if table.ndim < 2 or table.shape[-1] != table.shape[-2]:
        raise refusal(f"a matrix of shape {table.shape}", "use square matrices")
    if table.shape[-1] > TUNING.largest_matrix:
        raise refusal(
            f"a matrix of {table.shape[-1]} rows",
            f"use at most {TUNING.largest_matrix} rows, or multiply by an inverse made before",
        )
    return table, table.shape[-1]


def det(a: Any) -> Any:
    """As np.linalg.det: the sum over permutations."""
    table, n = _rows(a)
    return _determinant(table, range(n), range(n))


def _determinant(table: Cells, rows: Sequence[int], columns: Sequence[int]) -> Any:
    """Of the rows and columns chosen; 1 if there are none."""
    total: Any = None
    for order in permutations(range(len(rows))):
        even = sum(order[i] > order[j] for i in range(len(order)) for j in range(i + 1, len(order))) % 2 == 0
        factors = [wrapped(table[..., rows[i], columns[k]]) for i, k in enumerate(order)]
        term: Any = reduce(np.multiply, factors) if factors else np.ones(table.shape[:-2])
        total = (term if even else -term) if total is None else total + term if even else total - term
    return total


def inv(a: Any) -> Any:
    """As np.linalg.inv: cofactors over the determinant."""
    table, n = _rows(a)
    whole, entries = _determinant(table, range(n), range(n)), []
    for i in range(n):
        for k in range(n):
            rows, columns = [r for r in range(n) if r != k], [c for c in range(n) if c != i]
            minor = _determinant(table, rows, columns)
            entries.append(cells((minor if (i + k) % 2 == 0 else -minor) / whole))
    return wrapped(np.stack(entries, axis=-1).reshape(*table.shape[:-2], n, n))


def solve(a: Any, b: Any) -> Any:
    """As np.linalg.solve: cofactors times the right side, over the determinant."""
    return matmul(inv(_rows(a, b)[0]), b)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """As np.linalg.eigvalsh of matrices with two rows: mean of the diagonal, and half the distance of both values."""
    table, n = _rows(a)
    if n != 2:
        raise refusal(f"eigenvalues of a matrix of {n} rows", "use two rows")
    corner = wrapped(table[..., 1, 0] if UPLO.upper() == "L" else table[..., 0, 1])
    first, last = wrapped(table[..., 0, 0]), wrapped(table[..., 1, 1])
    middle, apart = (first + last) / 2, np.hypot((first - last) / 2, corner)
    return wrapped(np.stack([cells(middle - apart), cells(middle + apart)], axis=-1))


def matrix_power(a: Any, n: int) -> Any:
    """As np.linalg.matrix_power, for n of at least 1."""
    if n < 1:
        raise refusal(f"a matrix to the power {n}", "use powers of at least 1, and np.linalg.inv")
    return reduce(matmul, [a] * n)


# ---------------------------------------------------------------- differences and sums along an axis


def gradient(f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """As np.gradient with one distance between neighbours: half the difference of both, at the ends that of one."""
    table = cells(f)
    axes = tuple(range(table.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    steps = list(spacing) * (len(axes) if len(spacing) == 1 else 1) or [1.0] * len(axes)
    if edge_order != 1 or len(steps) != len(axes) or any(np.ndim(step) > 0 for step in steps):
        raise refusal("np.gradient with places or edge_order", "give one distance for each axis")
    found = []
    for number, step in zip(axes, steps, strict=True):
        line = symbolic(np.moveaxis(table, number, 0))  # (n, ...)
        inner = (line[2:] - line[:-2]) / (2.0 * step)
        parts = [(line[1:2] - line[:1]) / step, inner, (line[-1:] - line[-2:-1]) / step]
        found.append(wrapped(np.moveaxis(np.concatenate([cells(part) for part in parts]), 0, number)))
    return found[0] if len(found) == 1 else tuple(found)


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """As np.convolve: `Σ_k a_k v_{n-k}`."""
    first, second = cells(a).ravel(), cells(v).ravel()
    if len(second) > len(first):
        first, second = second, first
    n, m = len(first), len(second)
    ranges = {"full": (0, n + m - 1), "same": ((m - 1) // 2, (m - 1) // 2 + n), "valid": (m - 1, n)}
    if mode not in ranges:
        raise refusal(f"np.convolve with mode={mode!r}", 'use "full", "same" or "valid"')
    sums = []
    for place in range(*ranges[mode]):
        pairs = [(k, place - k) for k in range(n) if 0 <= place - k < m]
        sums.append(cells(dot(first[[k for k, _ in pairs]], second[[k for _, k in pairs]])))
    return wrapped(np.stack(sums))


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """As np.correlate of arrays of which the first is no shorter."""
    if len(cells(v)) > len(cells(a)):
        raise refusal("np.correlate with a longer second array", "exchange both")
    return convolve(a, cells(v)[::-1], mode)


def apply_along_axis(function: Callable[..., Any], axis: int, array: Any, *args: Any, **kwargs: Any) -> Any:
    """As np.apply_along_axis."""
    table = np.moveaxis(cells(array), axis, -1)  # (..., n)
    values = [cells(function(symbolic(table[index]), *args, **kwargs)) for index in np.ndindex(table.shape[:-1])]
    joined = np.stack(values).reshape(*table.shape[:-1], *values[0].shape)
    axis %= cells(array).ndim
    new = range(table.ndim - 1, joined.ndim)
    return wrapped(np.moveaxis(joined, list(new), list(range(axis, axis + len(new)))))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """As np.vander: powers side by side."""
    table = symbolic(cells(x))
    count = len(table) if N is None else N
    powers = [np.ones(table.shape), table]
    while len(powers) < count:
        powers.append(powers[-1] * table)
    columns = [cells(power) for power in powers[:count]]
    return wrapped(np.stack(columns if increasing else columns[::-1], axis=-1))


def nan_to_num(x: Any, *_: Any, **__: Any) -> Any:
    """As np.nan_to_num of numbers that are finite, as those of a target must be."""
    return wrapped(cells(x))


# ---------------------------------------------------------------- SciPy


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, **more: Any) -> Any:
    """As scipy.special.logsumexp: `a_0 + log Σ_k b_k exp(a_k - a_0)`."""
    if any(more.values()):
        raise refusal(f"scipy.special.logsumexp with {', '.join(more)}=", "leave it out")
    table, place = _along(a, axis)
    first, shares = _shares(table)
    if b is not None:
        shares = shares * symbolic(_along(np.broadcast_to(cells(b), np.shape(cells(a))), axis)[0])
    result = cells(first + np.log(fold("+", shares, -1)))
    if not keepdims:
        return wrapped(result)
    return wrapped(result.reshape([1] * np.ndim(a)) if place is None else np.expand_dims(result, place))


def softmax(x: Any, axis: Any = None) -> Any:
    """As scipy.special.softmax: `exp(x - x_0) / Σ_k exp(x_k - x_0)`."""
    table, place = _along(x, axis)
    _, shares = _shares(table)
    result = cells(shares / fold("+", shares, -1, keepdims=True))
    return wrapped(result.reshape(np.shape(x)) if place is None else np.moveaxis(result, -1, place))


def log_softmax(x: Any, axis: Any = None) -> Any:
    """As scipy.special.log_softmax."""
    return symbolic(cells(x)) - logsumexp(x, axis, keepdims=True)


def _along(a: Any, axis: Any) -> tuple[Cells, int | None]:
    """An array with an axis moved to the end, or flat without one."""
    if isinstance(axis, tuple):
        raise refusal("exponentials over several axes", "reshape to one axis")
    return (cells(a).ravel(), None) if axis is None else (np.moveaxis(cells(a), axis, -1), axis)


def _shares(table: Cells) -> tuple[Any, Any]:
    """The first along the last axis, and `exp(x_k - x_0)`."""
    first = symbolic(table[..., :1])
    rest = np.exp(symbolic(table[..., 1:]) - first) if table.shape[-1] > 1 else np.empty(table[..., 1:].shape)
    ones = np.ones(table[..., :1].shape).astype(object)
    return wrapped(table[..., 0]), symbolic(np.concatenate([ones, cells(rest)], axis=-1))


class Normal:
    """scipy.stats.norm for symbols: its density and distribution."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        own, formula = getattr(self.own, name), NORMAL.get(name)
        return own if formula is None else lambda x, loc=0.0, scale=1.0: _standard(formula, own, x, loc, scale)


def _standard(formula: str, own: Callable[..., Any], x: Any, loc: Any, scale: Any) -> Any:
    def one(*each: Any) -> Any:
        tape = next((part.tape for part in each if isinstance(part, Symbol)), None)
        return own(*each) if tape is None else tape.mean(formula, *each)

    return elementwise(one, x, loc, scale)


NORMAL = {
    "pdf": "exp(-((a - b)/c)**2/2)/(c*sqrt(2*pi))",
    "logpdf": "-((a - b)/c)**2/2 - log(c*sqrt(2*pi))",
    "cdf": "(1 + erf((a - b)/c/sqrt(2)))/2",
    "sf": "(1 - erf((a - b)/c/sqrt(2)))/2",
}
"""Methods of scipy.stats.norm of a number, a mean and a deviation."""


# ---------------------------------------------------------------- tables


def _method(name: str) -> Callable[..., Any]:
    return lambda a, *args, **kwargs: getattr(symbolic(cells(a)), name)(*args, **kwargs)


def _joined(function: Callable[..., Any]) -> Callable[..., Any]:
    def join(parts: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapped(function([cells(part) for part in parts], *args, **kwargs))

    return join


def _stack(parts: Any, axis: int = 0) -> Any:
    return wrapped(np.stack([cells(part) for part in parts], axis=axis))


FUNCTIONS |= {
    np.dot: dot,
    np.vdot: lambda a, b: dot(cells(a).ravel(), cells(b).ravel()),
    np.inner: lambda a, b: tensordot(a, b, (-1, -1)) if np.ndim(cells(a)) and np.ndim(cells(b)) else np.multiply(a, b),
    np.outer: lambda a, b: np.multiply(symbolic(cells(a).reshape(-1, 1)), symbolic(cells(b).reshape(1, -1))),
    np.tensordot: tensordot,
    np.einsum: einsum,
    np.where: where,
    np.select: select,
    np.piecewise: piecewise,
    np.clip: _method("clip"),
    np.linalg.norm: norm,
    np.polyval: polyval,
    np.interp: interp,
    np.average: _average,
    np.zeros_like: lambda a, *_, **__: symbolic(np.zeros(np.shape(a)).astype(object)),
    np.empty_like: lambda a, *_, **__: symbolic(np.zeros(np.shape(a)).astype(object)),
    np.ones_like: lambda a, *_, **__: symbolic(np.ones(np.shape(a)).astype(object)),
    np.full_like: lambda a, value, *_, **__: symbolic(np.broadcast_to(cells(value), np.shape(a)).copy()),
    np.sinc: lambda x: elementwise(lambda cell: by_name("sinc", cell), x),
    np.stack: _stack,
    np.concatenate: _joined(np.concatenate),
    np.vstack: _joined(np.vstack),
    np.hstack: _joined(np.hstack),
    np.column_stack: _joined(np.column_stack),
    **{
        getattr(np, name): _method(name)
        for name in ("sum", "mean", "prod", "max", "min", "var", "std", "ptp", "all", "any")
    },
    np.amax: _method("max"),
    np.amin: _method("min"),
}
HANDED_OVER |= {
    np.sort: sort,
    np.median: median,
    np.quantile: quantile,
    np.percentile: lambda a, q, *args, **kwargs: quantile(a, np.asarray(q) / 100, *args, **kwargs),
    np.linalg.det: det,
    np.linalg.inv: inv,
    np.linalg.solve: solve,
    np.linalg.eigvalsh: eigvalsh,
    np.linalg.matrix_power: matrix_power,
    np.linalg.multi_dot: lambda arrays, **_: reduce(dot, arrays),
    np.gradient: gradient,
    np.convolve: convolve,
    np.correlate: correlate,
    np.apply_along_axis: apply_along_axis,
    np.vander: vander,
    np.ediff1d: lambda a: np.diff(symbolic(cells(a).ravel())),
    np.nan_to_num: nan_to_num,
    **{
        getattr(np, f"nan{name}"): _method(name)
        for name in ("sum", "mean", "prod", "max", "min", "var", "std", "cumsum", "cumprod")
    },
    np.nanmedian: median,
    np.nanquantile: quantile,
    np.linalg.cross: lambda a, b, axis=-1: np.cross(a, b, axis=axis),
    np.linalg.outer: np.outer,
    np.linalg.matmul: matmul,
    np.linalg.tensordot: np.tensordot,
    np.linalg.vecdot: lambda a, b, axis=-1: fold("+", np.multiply(a, b), axis),
}

MOVING |= {  # they move cells, or compute with ufuncs
    np.reshape, np.transpose, np.ravel, np.squeeze, np.expand_dims, np.moveaxis, np.swapaxes, np.flip, np.roll, np.tile,
    np.repeat, np.take, np.broadcast_to, np.atleast_1d, np.atleast_2d, np.copy, np.diag, np.diagonal, np.trace, np.diff,
    np.cumsum, np.cumprod, np.cross, np.shape, np.ndim, np.size, np.split, np.array_split, np.append, np.flipud,
    np.fliplr, np.rot90, np.triu, np.tril, np.kron, np.meshgrid, np.broadcast_arrays, np.delete, np.insert, np.pad,
    np.trapezoid, np.block, np.rollaxis, np.linalg.trace, np.result_type, np.iscomplexobj, np.isrealobj, np.copyto,
}  # fmt: skip

IN_PLACE_OF: dict[str, Callable[..., Any]] = {"logsumexp": logsumexp, "softmax": softmax, "log_softmax": log_softmax}
"""Python functions of scipy.special, by name."""
