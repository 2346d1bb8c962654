"""WHAT: everything that can be compiled, behind one contract (`base.Target`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arguments import real_number
from ..arithmetic import Untraceable
from ..domains.box import Box
from ..errors import InputError, shown
from ..formula.sympy_reader import is_sympy, sympy_formula
from .antiderivatives import Antiderivative
from .base import Floats, Status, Target
from .callables import BlackBox, Lipschitz, PythonFunction, Traced
from .cells import CellValues
from .evaluations import Cache, Sampling
from .expression import Expression
from .fitted import FittedModel
from .max_affine import MaxAffine, MaxAffineTarget
from .piecewise import Family, PiecewiseLinear, TruncatedLinear, TruncatedLinearTarget
from .samples import Samples, SamplesTarget

SAVED = {kind.kind: kind for kind in (PiecewiseLinear, TruncatedLinearTarget, MaxAffineTarget, CellValues, FittedModel)}
"""Targets that are restored from their arrays, by the kind in their description."""

__all__ = [
    "Antiderivative",
    "Cache",
    "CellValues",
    "Expression",
    "FittedModel",
    "MaxAffine",
    "PiecewiseLinear",
    "Samples",
    "SamplesTarget",
    "Sampling",
    "Status",
    "Target",
    "TruncatedLinear",
    "as_target",
    "restore",
]


def as_target(
    target: object,
    domain: Box,
    lipschitz: float | None = None,
    sampling: Sampling | None = None,
    tail: str | None = None,
) -> Target:
    """Read a target as users write it: a text, a Python function, or a target already made.

    A function with a declared `lipschitz` constant is a black box and is not traced. Any other function is run on
    symbols first, and what it does to them is compared with its values; if that has no meaning or is another function,
    only an estimate is possible. Black boxes are called as `sampling` says.
    """
    constant = None if lipschitz is None else real_number("lipschitz", lipschitz, least=0.0, toward=math.inf)
    if isinstance(target, Target):
        return target
    if isinstance(target, Family):
        return target.on(domain)
    if is_sympy(target):
        target, names = sympy_formula(target, domain.names)
        domain = domain if domain.names is not None or len(names) != domain.size else domain.renamed(names)
    if isinstance(target, str):
        return Expression(target, domain, tail)
    if tail is not None:
        raise InputError("tail= needs a formula in text as the target", got=shown(target))
    if not callable(target):
        raise InputError("a target must be a formula in text or a function on NumPy arrays", got=repr(target))
    function = PythonFunction(target, domain)
    if constant is not None:
        return Lipschitz(function, constant, domain, function.output_shape, sampling=sampling)
    try:
        return Traced.of(function)
    except Untraceable as reason:
        return BlackBox(function, str(reason), sampling)


def restore(
    description: dict[str, Any],
    domain: Box,
    output_shape: tuple[int, ...],
    samples: tuple[Floats, Floats] | None,
    function: object = None,
    arrays: dict[str, Floats] | None = None,
) -> Target | None:
    """The target of a saved network, or None where the function itself is needed and was not given.

    A given function is checked against the recorded samples.
    """
    if description["kind"] == "expression":
        return Expression(description["text"], domain, description.get("tail"))
    if description["kind"] == Antiderivative.kind:
        return Antiderivative(Expression(description["formula"], domain))
    if description["kind"] in SAVED:
        return SAVED[description["kind"]].restored(description, arrays or {}, domain, output_shape)
    if description["kind"] == "lipschitz" and samples is not None:
        if function is not None:
            again = PythonFunction(function, domain)(samples[0])  # type: ignore[arg-type]
            if not np.array_equal(again, samples[1]):
                raise InputError(
                    "the given function must be the one that was compiled",
                    got=f"a different value at {samples[0][int(np.argmax((again != samples[1]).any(1)))].tolist()}",
                )
        return Lipschitz(None, description["constant"], domain, output_shape, samples, description["name"])
    return None if function is None else as_target(function, domain)
