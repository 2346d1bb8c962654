"""The models of the zoo: functions, sequence maps, circuits, learners in context."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ..compiled import Compiled
from ..compiler import compile
from ..domains.box import Box
from ..errors import InputError, did_you_mean
from ..targets import MaxAffine, TruncatedLinear
from .specimen import Specimen, specimen

BOREHOLE = "2*pi*Tu*(Hu-Hl)/(log(r/rw)*(1+2*L*Tu/(log(r/rw)*rw**2*Kw)+Tu/Tl))"
"""The flow of water through a borehole, a test function of engineering."""
WELLS = {
    "rw": (0.05, 0.15),
    "r": (100, 50000),
    "Tu": (63070, 115600),
    "Hu": (990, 1110),
    "Tl": (63.1, 116),
    "Hl": (700, 820),
    "L": (1120, 1680),
    "Kw": (9855, 12045),
}
UNIT = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


@dataclass(frozen=True)
class Entry:
    """How one model is made."""

    kind: str
    title: str
    make: Callable[[], Compiled | Specimen]
    quick: bool = False
    """Is it small enough for `--quick`?"""


def _clips() -> Compiled:
    family = TruncatedLinear(np.array([[1.0, -1.0], [0.5, 2.0], [1.0, 1.0]]), 0.1, -1.0, 1.5)
    return compile(family, Box(np.full((3, 2), -1.0), np.full((3, 2), 1.0)), 1e-3)


def _planes() -> Compiled:
    rng = np.random.default_rng(0)
    return compile(MaxAffine(rng.normal(size=(8, 3)), rng.normal(size=8)), [(-1, 1)] * 3, 1e-3)


def _learners():
    """Networks that learn in context, which need scikit-learn."""
    from . import learners

    return learners


def _circuit(formula: str, domain: dict[str, tuple[float, float]], eps: float) -> Callable[[], Compiled]:
    return lambda: compile(formula, domain, eps, construction="circuit", options={"layout": "registers"})


RELATIVITY = {"m": (1.0, 5.0), "v": (1.0, 2.0), "c": (3.0, 10.0)}

CATALOGUE = {
    "sine": Entry("function", "sin(3*x)", lambda: compile("sin(3*x)", {"x": (-1, 1)}, 1e-4), quick=True),
    "cells": Entry("function", "sin(3*x)*y", lambda: compile("sin(3*x)*y", UNIT, 0.3, construction="grid")),
    "planes": Entry("function", "the largest of eight planes", _planes),
    "clips": Entry("sequence map", "clip(w·x + t, -1, 1.5) for each of three tokens", _clips, quick=True),
    "product": Entry("circuit", "x*y", _circuit("x*y", UNIT, 1e-4), quick=True),
    "gate": Entry("circuit", "exp(-x**2)*y + max(x, y)", _circuit("exp(-x**2)*y + max(x, y)", UNIT, 1e-4), quick=True),
    "energy": Entry("circuit", "m*c**2/sqrt(1 - v**2/c**2)", _circuit("m*c**2/sqrt(1 - v**2/c**2)", RELATIVITY, 1e-3)),
    "borehole": Entry("circuit", BOREHOLE, _circuit(BOREHOLE, WELLS, 1e-2)),
    "ridge": Entry("learner", "ridge regression in context", lambda: _learners().ridge_specimen()),
    "descent": Entry("learner", "three steps of gradient descent in context", lambda: _learners().descent_specimen()),
}
"""By name, in the order in which they are written."""


def chosen(names: Iterable[str], quick: bool) -> tuple[str, ...]:
    """The models named, or all of them, or the small ones."""
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in CATALOGUE:
            known = ", ".join(CATALOGUE)
            raise InputError(f"models of the zoo are {known}", got=repr(name), remedy=did_you_mean(name, CATALOGUE))
    return wanted or tuple(name for name, entry in CATALOGUE.items() if entry.quick or not quick)


def made(name: str) -> tuple[Specimen, Compiled | None]:
    """A model, and the compiled network that it is made of; learners are none."""
    entry = CATALOGUE[name]
    result = entry.make()
    return (specimen(result, name, entry.title), result) if isinstance(result, Compiled) else (result, None)
