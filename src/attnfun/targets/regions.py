"""WHERE, beyond boxes: clouds of points and compact sets described by a condition, each inside an enclosing box.

A certificate on such a domain holds on exactly the set that its text names. Proofs cut the enclosing box and discard
the parts that are *proved* to lie outside (by intervals, by distances), never parts that merely look empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number
from ..arithmetic import Interval, directed
from ..arithmetic.directed import above, below, norm_up, rounded_down, rounded_up, with_room
from ..domain import WIDEST, Box, Flags, Floats, Outside, as_box
from ..errors import InputError
from .base import Status, Target
from .expression import Expression
from .operations import TRUTHS

COVER = 4096
"""Boxes that a region is covered with before it is sampled."""
ROUNDS = 64
"""Times that sampling is repeated before a region is given up as too thin."""
FEW = 8
"""Roundings of a distance beside one for each coordinate."""


class Points(Box):
    """A cloud of points, or everything within the distance `fill` of one of them.

    `points` has the shape (S,), (S, D) or (S, n, d). Without `fill` a certificate holds at these points only. If the
    cloud stands for a set that it fills up to a distance (its fill radius), say so, and the certificate covers the set.

    >>> cloud = Points([[0.0, 0.0], [1.0, 2.0]], fill=0.5, names=("x", "y"))
    >>> cloud, cloud.contains(np.array([[0.3, 0.3], [0.5, 0.5]]))
    (Points(2 points in x, y and all within 0.5), array([ True, False]))
    """

    def __init__(self, points: npt.ArrayLike, fill: float = 0.0, names: Sequence[str] | None = None) -> None:
        cloud = np.array(real_array("points", points, most=WIDEST))
        if cloud.ndim not in (1, 2, 3) or not cloud.size:
            raise InputError("points must be finite numbers of shape (S,), (S, D) or (S, n, d)", got=cloud.shape)
        fill = real_number("fill, a distance,", fill, least=0.0, most=WIDEST)
        low, high = directed.add(cloud.min(axis=0), -fill)[0], directed.add(cloud.max(axis=0), fill)[1]
        flat = np.where(low == high, 0.5, 0.0)
        super().__init__(low - flat, high + flat, names)
        cloud.setflags(write=False)
        object.__setattr__(self, "points", cloud.reshape(len(cloud), -1))  # (S, D)
        object.__setattr__(self, "fill", fill)

    points: Floats
    fill: float

    def starts(self) -> tuple[Floats, Floats]:
        """The points themselves, or a cube around each."""
        if self.fill == 0:
            return self.points, self.points
        return below(self.points - self.fill), above(self.points + self.fill)

    def contains(self, rows: Floats) -> Flags:
        """Which rows surely belong to the set."""
        distance, _ = self.tree.query(rows)
        return (distance == 0) if self.fill == 0 else (rounded_up(distance, self.size + FEW) + self._grain <= self.fill)

    def excludes(self, low: Floats, high: Floats) -> Flags:
        """Boxes whose centre is farther from every point than half their diagonal and the fill."""
        distance, _ = self.tree.query(low / 2 + high / 2)
        diagonal = norm_up(high - low, axis=1) / 2
        return rounded_down(distance, self.size + FEW) > rounded_up(diagonal + self.fill, FEW) + self._grain

    def admit(self, rows: Floats, outside: Outside) -> Floats:
        """Points of the cloud or within its fill."""
        rows = _admit_inside_box(self, rows, outside)
        if outside == "raise":
            distance, _ = self.tree.query(rows)
            _refuse_first(
                distance > (with_room(self.fill) + self._grain if self.fill else 0.0),
                rows,
                f"points must be those of {self!r}",
            )
        return rows

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Random points of the cloud, moved by less than the fill."""
        rows = self.points[rng.integers(0, len(self.points), count)]
        move = rng.normal(size=rows.shape)
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-300)
        inside = rounded_down(max(self.fill - 2 * self._grain, 0.0), 2 * (self.size + FEW))
        reach = inside * rng.uniform(size=(count, 1)) ** (1 / self.size)
        return rows + move / length * reach if self.fill else rows

    def renamed(self, names: tuple[str, ...]) -> Points:
        """The same cloud with named axes."""
        return Points(self.points, self.fill, names)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        shape = self.points.reshape(-1, *self.shape)
        names = None if self.names is None else list(self.names)
        return {"kind": "points", "points": shape.tolist(), "fill": self.fill, "names": names}

    @cached_property
    def _grain(self) -> float:
        """More than rounding can change in a distance."""
        return 64 * self.size * float(np.spacing(np.maximum(np.abs(self.lo), np.abs(self.hi)).max()))

    @cached_property
    def tree(self) -> Any:
        """A k-d tree of the points."""
        from scipy.spatial import KDTree

        return KDTree(self.points)

    def __repr__(self) -> str:
        within = f" and all within {self.fill:g}" if self.fill else ""
        return f"Points({len(self.points)} points in {', '.join(self.shown_axes)}{within})"


