"""What is true, in ball arithmetic: formulas and networks at exact points and over boxes, by python-flint.

Nothing of the package's own arithmetic is used. A formula is read by Python's parser; its numbers are the decimals as
written. A value is a fraction where it is known exactly, otherwise a ball. Comparisons are True, False or None, where
balls cannot tell; a `where` that cannot be told is the hull of both branches.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import isqrt

import flint
import numpy as np
from flint import acb, arb, arb_mat, fmpq
from scipy import special

from attnfun.network import Affine, Attention, Network, Softmax

Number = fmpq | arb
Step = Callable[[Sequence[Number]], Number]
Test = Callable[[Sequence[Number]], bool | None]

UNDEFINED = arb("nan")
LONGEST = 20_000
"""Bits of a fraction; longer ones become balls."""
PRECISIONS = (128, 512, 2048)

EXACT_AT_ZERO = {"exp": 1, "expm1": 0, "log1p": 0, "sin": 0, "cos": 1, "tan": 0, "sinc": 1, "asin": 0, "atan": 0}
EXACT_AT_ZERO |= {"sinh": 0, "cosh": 1, "tanh": 0, "erf": 0, "cbrt": 0, "asinh": 0, "sech": 1, "sigmoid": fmpq(1, 2)}
EXACT_AT_ONE = {"log": 0, "ln": 0, "acos": 0, "log2": 0, "log10": 0, "cbrt": 1}
ELEMENTARY = {"exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinc", "asin", "acos", "atan"}
ELEMENTARY |= {"sinh", "cosh", "tanh", "erf"}


def _either_side(positive: Callable[[arb], arb], negative: Callable[[arb], arb]) -> Callable[[arb], arb]:
    """A function that is computed in one way for positive arguments and in another for the rest."""

    def value(x: arb) -> arb:
        return positive(x) if x > 0 else negative(x)

    return value


def _cube_root(x: arb) -> arb:
    if x.contains(0):
        bound = abs(x).upper().root(3)
        return bound.union(-bound)
    return x.root(3) if x > 0 else -(-x).root(3)


OWN: dict[str, Callable[[arb], arb]] = {
    "log2": lambda x: x.log() / arb(2).log(),
    "log10": lambda x: x.log() / arb(10).log(),
    "sech": lambda x: x.sech(),
    "cbrt": _cube_root,
    "sigmoid": _either_side(lambda x: 1 / (1 + (-x).exp()), lambda x: x.exp() / (1 + x.exp())),
    "lgamma": lambda x: x.lgamma() if x > 0 else UNDEFINED,
    "zeta": lambda x: x.zeta() if x > 1 else UNDEFINED,
    "digamma": lambda x: x.digamma() if x > 0 else UNDEFINED,
    "airyai": lambda x: x.airy_ai(),
    "airybi": lambda x: x.airy_bi(),
    "ellipk": lambda x: acb(x).elliptic_k().real if x < 1 else UNDEFINED,
    "ellipe": lambda x: acb(x).elliptic_e().real if x < 1 else UNDEFINED,
    "softplus": _either_side(lambda x: x + (-x).exp().log1p(), lambda x: x.exp().log1p()),
}
"""Functions that python-flint has no name for."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with this many bits."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def exact(number: float | Fraction) -> fmpq:
    """A float or fraction as it is."""
    fraction = Fraction(number)
    return fmpq(fraction.numerator, fraction.denominator)


def ball(number: Number) -> arb:
    """A number as a ball of the present precision."""
    return arb(number)


def compare(sign: str, a: Number, b: Number) -> bool | None:
    """`a < b` and the like."""
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign]
    if sign in (">", ">="):
        return compare({">": "<", ">=": "<="}[sign], b, a)
    gap = ball(b) - ball(a)
    if sign == "<":
        return True if gap > 0 else False if gap <= 0 else None
    return True if gap >= 0 else False if gap < 0 else None


def both(a: bool | None, b: bool | None) -> bool | None:
    """a and b."""
    return False if a is False or b is False else None if a is None or b is None else True


def negated(a: bool | None) -> bool | None:
    """Not a."""
    return None if a is None else not a


def either(a: bool | None, b: bool | None) -> bool | None:
    """a or b."""
    return negated(both(negated(a), negated(b)))


def hull(a: Number, b: Number) -> Number:
    """Both."""
    if isinstance(a, fmpq) and isinstance(b, fmpq) and a == b:
        return a
    a, b = ball(a), ball(b)
    return a.union(b) if a.is_finite() and b.is_finite() else UNDEFINED


