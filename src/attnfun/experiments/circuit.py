"""Formulas as circuits: size against the number of variables and against the digits of the tolerance."""

from __future__ import annotations

from collections.abc import Sequence

import attnfun as af

from ..compiled import Summary
from .base import Cell, Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREY, ORANGE

EPS = 1e-6
VARIABLES, QUICK_VARIABLES = (2, 5, 10, 20, 50, 100), (2, 5, 10)
DIGITS, QUICK_DIGITS = (2, 4, 6, 8, 10), (2, 4, 6)
ENERGY = "m*c**2/sqrt(1 - v**2/c**2)"
RANGES = {"m": (1.0, 5.0), "v": (1.0, 2.0), "c": (3.0, 10.0)}
COLUMNS = ("depth", "heads", "tokens", "parameters", "proved", "largest error found")


class CircuitRate(Experiment):
    """Linear in the formula, logarithmic in the tolerance."""

    name = "circuit"
    title = "Circuits"
    constructions = ("circuit",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """The sine of a sum of squares in many variables; a formula of physics to many digits."""
        variables, digits = (QUICK_VARIABLES, QUICK_DIGITS) if quick else (VARIABLES, DIGITS)
        wide, deep = [], []
        for count in variables:
            step(f"{count} variables")
            wide.append(_compiled(sine_of_squares(count), dict.fromkeys(names(count), (-1.0, 1.0)), EPS))
        for digit in digits:
            step(f"{ENERGY} to {digit} digits")
            deep.append(_compiled(ENERGY, RANGES, 10.0**-digit))
        text = (
            "A formula becomes layers of attention, one head for each function of one variable in it (ours). Heads "
            "grow with the formula, tokens with the formula times the logarithm of 1/eps; the size of a grid grows "
            "exponentially with the number of variables. Tolerances are relative to the largest value; every bound is "
            "proved."
        )
        tables = (
            _table("variables", f"sin(x_1² + ... + x_D²), eps = {EPS:g}", "D", variables, wide),
            _table("digits", f"`{ENERGY}`", "eps", [f"1e-{digit}" for digit in digits], deep),
        )
        return Result(text, (_picture(variables, wide, digits, deep),), tables)


def names(count: int) -> list[str]:
    """x0, x1, ..."""
    return [f"x{k}" for k in range(count)]


def sine_of_squares(count: int) -> str:
    """A formula in so many variables."""
    return f"sin({' + '.join(f'{name}**2' for name in names(count))})"


def _compiled(formula: str, domain: dict[str, tuple[float, float]], eps: float) -> Summary:
    return af.compile(formula, domain, eps, relative=True, construction="circuit").summary()


def _table(name: str, title: str, column: str, labels: Sequence[Cell], found: list[Summary]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for label, one in zip(labels, found, strict=True):
        size = (int(one.figures["depth"]), one.heads, one.tokens, one.parameters)
        rows.append((label, *size, one.bound, one.largest_error_found))
    return Table(name, title, (column, *COLUMNS), tuple(rows))


def _picture(variables: tuple[int, ...], wide: list[Summary], digits: tuple[int, ...], deep: list[Summary]) -> Picture:
    """Heads and tokens, on both axes of growth."""
    linear = [wide[-1].tokens * count / variables[-1] for count in variables]
    panels = (
        Panel(
            f"sine of a sum of squares, eps = {EPS:g}",
            "variables",
            "size",
            (
                Curve("tokens", variables, [one.tokens for one in wide], "o-", BLUE),
                Curve("heads", variables, [one.heads for one in wide], "x-", ORANGE),
                Curve("linear growth", variables, linear, "--", GREY),
            ),
        ),
        Panel(
            ENERGY,
            "digits of the relative tolerance",
            "size",
            (
                Curve("tokens", digits, [one.tokens for one in deep], "o-", BLUE),
                Curve("heads", digits, [one.heads for one in deep], "x-", ORANGE),
            ),
            "plot",
        ),
    )
    return Picture("growth", "Heads and tokens against variables and against digits", panels)
