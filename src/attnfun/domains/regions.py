"""WHERE: the points of a box that satisfy a condition.

A certificate on such a domain holds on exactly the set that its text names. Proofs cut the enclosing box and discard
the parts that are *proved* to lie outside (by intervals), never parts that merely look empty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..arithmetic import Interval, Untraceable
from ..errors import InputError
from ..formula.agreement import refuse_disagreement, rows_of
from ..formula.functions import TRUTHS
from ..formula.parser import formula_line, parse
from ..formula.program import Program
from ..formula.tracing import traced
from .box import Box, Flags, Floats, Outside, admit_not_excluded, as_box, name_axes

COVER = 4096
"""Boxes that a region is covered with before it is sampled."""
ROUNDS = 64
"""Times that sampling is repeated before a region is given up as too thin."""


class Region(Box):
    """The points of a box that satisfy a condition.

    The condition is a text such as `"x**2 + y**2 <= 1"` in the names of the box, or a function made of NumPy operations
    that returns truth values (such a region cannot be saved).

    >>> Region("x**2 + y**2 <= 1", {"x": (-1, 1), "y": (-1, 1)})
    Region(x**2 + y**2 <= 1, in Box(x=-1:1, y=-1:1))
    """

    def __init__(self, predicate: str | Callable[[Any], Any], box: object) -> None:
        frame, text, question = _question(predicate, as_box(box))
        super().__init__(frame.lo, frame.hi, frame.names)
        object.__setattr__(self, "predicate", text if isinstance(predicate, str) else predicate)
        object.__setattr__(self, "question", question)
        if not len(self._cover[0]):
            raise InputError("a region must not be empty", got=repr(self), remedy="Change the condition or the box.")

    predicate: str | Callable[[Any], Any]
    question: Program
    fills_box = False
    kind = "region"

    def contains(self, rows: Floats) -> Flags:
        """Which rows surely satisfy the condition, rounding included."""
        answer = self.question.enclose(Interval(rows))
        return np.all((answer.lo > 0.5) & answer.defined, axis=1)

    def excludes(self, low: Floats, high: Floats) -> Flags:
        """Boxes on which the condition is false at every point."""
        return np.all(self.question.enclose(Interval(low, high)).hi < 0.5, axis=1)

    def admit(self, rows: Floats, outside: Outside) -> Floats:
        """Points that do not surely fail the condition."""
        return admit_not_excluded(self, rows, outside)

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Random points that surely belong to the region, uniform on it."""
        low, high = self._cover
        volume = np.prod(high - low, axis=1)
        found, rows = 0, []
        for _ in range(ROUNDS):
            pick = rng.choice(len(low), count, p=volume / volume.sum())
            tries = rng.uniform(low[pick], high[pick])
            rows.append(tries[self.contains(tries)])
            found += len(rows[-1])
            if found >= count:
                return np.concatenate(rows)[:count]
        if not found:
            raise InputError(
                "a region must hold points that can be found",
                got=f"none of {ROUNDS * count} in {self!r}",
                remedy="Relax the condition a little.",
            )
        return np.resize(np.concatenate(rows), (count, self.size))

    def renamed(self, names: tuple[str, ...]) -> Region:
        """The same region with named axes."""
        return Region(self.predicate, super().renamed(names))

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        if not isinstance(self.predicate, str):
            raise InputError("a region that is saved must have its condition as a text", got=repr(self.predicate))
        return {"kind": self.kind, "predicate": self.predicate, "box": super().as_dict()}

    def as_code(self, most: int) -> str | None:
        """The condition and the box, if the condition is a text."""
        return f"af.Region({self.predicate!r}, {super().as_code(most)})" if isinstance(self.predicate, str) else None

    @cached_property
    def _cover(self) -> tuple[Floats, Floats]:
        """Boxes that hold the whole region, (K, D) each."""
        low, high = super().starts()
        while len(low) and len(low) <= COVER // 2:
            axis = int(np.argmax((high - low)[0] / (self.hi - self.lo).ravel()))
            middle, left, right = (low + high)[:, axis] / 2, high.copy(), low.copy()
            left[:, axis] = right[:, axis] = middle
            if not ((low[:, axis] < middle) & (middle < high[:, axis])).all():
                break
            low, high = np.concatenate([low, right]), np.concatenate([left, high])
            kept = ~self.excludes(low, high)
            low, high = low[kept], high[kept]
        return low, high

    def __repr__(self) -> str:
        text = self.predicate if isinstance(self.predicate, str) else getattr(self.predicate, "__name__", "a function")
        return f"Region({text}, in {super().__repr__()})"


def _question(predicate: Any, frame: Box) -> tuple[Box, str, Program]:
    """The box with named axes, the condition's text or name, and its operations."""
    if isinstance(predicate, str):
        text = formula_line(predicate)
        frame = name_axes(text, frame)
        return frame, text, _condition(parse(text, frame.axes), predicate)
    return frame, *_traced(predicate, frame)


def _condition(program: Program, predicate: Any) -> Program:
    """The program, if its one output is true or false."""
    if program.is_vector or program.nodes[program.outputs[0]].kind not in TRUTHS:
        raise _no_condition(predicate)
    return program


def _traced(predicate: Any, frame: Box) -> tuple[str, Program]:
    """The operations of a Python function, which must be those that it has on points."""
    if not callable(predicate):
        raise _no_condition(predicate)
    name = str(getattr(predicate, "__name__", type(predicate).__name__))

    def values(rows: Floats) -> Floats:
        return np.asarray(predicate(frame.unflatten(rows).copy()), dtype=np.float64).reshape(len(rows), 1)

    try:
        program = _condition(traced(predicate, frame.shape, name), predicate)
        first = rows_of(frame, 1)
        refuse_disagreement(name, frame, values, program.computed, (first, values(first)))
    except Untraceable:
        raise _no_condition(predicate) from None
    return name, program


def _no_condition(predicate: Any) -> InputError:
    return InputError(
        "the condition of a region must be a comparison made of known operations",
        got=repr(predicate),
        remedy='Write it as a text: "x**2 + y**2 <= 1".',
    )