def _arithmetic(plain: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    """Exact on fractions that are not too long."""

    def step(a: Number, b: Number) -> Number:
        if isinstance(a, fmpq) and isinstance(b, fmpq):
            result = plain(a, b)
            return result if _bits(result) <= LONGEST else ball(a) * 0 + ball(result)
        return plain(ball(a), ball(b))

    return step


def _bits(a: fmpq) -> int:
    return max(int(a.p).bit_length(), int(a.q).bit_length())


add, subtract, multiply = (_arithmetic(plain) for plain in (operator.add, operator.sub, operator.mul))


def divide(a: Number, b: Number) -> Number:
    """a / b."""
    if isinstance(b, fmpq) and b == 0:
        return UNDEFINED
    return _arithmetic(operator.truediv)(a, b)


def power(a: Number, b: Number) -> Number:
    """`a ** b`: whole exponents on any base (0**0 is 1), others on bases that are not negative."""
    if isinstance(b, fmpq) and int(b.q) == 1:
        return _whole_power(a, int(b.p))
    if isinstance(a, fmpq) and a == 0:
        return fmpq(0) if compare(">", b, fmpq(0)) else UNDEFINED
    base = ball(a)
    if isinstance(b, fmpq) and b > 0 and not base > 0 and base.is_finite():  # x**b rises on x >= 0
        if base < 0:
            return UNDEFINED
        top = base.upper()
        return (ball(b) * top.log()).exp().union(arb(0)) if base >= 0 else UNDEFINED
    return (ball(b) * base.log()).exp() if base > 0 else UNDEFINED


def _whole_power(a: Number, exponent: int) -> Number:
    if isinstance(a, fmpq):
        if a == 0 and exponent < 0:
            return UNDEFINED
        if _bits(a) * abs(exponent) <= LONGEST:
            return a**exponent
    base = ball(a)
    if exponent < 0 and base.contains(0):
        return UNDEFINED
    if exponent % 2 == 0 and base.contains(0) and exponent > 0:
        return (abs(base).upper() ** exponent).union(arb(0))
    return base**exponent


def elementary(name: str, a: Number) -> Number:
    """A function of one variable."""
    if isinstance(a, fmpq):
        if a == 0 and name in EXACT_AT_ZERO:
            return fmpq(EXACT_AT_ZERO[name])
        if a == 1 and name in EXACT_AT_ONE:
            return fmpq(EXACT_AT_ONE[name])
        if name == "sqrt" and a >= 0:
            p, q = isqrt(int(a.p)), isqrt(int(a.q))
            if p * p == int(a.p) and q * q == int(a.q):
                return fmpq(p, q)
    x = ball(a)
    if name == "sqrt" and not x > 0 and x >= 0:
        return x.upper().sqrt().union(arb(0))
    result = OWN[name](x) if name in OWN else getattr(x, {"ln": "log"}.get(name, name))()
    return result if result.is_finite() else UNDEFINED


def absolute(a: Number) -> Number:
    """|a|."""
    return abs(a)


def sign(a: Number) -> Number:
    """-1, 0 or 1."""
    return fmpq((a > 0) - (a < 0)) if isinstance(a, fmpq) else a.sgn()


def angle(y: Number, x: Number) -> Number:
    """The angle of the point (x, y); undefined at the origin and where balls meet the cut."""
    if isinstance(y, fmpq) and y == 0 and compare("<", x, fmpq(0)):
        return arb.pi()
    if isinstance(y, fmpq) and y == 0 and compare(">", x, fmpq(0)):
        return fmpq(0)
    y, x = ball(y), ball(x)
    if x > 0:
        return (y / x).atan()
    if y > 0:
        return arb.pi() / 2 - (x / y).atan()
    return -arb.pi() / 2 - (x / y).atan() if y < 0 else UNDEFINED


def bessel(name: str, order: Number, a: Number) -> Number:
    """A Bessel function: of whole order everywhere, J and I; for positive arguments, all others."""
    x, whole = ball(a), isinstance(order, fmpq) and order.q == 1
    if not (x > 0 or (whole and name in ("besselj", "besseli"))):
        return UNDEFINED
    result = getattr(x, f"bessel_{name[-1]}")(ball(order))
    return result if result.is_finite() else UNDEFINED


def hypotenuse(a: Number, b: Number) -> Number:
    """The length of (a, b)."""
    return elementary("sqrt", add(_whole_power(a, 2), _whole_power(b, 2)))


def smaller(a: Number, b: Number) -> Number:
    """min(a, b)."""
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return min(a, b)
    return ball(a).min(ball(b))


def larger(a: Number, b: Number) -> Number:
    """max(a, b)."""
    if isinstance(a, fmpq) and isinstance(b, fmpq):
        return max(a, b)
    return ball(a).max(ball(b))


BINARY = {ast.Add: add, ast.Sub: subtract, ast.Mult: multiply, ast.Div: divide, ast.Pow: power}
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class Formula:
    """A formula as Python's parser reads it, in the variables `names`.

    With `floats`, numbers stand for the nearest floats, and what is made of numbers alone was computed in floats: that
    is what a Python function with the same operations means.
    """

    def __init__(self, text: str, names: Sequence[str], *, floats: bool = False) -> None:
        self.text, self.names, self.floats = text, tuple(names), floats
        self.root = ast.parse(text, mode="eval").body
        self.parts = self.root.elts if isinstance(self.root, ast.List) else [self.root]
        self.steps = [self.number(part) for part in self.parts]

    def __call__(self, point: Sequence[Number]) -> list[Number]:
        """The outputs at a point or a box."""
        return [step(point) for step in self.steps]

    def number(self, node: ast.expr) -> Step:
        """An expression whose value is a number."""
        if self.floats and not isinstance(node, ast.Constant) and not self.variables(node):
            value = exact(float(in_floats(node, ())))
            return lambda _: value
        match node:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):  # a formula may be a condition: 1 or 0
                return self.branch(self.condition(node), lambda _: fmpq(1), lambda _: fmpq(0))
            case ast.Constant():
                written = ast.get_source_segment(self.text, node) or str(node.value)
                value = exact(float(node.value)) if self.floats else exact(Fraction(written.replace("_", "")))
                return lambda _: value
            case ast.Name(id=name) if name in self.names:
                place = self.names.index(name)
                return lambda point: point[place]
            case ast.Name(id=name):
                return {"pi": lambda _: arb.pi(), "e": lambda _: arb(1).exp()}[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.number(operand)
                return lambda point: -inner(point)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.number(operand)
            case ast.BinOp(op=op, left=left, right=right):
                step, a, b = BINARY[type(op)], self.number(left), self.number(right)
                return lambda point: step(a(point), b(point))
            case ast.Call(func=ast.Name(id="where"), args=[condition, yes, no]):
                return self.branch(self.condition(condition), self.number(yes), self.number(no))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=args):
                step, parts = {"min": smaller, "max": larger}[name], [self.number(part) for part in args]
                return lambda point: reduce(step, [part(point) for part in parts])
            case ast.Call(func=ast.Name(id="abs" | "sign" as name), args=[operand]):
                step, inner = {"abs": absolute, "sign": sign}[name], self.number(operand)
                return lambda point: step(inner(point))
            case ast.Call(func=ast.Name(id="atan2" | "hypot" as name), args=[first, second]):
                step, a, b = {"atan2": angle, "hypot": hypotenuse}[name], self.number(first), self.number(second)
                return lambda point: step(a(point), b(point))
            case ast.Call(
                func=ast.Name(id="besselj" | "bessely" | "besseli" | "besselk" as name), args=[order, operand]
            ):
                number, inner = self.number(order), self.number(operand)
                return lambda point: bessel(name, number(point), inner(point))
            case ast.Call(func=ast.Name(id="clip"), args=[operand, low, high]):
                inner, a, b = self.number(operand), self.number(low), self.number(high)
                return lambda point: smaller(larger(inner(point), a(point)), b(point))
            case ast.Call(func=ast.Name(id="relu"), args=[operand]):
                inner = self.number(operand)
                return lambda point: larger(inner(point), fmpq(0))
            case ast.Call(func=ast.Name(id=name), args=[operand]):
                inner = self.number(operand)
                return lambda point: elementary(name, inner(point))
        raise ValueError(ast.unparse(node))

    def branch(self, condition: Test, yes: Step, no: Step) -> Step:
        """`where`."""

        def step(point: Sequence[Number]) -> Number:
            truth = condition(point)
            return hull(yes(point), no(point)) if truth is None else yes(point) if truth else no(point)

        return step

    def condition(self, node: ast.expr) -> Test:
        """An expression whose value is a truth value."""
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self.number(side) for side in (left, *others)]
                links = [(SIGNS[type(op)], *pair) for op, pair in zip(ops, pairwise(sides), strict=True)]
                return lambda point: reduce(both, [compare(sign, a(point), b(point)) for sign, a, b in links])
            case ast.BoolOp(op=op, values=values):
                join, parts = both if isinstance(op, ast.And) else either, [self.condition(part) for part in values]
                return lambda point: reduce(join, [part(point) for part in parts])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.condition(operand)
                return lambda point: negated(inner(point))
        raise ValueError(ast.unparse(node))

    def variables(self, node: ast.expr) -> set[str]:
        """The variables in a part of the formula."""
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & set(self.names)

    def switches(self) -> list[tuple[ast.expr, ast.expr | None]]:
        """Pairs of expressions whose order matters (None for zero): comparisons, min, max, abs and sign."""
        pairs: dict[str, tuple[ast.expr, ast.expr | None]] = {}
        for node in ast.walk(self.root):
            match node:
                case ast.Compare(left=left, comparators=others):
                    found = list(pairwise([left, *others]))
                case ast.Call(func=ast.Name(id="min" | "max"), args=args):
                    found = list(pairwise(args))
                case ast.Call(func=ast.Name(id="clip"), args=[operand, low, high]):
                    found = [(operand, low), (operand, high)]
                case ast.Call(func=ast.Name(id="atan2"), args=[first, second]):
                    found = [(first, None), (second, None)]
                case ast.Call(
                    func=ast.Name(id="abs" | "sign" | "sinc" | "sqrt" | "log" | "relu" | "cbrt"), args=[operand]
                ):
                    found = [(operand, None)]
                case ast.BinOp(op=ast.Div(), right=right):
                    found = [(right, None)]
                case _:
                    continue
            for a, b in found:
                if self.variables(a) or (b is not None and self.variables(b)):
                    pairs[f"{ast.unparse(a)} {ast.unparse(b) if b else ''}"] = a, b
        return list(pairs.values())


