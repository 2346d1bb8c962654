"""Branch and bound: upper bounds on several quantities over a box, and the largest values that points have.

Boxes whose bounds exceed what is wanted are cut in two, the worst first, until nothing is open, or the time or the
number of boxes is over. What is proved holds whenever it stops: the boxes cover the domain at every moment [T 11.1].
Points, which prove nothing, are the centres of boxes and the corners where a form is largest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..resources.deadline import Deadline
from .forms import Floats, Form


@dataclass(frozen=True)
class InputSearchTuning:
    """How boxes of inputs are cut. Enclosures hold whatever is cut."""

    most_cut: int = 16
    """Boxes are cut in domains of up to this many variables; beyond that there is no end to it. A round
    number."""
    batch: int = 2**22
    """Numbers in the largest array of a batch of boxes. For memory."""
    most_boxes: int = 2**20
    """Boxes that may wait. For memory."""
    most_together: int = 512
    """Boxes bounded together. For memory."""
    samples: int = 2048
    """Random points of the search for what is attained. A round number."""
    climbs: int = 6
    """Rounds of moving the best of them. By trial."""
    near: float = 2.0**-8
    """The share of a box around its centre on which slopes are taken. A round number."""


TUNING = InputSearchTuning()

REFUTED = "a point exceeds what was to be shown"


class SearchProblem(Protocol):
    """Quantities as functions of the inputs."""

    @property
    def quantities(self) -> int:
        """How many there are."""
        ...

    @property
    def entries(self) -> int:
        """Numbers in the largest array, for one box and one symbol."""
        ...

    def forms(self, lo: Floats, hi: Floats) -> Form:
        """Forms of the quantities on boxes (B, D): shape (Q,); the first D symbols are the coordinates."""
        ...

    def values(self, points: Floats) -> Floats:
        """The quantities at points (P, D), in float64: (P, Q)."""
        ...


Goal = Callable[[Floats, Floats], Floats]
"""From the bounds so far and the largest values found, (Q,) each: bounds that are small enough."""


@dataclass
class SearchOutcome:
    """What a search has shown."""

    bounds: Floats
    """Upper bounds on the quantities over the whole domain, (Q,)."""
    found: Floats
    """The largest values at points, (Q,)."""
    points: Floats
    """Where they are, (Q, D)."""
    worst: tuple[Floats, Floats]
    """The box with the largest bound beyond the goal, or beyond zero: lower and upper ends, (D,) each."""
    boxes: int = 0
    stopped: str = ""
    """What ended the search before the goal was met, in words."""
    history: list[tuple[int, Floats]] = field(default_factory=list)
    """Numbers of boxes, and the bounds then."""


def explore(problem: SearchProblem, lo: Floats, hi: Floats, seed: int) -> tuple[Floats, Floats]:
    """The largest values at random points and corners of a box (D,), climbed from: (Q,) and their points (Q, D)."""
    rng, size = np.random.default_rng(seed), len(lo)
    points = rng.uniform(lo, hi, (TUNING.samples, size))
    corners = rng.random((TUNING.samples // 4, size)) < 0.5
    points[: len(corners)] = np.where(corners, lo, hi)
    if size > TUNING.most_cut:
        points = np.concatenate([points, _uphill(problem, lo, hi)])
    best, places = np.full(problem.quantities, -np.inf), np.tile((lo + hi) / 2, (problem.quantities, 1))
    for climb in range(TUNING.climbs + 1):
        values = problem.values(points)  # (P, Q)
        top = np.where(np.isnan(values), -np.inf, values).argmax(axis=0)  # (Q,)
        better = values[top, np.arange(problem.quantities)] > best
        best = np.where(better, values[top, np.arange(problem.quantities)], best)
        places = np.where(better[:, None], points[top], places)
        each = max(1, TUNING.samples // (2 * problem.quantities))
        step = (hi - lo) * 0.3 * 0.4**climb
        moves = rng.normal(size=(problem.quantities, each, size)) * (rng.random((problem.quantities, each, size)) < 0.5)
        points = np.clip(places[:, None] + moves * step, lo, hi).reshape(-1, size)
    return best, places


def _uphill(problem: SearchProblem, lo: Floats, hi: Floats) -> Floats:
    """For each quantity the corner of a box (D,) that its slopes at the centre point to: random points find none."""
    centre, reach = lo / 2 + hi / 2, (hi - lo) * TUNING.near
    form = problem.forms(np.maximum(centre - reach, lo)[None], np.minimum(centre + reach, hi)[None])
    if form.terms.shape[1] < len(lo):
        return centre[None]
    slopes = form.terms[0, : len(lo)].T  # (Q, D)
    return np.where(slopes > 0, hi, np.where(slopes < 0, lo, centre))


def search(
    problem: SearchProblem,
    lo: Floats,
    hi: Floats,
    goal: Goal,
    deadline: Deadline,
    *,
    refuted: Callable[[Floats, Floats], bool] | None = None,
    most_boxes: int = TUNING.most_boxes,
    seed: int = 0,
) -> SearchOutcome:
    """Bound all quantities over the box (D,) from above, closely enough for the goal if there is time.

    `refuted` says of the largest values found (Q,) and their points (Q, D) whether the goal is out of reach.
    """
    found, places = explore(problem, lo, hi, seed)
    low, high = lo[None], hi[None]  # (N, D)
    form = problem.forms(low, high)
    bounds = form.hi  # (N, Q)
    found, places = _looked(problem, (low, high), bounds, form, found, places)
    each = max(1, form.terms.shape[1] * form.terms.shape[2] * 16, problem.entries * form.terms.shape[1])
    together = int(np.clip(TUNING.batch // each, 1, TUNING.most_together))
    smears = _smears(form, len(lo))
    closed = np.full(problem.quantities, -np.inf)
    excess = bounds
    boxes, history, stopped = 1, [(1, bounds.max(axis=0))], ""
    while len(low):
        over = np.maximum(closed, bounds.max(axis=0))
        excess = bounds - goal(over, found)  # (N, Q)
        open_ = (excess > 0).any(axis=1)
        if not open_.all():
            closed = np.maximum(closed, bounds[~open_].max(axis=0, initial=-np.inf))
            low, high, bounds, smears, excess = (each[open_] for each in (low, high, bounds, smears, excess))
        stopped = _reason(len(lo), boxes, most_boxes, deadline) if len(low) else ""
        if len(low) and refuted is not None and refuted(found, places):
            stopped = REFUTED
        if stopped or not len(low):
            break
        pick = np.argsort(-excess.max(axis=1), kind="stable")[:together]
        rest = np.ones(len(low), dtype=bool)
        rest[pick] = False
        parts = _halves(low[pick], high[pick], _axes(low[pick], high[pick], excess[pick], smears[pick], hi - lo))
        form = problem.forms(*parts)
        parents = np.concatenate([bounds[pick], bounds[pick]])
        children, influences = np.minimum(form.hi, parents), _smears(form, len(lo))
        found, places = _looked(problem, parts, children, form, found, places)
        low, high = (np.concatenate([old[rest], new]) for old, new in zip((low, high), parts, strict=True))
        bounds, smears = np.concatenate([bounds[rest], children]), np.concatenate([smears[rest], influences])
        boxes += len(children)
        history.append((boxes, np.maximum(closed, bounds.max(axis=0))))
    whole = np.maximum(closed, bounds.max(axis=0, initial=-np.inf))
    place = int(excess.max(axis=1).argmax()) if len(low) else 0
    worst = (low[place], high[place]) if len(low) else (lo, hi)
    return SearchOutcome(whole, found, places, worst, boxes, stopped, history)


def _reason(size: int, boxes: int, most_boxes: int, deadline: Deadline) -> str:
    if size > TUNING.most_cut:
        return f"domains of more than {TUNING.most_cut} variables are bounded as one box"
    if boxes >= most_boxes:
        return f"{boxes:,} boxes were bounded"
    return f"the time limit of {deadline.limit:g} s was reached" if deadline.over else ""


def _smears(form: Form, size: int) -> Floats:
    """How much each coordinate moves each quantity, as far as the forms say, (B, D, Q)."""
    if form.terms.shape[1] < size:
        return np.ones((len(form.centre), size, *form.shape))
    return np.abs(form.terms[:, :size])


def _axes(low: Floats, high: Floats, excess: Floats, smears: Floats, widths: Floats) -> npt.NDArray[np.intp]:
    """The axis to cut of each box: the one that moves the worst quantity most, among those with a middle."""
    worst = excess.argmax(axis=1)  # (B,)
    score = np.take_along_axis(smears, worst[:, None, None], axis=2)[..., 0]  # (B, D)
    score = np.where(np.isfinite(score), score, 0.0)
    share = (high - low) / np.where(widths > 0, widths, 1.0)
    score = score + score.max(axis=1, keepdims=True) * 0.05 * share + np.finfo(np.float64).tiny * share
    middle = low / 2 + high / 2
    return np.where((middle > low) & (middle < high), score, -1.0).argmax(axis=1)


def _halves(low: Floats, high: Floats, axes: npt.NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Both halves of boxes: lower ones first."""
    rows = np.arange(len(low))
    middle = (low / 2 + high / 2)[rows, axes]
    lows, highs = np.concatenate([low, low]), np.concatenate([high, high])
    highs[rows, axes] = middle
    lows[len(low) + rows, axes] = middle
    return lows, highs


def _looked(
    problem: SearchProblem,
    parts: tuple[Floats, Floats],
    bounds: Floats,
    form: Form,
    found: Floats,
    places: Floats,
) -> tuple[Floats, Floats]:
    """Points of the worst boxes: for each quantity the centre, and the corner where the form is largest."""
    low, high = parts
    worst, size = bounds.argmax(axis=0), low.shape[1]  # (Q,)
    centre = (low[worst] + high[worst]) / 2
    points = [centre]
    if form.terms.shape[1] >= size:
        signs = form.terms[worst, :size, np.arange(len(worst))]  # (Q, D)
        points.append(np.where(signs > 0, high[worst], np.where(signs < 0, low[worst], centre)))
    rows = np.clip(
        np.concatenate(points), np.tile(low[worst], (len(points), 1)), np.tile(high[worst], (len(points), 1))
    )
    values = problem.values(rows)  # (P, Q)
    top = np.where(np.isnan(values), -np.inf, values).argmax(axis=0)
    best = values[top, np.arange(len(found))]
    better = best > found
    return np.where(better, best, found), np.where(better[:, None], rows[top], places)
