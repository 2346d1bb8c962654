"""Numbers that are not known yet, in arrays: what is computed with them is written down.

An array of symbols is a NumPy array, so it is indexed, reshaped, stacked and broadcast as arrays of numbers are; what
is computed with it comes back through NumPy's own protocols (`__array_ufunc__`, `__array_function__`). Numbers that no
symbol is part of are computed at once. An operation that is not in the table of functions ends the attempt with its
name, its line and what to write instead.

>>> tape = Tape("f")
>>> x = tape.symbol(tape.builder.variable(0))
>>> [tape.builder.nodes[k].kind for k in range((np.exp(x) + 1).number + 1)]
['variable', 'exp', 'constant', '+']
"""

from __future__ import annotations

import linecache
import math
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Untraceable
from .functions import COMPARISONS, LOGIC, OPERATORS, TABLE, TRUTHS
from .program import ProgramBuilder

Cells = npt.NDArray[np.object_]
"""An array of symbols and numbers."""

KINDS = {ufunc.__name__: kind for kind, ufunc in {**OPERATORS, **COMPARISONS, **LOGIC}.items()}
KINDS |= {function.ufunc: function.name for function in TABLE if function.ufunc and function.name != "sinc"}
KINDS |= {"true_divide": "/", "float_power": "**", "fabs": "abs", "fmin": "min", "fmax": "max"}
KINDS |= {"bitwise_and": "and", "bitwise_or": "or", "invert": "not"}
"""Operations by the names of NumPy's and SciPy's ufuncs."""
MEANINGS = {
    "square": "a**2",
    "reciprocal": "1/a",
    "exp2": "2**a",
    "deg2rad": "a*(pi/180)",
    "radians": "a*(pi/180)",
    "rad2deg": "a*(180/pi)",
    "degrees": "a*(180/pi)",
    "arccosh": "log(a + sqrt(a**2 - 1))",
    "arctanh": "(log1p(a) - log1p(-a))/2",
    "logaddexp": "a + softplus(b - a)",
    "logaddexp2": "a + softplus((b - a)*log(2))/log(2)",
    "heaviside": "where(a < 0, 0, where(a > 0, 1, b))",
    "log_expit": "-softplus(-a)",
    "erfc": "1 - erf(a)",
    "ndtr": "(1 + erf(a/sqrt(2)))/2",
    "sinc": "sinc(pi*a)",
    "logit": "log(a/(1 - a))",
    "xlogy": "a*log(b)",
    "xlog1py": "a*log1p(b)",
    "entr": "-(a*log(a))",
    "rel_entr": "a*log(a/b)",
    "kl_div": "a*log(a/b) - a + b",
    "huber": "where(abs(b) <= a, 0.5*b**2, a*(abs(b) - 0.5*a))",
    "pseudo_huber": "a**2*(sqrt(1 + (b/a)**2) - 1)",
    "boxcox": "(a**b - 1)/b",
    "inv_boxcox": "(a*b + 1)**(1/b)",
    "cosdg": "cos(a*(pi/180))",
    "sindg": "sin(a*(pi/180))",
    "exp10": "10**a",
}
"""Formulas for functions of NumPy and SciPy that have no name in the table."""
SAME = {"positive", "conjugate"}
FOLDS = {"add": "+", "multiply": "*", "maximum": "max", "minimum": "min", "logical_and": "and", "logical_or": "or"}
FOLDS |= {"fmax": "max", "fmin": "min", "bitwise_and": "and", "bitwise_or": "or"}
"""Reductions along an axis."""
JUMP = "it jumps: use a continuous function, or np.where with comparisons"
REMEDIES = {
    "floor": JUMP,
    "ceil": JUMP,
    "rint": JUMP,
    "trunc": JUMP,
    "remainder": JUMP,
    "floor_divide": JUMP,
    "round": JUMP,
    "divmod": JUMP,
    "digitize": "it jumps: use np.interp",
    "searchsorted": "it jumps: use np.interp",
    "argmax": "use np.max or np.where",
    "argmin": "use np.min or np.where",
}
OTHERWISE = "write it with functions that formulas have"


@dataclass(frozen=True)
class TracingTuning:
    """How far a Python function is followed."""

    longest_program: int = 200_000
    """Operations that a function may be written down with. For time."""
    deepest: int = 32
    """Branches on values one after the other. A round number."""
    most_runs: int = 256
    """Runs of a function that branches. For time."""


TUNING = TracingTuning()

