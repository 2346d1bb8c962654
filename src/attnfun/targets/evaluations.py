"""Values of a function that may be expensive: no point is asked twice, and workers share the rest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np

from ..errors import InputError
from .base import Floats

CHUNK = 64
"""Points that a worker is given at a time."""


class Evaluations:
    """A function on rows that remembers what it said.

    >>> squares = Evaluations(lambda rows: rows**2, variables=1, outputs=1)
    >>> squares(np.array([[1.0], [2.0], [1.0]])).ravel(), squares(np.array([[2.0]])).ravel(), squares.count
    (array([1., 4., 1.]), array([4.]), 2)
    """

    def __init__(
        self, function: Callable[[Floats], Floats], variables: int, outputs: int, executor: Executor | None = None
    ) -> None:
        self.function, self.executor = function, executor
        self.points, self.values = np.empty((0, variables)), np.empty((0, outputs))  # (S, D), (S, m)
        self._place: dict[bytes, int] = {}

    @property
    def count(self) -> int:
        """Points asked so far."""
        return len(self.points)

    def __call__(self, rows: Floats) -> Floats:
        """(B, D) -> (B, m)."""
        rows = np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # one zero, not two
        names = [row.tobytes() for row in rows]
        new = {name: row for row, name in enumerate(names) if name not in self._place}
        if new:
            asked = rows[list(new.values())]
            answers = self._ask(asked)
            self._place |= {name: self.count + k for k, name in enumerate(new)}
            self.points, self.values = np.vstack([self.points, asked]), np.vstack([self.values, answers])
        return self.values[[self._place[name] for name in names]]

    def _ask(self, rows: Floats) -> Floats:
        if self.executor is None:
            return self.function(rows)
        chunks = [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]
        try:
            return np.vstack(list(self.executor.map(self.function, chunks)))
        except InputError:
            raise
        except Exception as reason:
            raise InputError(
                "the executor's workers must be able to import and call the function",
                got=f"{type(reason).__name__}: {reason}",
                remedy="Define it at the top of a module, or use a ThreadPoolExecutor.",
            ) from reason
