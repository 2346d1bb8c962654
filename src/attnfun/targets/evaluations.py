"""Values of a function that may be expensive: no point is sampled twice, workers share them, a folder keeps them."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..arguments import made_folder
from ..errors import InputError
from ..resources.deadline import NEVER, Deadline
from ..resources.executors import TRIES, in_order
from .base import Floats
from .function_identity import NoIdentity, identity_of
from .records import Records

CHUNK = 64
"""Points that a worker is given, and that a folder keeps, at a time, at most."""
CHUNKS = 16
"""Fewer points are given where there would be fewer chunks than this."""
AGAIN = 5
"""Recorded values that are sampled again, spread over all of them."""

Cache = str | Path | tuple[str | Path, str]
"""A folder, or a folder and the name that the user gives to the function."""
ALONE = 256
"""Points in one call where there are neither workers nor a folder: such a call is not interrupted by a deadline."""

Function = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Sampling:
    """How a black box is sampled: by whom, where its values are kept, and who is told how many came in."""

    executor: Executor | None = None
    cache: Cache | None = None
    tell: Callable[[int], None] | None = None


class Evaluations:
    """A function on rows that keeps what it returned.

    >>> squares = Evaluations(lambda rows: rows**2, variables=1, outputs=1)
    >>> squares(np.array([[1.0], [2.0], [1.0]])).ravel(), squares(np.array([[2.0]])).ravel(), squares.count
    (array([1., 4., 1.]), array([4.]), 2)
    """

    def __init__(
        self,
        function: Function,
        variables: int,
        outputs: int,
        sampling: Sampling | None = None,
        name: str = "f",
        made_of: object = None,
    ) -> None:
        """`made_of` is what tells the function from others, the function itself unless given."""
        self.function, self.sampling = function, sampling or Sampling()
        self.points, self.values = np.empty((0, variables)), np.empty((0, outputs))  # (S, D), (S, m)
        self._place: dict[bytes, int] = {}
        cache = self.sampling.cache
        self._cache = None
        if cache is not None:
            path = _file(cache, name, made_of or function, variables, outputs)
            self._cache = _Cache(path, name, function, variables, outputs)

    @property
    def count(self) -> int:
        """Points sampled so far, by this object."""
        return len(self.points)

    @property
    def samples(self) -> tuple[Floats, Floats]:
        """Points and values so far, (S, D) and (S, m)."""
        return self.points, self.values

    def __call__(self, rows: Floats, deadline: Deadline = NEVER) -> Floats:
        """(B, D) -> (B, m), or TimeLimitReached."""
        rows = np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # one zero, not two
        names = [row.tobytes() for row in rows]
        new = {name: row for row, name in enumerate(names) if name not in self._place}
        if new:
            missing = rows[list(new.values())]
            sample = partial(self._sampled, deadline=deadline)
            answers = sample(missing) if self._cache is None else self._cache.values(missing, sample)
            self._place |= {name: self.count + k for k, name in enumerate(new)}
            self.points, self.values = np.vstack([self.points, missing]), np.vstack([self.values, answers])
        return self.values[[self._place[name] for name in names]]

    def _sampled(self, rows: Floats, deadline: Deadline) -> Floats:
        """Call the function in chunks, small ones where others are involved."""
        executor, sample = self.sampling.executor, partial(patiently, self.function)
        alone = executor is None and self._cache is None
        size = ALONE if alone else max(1, min(CHUNK, len(rows) // CHUNKS))
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        answers: list[Floats] = []
        for values in in_order(sample, chunks, executor, deadline=deadline):
            if self._cache is not None:
                self._cache.keep(chunks[len(answers)], values)
            answers.append(values)
            if self.sampling.tell is not None and not alone:
                self.sampling.tell(self.count + sum(map(len, answers)))
        if len(answers) < len(chunks):
            raise deadline.reached(
                "sampling the function",
                got=f"{self.count + sum(map(len, answers))} values so far, of {self.count + len(rows)} wanted by now",
                remedy="With cache= a second run goes on where this one stopped.",
            )
        return np.vstack(answers)


def patiently(function: Function, rows: Floats) -> Floats:
    """Values at rows (B, D) of a function that may fail now and then.

    Where it fails on several points it is sampled on halves of them, so that one point costs the others nothing; a
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


def parts_of(cache: Cache) -> tuple[str | Path, str | None]:
    """The folder of a cache, and the name that the user gives to the function, if any."""
    place, given = cache if isinstance(cache, tuple) and len(cache) == 2 else (cache, None)
    named = given is None or (isinstance(given, str) and re.search(r"\w", given))
    if isinstance(place, tuple) or not named:
        raise InputError('cache= must be a folder, or a pair of a folder and a name as "f-2"', got=repr(cache))
    return place, given


def _file(cache: Cache, name: str, made_of: object, variables: int, outputs: int) -> Path:
    """The file of a function's values: known by the name that the user gives, otherwise by the function itself."""
    folder, given = parts_of(cache)
    try:
        known = sha256(given.encode()).hexdigest() if given is not None else identity_of(made_of)
    except NoIdentity as reason:
        raise InputError(
            f"cache= needs a function that can be identified by its code, or a name for {name}",
            got=f"{name} uses {reason}, which cannot be compared between runs",
            remedy='Write cache=(folder, "a name"), and use another name when the function changes.',
        ) from None
    plain = re.sub(r"\W+", "-", given or name).strip("-")[:80] or "function"
    return made_folder("cache", folder) / f"{plain}-{variables}-{outputs}-{known[:24]}.values"


class _Cache:
    """Values of one function in a file.

    A function may depend on what nobody can see: several recorded values are sampled again, and must be the same.
    """

    def __init__(self, path: Path, name: str, function: Function, variables: int, outputs: int) -> None:
        self.records, self.known = Records(path), dict[bytes, Floats]()
        for data in self.records:
            if len(data) % (8 * (variables + outputs)) == 0:
                rows = np.frombuffer(data, dtype="<f8").reshape(-1, variables + outputs)
                self.known |= {row[:variables].tobytes(): row[variables:] for row in rows}
        points = [np.frombuffer(point) for point in self.known]
        spread = np.unique(np.linspace(0, len(points) - 1, AGAIN).astype(int)) if points else []
        for point in (points[k] for k in spread):
            again, value = patiently(function, point[None])[0], self.known[point.tobytes()]
            if not np.array_equal(again, value, equal_nan=True):
                raise InputError(
                    f"{self.records.path} must hold values of the function {name} as it is now",
                    got=f"{value.tolist()} at {point.tolist()}, where the function says {again.tolist()}",
                    remedy="Use another folder or name for cache=, or delete the file.",
                )

    def values(self, rows: Floats, sample: Function) -> Floats:
        """What is known, and the answers to the rest, (B, D) -> (B, m)."""
        new = np.array([row.tobytes() not in self.known for row in rows])
        if new.any():
            sample(rows[new])  # which keeps the answers
        return np.stack([self.known[row.tobytes()] for row in rows])

    def keep(self, rows: Floats, values: Floats) -> None:
        """Write a chunk down, and remember it."""
        self.records.append(np.hstack([rows, values]).astype("<f8").tobytes())
        self.known |= {row.tobytes(): value for row, value in zip(rows, values, strict=True)}
