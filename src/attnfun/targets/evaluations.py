"""Values of a function that may be expensive: no point is asked twice, workers share the rest, a folder keeps them."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..arguments import made_folder
from ..deadline import NEVER, Deadline
from ..errors import InputError, TimeLimitReached
from ..executors import TRIES, in_order
from .base import Floats
from .records import Records

CHUNK = 64
"""Points that a worker is given, and that a folder keeps, at a time, at most."""
CHUNKS = 16
"""Fewer points are given where there would be fewer chunks than this."""
ALONE = 256
"""Points in one call where there are neither workers nor a folder: such a call is not interrupted by a deadline."""

Function = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Asking:
    """How a black box is asked: by whom, where its values are kept, and who is told how many came in."""

    executor: Executor | None = None
    cache: str | Path | None = None
    tell: Callable[[int], None] | None = None


class Evaluations:
    """A function on rows that remembers what it said.

    >>> squares = Evaluations(lambda rows: rows**2, variables=1, outputs=1)
    >>> squares(np.array([[1.0], [2.0], [1.0]])).ravel(), squares(np.array([[2.0]])).ravel(), squares.count
    (array([1., 4., 1.]), array([4.]), 2)
    """

    def __init__(
        self, function: Function, variables: int, outputs: int, asking: Asking | None = None, name: str = "f"
    ) -> None:
        self.function, self.asking = function, asking or Asking()
        self.points, self.values = np.empty((0, variables)), np.empty((0, outputs))  # (S, D), (S, m)
        self._place: dict[bytes, int] = {}
        folder = None if self.asking.cache is None else made_folder("cache", self.asking.cache)
        self._cache = None if folder is None else _Cache(folder, name, function, variables, outputs)

    @property
    def count(self) -> int:
        """Points asked so far, by this object."""
        return len(self.points)

    def __call__(self, rows: Floats, deadline: Deadline = NEVER) -> Floats:
        """(B, D) -> (B, m), or TimeLimitReached."""
        rows = np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # one zero, not two
        names = [row.tobytes() for row in rows]
        new = {name: row for row, name in enumerate(names) if name not in self._place}
        if new:
            asked = rows[list(new.values())]
            ask = partial(self._ask, deadline=deadline)
            answers = ask(asked) if self._cache is None else self._cache.values(asked, ask)
            self._place |= {name: self.count + k for k, name in enumerate(new)}
            self.points, self.values = np.vstack([self.points, asked]), np.vstack([self.values, answers])
        return self.values[[self._place[name] for name in names]]

    def _ask(self, rows: Floats, deadline: Deadline) -> Floats:
        """Call the function in chunks, small ones where others are involved."""
        executor, ask = self.asking.executor, partial(patiently, self.function)
        alone = executor is None and self._cache is None
        size = ALONE if alone else max(1, min(CHUNK, len(rows) // CHUNKS))
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        answers: list[Floats] = []
        for values in in_order(ask, chunks, executor, deadline=deadline):
            if self._cache is not None:
                self._cache.keep(chunks[len(answers)], values)
            answers.append(values)
            if self.asking.tell is not None and not alone:
                self.asking.tell(self.count + sum(map(len, answers)))
        if len(answers) < len(chunks):
            raise TimeLimitReached(
                "sampling the function",
                deadline.limit,
                got=f"{self.count + sum(map(len, answers))} values so far, of {self.count + len(rows)} wanted by now",
                remedy="With cache= a second run goes on where this one stopped.",
            )
        return np.vstack(answers)


def patiently(function: Function, rows: Floats) -> Floats:
    """Values at rows (B, D) of a function that may fail now and then.

    Where it fails on several points it is asked on halves of them, so that one point costs the others nothing; a
    single point gets a few tries.
    """
    for left in reversed(range(TRIES)):
        try:
            return function(rows)
        except InputError as reason:
            if len(rows) > 1:
                return np.vstack([patiently(function, half) for half in np.array_split(rows, 2)])
            if left == 0:
                raise InputError(
                    f"the function must have a value at every point of the domain, in {TRIES} tries",
                    got=f"at {rows[0].tolist()}: {reason}",
                    remedy="Shrink the domain, or catch the failure in the function.",
                ) from reason
    raise AssertionError


class _Cache:
    """Values of one function in a folder, known by its name and the shape of its points and values.

    A name is not the function: one recorded value is asked for again, and must be the same.
    """

    def __init__(self, folder: Path, name: str, function: Function, variables: int, outputs: int) -> None:
        plain = re.sub(r"\W+", "-", name).strip("-") or "function"
        self.records = Records(folder / f"{plain}-{variables}-{outputs}.values")
        self.width, self.known = variables, dict[bytes, Floats]()
        for data in self.records:
            if len(data) % (8 * (variables + outputs)) == 0:
                rows = np.frombuffer(data, dtype="<f8").reshape(-1, variables + outputs)
                self.known |= {row[:variables].tobytes(): row[variables:] for row in rows}
        if self.known:
            first, value = next(iter(self.known.items()))
            point = np.frombuffer(first).reshape(1, -1)
            again = patiently(function, point)[0]
            if not np.array_equal(again, value, equal_nan=True):
                raise InputError(
                    f"{self.records.path} must hold values of this very function {name}",
                    got=f"{value.tolist()} at {point[0].tolist()}, where the function says {again.tolist()}",
                    remedy="Use another folder for cache=, or delete the file.",
                )

    def values(self, rows: Floats, ask: Function) -> Floats:
        """What is known, and the answers to the rest, (B, D) -> (B, m)."""
        new = np.array([row.tobytes() not in self.known for row in rows])
        if new.any():
            ask(rows[new])  # which keeps the answers
        return np.stack([self.known[row.tobytes()] for row in rows])

    def keep(self, rows: Floats, values: Floats) -> None:
        """Write a chunk down, and remember it."""
        self.records.append(np.hstack([rows, values]).astype("<f8").tobytes())
        self.known |= {row.tobytes(): value for row, value in zip(rows, values, strict=True)}