NUMPY = {"asin": "np.arcsin", "acos": "np.arccos", "atan": "np.arctan", "ln": "np.log", "erf": "erf", "sinc": "sinc"}
NUMPY |= {"min": "np.minimum", "max": "np.maximum", "sigmoid": "expit", "softplus": "np.logaddexp(0.0, {})"}
NUMPY |= {"gamma": "special.gamma", "lgamma": "special.gammaln", "digamma": "special.psi", "ei": "special.expi"}
NUMPY |= {f"bessel{kind}": f"special.{kind}v" for kind in "jyik"}
NUMPY |= {name: f"special.{name}" for name in ("erfc", "erfinv", "zeta", "ellipk", "ellipe")}
NUMPY |= {"airyai": "special.airy({})[0]", "airybi": "special.airy({})[2]"}
NUMPY |= {"si": "special.sici({})[0]", "ci": "special.sici({})[1]"}
NUMPY |= {"sech": "(1/np.cosh({}))", "relu": "np.maximum({}, 0.0)", "atan2": "np.arctan2", "asinh": "np.arcsinh"}


def numpy_text(node: ast.expr, variables: dict[str, str], flag: Callable[[], bool] = lambda: False) -> str:
    """The same expression as NumPy code. `flag` says for each `where(c, 1, 0)` whether it becomes `(1.0*(c))`."""

    def text(part: ast.expr) -> str:
        return numpy_text(part, variables, flag)

    match node:
        case ast.Constant(value=value):
            return repr(float(value))
        case ast.Name(id=name):
            return variables.get(name) or f"np.{name}"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"np.logical_not({text(operand)})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"({'-' if isinstance(op, ast.USub) else '+'}{text(operand)})"
        case ast.BinOp(op=ast.Pow(), left=left, right=right) if _whole(right) is not None:
            return f"({text(left)}**{_whole(right)})"
        case ast.BinOp(op=op, left=left, right=right):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}[type(op)]
            return f"({text(left)} {sign} {text(right)})"
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [text(side) for side in (left, *others)]
            links = [f"({a} {SIGNS[type(op)]} {b})" for op, (a, b) in zip(ops, pairwise(sides), strict=True)]
            return reduce(lambda a, b: f"np.logical_and({a}, {b})", links)
        case ast.BoolOp(op=op, values=values):
            name = "np.logical_and" if isinstance(op, ast.And) else "np.logical_or"
            return reduce(lambda a, b: f"{name}({a}, {b})", [text(part) for part in values])
        case ast.Call(func=ast.Name(id="where"), args=[condition, ast.Constant(value=1), ast.Constant(value=0)]) if (
            flag()
        ):
            return f"(1.0*({text(condition)}))"
        case ast.Call(func=ast.Name(id=name), args=args):
            parts = [text(part) for part in args]
            if name in ("min", "max"):
                return reduce(lambda a, b: f"{NUMPY[name]}({a}, {b})", parts)
            known = NUMPY.get(name, f"np.{name}")
            return known.format(*parts) if "{" in known else f"{known}({', '.join(parts)})"
    raise ValueError(ast.unparse(node))


