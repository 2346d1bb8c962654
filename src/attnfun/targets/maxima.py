"""Continuous piecewise-linear functions as affine maps and maxima, the form in which proofs look at them.

Every such function is `outputs(1, x, M)` with affine outputs and `M_g = max_j form_gj(1, x, M_1, ..., M_{g-1})`: a
rectifier is `max(0, z)`, a clip is `z + max(0, a - z) - max(0, z - b)`. x and the maxima together are the *references*:
a proof writes every feature of a network as an affine form of them, plus what it is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..interval.directed import ULP
from ..interval.forms import Forms, Frame
from .base import Floats


@dataclass(frozen=True, eq=False)
class Likeness:
    """`max_j a_j = form` up to `error`, for given forms a_j."""

    form: Forms  # ()
    error: float


@dataclass(frozen=True, eq=False)
class Maxima:
    """The maxima of a function, and its outputs."""

    groups: Forms  # (G, N): the forms of each maximum
    outputs: Forms  # (m,)
    inputs: int
    """D; references D + g are the maxima."""

    @property
    def frame(self) -> Frame:
        """Ranges of (1, x, M)."""
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
        place = 1 + self.inputs + group
        coefficients = form.coefficients.copy()
        coefficients[place] += scale
        return Forms(coefficients, form.slack + ULP * abs(coefficients[place]) * self.frame.sizes[place], self.frame)

    def _similar(self, mine: Floats) -> list[int]:
        """Groups worth a comparison: all if they are few, else the one with the most similar direction."""
        centred, norms = self._directions
        if len(norms) <= 4:
            return list(range(len(norms)))
        with np.errstate(invalid="ignore", divide="ignore"):
            likeness = np.abs(np.einsum("gv,v->g", centred[:, 0], mine[0])) / norms  # (G,)
        return [int(np.nan_to_num(likeness).argmax())]


def _distances(a: Floats, b: Floats) -> Floats:
    """Squared distances between rows, (N, N); only a hint, so plain floats will do."""
    return (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T


class References:
    """Builds `Maxima` step by step: every new maximum becomes a variable of the forms that follow."""

    def __init__(self, low: Floats, high: Floats, maxima: int) -> None:
        self.inputs = len(low)
        self.lo, self.hi = (np.concatenate([[1.0], end, np.zeros(maxima)]) for end in (low, high))
        self.groups: list[Forms] = []  # (N,) each
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
        forms = on_frame(forms, self)
        rows, slack, range_ = [], [], forms.range
        for group, pieces in enumerate(forms.coefficients):
            steps = pieces[1:] - pieces[0] + 0.0  # (N-1, 1+P); -0.0 is 0.0
            same, mirrored = self.known.get(steps.tobytes()), self.known.get((0.0 - steps).tobytes())
            if same is None and (mirrored is None or len(pieces) != 2):
                place = 1 + self.inputs + len(self.groups)
                self.lo[place], self.hi[place] = range_.lo[group].max(), range_.hi[group].max()
                self.known[steps.tobytes()] = len(self.groups)
                self.groups.append(forms[group])
                rows.append(np.eye(1, len(self.lo), place)[0])
                slack.append(0.0)
                continue
            number, other = (same, 0) if same is not None else (mirrored, 1)
            earlier = self.groups[number]  # type: ignore[index]
            rest = forms[group, other] - on_frame(earlier, self)[0]
            row = rest.coefficients.copy()
            row[1 + self.inputs + number] += 1.0  # type: ignore[operator]
            rows.append(row)
            sizes = float(forms.terms[group].max() + on_frame(earlier, self).terms.max())
            slack.append(
                float(rest.slack) + 2 * float(forms.slack[group].max() + earlier.slack.max()) + 4 * ULP * sizes
            )
        return Forms(np.array(rows), np.array(slack), self.frame)

    def finished(self, outputs: Forms) -> Maxima:
        """The function with these outputs (m,)."""
        frame, count = self.frame, len(self.groups[0].slack) if self.groups else 2
        coefficients = np.array([group.coefficients for group in self.groups]).reshape(-1, count, len(self.lo))
        slack = np.array([group.slack for group in self.groups]).reshape(-1, count)
        return Maxima(Forms(coefficients, slack, frame), on_frame(outputs, self), self.inputs)


def on_frame(forms: Forms, references: References) -> Forms:
    """The same forms once more references are known."""
    return Forms(forms.coefficients, forms.slack, references.frame)
