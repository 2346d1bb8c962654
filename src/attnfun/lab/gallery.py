"""Examples to start from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """What the fields of the page are filled with."""

    name: str
    formula: str
    domain: str
    eps: str
    norm: str = "inf"
    construction: str = "auto"


FRANKE = (
    "0.75*exp(-((9*x - 2)**2 + (9*y - 2)**2)/4) + 0.75*exp(-(9*x + 1)**2/49 - (9*y + 1)/10)"
    " + 0.5*exp(-((9*x - 7)**2 + (9*y - 3)**2)/4) - 0.2*exp(-(9*x - 4)**2 - (9*y - 7)**2)"
)
GALLERY = (
    Example("Runge's function", "1/(1 + 25*x**2)", "x=-1:1", "1e-6"),
    Example("tanh(50x): two tokens", "tanh(50*x)", "x=-1:1", "1e-8"),
    Example("Franke's function", FRANKE, "x=0:1 y=0:1", "1e-3"),
    Example("a step, in L_1", "where(x < 0.3, 0, 1)", "x=0:1", "0.05", norm="1"),
    Example("the paper's grid", "sin(3*x)*y", "x=-1:1 y=-1:1", "0.2", construction="grid"),
)
