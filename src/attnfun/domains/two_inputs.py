"""WHERE: two inputs of their own shapes, as one box of all their coordinates, those of the first input first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import is_word, real_array
from ..errors import InputError, shown
from .box import Box, Floats


class TwoInputs(Box):
    """The pairs (Q, K) of points of two boxes.

    Coordinates have the names that a box gives them; without names they are called after the input: `Q` for a number,
    `Q0`, `Q1`, ... for a vector, `Q0_1` for feature 1 of token 0 of a sequence.

    >>> both = TwoInputs({"Q": Box([[0, 0]], [[1, 1]]), "K": Box([-1], [1], names=["k"])})
    >>> both.axes, both.joined([[[0.1, 0.2]], [[0.3, 0.4]]], [0.5]).tolist()
    (('Q0_0', 'Q0_1', 'k'), [[0.1, 0.2, 0.5], [0.3, 0.4, 0.5]])
    """

    kind: ClassVar[str] = "two inputs"
    inputs: dict[str, Box]

    def __init__(self, inputs: Mapping[str, Box]) -> None:
        named = all(isinstance(name, str) and is_word(name) for name in inputs)
        boxes = list(inputs.values())
        if len(boxes) != 2 or not named or any(box.kind != Box.kind for box in boxes):
            raise InputError(
                "a domain of several inputs must be two boxes, each with a name of one word",
                got=shown(inputs),
                remedy='Write domain={"Q": af.Box(...), "K": af.Box(...)}.',
            )
        names = tuple(axis for name, box in inputs.items() for axis in _axes(name, box))
        if len(set(names)) != len(names):
            raise InputError(
                "the coordinates of two inputs must have different names",
                got=", ".join(names),
                remedy="Name the axes of the two boxes differently.",
            )
        low, high = (np.concatenate([getattr(box, end).ravel() for box in boxes]) for end in ("lo", "hi"))
        super().__init__(low, high, names)
        object.__setattr__(self, "inputs", dict(inputs))

    @property
    def first_size(self) -> int:
        """Coordinates of the first input."""
        return next(iter(self.inputs.values())).size

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of one point of each input."""
        return {name: box.shape for name, box in self.inputs.items()}

    def separate(self, points: Any) -> list[Any]:
        """Joined points (..., D), arrays of any kind, as those of the two inputs, (..., *shape) each."""
        lead, parts, start = points.shape[:-1], list[Any](), 0
        for box in self.inputs.values():
            parts.append(points[..., start : start + box.size].reshape((*lead, *box.shape)))
            start += box.size
        return parts

    def joined(self, *given: npt.ArrayLike) -> Floats:
        """Points of the two inputs, (..., *shape) each, as joined points (..., D); leading axes are broadcast."""
        if len(given) != len(self.inputs):
            raise InputError(f"{' and '.join(self.inputs)} must both be given", got=f"{len(given)} arrays")
        rows = list[Floats]()
        for (name, box), points in zip(self.inputs.items(), given, strict=True):
            array = real_array(name, points)
            cut = array.ndim - len(box.shape)
            if cut < 0 or array.shape[cut:] != box.shape:
                raise InputError(
                    f"{name} must have shape ({', '.join(['...', *map(str, box.shape)])})", got=f"shape {array.shape}"
                )
            rows.append(array.reshape(*array.shape[:cut], box.size))  # (..., size)
        try:
            lead = np.broadcast_shapes(*(part.shape[:-1] for part in rows))
        except ValueError:
            raise InputError(
                f"the leading axes of {' and '.join(self.inputs)} must fit together",
                got=" and ".join(str(part.shape[:-1]) for part in rows),
            ) from None
        return np.concatenate([np.broadcast_to(part, (*lead, part.shape[-1])) for part in rows], axis=-1)

    def named(self, coordinates: Mapping[str, Any]) -> Floats:
        """Points from the inputs by name, or from all coordinates by name."""
        if set(coordinates) == set(self.inputs):
            return self.joined(*(coordinates[name] for name in self.inputs))
        return super().named(coordinates)

    def resized(self, lo: Floats, hi: Floats) -> TwoInputs:
        """Two inputs with other ends and the same axes."""
        ends = zip(self.inputs.items(), self.separate(lo.ravel()), self.separate(hi.ravel()), strict=True)
        return TwoInputs({name: Box(low, high, box.names) for (name, box), low, high in ends})

    @property
    def where(self) -> str:
        """The pairs in words."""
        return repr(self)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        return {"kind": self.kind, "inputs": [[name, box.as_dict()] for name, box in self.inputs.items()]}

    def as_code(self, most: int) -> str | None:
        """Both boxes by name."""
        del most
        boxes = (
            f"{name!r}: af.Box({box.lo.tolist()}, {box.hi.tolist()}, names={box.names})"
            for name, box in self.inputs.items()
        )
        return f"{{{', '.join(boxes)}}}"

    def __repr__(self) -> str:
        return " and ".join(f"{name} in {_labelled(name, box)!r}" for name, box in self.inputs.items())


def _labelled(name: str, box: Box) -> Box:
    """The box with its names here, where they are shown."""
    return box if box.lo.ndim > 1 else box.renamed(_axes(name, box))


def _axes(name: str, box: Box) -> tuple[str, ...]:
    """Names of an input's coordinates."""
    if box.names is not None:
        return box.names
    return tuple(name + "_".join(map(str, place)) for place in np.ndindex(box.shape))
