"""What tells one Python function from another, from process to process: everything that its values are made of.

Code (instructions and constants, not line numbers), defaults, closure, the globals that it names, and the same of every
function, class and object of the user's that these lead to; arrays by their content. What comes with Python or from an
installed package is known by its name and version, a module of the user's by its file. Anything else (an open file, a
random generator) cannot be compared, and a function that uses it has no identity.

>>> def scaled(factor):
...     return lambda x: factor * x
>>> identity_of(scaled(2.0)) == identity_of(scaled(2.0)), identity_of(scaled(2.0)) == identity_of(scaled(3.0))
(True, False)
"""

from __future__ import annotations

import builtins
import dis
import sys
import sysconfig
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, type(None), type(Ellipsis))
"""Types of values that are known by how they are written."""
HEAP = 1 << 9
"""The flag of types that are made at run time."""


class NoIdentity(Exception):
    """Something cannot be compared from process to process."""


class _Pure:
    """An object whose whole state is its `__dict__`: those of other types with room for no more are like it."""


def identity_of(value: Any) -> str:
    """A hash of all that a function's values are made of, or NoIdentity with the part that cannot be compared."""
    return _digest(value, [], {}).hex()


def _digest(value: Any, path: list[int], done: dict[int, tuple[Any, bytes]]) -> bytes:
    """The hash of a value; `path` leads to it, and `done` keeps what was hashed alive, so that ids stay its own."""
    if type(value) in PLAIN or isinstance(value, np.generic | np.dtype):
        return _hash(type(value).__name__.encode(), repr(value).encode())
    if type(value) is bytes:
        return _hash(b"bytes", value)
    if id(value) in done:
        return done[id(value)][1]
    if id(value) in path:
        return _hash(b"cycle", str(path[::-1].index(id(value))).encode())
    parts = _parts(value)
    found = _hash(type(value).__qualname__.encode(), *(_digest(part, [*path, id(value)], done) for part in parts))
    done[id(value)] = value, found
    return found


def _hash(*words: bytes) -> bytes:
    whole = sha256()
    for word in words:
        whole.update(len(word).to_bytes(8, "little") + word)
    return whole.digest()


def _parts(value: Any) -> list[Any]:
    """The parts that a value is made of."""
    if type(value) in (list, tuple):
        return [*value]
    if type(value) is dict:
        return [part for item in value.items() for part in item]
    if type(value) in (set, frozenset):
        return sorted(value, key=repr)
    if type(value) is np.ndarray and value.dtype.kind in "biufcSU":
        return [value.shape, value.dtype, np.ascontiguousarray(value).tobytes()]
    match value:
        case CodeType():
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            return [value.co_code, value.co_exceptiontable, names, value.co_flags, value.co_consts]
        case ModuleType():
            return _parts_of_module(value)
        case partial() if type(value) is partial:
            return [value.func, value.args, value.keywords]
        case MethodType():
            return [value.__func__, value.__self__]
        case np.ufunc() if getattr(np, value.__name__, None) is value:
            return [value.__name__, np]
        case BuiltinFunctionType():
            return [value.__qualname__, value.__self__]  # a module, or the object that it belongs to
        case type() | FunctionType() if _is_installed(value.__module__) and "<" not in value.__qualname__:
            return [value.__module__, value.__qualname__, _package(value.__module__)]
        case FunctionType():
            return [value.__code__, value.__defaults__, value.__kwdefaults__, *_closure(value), *_globals(value)]
        case type():
            written = {name: part for name, part in vars(value).items() if name not in _OF_CLASSES}
            return [value.__qualname__, value.__bases__, written]
        case property():
            return [value.fget]
        case staticmethod() | classmethod():
            return [value.__func__]
    kind = type(value)
    pure = kind.__basicsize__ == _Pure.__basicsize__ and all(base.__flags__ & HEAP for base in kind.__mro__[:-1])
    if pure and hasattr(value, "__dict__"):
        return [kind, vars(value)]
    raise NoIdentity(f"{kind.__module__}.{kind.__qualname__} {repr(value)[:80]}")


_OF_CLASSES = ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__")
"""What classes have beside what their author wrote."""


def _closure(function: FunctionType) -> list[Any]:
    try:
        return [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        raise NoIdentity(f"a variable of {function.__name__} that has no value yet") from None


def _globals(function: FunctionType) -> list[Any]:
    """Names of globals and modules that a function reads, and what they are; None for names without a value."""
    read, imported = _names(function.__code__)
    known = function.__globals__
    values = {name: known.get(name, getattr(builtins, name, None)) for name in read}
    for name in imported:
        if name not in sys.modules:
            raise NoIdentity(f"the module {name}, which is not imported yet")
    return [*sorted(values), *(values[name] for name in sorted(values)), *(sys.modules[name] for name in imported)]


def _names(code: CodeType) -> tuple[set[str], list[str]]:
    """Globals that code reads, and modules that it imports, in functions inside it too."""
    read, imported = set[str](), set[str]()
    for inner in _codes(code):
        for step in dis.get_instructions(inner):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                read.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                imported.add(step.argval)
    return read, sorted(imported)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_installed(module: str | None) -> bool:
    """Does a module come with Python, with this package, or from another that was installed?"""
    top = (module or "builtins").partition(".")[0]
    if top in (*sys.stdlib_module_names, __name__.partition(".")[0]):
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    folders = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    return file is not None and any(folder in Path(file).parents for folder in folders)


def _package(module: str | None) -> Any:
    return sys.modules.get((module or "builtins").partition(".")[0])


def _parts_of_module(module: ModuleType) -> list[Any]:
    """Name and version of one that was installed; the file of another, and the modules that it takes things from."""
    name = module.__name__
    if _is_installed(name):
        return [name, str(getattr(_package(name), "__version__", sys.version_info[:2]))]
    homes = {part.__name__ if isinstance(part, ModuleType) else _home(part) for part in vars(module).values()}
    others = [sys.modules[home] for home in sorted(homes - {name}) if home in sys.modules and not _is_installed(home)]
    try:
        return [name, Path(str(module.__file__)).read_bytes(), *others]
    except (OSError, AttributeError) as reason:
        raise NoIdentity(f"the module {name} ({reason})") from None


def _home(part: Any) -> str:
    """The module that a function or class was written in."""
    home = getattr(part, "__module__", None)
    return home if isinstance(home, str) else ""
