"""The description in a file, read field by field: nothing is taken on trust, and an error names the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from math import inf, isnan
from typing import Any, TypeVar

from ..arguments import is_word
from ..errors import FileFormatError

T = TypeVar("T")

VERSION = re.compile(r"[0-9][0-9a-z.+]*")
MOST_SHOWN = 80
"""Characters of a wrong value that an error repeats."""


class Fields:
    """A JSON object whose fields are read by name and kind.

    >>> Fields({"bound": -1.0}, "certificate").number("bound")
    Traceback (most recent call last):
        ...
    attnfun.errors.FileFormatError: the field certificate.bound must be a number >= 0; got -1.0.
    """

    def __init__(self, data: object, place: str = "") -> None:
        if not isinstance(data, dict):
            raise FileFormatError(
                f"the field {place or 'attnfun'} must be an object with named fields", got=shown(data)
            )
        self.data: dict[str, Any] = data
        self.place = place

    def number(self, name: str, least: float = 0.0, most: float = inf) -> float:
        """A number within limits, which may be infinite but not nan."""
        value = self._get(name)
        try:
            number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        except OverflowError:
            number = None
        limits = f" >= {least:g}" if most == inf else f" from {least:g} to {most:g}"
        self._require(number is not None and not isnan(number) and least <= number <= most, name, f"a number{limits}")
        return float(value)

    def whole(self, name: str, least: int = 0) -> int:
        """A whole number."""
        value = self._get(name)
        self._require(
            isinstance(value, int) and not isinstance(value, bool) and value >= least,
            name,
            f"a whole number >= {least}",
        )
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._get(name)
        self._require(isinstance(value, bool), name, "true or false")
        return value

    def text(self, name: str, choices: Collection[str] = ()) -> str:
        """A line of text that can be printed; one of the choices if there are any."""
        value = self._get(name)
        self._require(isinstance(value, str) and value.isprintable(), name, "a line of text")
        self._require(not choices or value in choices, name, f"one of {', '.join(choices)}")
        return value

    def word(self, name: str) -> str:
        """A name of one word, as Python functions have; nothing in it looks like a statement."""
        value = self.text(name)
        self._require(is_word(value), name, "one word")
        return value

    def version(self, name: str) -> str:
        """The number of a version, which users are told to install: nothing that a shell would take for more."""
        value = self.text(name)
        self._require(VERSION.fullmatch(value) is not None, name, "a version such as 1.0.2")
        return value

    def entries(self, name: str) -> list[Any]:
        """A list."""
        value = self._get(name)
        self._require(isinstance(value, list), name, "a list")
        return value

    def each(self, name: str, kind: Callable[[Fields, str], T]) -> list[T]:
        """A list of values of one kind, as `Fields.whole`."""
        inner = {f"{name}[{number}]": value for number, value in enumerate(self.entries(name))}
        return [kind(Fields(inner, self.place), place) for place in inner]

    def inner(self, name: str) -> Fields:
        """An object in the object."""
        return Fields(self._get(name), self._path(name))

    def optional(self, name: str, kind: Callable[[Fields, str], T]) -> T | None:
        """A value of a kind, or null."""
        return None if self._get(name) is None else kind(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def _get(self, name: str) -> Any:
        if name not in self.data:
            raise FileFormatError(f"the file must have the field {self._path(name)}")
        return self.data[name]

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def _require(self, holds: bool, name: str, what: str) -> None:
        if not holds:
            raise FileFormatError(f"the field {self._path(name)} must be {what}", got=shown(self.data[name]))


def shown(value: object) -> str:
    """A value in a few characters."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
