"""What the page sends to the worker: the texts and numbers of its fields, checked. No web library is needed here."""

from __future__ import annotations

from math import isinf
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from ..arguments import one_of, real_number
from ..arithmetic.formats import DTYPES
from ..constructions import REGISTRY
from ..domains.box import read_ranges
from ..errors import InputError, shown
from .worker import Limits, Worker

CONSTRUCTIONS = ("auto", *REGISTRY)
NORMS = ("inf", "1", "2")
TOKENS, WARMTH = (2, 400), (-1.0, 1.0)
"""Tokens of a head with sliders; the power of ten of its temperature."""
STRENGTH, ROWS = (-3.0, 1.0), (20, 400)
"""The power of ten of a ridge penalty; the examples in a prompt."""
KEPT = 8
"""Results that are kept for download."""
HALF = 0.5
"""The part of a process's memory that the arrays of a request may take."""


def compiled(
    worker: Worker, folder: str, formula: str, domain: str, eps: str, norm: str, dtype: str, construction: str
) -> dict[str, Any]:
    """Compile a formula; results go to a folder of their own below `folder`."""
    limits = worker.limits
    check(limits, formula, domain)
    return worker.send(
        "compiled",
        formula=formula,
        domain=domain,
        eps=_number("eps", eps),
        norm=_number("norm", one_of("norm", norm, NORMS)),
        dtype=one_of("dtype", dtype, DTYPES),
        construction=one_of("construction", construction, CONSTRUCTIONS),
        budget=limits.tokens,
        time_limit=limits.seconds,
        memory_limit=HALF * limits.memory,
        folder=_fresh(folder),
    )


def warmed(worker: Worker, formula: str, domain: str, tokens: float, warmth: float) -> dict[str, Any]:
    """One head with so many tokens, at the temperature 10**warmth."""
    check(worker.limits, formula, domain)
    return worker.send(
        "warmed",
        formula=formula,
        domain=domain,
        tokens=_slider("tokens", tokens, TOKENS),
        temperature=10.0 ** real_number("the power of the temperature", warmth, least=WARMTH[0], most=WARMTH[1]),
        time_limit=worker.limits.seconds,
    )


def ridge(worker: Worker, strength: float, rows: float) -> dict[str, Any]:
    """Ridge regression in context with the penalty 10**strength on so many examples."""
    power = real_number("the power of the penalty", strength, least=STRENGTH[0], most=STRENGTH[1])
    return worker.send("ridge", alpha=10.0**power, rows=_slider("examples", rows, ROWS))


def check(limits: Limits, formula: object, domain: object) -> None:
    """Refuse texts that are no text, too long or not printable, and domains of many variables, before any work."""
    for name, text in (("formula", formula), ("domain", domain)):
        if not isinstance(text, str):
            raise InputError(f"the {name} must be a text", got=shown(text))
        if len(text) > limits.letters:
            raise InputError(
                f"in the lab a {name} has at most {limits.letters} letters",
                got=len(text),
                remedy="Use af.compile in Python.",
            )
        if not "".join(text.split()).isprintable():
            raise InputError(f"in the lab a {name} has printable letters only", got=ascii(text))
    variables = len(read_ranges(str(domain)))
    if variables > limits.variables:
        raise InputError(
            f"in the lab a domain has at most {limits.variables} variables",
            got=variables,
            remedy="Use af.compile in Python.",
        )


def _slider(name: str, value: object, ends: tuple[int, int]) -> int:
    """A whole number between two ends; web pages send it as a float."""
    return int(real_number(name, value, least=ends[0], most=ends[1]))


def _number(name: str, text: str) -> float | str:
    """A text as a number; inf stays a text, as JSON and `af.compile` know it."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a finite number > 0", got=shown(text)) from None
    return "inf" if isinf(number) else number


def _fresh(folder: str) -> str:
    """A new folder for results; the oldest of many is removed."""
    results = Path(folder) / "results"
    results.mkdir(exist_ok=True)
    old = sorted(results.iterdir(), key=lambda place: place.stat().st_mtime)
    for place in old[: max(0, len(old) + 1 - KEPT)]:
        rmtree(place, ignore_errors=True)
    return mkdtemp(dir=results)