class Region(Box):
    """The points of a box that satisfy a condition.

    The condition is a text such as `"x**2 + y**2 <= 1"` in the names of the box, or a function made of NumPy operations
    that returns truth values (such a region cannot be saved).

    >>> Region("x**2 + y**2 <= 1", {"x": (-1, 1), "y": (-1, 1)})
    Region(x**2 + y**2 <= 1, in Box(x=-1:1, y=-1:1))
    """

    def __init__(self, predicate: str | Callable[[Any], Any], box: object) -> None:
        frame = as_box(box)
        question = _question(predicate, frame)
        frame = question.domain
        super().__init__(frame.lo, frame.hi, frame.names)
        object.__setattr__(self, "predicate", question.text if isinstance(question, Expression) else predicate)
        object.__setattr__(self, "question", question)
        if not len(self._cover[0]):
            raise InputError("a region must not be empty", got=repr(self), remedy="Change the condition or the box.")

    predicate: str | Callable[[Any], Any]
    question: Target

    def contains(self, rows: Floats) -> Flags:
        """Which rows surely satisfy the condition, rounding included."""
        answer = self.question.enclose(Interval(rows))
        return np.all((answer.lo > 0.5) & answer.defined, axis=1)

    def excludes(self, low: Floats, high: Floats) -> Flags:
        """Boxes on which the condition is false at every point."""
        return np.all(self.question.enclose(Interval(low, high)).hi < 0.5, axis=1)

    def admit(self, rows: Floats, outside: Outside) -> Floats:
        """Points that do not surely fail the condition."""
        rows = _admit_inside_box(self, rows, outside)
        if outside == "raise":
            _refuse_first(self.excludes(rows, rows), rows, f"points must lie in {self!r}")
        return rows

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
            raise InputError("a region can be saved if its condition is a text", got=repr(self.predicate))
        return {"kind": "region", "predicate": self.predicate, "box": super().as_dict()}

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


def restore_domain(data: dict[str, Any]) -> Box:
    """The domain from its description."""
    match data.get("kind"):
        case "points":
            return Points(data["points"], data["fill"], data["names"])
        case "region":
            return Region(data["predicate"], restore_domain(data["box"]))
        case None:
            return Box(data["lo"], data["hi"], data["names"])
        case kind:
            raise InputError("a domain must be a box, a region or points", got=repr(kind))


def _question(predicate: Any, frame: Box) -> Target:
    """The condition as a target with the values 0 and 1."""
    from . import as_target

    question = as_target(predicate, frame)
    if isinstance(question, Expression):
        truth = (
            len(question.program.outputs) == 1 and question.program.nodes[question.program.outputs[0]].kind in TRUTHS
        )
    else:
        truth = question.output_shape == ()
        if truth and question.status is Status.PROVED:
            answers = question.enclose(Interval(frame.sample(16, np.random.default_rng(0))))
            truth = bool(np.isin([answers.lo, answers.hi], (0.0, 1.0)).all())
    if not truth or question.status is not Status.PROVED:
        raise InputError(
            "the condition of a region must be a comparison made of known operations",
            got=repr(predicate),
            remedy='Write it as a text: "x**2 + y**2 <= 1".',
        )
    return question


def _admit_inside_box(domain: Box, rows: Floats, outside: Outside) -> Floats:
    if outside == "clip":
        raise InputError(
            'outside="clip" needs a box', got=repr(domain), remedy='Use outside="raise" or outside="allow".'
        )
    return Box.admit(domain, rows, outside)


def _refuse_first(beyond: Flags, rows: Floats, constraint: str) -> None:
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise InputError(
            constraint,
            got=f"{rows[row].tolist()} (point {row})",
            remedy='The certificate says nothing there; pass outside="allow".',
        )
