"""Sollya: polynomials in one variable by Remez' algorithm, with a proved bound of their error.

Sollya (https://www.sollya.org, Debian's package `sollya`) is a program of its own. It gets the function on [-1, 1],
guesses the degree that a tolerance takes, finds a polynomial of it that is about the closest in the sup norm, rounds
its coefficients to float64, and encloses the sup norm of what is left (`supnorm`). The bound holds in real arithmetic:
rounding while the polynomial is evaluated is not in it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from math import ceil

import numpy as np

from attnfun.errors import InputError

from .peers import Fit, Floats

KNOWN = {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"}
KNOWN |= {"exp", "log", "log2", "log10", "sqrt", "abs", "erf", "erfc", "expm1", "log1p", "pi"}
"""What formulas may call, with the same name and meaning there."""
SCRIPT = """verbosity = 0!; display = hexadecimal!; rename(_x_, {variable});
f = {formula}; g = f({half} * {variable} + {middle}) / {scale};
d = inf(guessdegree(g, [-1; 1], {eps})); done = false;
for n from d to d + {more} do if (!done) then {{
    q = roundcoefficients(remez(g, n, [-1; 1], 1, 2^(-10)), [|D...|]);
    s = supnorm(q, g, [-1; 1], absolute, 2^(-8));
    if (sup(s) <= {eps}) then {{
        done = true; print(inf(s)); print(sup(s)); for i from 0 to degree(q) do print(coeff(q, i));
    }};
}};
quit;
"""
"""The first polynomial that keeps the tolerance, within 2^-10 of the closest, and its error to eight bits."""
MORE = 6
"""Degrees that are tried beyond the one that is guessed."""


@dataclass(frozen=True)
class Polynomial:
    """A polynomial on [-1, 1] and an enclosure of its error there, divided by the function's scale."""

    coefficients: Floats
    """Of powers, from the constant on, (n,)."""
    least: float
    bound: float

    @property
    def fit(self) -> Fit:
        """As it is evaluated, by Horner's scheme in float64."""
        return Fit(lambda rows: np.polynomial.polynomial.polyval(rows[:, 0], self.coefficients), len(self.coefficients))


def written(formula: str, variable: str) -> str:
    """A formula in Sollya's words.

    >>> written("x**2*exp(-x)", "x")
    'x^2*exp(-x)'
    """
    unknown = sorted(set(re.findall(r"[A-Za-z_]\w*", formula)) - KNOWN - {variable})
    if unknown or re.search(r"[<>=,\[]", formula):
        raise InputError("Sollya takes formulas of one variable without conditions", got=", ".join(unknown) or formula)
    return formula.replace("**", "^")


def _exactly(number: float) -> str:
    """A float64 number as Sollya reads it, without rounding."""
    mantissa, exponent = float(number).as_integer_ratio()
    return f"({mantissa}/{exponent})"


def polynomial(
    formula: str, domain: tuple[str, float, float], scale: float, eps: float, seconds: float
) -> Polynomial | None:
    """A polynomial that is proved to keep a tolerance, or None if there is none in so many seconds of computing.

    `domain` is the variable's name and its ends.
    """
    program = shutil.which("sollya")
    if program is None:
        raise InputError("the program sollya must be installed", remedy="Install your system's package sollya.")
    variable, low, high = domain
    text = SCRIPT.format(
        variable=variable,
        formula=written(formula, variable),
        half=_exactly((high - low) / 2),
        middle=_exactly((high + low) / 2),
        scale=_exactly(scale),
        eps=_exactly(eps),
        more=MORE,
    )
    limited = ["/bin/sh", "-c", 'ulimit -t "$0"; exec "$1"', str(ceil(seconds)), program]
    done = subprocess.run(limited, input=text, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        least, bound, *coefficients = map(float.fromhex, done.stdout.split())
    except ValueError:
        return None  # the algorithm did not end, or the norm could not be enclosed
    return Polynomial(np.array(coefficients), least, float(np.nextafter(bound, np.inf))) if coefficients else None