RUNS = "run_on_symbols"
"""The function that runs the user's (`tracing.py`): what stands before it is not theirs."""


_NUMPY = Path(np.__file__).parent
LIBRARIES = (str(Path(__file__).parents[1]), *(str(_NUMPY.with_name(name)) for name in ("numpy", "scipy", "numba")))
LIBRARIES += (sysconfig.get_path("stdlib") + "/", "<frozen")
"""Where code stands that is not the user's."""


def is_users(file: str) -> bool:
    """Did the user write this file, as far as one can tell?"""
    return not file.startswith(LIBRARIES)


def refusal(operation: str, remedy: str = OTHERWISE) -> Untraceable:
    """Which operation ended the tracing, in which line of the user's code, and what to write instead."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != RUNS and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name == RUNS:
        return Untraceable(f"{operation}, in code of a library; {remedy}")
    return Untraceable(f"{operation}{in_line(frame.f_code.co_filename, frame.f_lineno)}; {remedy}")


def failure(reason: Exception, remedy: str = OTHERWISE) -> Untraceable:
    """An error that symbols met, with the last line of the user's code on the way to it."""
    where, step = ", in code of a library", reason.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        where = in_line(file, step.tb_lineno) if is_users(file) else where
        step = step.tb_next
    words = str(reason).partition("\n")[0]
    return Untraceable(f"{type(reason).__name__}: {words}{where}; {remedy}")


def in_line(file: str, number: int) -> str:
    """A line of a file, in words."""
    text = linecache.getline(file, number).strip()
    return f" in line {number} of {Path(file).name}" + (f", `{text[:80]}`" if text else "")


class Tape:
    """The operations met so far."""

    def __init__(self, name: str) -> None:
        self.builder = ProgramBuilder((0, len(name.encode())))
        self.path: Branches | None = None
        """The branches taken so far, where a function of single numbers is run."""

    def symbol(self, number: int) -> Symbol:
        """An operation as a symbol."""
        if number > TUNING.longest_program:
            raise refusal(f"a function of more than {TUNING.longest_program} operations", "use fewer variables")
        return Symbol(self, number)

    def number_of(self, value: Any) -> int:
        """A symbol's or a number's place; truth values count as 0 and 1."""
        if isinstance(value, Symbol):
            return self.builder.substitute("where(a, 1, 0)", [value.number]) if value.is_truth else value.number
        return self.builder.constant(_finite(value))

    def truth_of(self, value: Any) -> int:
        """The place of a truth value."""
        if not isinstance(value, Symbol):
            return self.builder.substitute("0 < 1" if value else "1 < 0", [])
        if value.is_truth:
            return value.number
        raise refusal("a number as a condition", "write a comparison, such as x > 0")

    def apply(self, kind: str, *args: Any) -> Symbol:
        """An operation of the table."""
        wanted = LOGIC if kind in LOGIC else ()
        numbers = [
            self.truth_of(arg) if wanted or (kind == "where" and k == 0) else self.number_of(arg)
            for k, arg in enumerate(args)
        ]
        return self.symbol(self.builder.apply(kind, numbers))

    def mean(self, text: str, *args: Any) -> Symbol:
        """A formula in a, b, c."""
        return self.symbol(self.builder.substitute(text, [self.number_of(arg) for arg in args]))


class Branches:
    """One way through a function: the answers to its first conditions, and the conditions met; later ones are true."""

    def __init__(self, answers: Sequence[bool]) -> None:
        self.answers, self.met = answers, list[Symbol]()

    def take(self, condition: Symbol) -> bool:
        """The answer to the next condition."""
        self.met.append(condition)
        if len(self.met) > TUNING.deepest:
            raise refusal(f"more than {TUNING.deepest} branches on values one after the other", "use np.where")
        return self.answers[len(self.met) - 1] if len(self.met) <= len(self.answers) else True