def _whole(node: ast.expr) -> int | None:
    """A whole exponent as written."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None


def _sinc(x: np.ndarray) -> np.ndarray:
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.sin(safe) / safe)


NAMESPACE = {"np": np, "special": special, "erf": special.erf, "sinc": _sinc, "expit": special.expit}


def function(source: str) -> Callable[..., np.ndarray]:
    """The function that NumPy code of this module says."""
    return eval(source, dict(NAMESPACE))  # noqa: S307 - text made by `numpy_text`


def in_floats(node: ast.expr, names: Sequence[str]) -> Callable[[np.ndarray], np.ndarray] | float:
    """An expression on rows (B, D) in float64; a number if it has no variables."""
    if not names:
        return function(numpy_text(node, {}))
    code = numpy_text(node, {name: f"p[:, {k}]" for k, name in enumerate(names)})
    run = function(f"lambda p: {code} + 0.0*p[:, 0]")

    def values(rows: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return run(rows)

    return values


# ---------------------------------------------------------------- networks, in real arithmetic


@dataclass(frozen=True)
class Form:
    """A matrix of affine functions of the offset from the centre of a box, up to balls: `C + Σ_k δ_k G_k + R`."""

    centre: arb_mat
    slopes: list[arb_mat]
    rest: arb_mat

    @classmethod
    def of(cls, balls: arb_mat, slopes: int) -> Form:
        """A matrix of which only ranges are known."""
        none = arb_mat(balls.nrows(), balls.ncols())
        return cls(none, [none] * slopes, balls)

    def __add__(self, other: Form) -> Form:
        slopes = [a + b for a, b in zip(self.slopes, other.slopes, strict=True)]
        return Form(self.centre + other.centre, slopes, self.rest + other.rest)

    def mapped(self, change: Callable[[arb_mat], arb_mat], constant: arb_mat | None = None) -> Form:
        """A linear map applied, and a constant added."""
        centre = change(self.centre) if constant is None else change(self.centre) + constant
        return Form(centre, [change(slope) for slope in self.slopes], change(self.rest))

    def over(self, offsets: Sequence[arb]) -> arb_mat:
        """Its range."""
        total = self.centre + self.rest
        for slope, offset in zip(self.slopes, offsets, strict=True):
            total = total + slope * offset
        return total


class BallNetwork:
    """A network on one sequence at a time, (D,) numbers in, all outputs out, in real arithmetic.

    What is affine in the input stays so up to the first softmax, whose scores differ by affine functions; from there on
    there are ranges only.
    """

    def __init__(self, network: Network) -> None:
        self.network = network.dense()
        self.known: dict[int, arb_mat] = {}
        self.memories = {
            number: [self.projected(layer, head, self.of(layer.memory)) for head in range(layer.heads)]
            for number, layer in enumerate(self.network.layers)
            if isinstance(layer, Attention) and not layer.attends_data
        }

    @property
    def work(self) -> int:
        """About the number of products that one evaluation takes."""
        return self.network.parameters

    def __call__(self, point: Sequence[Number]) -> list[arb]:
        """The outputs at a point or over a box."""
        balls, shape = [ball(x) for x in point], self.network.shape_in
        offsets = [x - x.mid() for x in balls]
        units = [arb_mat(*shape, [arb(int(j == k)) for j in range(len(balls))]) for k in range(len(balls))]
        X = Form(arb_mat(*shape, [x.mid() for x in balls]), units, arb_mat(*shape))
        for number, layer in enumerate(self.network.layers):
            if isinstance(layer, Affine):
                X = self.affine(layer, X)
            elif isinstance(layer, Softmax):
                X = Form.of(arb_mat([_softmax(X, i, offsets) for i in range(X.rest.nrows())]), len(offsets))
            elif isinstance(layer, Attention):
                X = self.attention(layer, X, offsets, self.memories.get(number))
        return X.over(offsets).entries()

    def of(self, numbers: np.ndarray) -> arb_mat:
        """Weights (a, b) or (b,) as they are, made once."""
        key = numbers.__array_interface__["data"][0]
        if key not in self.known:
            self.known[key] = arb_mat([[arb(float(x)) for x in row] for row in np.atleast_2d(numbers)])
        return self.known[key]

    def linear(self, X: arb_mat, weight: np.ndarray, bias: np.ndarray) -> arb_mat:
        """Each row times a matrix, plus a row."""
        return X * self.of(weight) + _ones(X.nrows()) * self.of(bias)

    def affine(self, layer: Affine, X: Form) -> Form:
        """`Σ_k A_k X B_k + C`."""
        if layer.left is None:
            weight, bias = self.of(layer.right[0]), _ones(X.rest.nrows()) * self.of(layer.constant[0])
            return X.mapped(lambda part: part * weight, bias)
        pairs = [(self.of(left), self.of(right)) for left, right in zip(layer.left, layer.right, strict=True)]
        return X.mapped(
            lambda part: reduce(operator.add, [left * part * right for left, right in pairs]), self.of(layer.constant)
        )

    def projected(self, layer: Attention, head: int, tokens: arb_mat) -> tuple[arb_mat, arb_mat]:
        """Keys and values of tokens."""
        keys = self.linear(tokens, layer.key[head], layer.key_bias[head])
        return keys, self.linear(tokens, layer.value[head], layer.value_bias[head])

    def attention(
        self, layer: Attention, X: Form, offsets: list[arb], memories: list[tuple[arb_mat, arb_mat]] | None
    ) -> Form:
        """All heads."""
        rows = X.rest.nrows()
        total = _ones(rows) * self.of(layer.output_bias)
        for head in range(layer.heads):
            if memories is None:
                stored = self.of(layer.memory).tolist() if len(layer.memory) else []
                keys, values = self.projected(layer, head, arb_mat([*X.over(offsets).tolist(), *stored]))
            else:
                keys, values = memories[head]
            weight, bias = self.of(layer.query[head]), _ones(rows) * self.of(layer.query_bias[head])
            queries = X.mapped(lambda part, weight=weight: part * weight, bias)
            averages = arb_mat([_average(queries, i, offsets, keys, values) for i in range(rows)])
            total = total + averages * self.of(layer.output[head])
        result = Form.of(total, len(offsets))
        return X + result if layer.residual else result


def _ones(rows: int) -> arb_mat:
    return arb_mat(rows, 1, [arb(1)] * rows)


def _row(matrix: arb_mat, row: int) -> arb_mat:
    """A row as a column."""
    return arb_mat([[matrix[row, j]] for j in range(matrix.ncols())])


def _average(queries: Form, row: int, offsets: list[arb], keys: arb_mat, values: arb_mat) -> list[arb]:
    """One query's average, counted from its heaviest token: `v_* + Σ_j e^{q·(k_j - k_*)} (v_j - v_*) / Σ_j e^{...}`."""
    rough = keys * _row(queries.centre + queries.rest, row)
    best = max(range(keys.nrows()), key=lambda j: float(rough[j, 0].mid()))
    apart = keys - _ones(keys.nrows()) * _row(keys, best).transpose()
    gaps = queries.mapped(lambda part: apart * _row(part, row)).over(offsets)
    weights = arb_mat([[gaps[j, 0].exp() for j in range(keys.nrows())]])
    offset = _row(values, best).transpose()
    mean, mass = weights * (values - _ones(keys.nrows()) * offset), sum(weights.entries(), arb(0))
    return [offset[0, j] + mean[0, j] / mass for j in range(values.ncols())]


def _softmax(X: Form, row: int, offsets: list[arb]) -> list[arb]:
    """Weights of one token's features."""
    rough = X.centre + X.rest
    top = max(range(rough.ncols()), key=lambda j: float(rough[row, j].mid()))
    gaps = X.mapped(lambda part: arb_mat([[part[row, j] - part[row, top] for j in range(part.ncols())]])).over(offsets)
    weights = [gaps[0, j].exp() for j in range(gaps.ncols())]
    mass = sum(weights, arb(0))
    return [weight / mass for weight in weights]
