"""Derivatives of formulas, as formulas [T 13.5].

A program is read in order, and each operation gets a text for itself and one for its derivative by one variable, by the
chain rule. Functions made of others are written out first: `g(f(x))` is the formula of g with that of f in the places
of its variables.

>>> from ..domains.box import Box
>>> derivative(Expression("sin(3*x)*y", Box([0, 0], [1, 1], ("x", "y"))), 0).text
'cos(3*x)*3*y'
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet
from ..arithmetic.directed import above, below
from ..arithmetic.jets import variables
from ..errors import InputError
from ..formula.functions import CONSTANTS, OPERATIONS, TRUTHS
from ..formula.program import Program, ProgramNode, enclosed_constant
from ..formula.writing import BINDS, TUNING, Spelled, spelled, spelled_number
from .base import Floats, Target, describe
from .callables import Traced
from .combined import Composed, Stacked
from .expression import Expression
from .piecewise import PiecewiseLinear

ZERO, ONE, TWO, MINUS_ONE = (spelled_number(number) for number in (0.0, 1.0, 2.0, -1.0))
MOST_BOXES = 4096
"""Boxes in the search for a place where a function has no derivative."""
NARROWEST = 2.0**-40
"""Boxes this small, as a share of the domain, are not cut further."""


def derivative(target: Target, axis: int) -> Expression:
    """The derivative by one variable as a target; InputError where it has none, or is no formula."""
    domain, names = target.domain, target.domain.axes
    outputs = formulas(target, [Spelled(name) for name in names])
    if outputs is None:
        raise InputError(
            "a function must be a formula to be differentiated, or made of NumPy operations",
            got=str(target.as_dict().get("name", target.as_dict()["kind"])),
            remedy="Write it as a formula; for the network's own slopes at points use grad().",
        )
    formula = Expression(_listed([text.text for text in outputs], target.output_shape), domain.renamed(names))
    refuse_kinks(formula, axis)
    slopes = [text.text for text in _derivatives(formula.program, [Spelled(name) for name in names], axis)]
    return Expression(_listed(slopes, target.output_shape), formula.domain)


def formulas(target: Target, names: Sequence[Spelled]) -> list[Spelled] | None:
    """The outputs of a target as formulas of its variables, which are texts themselves; None if it is none."""
    if isinstance(target, Expression | Traced):
        return _texts(target.program, names)
    if isinstance(target, Composed):
        inner = formulas(target.inner, names)
        return None if inner is None else formulas(target.outer, inner)
    if isinstance(target, Stacked):
        each = [texts for part in target.parts if (texts := formulas(part, names)) is not None]
        return list(chain.from_iterable(each)) if len(each) == len(target.parts) else None
    if isinstance(target, PiecewiseLinear) and all(stage.is_affine for stage in target.stages):
        values = list(names)
        for stage in target.stages:
            pairs = zip(stage.weight.T.tolist(), stage.bias.tolist(), strict=True)
            values = [_affine(row, constant, values) for row, constant in pairs]
        return values
    return None


def _affine(weights: list[float], constant: float, values: Sequence[Spelled]) -> Spelled:
    """`Σ_k w_k v_k + c`, without terms that are zero."""
    total = ZERO
    for weight, value in zip(weights, values, strict=True):
        total = plus(total, times(spelled_number(weight), value))
    return plus(total, spelled_number(constant))


def _texts(program: Program, names: Sequence[Spelled]) -> list[Spelled]:
    """The outputs of a program as texts."""
    texts = _every(program, names)
    return [texts[k] for k in program.outputs]


def _every(program: Program, names: Sequence[Spelled]) -> list[Spelled]:
    """Every operation of a program as a text."""
    texts: list[Spelled] = []
    for node in program.nodes:
        if node.kind == "variable":
            texts.append(names[int(node.value)])
        elif node.kind == "constant":
            texts.append(spelled_number(node.value) if node.exact else _as_written(program, node))
        else:
            texts.append(spelled(node.kind, [texts[k] for k in node.args]))
        if len(texts[-1].text) > TUNING.longest:
            raise InputError(
                f"a formula to be differentiated may have at most {TUNING.longest:,} characters", got="more"
            )
    return texts


def _as_written(program: Program, node: ProgramNode) -> Spelled:
    """A constant that is no float: the decimal as typed, or the name of the number in a traced function."""
    text = program.text(node)
    typed = text in CONSTANTS or text[:1].isdigit() or text[:1] == "."
    return Spelled(text if typed else next(name for name, value in CONSTANTS.items() if value == node.value))


def _derivatives(program: Program, names: Sequence[Spelled], axis: int) -> list[Spelled]:
    """The derivatives of the outputs by one variable."""
    texts, slopes = _every(program, names), list[Spelled]()
    for number, node in enumerate(program.nodes):
        if node.kind == "variable":
            slopes.append(ONE if int(node.value) == axis else ZERO)
        elif node.kind == "constant" or node.kind in TRUTHS or all(slopes[k] == ZERO for k in node.args):
            slopes.append(ZERO)
        else:
            own = [texts[k] for k in node.args]
            slopes.append(_rule(program, node, texts[number], own, [slopes[k] for k in node.args]))
        if len(slopes[-1].text) > TUNING.longest:
            raise InputError(f"a derivative may have at most {TUNING.longest:,} characters as a formula", got="more")
    return [slopes[k] for k in program.outputs]


def _rule(program: Program, node: ProgramNode, whole: Spelled, args: list[Spelled], slopes: list[Spelled]) -> Spelled:
    """The derivative of one operation from those of its operands."""
    if len(args) == 1 and node.kind != "neg":
        return times(_outer_slope(node.kind, whole, args[0]), slopes[0])
    match node.kind, args, slopes:
        case "neg", _, [du]:
            return minus(ZERO, du)
        case "+", _, [du, dv]:
            return plus(du, dv)
        case "-", _, [du, dv]:
            return minus(du, dv)
        case "*", [u, v], [du, dv]:
            return plus(times(du, v), times(u, dv))
        case "/", [u, v], [du, dv]:
            return minus(over(du, v), over(times(u, dv), spelled("**", [v, TWO])))
        case "**", [u, v], [du, dv]:
            by_base = times(times(v, _lower_power(program, node, u, v)), du) if du != ZERO else ZERO
            by_exponent = times(times(whole, spelled("log", [u])), dv) if dv != ZERO else ZERO
            return plus(by_base, by_exponent)
        case "max" | "min", [u, v], [du, dv]:
            order = ">" if node.kind == "max" else "<"
            return spelled("where", [spelled(order, [u, v]), du, dv])
        case "atan2", [y, x], [dy, dx]:
            length = plus(spelled("**", [x, TWO]), spelled("**", [y, TWO]))
            return over(minus(times(x, dy), times(y, dx)), length)
        case "besselj" | "bessely" | "besseli" | "besselk", [order, u], [_, du]:
            return times(_bessel_slope(node.kind, order, u), du)
        case "where", [condition, *_], [_, du, dv]:
            return spelled("where", [condition, du, dv])
        case _:
            raise _without_rule(node.kind)


def _bessel_slope(kind: str, order: Spelled, u: Spelled) -> Spelled:
    """`(f_{ν-1} ∓ f_{ν+1})/2`: with minus for J and Y, with plus for I, with plus and another sign for K."""
    before, after = (spelled(kind, [minus(order, ONE), u]), spelled(kind, [plus(order, ONE), u]))
    both = minus(before, after) if kind in ("besselj", "bessely") else plus(before, after)
    return over(minus(ZERO, both) if kind == "besselk" else both, TWO)


def _outer_slope(kind: str, whole: Spelled, u: Spelled) -> Spelled:
    """The derivative of a function of one variable at u; `whole` is the function's own text."""
    square = spelled("**", [u, TWO])
    match kind:
        case "exp":
            return whole
        case "expm1":
            return spelled("exp", [u])
        case "log" | "ln":
            return over(ONE, u)
        case "log2" | "log10":
            return over(ONE, times(u, Spelled(f"log({kind[3:]})")))
        case "log1p":
            return over(ONE, plus(ONE, u))
        case "sqrt":
            return over(ONE, times(TWO, whole))
        case "cbrt":
            return over(ONE, times(spelled_number(3.0), spelled("**", [whole, TWO])))
        case "sin":
            return spelled("cos", [u])
        case "cos":
            return minus(ZERO, spelled("sin", [u]))
        case "tan":
            return plus(ONE, spelled("**", [whole, TWO]))
        case "sinc":
            return over(minus(spelled("cos", [u]), whole), u)
        case "asin":
            return over(ONE, spelled("sqrt", [minus(ONE, square)]))
        case "acos":
            return minus(ZERO, over(ONE, spelled("sqrt", [minus(ONE, square)])))
        case "atan":
            return over(ONE, plus(ONE, square))
        case "sinh":
            return spelled("cosh", [u])
        case "cosh":
            return spelled("sinh", [u])
        case "tanh":
            return minus(ONE, spelled("**", [whole, TWO]))
        case "asinh":
            return over(ONE, spelled("sqrt", [plus(ONE, square)]))
        case "sigmoid":
            return times(whole, minus(ONE, whole))
        case "softplus":
            return spelled("sigmoid", [u])
        case "abs":
            return spelled("sign", [u])
        case "sign":
            return ZERO
        case "erf":
            return times(over(TWO, Spelled("sqrt(pi)")), spelled("exp", [minus(ZERO, square)]))
        case "erfc":
            return times(over(Spelled("-2", 0), Spelled("sqrt(pi)")), spelled("exp", [minus(ZERO, square)]))
        case "erfinv":
            return times(over(Spelled("sqrt(pi)"), TWO), spelled("exp", [spelled("**", [whole, TWO])]))
        case "gamma":
            return times(whole, spelled("digamma", [u]))
        case "lgamma":
            return spelled("digamma", [u])
        case "si":
            return spelled("sinc", [u])
        case "ci":
            return over(spelled("cos", [u]), u)
        case "ei":
            return over(spelled("exp", [u]), u)
        case _:
            raise _without_rule(kind)