def branching(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of single numbers that may branch on them: on symbols it is run for every way through it.

    >>> tape = Tape("f")
    >>> x = tape.symbol(tape.builder.variable(0))
    >>> half = branching(lambda t: t if t > 0 else t / 2)
    >>> half(-1.0), tape.builder.nodes[half(x).number].kind
    (-0.5, 'where')
    """

    def run(*args: Any) -> Any:
        tape, runs = _tape(args), iter(range(TUNING.most_runs))
        return function(*args) if tape is None else after((), tape, args, runs)

    def after(answers: tuple[bool, ...], tape: Tape, args: Sequence[Any], runs: Iterator[int]) -> Any:
        """The value once the first conditions are answered."""
        if next(runs, None) is None:
            raise refusal(f"a function with more than {TUNING.most_runs} ways through its branches", "use np.where")
        outer, tape.path = tape.path, Branches(answers)
        try:
            value, met = function(*args), tape.path.met
        finally:
            tape.path = outer
        if len(met) <= len(answers):
            return value
        return where(met[len(answers)], *(after((*answers, answer), tape, args, runs) for answer in (True, False)))

    return run


class Symbol(np.lib.mixins.NDArrayOperatorsMixin):
    """A number, or a truth value, not known yet. Operators are NumPy's ufuncs."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, tape: Tape, number: int) -> None:
        self.tape, self.number = tape, number

    @property
    def is_truth(self) -> bool:
        """Is it the result of a comparison?"""
        return self.tape.builder.nodes[self.number].kind in TRUTHS

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return by_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types_: Any, args: Any, kwargs: Any) -> Any:
        return by_function(function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in KINDS or name in MEANINGS:  # what NumPy calls for symbols in plain arrays
            return lambda: by_name(name, self)
        raise AttributeError(name)

    def __eq__(self, other: object) -> Any:
        raise refusal("==", "compare with < or >")

    def __ne__(self, other: object) -> Any:
        raise refusal("!=", "compare with < or >")

    def __bool__(self) -> bool:
        if self.tape.path is not None and self.is_truth:
            return self.tape.path.take(self)
        raise refusal("a branch on a value", "use np.where, np.minimum or np.maximum on the argument itself")

    def __float__(self) -> float:
        raise refusal("a conversion to a float", "use NumPy's functions, and np.stack to put results together")

    __int__ = __index__ = __floor__ = __ceil__ = __round__ = __float__  # type: ignore[assignment]


class SymbolArray(np.ndarray):
    """An array of symbols and numbers."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return by_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types_: Any, args: Any, kwargs: Any) -> Any:  # type: ignore[override]
        return by_function(function, args, kwargs)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """Sum along axes."""
        _refuse_settings("sum", dtype=dtype, out=out, **more)
        return fold("+", self, axis, keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """Product along axes."""
        _refuse_settings("prod", dtype=dtype, out=out, **more)
        return fold("*", self, axis, keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """Mean along axes."""
        _refuse_settings("mean", dtype=dtype, out=out, **more)
        total = fold("+", self, axis, keepdims)
        return total / float(self.size // max(np.size(total), 1))

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """The largest along axes."""
        _refuse_settings("max", out=out, **more)
        return fold("max", self, axis, keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """The smallest along axes."""
        _refuse_settings("min", out=out, **more)
        return fold("min", self, axis, keepdims)

    def ptp(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The largest less the smallest."""
        return self.max(axis, keepdims=keepdims) - self.min(axis, keepdims=keepdims)

    def var(  # type: ignore[override]
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, **more: Any
    ) -> Any:
        """Variance along axes."""
        _refuse_settings("var", dtype=dtype, out=out, **more)
        apart = (self - self.mean(axis, keepdims=True)) ** 2
        total = fold("+", apart, axis, keepdims)
        return total / float(self.size // max(np.size(total), 1) - ddof)

    def std(  # type: ignore[override]
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, **more: Any
    ) -> Any:
        """Standard deviation along axes."""
        return np.sqrt(self.var(axis, dtype, out, ddof, keepdims, **more))

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """Are all true along axes?"""
        _refuse_settings("all", out=out)
        return fold("and", self, axis, keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """Is any true along axes?"""
        _refuse_settings("any", out=out)
        return fold("or", self, axis, keepdims)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **more: Any) -> Any:
        """Within ends."""
        _refuse_settings("clip", out=out, **more)
        lower = self if min is None else np.maximum(self, min)
        return lower if max is None else np.minimum(lower, max)

    def dot(self, other: Any) -> Any:  # type: ignore[override]
        """As np.dot."""
        return dot(self, other)

    def sort(self, axis: int = -1, **more: Any) -> None:  # type: ignore[override]
        """Put in order in place."""
        self[...] = np.sort(self, axis, **more)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Symbols stay what they are: a change of format is rounding, which values do not show."""
        if np.dtype(dtype).kind != "f":
            raise refusal(f"a change to {np.dtype(dtype)}", "leave the numbers float64")
        return self.copy()

    def __getitem__(self, key: Any) -> Any:
        return Chosen(self.copy(), _mask(key, self).copy()) if _is_condition(key) else super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if _is_condition(key):
            mask = _mask(key, self)
            key, value = ..., cells(where(mask, _chosen(value, mask), self))
        super().__setitem__(key, value)

    def __bool__(self) -> bool:
        raise refusal("a branch on a value", "use np.where, np.minimum or np.maximum")

    def __eq__(self, other: object) -> Any:
        raise refusal("==", "compare with < or >")

    def __ne__(self, other: object) -> Any:
        raise refusal("!=", "compare with < or >")

    __hash__ = None  # type: ignore[assignment]


class Chosen(np.lib.mixins.NDArrayOperatorsMixin):
    """The cells of an array for which a condition holds. How many is not known: each is computed with alone."""

    def __init__(self, array: Any, mask: SymbolArray) -> None:
        self.array, self.mask = array, mask

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        (out,) = kwargs.pop("out", (None,))
        if method != "__call__" or kwargs or (out is not None and out is not self):
            raise refusal(f"{_called(ufunc)}.{method} of a selection by a condition", "use np.where")
        result = ufunc(*(_chosen(each, self.mask) for each in inputs))
        if out is None:
            return Chosen(result, self.mask)
        self.array = result
        return self

    def __array_function__(self, function: Any, types_: Any, args: Any, kwargs: Any) -> Any:
        raise refusal(f"{_called(function)} of a selection by a condition", "use np.where")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise refusal(f"{name} of a selection by a condition", "use np.where")


def _is_condition(key: Any) -> bool:
    return isinstance(key, SymbolArray) and any(isinstance(cell, Symbol) and cell.is_truth for cell in key.flat)


def _mask(key: SymbolArray, array: SymbolArray) -> SymbolArray:
    if key.shape != array.shape:
        raise refusal("a selection by a condition of another shape", "use np.where")
    return key


def _chosen(value: Any, mask: SymbolArray) -> Any:
    """The array behind a selection by this very condition; numbers as they are."""
    if isinstance(value, Chosen) and _numbers_of(value.mask) == _numbers_of(mask):
        return value.array
    if isinstance(value, Chosen) or np.ndim(value) > 0:
        raise refusal("selections by different conditions put together", "use np.where")
    return value


def _numbers_of(mask: SymbolArray) -> list[Any]:
    return [cell.number if isinstance(cell, Symbol) else bool(cell) for cell in mask.flat]


def _refuse_settings(name: str, **settings: Any) -> None:
    """Settings of a reduction that change what it does: where=, initial=, out=, a dtype other than float64."""
    for key, value in settings.items():
        plain = value is None or value is np._NoValue or (key == "where" and value is True)
        if not plain and not (key == "dtype" and value in (float, np.float64, np.dtype(np.float64), "float64")):
            raise refusal(f"np.{name} with {key}=", "leave it out")


# ---------------------------------------------------------------- arrays of symbols


def cells(value: Any) -> Cells:
    """Anything as a plain array of symbols and numbers."""
    if isinstance(value, SymbolArray):
        return value.view(np.ndarray)
    if isinstance(value, Symbol):
        return _boxed(value)
    if isinstance(value, list | tuple):
        parts = [cells(part) for part in value]
        return np.stack(np.broadcast_arrays(*parts)) if parts else np.empty(0, object)
    array = np.asarray(value)
    if array.dtype.kind not in "biufO":
        raise refusal(f"an array of {array.dtype}", "use real numbers")
    return array.astype(object)


def _boxed(value: Any) -> Cells:
    array = np.empty((), dtype=object)
    array[()] = value
    return array


def wrapped(array: Cells) -> Any:
    """An array of symbols as functions see it; one cell as itself, plain numbers as floats or flags."""
    if not any(isinstance(cell, Symbol) for cell in array.flat):
        kind = bool if array.size and all(isinstance(cell, bool | np.bool_) for cell in array.flat) else np.float64
        plain = array.astype(kind)
        return plain[()] if plain.ndim == 0 else plain
    return array[()] if array.ndim == 0 else array.view(SymbolArray)


def elementwise(step: Callable[..., Any], *args: Any) -> Any:
    """A function of cells on arrays, broadcast against each other."""
    parts = np.broadcast_arrays(*(cells(arg) for arg in args))
    result = np.empty(parts[0].shape, dtype=object)
    for index in np.ndindex(result.shape):
        result[index] = step(*(part[index] for part in parts))
    return wrapped(result)


def _finite(value: Any) -> float:
    if not isinstance(value, bool | np.bool_ | int | float | np.number) or not math.isfinite(number := float(value)):
        raise refusal(f"the value {value!r}", "use finite numbers")
    return number


def _tape(args: Sequence[Any]) -> Tape | None:
    return next((arg.tape for arg in args if isinstance(arg, Symbol)), None)


def by_name(name: str, *args: Any) -> Any:
    """One ufunc on cells, by its name."""
    tape = _tape(args)
    if tape is None:
        with np.errstate(all="ignore"):
            return getattr(np, name)(*args) if hasattr(np, name) else _special(name)(*args)
    if name in SAME:
        return args[0]
    truths = [isinstance(arg, bool | np.bool_) or (isinstance(arg, Symbol) and arg.is_truth) for arg in args]
    kind = KINDS.get(name)
    if kind in LOGIC and not all(truths):
        raise refusal(f"np.{name} of numbers", "write a comparison, such as x > 0")
    if kind not in LOGIC and len(args) > 1 and all(truths):
        raise refusal(f"np.{name} of truth values alone", "use np.where(condition, 1.0, 0.0)")
    if kind is not None:
        return tape.apply(kind, *args)
    if name in MEANINGS:
        return tape.mean(MEANINGS[name], *args)
    known = hasattr(np, name) or not name.isidentifier()
    raise refusal(f"np.{name}" if known else f"scipy.special.{name}", REMEDIES.get(name, OTHERWISE))


def _special(name: str) -> Callable[..., Any]:
    from scipy import special

    return getattr(special, name)


def fold(kind: str, array: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """An operation on all cells along axes, from the left."""
    table = cells(array)
    axes = tuple(range(table.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(sorted(k % max(table.ndim, 1) for k in axes)) if table.ndim else ()
    rest = tuple(k for k in range(table.ndim) if k not in axes)
    moved = table.transpose(*rest, *axes).reshape(*(table.shape[k] for k in rest), -1)
    if moved.shape[-1] == 0:
        raise refusal("a reduction of nothing", "leave it out")
    ufunc = {"+": "add", "*": "multiply", "max": "maximum", "min": "minimum", "and": "logical_and", "or": "logical_or"}
    result = np.empty(moved.shape[:-1], dtype=object)
    for index in np.ndindex(result.shape):
        result[index] = reduce(lambda a, b: by_name(ufunc[kind], a, b), moved[index])
    if keepdims:
        result = result.reshape(*(1 if k in axes else table.shape[k] for k in range(table.ndim)))
    return wrapped(result)


def by_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A ufunc or one of its methods on symbols."""
    name, out = ufunc.__name__, kwargs.pop("out", None)
    kwargs = {key: value for key, value in kwargs.items() if value is not None and value is not np._NoValue}
    if kwargs.pop("where", True) is not True or set(kwargs) - {"axis", "keepdims", "dtype"}:
        raise refusal(f"np.{name} with {', '.join(kwargs) or 'where'}=", "use np.where")
    kwargs.pop("dtype", None)
    if method == "__call__" and name in ("matmul", "vecdot"):
        result = matmul(*inputs) if name == "matmul" else fold("+", np.multiply(*inputs), -1)
    elif method == "__call__":
        result = elementwise(lambda *cell: by_name(name, *cell), *inputs)
    elif method == "reduce" and name in FOLDS:
        result = fold(FOLDS[name], inputs[0], kwargs.get("axis", 0), kwargs.get("keepdims", False))
    elif method == "accumulate" and name in FOLDS:
        result = _accumulated(name, cells(inputs[0]), kwargs.get("axis", 0))
    elif method == "outer":
        first, second = (cells(one) for one in inputs)
        result = by_ufunc(ufunc, "__call__", (first.reshape(*first.shape, *[1] * second.ndim), second), {})
    else:
        raise refusal(f"np.{name}.{method}")
    if out is None or isinstance(out[0], Symbol):  # `x += y` gives x another value, not another symbol
        return result
    if not isinstance(out[0], SymbolArray):
        raise refusal("writing symbols into an array of numbers", "use np.stack to put results together")
    out[0].view(np.ndarray)[...] = cells(result)
    return out[0]


def _accumulated(name: str, table: Cells, axis: int) -> Any:
    moved = np.moveaxis(table, axis, 0).copy()
    for k in range(1, len(moved)):
        moved[k] = cells(elementwise(lambda *cell: by_name(name, *cell), moved[k - 1], moved[k]))
    return wrapped(np.moveaxis(moved, 0, axis))


# ---------------------------------------------------------------- functions of NumPy that are no ufuncs


def dot(a: Any, b: Any) -> Any:
    """As np.dot."""
    first, second = cells(a), cells(b)
    if first.ndim == 0 or second.ndim == 0:
        return np.multiply(wrapped(first), wrapped(second))
    return tensordot(first, second, (first.ndim - 1, max(second.ndim - 2, 0)))


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """As np.tensordot."""
    first, second = cells(a), cells(b)
    if isinstance(axes, int | np.integer):
        axes = tuple(range(first.ndim - int(axes), first.ndim)), tuple(range(int(axes)))
    left, right = ((k,) if isinstance(k, int | np.integer) else tuple(k) for k in axes)
    left, right = tuple(k % first.ndim for k in left), tuple(k % second.ndim for k in right)
    here = [k for k in range(first.ndim) if k not in left]
    there = [k for k in range(second.ndim) if k not in right]
    rows = first.transpose(*here, *left).reshape(*(first.shape[k] for k in here), *[1] * len(there), -1)
    columns = second.transpose(*there, *right).reshape(*(second.shape[k] for k in there), -1)
    return fold("+", np.multiply(symbolic(rows), symbolic(columns)), -1)


def symbolic(array: Cells) -> Any:
    """An array of symbols and numbers as functions see it, whatever it holds."""
    return array.view(SymbolArray)


def matmul(a: Any, b: Any) -> Any:
    """As np.matmul."""
    first, second = cells(a), cells(b)
    if second.ndim == 1:
        return fold("+", np.multiply(symbolic(first), symbolic(second)), -1)
    if first.ndim == 1:
        return fold("+", np.multiply(symbolic(first[:, None]), symbolic(second)), -2)
    return fold("+", np.multiply(symbolic(first[..., :, None]), symbolic(second[..., None, :, :])), -2)


def where(condition: Any, *branches: Any) -> Any:
    """As np.where with both branches."""
    if len(branches) != 2:
        raise refusal("np.where of a condition alone", "give both branches")
    return elementwise(_where, condition, *branches)


def _where(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, Symbol):
        return a if condition else b
    return condition.tape.apply("where", condition, a, b)


FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""Functions of NumPy that are no ufuncs, said in other operations. `array_functions.py` enters them."""
HANDED_OVER: dict[Any, Callable[..., Any]] = {}
"""Those that only arrays with a symbol need."""
MOVING = set[Any]()
"""Those that run on symbols as they are."""


def has_symbols(value: Any) -> bool:
    """Is there a symbol in arrays, lists and dicts of them?"""
    if isinstance(value, SymbolArray):
        return any(isinstance(cell, Symbol) for cell in value.flat)
    if isinstance(value, dict):
        return any(has_symbols(part) for part in value.values())
    return isinstance(value, Symbol) or (isinstance(value, list | tuple) and any(has_symbols(part) for part in value))


def _plain(value: Any) -> Any:
    """An array of numbers that was made for symbols as one of floats."""
    if isinstance(value, SymbolArray):
        return wrapped(value.view(np.ndarray))
    return type(value)(_plain(part) for part in value) if isinstance(value, list | tuple) else value


def by_function(function: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy on symbols."""
    if function in FUNCTIONS:
        return FUNCTIONS[function](*args, **kwargs)
    if not has_symbols((args, kwargs)):
        return function(*(_plain(arg) for arg in args), **{key: _plain(value) for key, value in kwargs.items()})
    if function in HANDED_OVER:
        return HANDED_OVER[function](*args, **kwargs)
    if function in MOVING:
        return _rewrapped(function._implementation(*args, **kwargs))
    raise refusal(_called(function), REMEDIES.get(function.__name__, OTHERWISE))


def _called(function: Any) -> str:
    """A function of NumPy or SciPy by the name that users know."""
    name = function.__name__
    if isinstance(function, np.ufunc):
        return f"np.{name}" if hasattr(np, name) else f"scipy.special.{name}" if name.isidentifier() else name
    return f"{function.__module__}.{name}".replace("numpy", "np", 1)


def _rewrapped(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_rewrapped(part) for part in result)
    return result.view(SymbolArray) if type(result) is np.ndarray and result.dtype == object else result
