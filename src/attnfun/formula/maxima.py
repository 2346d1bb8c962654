"""Continuous piecewise-linear functions as affine maps and maxima, the form in which proofs look at them.

Every such function is `outputs(1, x, M)` with affine outputs and `M_g = max_j form_gj(1, x, M_1, ..., M_{g-1})`: a
rectifier is `max(0, z)`, a clip is `z + max(0, a - z) - max(0, z - b)`. x and the maxima together are the *references*:
a proof writes every feature of a network as an affine form of them, plus what it is off.

Where one form of a maximum leads everywhere, or but for a little, the network may read that form alone. So that both
ways of writing are one, such a maximum is `lead + r`, and the reference is r, which is (nearly) zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from ..arithmetic.directed import rounded_up, sum_error
from ..arithmetic.forms import Forms, Frame
from .program import Floats


@dataclass(frozen=True)
class MaximaTuning:
    """When forms lead, and how many maxima are compared."""

    little: float = 1e-3
    """A form leads a maximum if no other exceeds it by more than this fraction of the maximum's range. A round
    number."""
    closest: int = 4
    """Maxima of the function that are compared with one of the network. For time."""


TUNING = MaximaTuning()


class Reference(Protocol):
    """What proofs need of references: how many variables come first, their ranges, and which of them is a maximum."""

    @property
    def inputs(self) -> int:
        """Number of variables of the function."""
        ...

    @property
    def frame(self) -> Frame:
        """Ranges of the references."""
        ...

    def like(self, forms: Forms) -> Likeness | None:
        """The maximum of forms (N,) as a form of the references; None if none of them is a maximum."""
        ...


@dataclass(frozen=True, eq=False)
class Likeness:
    """`max_j a_j = form` up to `error`, for given forms a_j."""

    form: Forms  # ()
    error: float


@dataclass(frozen=True, eq=False)
class Maxima:
    """The maxima of a function, and its outputs."""

    groups: Forms  # (G, N): the forms of each maximum
    leads: Forms  # (G,): each maximum is its lead, which may be zero, and a reference
    outputs: Forms  # (m,)
    inputs: int
    """D; references D + g belong to the maxima."""

    @property
    def frame(self) -> Frame:
        """Ranges of (1, x, r)."""
        return self.outputs.frame

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        """Each group about its mean, weighted by the sizes of the references and flattened, with its norm."""
        table = self.groups.coefficients  # (G, N, 1+P)
        centred = (table - table.mean(axis=1, keepdims=True)) * self.frame.sizes
        return centred, np.sqrt((centred**2).sum(axis=(1, 2)))  # (G, N, 1+P), (G,)

    def like(self, forms: Forms) -> Likeness:
        """The maximum of forms (N,) through the most similar maximum of the function, whatever that is worth.

        Any choice of group g, scale c > 0, form ρ and assignments π, σ is sound: if `|a_j - c s_π(j) - ρ| <= e` for j
        and `|a_σ(k) - c s_k - ρ| <= e` for all k, then `|max_j a_j - c M_g - ρ| <= e`. The choice only makes e small.
        """
        best = Likeness(forms[0], float(np.maximum((forms - forms[:1]).range.hi.max(), 0.0)))  # a_0 is the largest
        if self.groups.slack.shape[1] != len(forms.slack):
            return best
        centred, norms = self._directions
        mine = (forms.coefficients - forms.coefficients.mean(axis=0)) * self.frame.sizes  # (N, 1+P)
        norm = float(np.sqrt((mine**2).sum()))
        for group in self._similar(mine) if norm > 0 else []:
            if norms[group] == 0:
                continue
            scale = norm / float(norms[group])
            apart = _distances(mine, scale * centred[group])  # (N, N)
            theirs = self.groups[group].scaled(np.full(len(mine), scale))
            rest = forms[:1] - theirs[apart[0].argmin()][None]  # (1,)
            both = [forms - theirs[apart.argmin(axis=1)], forms[apart.argmin(axis=0)] - theirs]
            error = float((Forms.join(both) - rest).size.max())
            if error < best.error:
                best = Likeness(self._plus(rest[0], group, scale), error)
        return best

    def _plus(self, form: Forms, group: int, scale: float) -> Forms:
        """`form + scale * M_group`."""
        return form + _with_reference(self.leads[group], 1 + self.inputs + group).scaled(scale)

    def _similar(self, mine: Floats) -> list[int]:
        """The few groups with the most similar directions."""
        centred, norms = self._directions
        likeness = np.abs(centred[:, 0] @ mine[0]) / np.where(norms > 0, norms, np.inf)  # (G,)
        return np.argsort(-np.nan_to_num(likeness), kind="stable")[: TUNING.closest].tolist()


def _with_reference(lead: Forms, place: int) -> Forms:
    """`lead + r`, r the reference at a place of its own."""
    coefficients = lead.coefficients.copy()
    coefficients[place] = 1.0
    return Forms(coefficients, lead.slack, lead.frame)


def _distances(a: Floats, b: Floats) -> Floats:
    """Squared distances between rows, (N, N); only a hint, so plain floats will do."""
    return (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T


class References:
    """Builds `Maxima` step by step: every new maximum becomes a variable of the forms that follow."""

    def __init__(self, low: Floats, high: Floats, maxima: int) -> None:
        self.inputs = len(low)
        self.lo, self.hi = (np.concatenate([[1.0], end, np.zeros(maxima)]) for end in (low, high))
        self.groups: list[Forms] = []  # (N,) each
        self.leads: list[Forms] = []  # () each
        self.known: dict[bytes, int] = {}

    @property
    def frame(self) -> Frame:
        """Ranges known so far; maxima to come are unused and stand as zeros."""
        return Frame(self.lo.copy(), self.hi.copy())

    def variables(self) -> Forms:
        """The inputs x, (D,)."""
        return Forms.exact(np.eye(self.inputs, len(self.lo), 1), self.frame)

    def maximum(self, forms: Forms) -> Forms:
        """`max_j forms[g, j]` for each g, (G, N) -> (G,), as new references where no earlier one will do.

        References must be few, as proofs take them for independent: with `d = b - a`, `max(a, b)` is `a + max(0, d)`
        or `b + max(0, -d)`, so a pair whose d or -d was met before is an affine form of the earlier reference.
        """
        found = []
        for pieces in (on_frame(forms, self)[group] for group in range(len(forms.slack))):
            steps = pieces.coefficients[1:] - pieces.coefficients[0] + 0.0  # (N-1, 1+P); -0.0 is 0.0
            same, mirrored = self.known.get(steps.tobytes()), self.known.get((0.0 - steps).tobytes())
            if same is not None:
                found.append(self._from_earlier(pieces, same, 0))
            elif mirrored is not None and len(pieces.slack) == 2:
                found.append(self._from_earlier(pieces, mirrored, 1))
            else:
                self.known[steps.tobytes()] = len(self.groups)
                found.append(self._new(pieces))
        slack = np.array([float(form.slack) for form in found])
        return Forms(np.array([form.coefficients for form in found]), slack, self.frame)

    def _new(self, pieces: Forms) -> Forms:
        """A reference r with `max = lead + r`; forms (N,) -> ().

        Let the largest exceed form k by at most `gap`. If that is little, the lead is form k as written, without its
        slack, so that r is in `[-slack_k, gap]`; otherwise r is the maximum itself.
        """
        place = 1 + self.inputs + len(self.groups)
        range_ = pieces.range
        first = int(range_.lo.argmax())
        low, high = float(range_.lo.max()), float(range_.hi.max())
        gap = max(float((pieces - pieces[first : first + 1]).range.hi.max()), 0.0)
        leading = gap <= TUNING.little * (high - low)
        lead = Forms.exact(pieces.coefficients[first] * leading, pieces.frame)  # ()
        self.lo[place], self.hi[place] = (-float(pieces.slack[first]), gap) if leading else (low, high)
        self.groups.append(pieces)
        self.leads.append(lead)
        return _with_reference(lead, place)

    def _from_earlier(self, pieces: Forms, number: int, other: int) -> Forms:
        """The maximum of forms (2,) or (N,) that differ from those of an earlier maximum by one form; ()."""
        earlier = on_frame(self.groups[number], self)
        maximum = _with_reference(on_frame(self.leads[number], self), 1 + self.inputs + number)
        total = pieces[other] - earlier[0] + maximum
        apart = 2 * float(pieces.slack.max() + earlier.slack.max())
        apart += sum_error(float(pieces.terms.max() + earlier.terms.max()), 4)
        return Forms(total.coefficients, rounded_up(total.slack + apart, 4), self.frame)

    def finished(self, outputs: Forms) -> Maxima:
        """The function with these outputs (m,)."""
        frame, count = self.frame, len(self.groups[0].slack) if self.groups else 2
        coefficients = np.array([group.coefficients for group in self.groups]).reshape(-1, count, len(self.lo))
        slack = np.array([group.slack for group in self.groups]).reshape(-1, count)
        leads = np.array([lead.coefficients for lead in self.leads]).reshape(-1, len(self.lo))
        groups, exact = Forms(coefficients, slack, frame), Forms.exact(leads, frame)
        return Maxima(groups, exact, on_frame(outputs, self), self.inputs)


def on_frame(forms: Forms, references: References) -> Forms:
    """The same forms once more references are known."""
    return Forms(forms.coefficients, forms.slack, references.frame)