def _without_rule(kind: str) -> InputError:
    return InputError(
        "a formula to be differentiated must be made of operations whose derivatives are known",
        got=kind,
        remedy="Write the derivative as a formula and compile that.",
    )


def _lower_power(program: Program, node: ProgramNode, u: Spelled, exponent: Spelled) -> Spelled:
    """`u**(p - 1)`; a whole number p stays one."""
    power = program.nodes[node.args[1]]
    if power.kind == "constant" and power.exact:
        less = power.value - 1.0  # both are floats, and so is their difference where p is at least 1/2
        if less == 1.0:
            return u
        if less + 1.0 == power.value and (less == 0.0 or abs(power.value) >= 0.5):
            return ONE if less == 0.0 else spelled("**", [u, spelled_number(less)])
    return spelled("**", [u, minus(exponent, ONE)])


def plus(a: Spelled, b: Spelled) -> Spelled:
    """a + b, without zeros; `a + -b` is a difference."""
    if ZERO in (a, b):
        return b if a == ZERO else a
    return spelled("-", [a, _opposite(b)]) if _is_negative(b) else spelled("+", [a, b])


def minus(a: Spelled, b: Spelled) -> Spelled:
    """a - b, without zeros; `a - -b` is a sum."""
    if _is_negative(b):
        return plus(a, _opposite(b))
    return a if b == ZERO else spelled("neg", [b]) if a == ZERO else spelled("-", [a, b])


