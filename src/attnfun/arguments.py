"""Arguments as users give them, read and checked: one function for each kind of value.

Each returns the value as the rest of the library uses it, or raises an InputError that says what the argument must be
and what it was.

>>> real_number("eps", 1, above=0.0), whole_number("budget", 7, 1), one_of("outside", "clip", ("raise", "clip"))
(1.0, 7, 'clip')
>>> whole_number("budget", 1.5, 1)
Traceback (most recent call last):
    ...
attnfun.errors.InputError: budget must be a whole number >= 1; got 1.5.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from math import inf, isfinite, nextafter
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import InputError, did_you_mean, shown

Kind = TypeVar("Kind")

NOT_IN_WORDS = re.compile(r"[^\w.<>]+")


def real_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    toward: float | None = None,
    remedy: str = "",
) -> float:
    """A finite number > above, >= least and <= most, as a float: the nearest one, or the next one `toward` ±inf.

    Integers, floats, fractions and decimals are numbers; truth values and texts are not.
    """
    number = as_float(value, toward)
    enough = (above is None or number > above) and (least is None or number >= least)
    if not (isfinite(number) and enough and (most is None or number <= most)):
        limits = (("> ", above), (">= ", least), ("<= ", most))
        words = " and ".join(f"{sign}{limit:g}" for sign, limit in limits if limit is not None)
        raise InputError(f"{name} must be a finite number {words}".rstrip(), got=shown(value), remedy=remedy)
    return number


def as_float(value: object, toward: float | None = None) -> float:
    """A number as a float, the nearest one or the next one toward ±inf; NaN for anything else."""
    if not isinstance(value, Real | Decimal) or isinstance(value, bool | np.bool_):
        return np.nan
    try:
        given: Any = value
        number = float(given)
        beyond = number > given if toward == -inf else number < given if toward == inf else False
    except (ValueError, OverflowError, ArithmeticError):  # beyond all floats, or a signalling NaN
        return np.nan
    return nextafter(number, toward) if beyond and toward is not None else number


def whole_number(name: str, value: object, least: int, most: int | None = None, *, remedy: str = "") -> int:
    """A whole number from `least` to `most`, which may be of any integer type; 2.0 is none."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if whole else least - 1  # type: ignore[arg-type]
    if number < least or (most is not None and number > most):
        words = f">= {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} must be a whole number {words}", got=shown(value), remedy=remedy)
    return number


def flag(name: str, value: object, *, remedy: str = "") -> bool:
    """True or False; nothing else counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False", got=shown(value), remedy=remedy)
    return bool(value)


def one_of(name: str, value: object, known: Collection[str]) -> Any:
    """One of the texts known."""
    if not isinstance(value, str) or value not in known:
        raise InputError(
            f"{name} must be one of {', '.join(known)}", got=shown(value), remedy=did_you_mean(value, known)
        )
    return value


def instance(name: str, value: object, kind: type[Kind], words: str) -> Kind | None:
    """An object of a kind, said in words, or None."""
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name} must be {words}", got=shown(value))
    return value


def function(name: str, value: object) -> Callable[..., Any] | None:
    """Something that can be called, or None."""
    if value is not None and not callable(value):
        raise InputError(f"{name} must be a function", got=shown(value))
    return value


def table(name: str, value: object) -> dict[str, Any]:
    """A dict with texts as keys; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{name} must be a dict of names and values", got=shown(value))
    return dict(value)


def path(name: str, value: object) -> Path:
    """The place of a file or folder, as a text or a path."""
    try:
        place = Path(os.fsdecode(value))  # type: ignore[arg-type]
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            place.stat()  # which refuses what no file system can name
    except (TypeError, ValueError, OSError):
        raise InputError(f"{name} must be the path of a file or folder", got=shown(value)) from None
    return place


def folder(name: str, value: object) -> Path | None:
    """The path of a folder, which need not exist yet, or None."""
    place = None if value is None else path(name, value)
    if place is not None and place.exists() and not place.is_dir():
        raise InputError(f"{name} must be a folder", got=f"the file {place}")
    return place


def made_folder(name: str, value: object) -> Path:
    """The folder itself, made if it does not exist; it must be possible to write there."""
    place = path(name, value)
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(f"{place} is not writable")
    except OSError as reason:
        raise InputError(
            f"{name} must be a folder that can be written to", got=str(reason), remedy="Choose another folder."
        ) from None
    return place


def on_one_line(text: str) -> str:
    """A text of somebody else's that can be printed on one line: white space as spaces, all else as escapes.

    >>> on_one_line("two\\n lines\\x07")
    'two  lines\\\\x07'
    """
    spaced = "".join(" " if letter.isspace() else letter for letter in text).strip()
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in spaced)


def as_word(text: str) -> str:
    """A name as one word, with underscores for what no word has.

    >>> as_word("my function\\n(1)"), as_word("<lambda>")
    ('my_function_1_', '<lambda>')
    """
    return NOT_IN_WORDS.sub("_", text)


def is_word(text: str) -> bool:
    """Is it a name of one word?"""
    return text != "" and NOT_IN_WORDS.search(text) is None


def labels(name: str, value: object) -> tuple[str, ...] | None:
    """Names of axes, one text or number each, or None; a text names an axis by each letter."""
    if value is None:
        return None
    try:
        given = tuple(value) if isinstance(value, Iterable) and not isinstance(value, bytes) else ()
    except Exception:  # whatever an object's own iterator raises
        given = ()
    if not given or not all(isinstance(one, str | Integral) and str(one).isprintable() for one in given):
        raise InputError(f"{name} must be a list of lines of text, one for each axis", got=shown(value))
    return tuple(str(one) for one in given)


def real_array(name: str, value: object, *, most: float | None = None) -> npt.NDArray[np.float64]:
    """Numbers in any shape as float64; texts, complex numbers, dates and missing values are no numbers.

    With `most`, they are finite and no larger than that.

    >>> real_array("points", ["1"])
    Traceback (most recent call last):
        ...
    attnfun.errors.InputError: points must be real numbers that float64 can hold; got ['1'].
    """
    kind = "real numbers that float64 can hold" if most is None else f"finite numbers up to {most:g}"
    words = f"{name} must be {kind}"
    try:
        array = np.asarray(value)
        if array.dtype == object:
            known = all(isfinite(as_float(number)) or isinstance(number, float) for number in array.flat)
            array = np.array([as_float(number) for number in array.flat]).reshape(array.shape)
        else:
            known = np.can_cast(array.dtype, np.float64, "same_kind")
        if known:
            with np.errstate(over="ignore"):
                array = array.astype(np.float64, copy=False)
    except Exception as reason:  # whatever an object's own conversion raises
        raise InputError(words, got=f"{shown(value)} ({shown(reason)})") from None
    if not known:
        raise InputError(words, got=shown(value))
    if most is not None and not (np.abs(array) <= most).all():
        place = tuple(int(k) for k in np.argwhere(~(np.abs(array) <= most))[0])
        raise InputError(
            words,
            got=f"{array[place]} at {place}" if place else f"{array}",
            remedy="Remove or fill in missing numbers; rescale larger ones.",
        )
    return array
