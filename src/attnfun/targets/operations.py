"""The functions a formula may use. One table: a name, the NumPy function that works on floats and intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


def sinc(x: Any) -> Any:
    """sin(x)/x, and 1 at 0."""
    if hasattr(x, "sinc"):
        return x.sinc()
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.sin(safe) / safe)


FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "exp": (np.exp, 1),
    "expm1": (np.expm1, 1),
    "log": (np.log, 1),
    "log1p": (np.log1p, 1),
    "ln": (np.log, 1),
    "sqrt": (np.sqrt, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 1),
    "sinc": (sinc, 1),
    "asin": (np.arcsin, 1),
    "acos": (np.arccos, 1),
    "atan": (np.arctan, 1),
    "sinh": (np.sinh, 1),
    "cosh": (np.cosh, 1),
    "tanh": (np.tanh, 1),
    "abs": (np.abs, 1),
    "sign": (np.sign, 1),
    "erf": (_erf, 1),
    "min": (np.minimum, 2),
    "max": (np.maximum, 2),
    "where": (np.where, 3),
}
"""Functions by the name users write, with the number of arguments (min and max take two or more)."""

OPERATORS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
    "neg": np.negative,
}

COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

LOGIC: dict[str, Callable[..., Any]] = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}

OPERATIONS: dict[str, Callable[..., Any]] = {
    **OPERATORS,
    **COMPARISONS,
    **LOGIC,
    **{name: function for name, (function, _) in FUNCTIONS.items()},
}
"""Everything a program's nodes may ask for."""
TRUTHS = frozenset({*COMPARISONS, *LOGIC})
"""Operations whose result is a truth value."""
JUMPS = frozenset({*TRUTHS, "where", "sign"})
"""Operations that need not be continuous where they are defined; all others are."""

CONSTANTS: dict[str, float] = {"pi": float(np.pi), "e": float(np.e)}