def times(a: Spelled, b: Spelled) -> Spelled:
    """a * b, without zeros and ones; `-1 * b` is -b."""
    if ZERO in (a, b):
        return ZERO
    for one, other in ((a, b), (b, a)):
        if one in (ONE, MINUS_ONE):
            return other if one == ONE else minus(ZERO, other)
    return spelled("*", [a, b])


def _is_negative(text: Spelled) -> bool:
    """Does it begin with a sign that holds for all of it?"""
    return text.binds == BINDS["neg"]


def _opposite(negative: Spelled) -> Spelled:
    """The text behind that sign."""
    return Spelled(negative.text[1:], BINDS["**"])


def over(a: Spelled, b: Spelled) -> Spelled:
    """a / b, without zeros."""
    return ZERO if a == ZERO else a if b == ONE else spelled("/", [a, b])


def _listed(texts: list[str], shape: tuple[int, ...]) -> str:
    """Outputs as one formula."""
    if len(shape) > 1:
        raise InputError(
            "a function to be differentiated must return a number or a vector", got=f"values of shape {shape}"
        )
    return texts[0] if shape == () else f"[{', '.join(texts)}]"


def refuse_kinks(formula: Expression, axis: int) -> None:
    """An error that names the operation and the place where a formula is not known to have a bounded derivative.

    Boxes are cut until series of degree one are known in a neighbourhood of each, or one stays unknown however small it
    is.
    """
    first, last = formula.domain.starts()  # (B, D)
    low: Floats = first
    high: Floats = last
    whole, looked = high - low, 0
    while len(low):
        around = Interval(np.maximum(below(low), first), np.minimum(above(high), last))  # kinks may be where boxes meet
        unknown = ~_differentiable(formula, around, axis)
        low, high, looked = low[unknown], high[unknown], looked + len(low)
        if not len(low):
            return
        share = ((high - low) / whole).max(axis=1)
        if looked > MOST_BOXES or share.min() < NARROWEST:
            raise _kink(formula, around[np.flatnonzero(unknown)[[np.argmin(share)]]])
        rows, across = np.arange(len(low)), np.argmax((high - low) / whole, axis=1)
        middle, left, right = Interval(low, high).mid[rows, across], high.copy(), low.copy()
        left[rows, across] = right[rows, across] = middle
        low, high = np.concatenate([low, right]), np.concatenate([left, high])


