"""The program of a Python function made of NumPy operations, by running it on symbols.

The function is run on an array of symbols (`symbols.py`), which writes down what is done with them. What does not know
symbols is exchanged first, in a copy of the function and of the functions that it calls: Python's math module, arrays
made by NumPy, np.vectorize, functions of lists, max() and min(), splines and functions of SciPy. A branch on a value
ends the attempt, except in functions of single numbers, which are run for every way through them.

>>> program = traced(lambda p: np.exp(p[..., 0]) * p[..., 1] + 1, (2,), "f")
>>> [node.kind for node in program.nodes]
['variable', 'variable', 'exp', '*', 'constant', '+']
"""

from __future__ import annotations

import builtins
import math
import sys
import types
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..arithmetic import Untraceable
from ..errors import InputError
from .array_functions import IN_PLACE_OF, Normal
from .polynomials import is_spline, spline
from .program import Program
from .symbols import (
    Symbol,
    SymbolArray,
    Tape,
    branching,
    by_name,
    cells,
    elementwise,
    failure,
    has_symbols,
    symbolic,
)

# ---------------------------------------------------------------- what stands in for modules and their functions

NAMES = {"pow": "power", "fabs": "abs", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
NAMES |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
"""Functions of Python's math module as NumPy names them."""
LISTS: dict[str, Callable[..., Any]] = {
    "prod": lambda values: reduce(np.multiply, values),
    "fsum": lambda values: reduce(np.add, values),
    "dist": lambda p, q: np.sqrt(reduce(np.add, [(a - b) ** 2 for a, b in zip(p, q, strict=True)])),
    "hypot": lambda *values: np.sqrt(reduce(np.add, [value**2 for value in values])),
    "sumprod": lambda p, q: reduce(np.add, [a * b for a, b in zip(p, q, strict=True)]),
}
"""Functions of Python's math module on lists of symbols."""


def _mathematical(name: str) -> Any:
    """A function of Python's math module that knows symbols."""
    own = getattr(math, name)
    if not callable(own):
        return own

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(list(arg) if isinstance(arg, types.GeneratorType) else arg for arg in args)
        if not has_symbols(args):
            return own(*args, **kwargs)
        if name in LISTS:
            return LISTS[name](*args, **kwargs)
        if name == "log" and len(args) == 2:
            return np.log(args[0]) / np.log(args[1])
        return elementwise(partial(by_name, NAMES.get(name, name)), *args)

    return call


def _extreme(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    """Python's max() or min() on symbols."""
    own = getattr(builtins, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        values = list(args[0]) if len(args) == 1 else list(args)
        if kwargs or not any(isinstance(value, Symbol) for value in values):
            return own(values, **kwargs)
        return reduce(ufunc, values)

    return call


BUILTINS = {"max": _extreme("max", np.maximum), "min": _extreme("min", np.minimum)}
"""Functions of Python itself."""


def _array(value: Any, dtype: Any = None, **more: Any) -> Any:
    if not has_symbols(value):
        return np.array(value, dtype, **more)
    array = symbolic(cells(value).copy())
    return array if dtype is None else array.astype(dtype)


def _as_array(value: Any, dtype: Any = None, **more: Any) -> Any:
    return value if isinstance(value, SymbolArray) and dtype is None else _array(value, dtype, **more)


def _filled(make: Callable[..., Any]) -> Callable[..., Any]:
    """np.zeros and the like: an array that may take symbols, unless its numbers are of another kind than float64."""

    def filled(shape: Any, *args: Any, dtype: Any = None, **more: Any) -> Any:
        if dtype is not None and np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(object)):
            return make(shape, *args, dtype=dtype, **more)
        return symbolic(make(shape, *args, **more).astype(object))

    return filled


def _from_iterator(values: Any, dtype: Any = float, count: int = -1, **more: Any) -> Any:
    return _array(list(values)[: None if count < 0 else count], dtype, **more)


def _vectorized(function: Callable[..., Any], *args: Any, **settings: Any) -> Callable[..., Any]:
    """np.vectorize of a function that knows symbols: of one number after the other, for every way through it."""
    own = np.vectorize(function, *args, **settings)
    if own.signature is not None or own.excluded:
        return own

    def call(*values: Any, **named: Any) -> Any:
        if named or not has_symbols(values):
            return own(*values, **named)
        return elementwise(branching(function), *values)

    return call


ARRAYS: dict[str, Callable[..., Any]] = {
    "vectorize": _vectorized,
    "array": _array,
    "asarray": _as_array,
    "asanyarray": _as_array,
    "ascontiguousarray": _as_array,
    "fromiter": _from_iterator,
    "zeros": _filled(np.zeros),
    "empty": _filled(np.zeros),
    "ones": _filled(np.ones),
    "full": lambda shape, value, *_, **__: symbolic(np.broadcast_to(cells(value), shape).copy()),
}
"""What NumPy makes arrays of, and np.vectorize."""
LISTS_TAKEN: dict[str, Any] = {
    name: getattr(np, name)
    for name in (
        *("sum", "mean", "prod", "max", "min", "amax", "amin", "var", "std", "ptp", "average", "clip", "dot", "inner"),
        *("outer", "cross", "cumsum", "cumprod", "diff", "sort", "median"),
    )
}
LISTS_TAKEN["norm"] = np.linalg.norm
"""Functions of NumPy that take lists for arrays, by name: NumPy's protocol does not look into lists."""


def _listed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy with lists of symbols as arrays."""

    def call(*args: Any, **kwargs: Any) -> Any:
        taken = (_array(arg) if isinstance(arg, list | tuple) and has_symbols(arg) else arg for arg in args)
        return function(*taken, **kwargs)

    return call


class Ufunc:
    """A ufunc of NumPy or SciPy, and its methods, with lists of symbols as arrays."""

    def __init__(self, own: np.ufunc) -> None:
        self.own = own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the ufunc."""
        return _listed(self.own)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.own, name)
        return _listed(value) if name in ("reduce", "accumulate", "outer") else value


class Module(types.ModuleType):
    """A module whose functions are exchanged for those that know symbols."""

    def __init__(self, own: types.ModuleType) -> None:
        super().__init__(own.__name__)
        self.own = own

    def __getattr__(self, name: str) -> Any:
        return exchanged(getattr(self.own, name))


def exchanged(value: Any) -> Any:
    """What knows symbols in place of a module, or of a function or spline of Python's math, NumPy or SciPy."""
    if isinstance(value, types.ModuleType):
        return Module(value) if value.__name__ in MODULES else value
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if module == "math" and isinstance(value, types.BuiltinFunctionType):
        return _mathematical(name)
    if isinstance(value, np.ufunc):
        return Ufunc(value)
    if value is LISTS_TAKEN.get(name):
        return _listed(value)
    if module == "numpy" and value is getattr(np, name, None):
        return ARRAYS.get(name, value)
    if isinstance(value, types.FunctionType) and (value.__module__ or "").startswith("scipy.special"):
        return IN_PLACE_OF.get(name, value)
    if type(value).__name__ == "norm_gen" and type(value).__module__.startswith("scipy.stats"):
        return Normal(value)
    return _on_symbols(value) if is_spline(value) else value


MODULES = {"math", "numpy", "numpy.linalg", "scipy", "scipy.special", "scipy.stats", "scipy.interpolate"}
"""Modules with functions that are exchanged."""


def _on_symbols(function: Any) -> Callable[..., Any]:
    """A spline of SciPy that knows symbols."""

    def one(x: Any) -> Any:
        return x.tape.symbol(spline(x.tape.builder, x.number, function)) if isinstance(x, Symbol) else function(x)

    return partial(elementwise, one)


# ---------------------------------------------------------------- copies of functions


@runtime_checkable
class Wrapper(Protocol):
    """A function around another one."""

    function: Callable[..., Any]

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same around another function."""
        ...


class Copies:
    """Functions with everything exchanged that does not know symbols, in those that they call too, each once."""

    def __init__(self) -> None:
        self.made: dict[int, Callable[..., Any]] = {}

    def of(self, function: Any) -> Any:
        """A function, or whatever a function refers to, for symbols."""
        if isinstance(function, np.vectorize):
            if function.signature is not None or function.excluded:
                raise Untraceable("np.vectorize with a signature cannot be traced; write it with NumPy operations")
            return partial(elementwise, branching(self.of(function.pyfunc)))
        if isinstance(function, Wrapper):
            return function.around(self.of(function.function))
        if isinstance(function, partial):
            return partial(self.of(function.func), *function.args, **function.keywords)
        if isinstance(function, types.MethodType):
            return types.MethodType(self.of(function.__func__), function.__self__)
        if isinstance(getattr(function, "py_func", None), types.FunctionType):  # compiled by numba
            return self.of(function.py_func)
        if isinstance(function, types.FunctionType) and not _of_library(function):
            return self.made.get(id(function)) or self._copy(function)
        return exchanged(function)

    def _copy(self, function: types.FunctionType) -> Callable[..., Any]:
        names, outer = dict(function.__globals__), function.__closure__
        held = None if outer is None else tuple(types.CellType() if _is_code(cell) else cell for cell in outer)
        copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, held)
        copy.__kwdefaults__ = function.__kwdefaults__
        self.made[id(function)] = copy
        for own, cell in zip(outer or (), held or (), strict=True):
            if cell is not own:
                cell.cell_contents = self.of(own.cell_contents)
        for name in _names_of(function.__code__):
            if name in names:
                names[name] = self.of(names[name])
            elif name in BUILTINS:
                names[name] = BUILTINS[name]
        return copy


def _is_code(cell: types.CellType) -> bool:
    """Does a variable of an outer function hold what may be exchanged? All else is shared, with its changes."""
    try:
        value = cell.cell_contents
    except ValueError:  # not set yet
        return False
    return callable(value) or isinstance(value, types.ModuleType)


def _names_of(code: types.CodeType) -> set[str]:
    """Names of all that a function and those defined in it refer to."""
    inner = [_names_of(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _of_library(function: types.FunctionType) -> bool:
    """Is it of NumPy, SciPy or Python's own library, or of this package?"""
    root = (function.__module__ or "").partition(".")[0]
    return root in ("numpy", "scipy", "numba", "attnfun") or (root != "__main__" and root in sys.stdlib_module_names)


# ---------------------------------------------------------------- tracing


def traced(function: Callable[..., Any], shape: tuple[int, ...], name: str) -> Program:
    """The operations of a function of a batch of points of one shape, or Untraceable.

    It is run twice: what is not the same both times is refused.
    """
    first, second = (_traced(function, shape, name) for _ in range(2))
    if first != second:
        raise InputError(
            f"{name} must return the same value at a point in every call, whatever the other points are",
            got="other operations in a second call",
            remedy="Remove random numbers, counters and sums over the batch.",
        )
    return first


def _traced(function: Callable[..., Any], shape: tuple[int, ...], name: str) -> Program:
    tape = Tape(name)
    variables = [tape.symbol(tape.builder.variable(k)) for k in range(math.prod(shape))]
    point = np.array(variables, dtype=object).reshape(1, *shape).view(SymbolArray)
    try:
        result = cells(run_on_symbols(Copies().of(_called(function)), point))
    except Untraceable:
        raise
    except Exception as reason:  # whatever a function raises that was not written for symbols
        raise failure(reason) from reason
    if result.shape[:1] != (1,):
        raise Untraceable(f"{name} returned shape {result.shape} for one point")
    cell = cells(result[0])
    flat = [tape.truth_of(each) if _is_flag(each) else tape.number_of(each) for each in cell.ravel()]
    return tape.builder.program(name, flat, cell.ndim > 0)


def run_on_symbols(function: Callable[..., Any], point: SymbolArray) -> Any:
    """What a function does with symbols; refusals name no line before this one."""
    with np.errstate(all="ignore"):
        return function(point)


def _called(function: Any) -> Any:
    """The method that is called where an object is."""
    call = type(function).__call__
    is_object = isinstance(call, types.FunctionType) and not isinstance(function, np.vectorize | Wrapper)
    return types.MethodType(call, function) if is_object else function


def _is_flag(cell: Any) -> bool:
    return isinstance(cell, bool | np.bool_) or (isinstance(cell, Symbol) and cell.is_truth)
