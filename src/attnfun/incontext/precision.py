"""What the learners choose by the number format: how small scores are, how many steps pay, what counts as converged.

Truncation wants small scores and steps, rounding wants large ones. Where the best is known, it is a formula of the
unit roundoff. The others were found by experiment in float64 and float32 and are written with `level`, 7 in float64
and 3 in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..arguments import one_of
from ..arithmetic.formats import FORMATS, Format
from ..errors import InputError, shown

HEADS = 4
"""Heads of a read-out."""


@dataclass(frozen=True)
class Precision:
    """The choices for one format."""

    format: Format

    @property
    def unit(self) -> float:
        """Unit roundoff."""
        return self.format.unit

    @cached_property
    def level(self) -> int:
        """How fine the format is, in sevenths of its bits."""
        return self.format.bits // 7

    @property
    def heads(self) -> int:
        """Heads of a read-out."""
        return HEADS

    @property
    def reach(self) -> float:
        """Largest score t of a read-out between state rows: truncation, about t^(2 HEADS), is as large as u/t."""
        return 2.0 ** (-self.format.bits // (2 * HEADS + 1))

    @property
    def data_reach(self) -> float:
        """Largest score of a read-out that involves examples, met only at the most outlying ones."""
        return 2.0 ** (2 - self.level)

    @property
    def lead(self) -> float:
        """Lead of a row's own copy; scores of a bank that is not odd must stay below half of it, by more than TOP."""
        return 2.0 ** (self.level + 5)

    @property
    def step(self) -> float:
        """Step h of the differences that make second derivatives."""
        return 2.0 ** -(self.level + 3)

    @property
    def derivative(self) -> float:
        """How close the derivative of a loss that is given as a formula is computed."""
        return 10.0 ** ((3 - 5 * self.level) / 4)

    @property
    def doublings(self) -> int:
        """Doublings of an inverse by default."""
        return 3 * self.level + 7

    @property
    def most_doublings(self) -> int:
        """More are refused: V doubles with every step and the rounding of its products with it, until nothing else is
        left."""
        return 5 * self.level + 5

    @property
    def least_eigenvalue(self) -> float:
        """Eigenvalues, relative to c, that are inverted in full; smaller ones would not survive rounding."""
        return 2.0 ** -(self.format.bits // 3 + 5)

    @property
    def peak(self) -> tuple[float, float]:
        """Sharpness S of the softmax that finds the largest z, and the lead of the rows among which it looks."""
        return 2.0 ** (self.level // 2 + 3), 2.0 ** (self.level + 11)

    @property
    def least_weight(self) -> float:
        """Base-two logarithm of the last weight of a proximal step."""
        return 3.0 - 3 * self.level

    @property
    def gate(self) -> tuple[float, float]:
        """Sharpness R of a gate, and the lead of a row's own score over those of other rows."""
        return 2.0 ** (6 * self.level - 6), 2.0 ** (6 * self.level + 4)

    @property
    def settled(self) -> float:
        """Change of coefficients in the last step, relative to the largest, up to which they count as converged."""
        return 10.0 ** -(self.format.bits // 8)


LEARNERS = tuple(name for name, each in FORMATS.items() if not each.store)
"""Formats of learners: kernels store results as finely as they add."""


def precision_of(dtype: str) -> Precision:
    """The choices for a format; formats in which results are stored coarsely are refused."""
    given = FORMATS.get(dtype) if isinstance(dtype, str) else None
    if given is not None and given.store:
        raise InputError(
            f"dtype of a learner in context must be one of {', '.join(LEARNERS)}: its layers divide differences of "
            f"stored numbers by small scores, step after step, and kernels store {given.bits} bits of them in {dtype}",
            got=shown(dtype),
            remedy='Write dtype="float32", which holds examples of coarser formats exactly.',
        )
    one_of("dtype", dtype, LEARNERS)
    return Precision(FORMATS[dtype])
