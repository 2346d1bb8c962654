"""Names of functions that are made of others, worked out from the parts: no file calls a function by another's name.

Values of several functions side by side are called u0, u1, ... row by row. A sum is an affine map of them, a product a
formula such as `u0*u1`; both are recognised by what they compute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..targets import Expression, PiecewiseLinear
from ..targets.combined import Composed, Stacked

if TYPE_CHECKING:
    from .claim import Claim

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Shape = tuple[int, ...]
Operand = tuple[str, Shape]
"""The name of a function and the shape of its values."""


def combined_name(kind: str, parts: Sequence[Claim], shape: Shape) -> str:
    """The name of the function that parts make, outermost first, with values of this shape."""
    if kind == Stacked.kind:
        return f"[{', '.join(part.name for part in parts)}]"
    if kind != Composed.kind:
        return parts[0].name
    outer, inner = parts
    sides = [part.claim for part in inner.parts] if inner.description["kind"] == Stacked.kind else [inner]
    operands = [(side.name, side.output_shape) for side in sides]
    known = _sum_name(outer, operands, shape) or _product_name(outer, operands, shape) or _formula_name(outer, operands)
    return known or f"{outer.name} of {inner.name}"


def indices(shape: Shape, wider: Shape) -> Integers:
    """Which value of an array each value of the array broadcast to `wider` is, (m,)."""
    return np.broadcast_to(np.arange(prod(shape)).reshape(shape), wider).ravel()


def product_formula(first: Integers, second: Integers, shape: Shape) -> str:
    """The products of values with these numbers, (m,) each, as a formula.

    >>> product_formula(np.array([0, 0]), np.array([1, 2]), (2,))
    '[u0*u1, u0*u2]'
    """
    texts = [f"u{one}*u{two}" for one, two in zip(first, second, strict=True)]
    return texts[0] if shape == () else f"[{', '.join(texts)}]"


def filled(formula: str, names: Mapping[str, str]) -> str:
    """A formula in u0, u1, ... with names in their places.

    >>> filled("u0**2", {"u0": "x + 1"}), filled("max(u0, 1)", {"u0": "x + 1"})
    ('(x + 1)**2', 'max(x + 1, 1)')
    """
    alone = re.fullmatch(r"\w+\([^()]*\)", formula)  # the arguments of a function need no parentheses
    return re.sub(r"\bu\d+\b", lambda found: names[found[0]] if alone else f"({names[found[0]]})", formula)


def shown(numbers: Floats) -> str:
    """One number where all are equal."""
    same = bool((numbers == numbers.flat[0]).all())
    return f"{float(numbers.flat[0]):g}" if same else str(numbers.tolist())


def _places(operands: Sequence[Operand], shape: Shape) -> list[Integers]:
    """Which of u0, u1, ... are the values of each operand, broadcast to a shape, (m,) each; nothing if that fails."""
    starts = np.cumsum([0, *(prod(inner) for _, inner in operands)])
    try:
        return [start + indices(inner, shape) for start, (_, inner) in zip(starts, operands, strict=False)]
    except ValueError:
        return []


def _sum_name(outer: Claim, operands: Sequence[Operand], shape: Shape) -> str:
    """`2*(f) - (g) + 1` of an affine map that multiplies operands by numbers and adds; nothing of another one."""
    target, places = outer.target, _places(operands, shape)
    if not isinstance(target, PiecewiseLinear) or len(target.stages) != 1 or not target.stages[0].is_affine:
        return ""
    weight, constant = target.stages[0].weight, target.stages[0].bias  # (k, m), (m,)
    if not places or weight.shape != (sum(prod(inner) for _, inner in operands), prod(shape)):
        return ""
    factors, every = [weight[rows, np.arange(len(constant))] for rows in places], np.zeros_like(weight)  # (m,) each
    for rows, factor in zip(places, factors, strict=True):
        every[rows, np.arange(len(constant))] = factor
    if not np.array_equal(every, weight):
        return ""
    terms = [_times(factor.reshape(shape), name) for factor, (name, _) in zip(factors, operands, strict=True)]
    return " ".join([*_joined(terms), *_plus(constant.reshape(shape))])


def _times(factor: Floats, name: str) -> str:
    """A multiple of a function."""
    if (factor == 1).all():
        return name
    return f"-({name})" if (factor == -1).all() else f"{shown(factor)}*({name})"


def _joined(terms: Sequence[str]) -> list[str]:
    """Terms with signs between them."""
    return [terms[0], *(f"- {term[1:]}" if term.startswith("-(") else f"+ {term}" for term in terms[1:])]


def _plus(constant: Floats) -> list[str]:
    """A constant with its sign; nothing for zero."""
    if (constant == 0).all():
        return []
    return [f"- {shown(-constant)}"] if (constant < 0).all() else [f"+ {shown(constant)}"]


def _product_name(outer: Claim, operands: Sequence[Operand], shape: Shape) -> str:
    """`(f)*(g)` of a formula that multiplies two operands, or one with itself; nothing of another."""
    target, places = outer.target, _places(operands, shape)
    axes = tuple(f"u{k}" for k in range(outer.domain.size))
    if not isinstance(target, Expression) or outer.domain.axes != axes or len(places) not in (1, 2):
        return ""
    if target.text != product_formula(places[0], places[-1], shape):
        return ""
    return f"({operands[0][0]})*({operands[-1][0]})"


def _formula_name(outer: Claim, operands: Sequence[Operand]) -> str:
    """`max(f, g)` of a formula in u0, u1, ..., whose operands have one value each; nothing of another."""
    axes = tuple(f"u{k}" for k in range(outer.domain.size))
    plain = isinstance(outer.target, Expression) and outer.domain.axes == axes
    if not plain or outer.output_shape != () or any(shape != () for _, shape in operands):
        return ""
    inside = {axis: name for axis, (name, _) in zip(axes, operands, strict=True)}
    return filled(outer.name, inside)
