"""Functions made of others: side by side, and one of the other.

>>> from .expression import Expression
>>> square, shift = Expression("u*u", Box(0, 4)), Expression("x + 1", Box(0, 1))
>>> Composed(square, shift).values(np.array([[0.5]]))
array([[2.25]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arithmetic import Interval, Jet, join
from ..arithmetic.jets import join as join_jets
from ..domains.box import Box
from .base import Floats, Status, Target


def joined(lines: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Assumptions of several parts, each once."""
    return tuple(dict.fromkeys(line for part in lines for line in part))


class Stacked(Target):
    """The values of several functions of one variable point, one after the other."""

    parts: tuple[Target, ...]
    kind = "stacked"

    def __init__(self, parts: Sequence[Target], domain: Box) -> None:
        vars(self).update(
            parts=tuple(parts),
            domain=domain,
            output_shape=(sum(part.outputs for part in parts),),
            status=Status.weakest(part.status for part in parts),
            assumptions=joined([part.assumptions for part in parts]),
            evaluable=all(part.evaluable for part in parts),
            enclosable=all(part.enclosable for part in parts),
        )

    @property
    def continuous(self) -> bool:
        """If all parts are."""
        return all(part.continuous for part in self.parts)

    def values(self, rows: Floats) -> Floats:
        """(B, D) -> (B, m), m over all parts."""
        return np.hstack([part.values(rows) for part in self.parts])

    def enclose(self, boxes: Interval) -> Interval:
        """Each on the same boxes."""
        return join([part.enclose(boxes) for part in self.parts], axis=1)

    def jets(self, variables: Jet) -> Jet | None:
        """Each at the same series."""
        each = [series for part in self.parts if (series := part.jets(variables)) is not None]
        return join_jets(each, axis=1) if len(each) == len(self.parts) else None

    def modulus(self, distances: Floats) -> Floats | None:
        """Each for itself."""
        each = [known for part in self.parts if (known := part.modulus(distances)) is not None]
        return np.hstack(each) if len(each) == len(self.parts) else None

    def observed(self) -> Stacked:
        """All parts with their values by now."""
        return Stacked([part.observed() for part in self.parts], self.domain)

    def contradiction(self, point: Floats) -> str:
        """The first one of a part."""
        return next(filter(None, (part.contradiction(point) for part in self.parts)), "")

    def as_dict(self) -> dict[str, Any]:
        """The kind and what it is made of; the parts are saved with their certificates."""
        return {"kind": self.kind, "name": f"[{', '.join(name_of(part) for part in self.parts)}]"}

    def identity(self) -> Any:
        """That of all parts."""
        each = [part.identity() for part in self.parts]
        return None if None in each else [self.kind, each]


class Composed(Target):
    """`outer(inner(x))`; the values of the inner function, row by row, are points of the outer one's domain."""

    outer: Target
    inner: Target
    name: str
    kind = "composed"

    def __init__(
        self, outer: Target, inner: Target, name: str = "", output_shape: tuple[int, ...] | None = None
    ) -> None:
        vars(self).update(
            outer=outer,
            inner=inner,
            domain=inner.domain,
            output_shape=outer.output_shape if output_shape is None else output_shape,
            status=Status.weakest([outer.status, inner.status]),
            assumptions=joined([inner.assumptions, outer.assumptions]),
            evaluable=outer.evaluable and inner.evaluable,
            enclosable=outer.enclosable and inner.enclosable,
            name=name or f"{name_of(outer)} of {name_of(inner)}",
        )

    @property
    def continuous(self) -> bool:
        """If both are."""
        return self.outer.continuous and self.inner.continuous

    def values(self, rows: Floats) -> Floats:
        """(B, D) -> (B, m)."""
        return self.outer.values(self.inner.values(rows))

    def enclose(self, boxes: Interval) -> Interval:
        """The outer function on enclosures of the inner one, within the outer domain.

        What may lie outside of it, where the outer function need not be defined, is not counted as defined.
        """
        range_ = self.inner.enclose(boxes)  # (B, k)
        low, high = (end.reshape(1, -1) for end in (self.outer.domain.lo, self.outer.domain.hi))
        inside = ((range_.lo >= low) & (range_.hi <= high) & range_.defined).all(axis=1, keepdims=True)
        clipped = Interval(np.clip(range_.lo, low, high), np.clip(range_.hi, low, high))
        values = self.outer.enclose(clipped)
        return Interval(values.lo, values.hi, values.defined & inside)

    def jets(self, variables: Jet) -> Jet | None:
        """Series of series."""
        inner = self.inner.jets(variables)
        return None if inner is None else self.outer.jets(inner)

    def modulus(self, distances: Floats) -> Floats | None:
        """One modulus of the other."""
        inner = self.inner.modulus(distances)
        return None if inner is None else self.outer.modulus(inner)

    def observed(self) -> Composed:
        """Both with their values by now."""
        return Composed(self.outer.observed(), self.inner.observed(), self.name, self.output_shape)

    def contradiction(self, point: Floats) -> str:
        """One of the inner function, or of the outer one at the value of the inner one."""
        value = self.inner.enclose(Interval(point[None])).mid[0]  # (k,)
        return self.inner.contradiction(point) or self.outer.contradiction(value)

    def as_dict(self) -> dict[str, Any]:
        """The kind and what it is made of; the parts are saved with their certificates."""
        return {"kind": self.kind, "name": self.name}

    def identity(self) -> Any:
        """That of both."""
        outer, inner = self.outer.identity(), self.inner.identity()
        return None if outer is None or inner is None else [self.kind, outer, self.outer.domain.as_dict(), inner]


def combined(
    description: dict[str, Any], parts: Sequence[Target], domain: Box, output_shape: tuple[int, ...]
) -> Target:
    """The target made of others, outermost first, from its description; a single part is restricted to the domain."""
    if description["kind"] == Stacked.kind:
        return Stacked(parts, domain)
    if description["kind"] == Composed.kind:
        outer, inner = parts
        return Composed(outer, inner, description["name"], output_shape)
    return parts[0].observed().restricted(domain)


def name_of(target: Target) -> str:
    """A target in a few words."""
    text = target.as_dict()
    return str(text.get("text", text.get("name", text["kind"])))
