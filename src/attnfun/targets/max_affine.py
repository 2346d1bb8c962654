"""Maxima of affine functions, and differences of two of them, as targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import instance, real_array
from ..arithmetic import Interval
from ..arithmetic.directed import dot_up, sum_up
from ..arithmetic.forms import Forms
from ..domains.box import WIDEST, Box
from ..errors import InputError, counted
from ..formula.maxima import Maxima, References, on_frame
from .base import Floats, Status, Target
from .piecewise import Family


class MaxAffine(Family):
    """`f(x) = max_j (A_j · x + b_j)`; minus another one for a difference of convex functions.

    >>> f = MaxAffine([[1.0], [-1.0]], [0.0, 0.0])
    >>> f([[-2.0], [0.5]]), (f - MaxAffine([[2.0], [0.0]], [-1.0, 0.0]))([[1.0]])
    (array([2. , 0.5]), array([0.]))
    """

    def __init__(self, A: npt.ArrayLike, b: npt.ArrayLike, minus: MaxAffine | None = None) -> None:
        self.A, self.b = np.array(real_array("A", A, most=WIDEST)), np.array(real_array("b", b, most=WIDEST))
        self.minus = instance("minus", minus, MaxAffine, "another af.MaxAffine")
        if self.A.ndim != 2 or self.b.shape != self.A.shape[:1] or self.A.size == 0:
            raise InputError("a max-affine function needs A (N, D) and b (N,)", got=f"{self.A.shape}, {self.b.shape}")
        if minus is not None and (minus.minus is not None or minus.A.shape[1] != self.A.shape[1]):
            raise InputError(
                "only a plain max-affine function of the same variables can be subtracted", got=repr(minus)
            )

    def __call__(self, x: npt.ArrayLike) -> Floats:
        """Evaluate in float64, (..., D) -> (...)."""
        points, size = real_array("points", x), self.A.shape[1]
        if points.shape[-1:] != (size,):
            raise InputError(f"points must have shape (..., {size})", got=points.shape)
        value = (points @ self.A.T + self.b).max(axis=-1)
        return value if self.minus is None else value - self.minus(points)

    def __sub__(self, other: MaxAffine) -> MaxAffine:
        if self.minus is not None:
            raise InputError("only one max-affine function can be subtracted", got=repr(self))
        return MaxAffine(self.A, self.b, other) if isinstance(other, MaxAffine) else NotImplemented

    @property
    def parts(self) -> list[MaxAffine]:
        """The function itself, and the one subtracted from it."""
        return [self] if self.minus is None else [self, self.minus]

    def on(self, domain: Box) -> MaxAffineTarget:
        """The target on a box of D variables."""
        if domain.size != self.A.shape[1]:
            raise InputError(
                f"the domain must have {counted(self.A.shape[1], 'variable')}, one for each column of A", got=domain
            )
        return MaxAffineTarget(self, domain)

    def __repr__(self) -> str:
        return f"MaxAffine({' - '.join(f'{part.A.shape[0]} planes' for part in self.parts)} in {self.A.shape[1]}-D)"


class MaxAffineTarget(Target):
    """A max-affine function, or a difference of two, on a domain."""

    family: MaxAffine
    name: str
    status = Status.PROVED
    kind = "max-affine"
    output_shape = ()

    @property
    def continuous(self) -> bool:
        """Yes."""
        return True

    def __init__(self, family: MaxAffine, domain: Box) -> None:
        vars(self).update(family=family, domain=domain, name=repr(family))

    def tables(self) -> Floats:
        """Coefficients (A_j, b_j) of each part; a part with fewer planes repeats its last one, (G, N, D+1)."""
        tables = [np.hstack([part.A, part.b[:, None]]) for part in self.family.parts]
        longest = max(len(table) for table in tables)
        return np.stack([table[np.minimum(np.arange(longest), len(table) - 1)] for table in tables])

    def values(self, rows: Floats) -> Floats:
        """Evaluate in float64."""
        return self.family(rows)[:, None]

    def enclose(self, boxes: Interval) -> Interval:
        """Evaluate on intervals."""
        ends = []
        for part in self.family.parts:
            planes = boxes @ part.A.T + part.b
            ends.append(Interval(planes.lo.max(axis=1, keepdims=True), planes.hi.max(axis=1, keepdims=True)))
        return ends[0] if len(ends) == 1 else ends[0] - ends[1]

    def maxima(self) -> Maxima:
        """One maximum for each part."""
        tables = self.tables()
        references = References(self.domain.lo.ravel(), self.domain.hi.ravel(), len(tables))
        coefficients = np.zeros((*tables.shape[:2], len(references.lo)))
        coefficients[..., 0], coefficients[..., 1 : tables.shape[2]] = tables[..., -1], tables[..., :-1]
        new = references.maximum(Forms.exact(coefficients, references.frame))  # (G,)
        signs = np.array([[1.0], [-1.0]])[: len(tables)]
        return references.finished(on_frame(new, references).mapped(signs, np.zeros(1)))

    def modulus(self, distances: Floats) -> Floats:
        """A maximum moves by no more than its steepest plane, a difference by no more than both parts."""
        steps = [dot_up(distances, np.abs(part.A).T).max(axis=1) for part in self.family.parts]  # (P,)
        return sum_up(np.stack(steps, axis=1), axis=1, keepdims=True)  # (P, 1)

    def as_dict(self) -> dict[str, Any]:
        """Kind and name; the planes are in `arrays`."""
        return {"kind": self.kind, "name": self.name}

    def arrays(self) -> dict[str, Floats]:
        """The planes of both parts."""
        named = zip(("", "minus."), self.family.parts, strict=False)
        return {f"{prefix}{name}": getattr(part, name) for prefix, part in named for name in ("A", "b")}

    @classmethod
    def restored(
        cls, description: dict[str, Any], arrays: dict[str, Floats], domain: Box, output_shape: tuple[int, ...]
    ) -> MaxAffineTarget:
        """The target of a saved network."""
        del description, output_shape
        minus = MaxAffine(arrays["minus.A"], arrays["minus.b"]) if "minus.A" in arrays else None
        return MaxAffine(arrays["A"], arrays["b"], minus).on(domain)

    def __repr__(self) -> str:
        return f"{self.name} on {self.domain!r}"