def _differentiable(formula: Expression, boxes: Interval, axis: int) -> npt.NDArray[np.bool_]:
    """On which boxes (B, D) are value and slope of all outputs known?"""
    with np.errstate(all="ignore"):
        series = formula.jets(variables(boxes, 1))  # (B, m)
    if series is None:
        return np.zeros(len(boxes), dtype=bool)
    known = np.isfinite(series.rad[..., [0, 1 + axis]])  # (B, m, 2)
    return np.all(known.reshape(len(known), -1), axis=1).reshape(-1)


def _kink(formula: Expression, box: Interval) -> InputError:
    """The first operation whose series is unknown on a small box although those of its operands are known."""
    base = variables(box, 1)
    place, part = describe(Interval(box.mid), formula.domain), formula.text
    with np.errstate(all="ignore"):
        columns = [base[:, k] for k in range(box.shape[1])]
        steps = formula.program.run(columns, lambda node: Jet.constant(base.basis, enclosed_constant(node)))
    for node, step in zip(formula.program.nodes, steps, strict=True):
        known = not isinstance(step, Jet) or bool(np.isfinite(step.rad).all())
        if not known and node.kind in OPERATIONS:
            part = formula.program.text(node)
            break
    return InputError(
        "a function must have a bounded derivative on the whole domain to be differentiated",
        got=f"{part!r}, which has a kink, a jump or an unbounded slope near {place}",
        remedy="Restrict the domain to one side of it.",
    )
