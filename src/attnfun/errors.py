"""Every error attnfun raises: what must hold, what was got instead, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

LONGEST = 300
"""Characters of a value that a message quotes."""
LARGEST = 1e300
"""Counts below are floats, to within rounding."""
EXACT = 10**15
"""Counts below are shown with all their digits."""
PLAIN = re.compile(r"<(?:\w+\.)*(\w+) object at 0x[0-9a-fA-F]+>")
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def shown(value: object) -> str:
    """A value as a message quotes it: what Python would print, shortened; its type where that cannot be printed.

    >>> shown("a"), shown(10**9999), shown([object()])
    ("'a'", 'an int that cannot be printed', '[an object]')
    """
    try:
        text = repr(value)
    except Exception:  # of somebody else's, or an integer beyond the digits that Python prints
        return f"{_with_article(type(value).__name__)} that cannot be printed"
    text = without_addresses(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def without_addresses(text: str) -> str:
    """Objects that print where they are in memory, by their type or name alone.

    >>> without_addresses("<function f at 0x7f00>, <attnfun.domain.Box object at 0x7f00>")
    '<function f>, a Box'
    """
    return ADDRESS.sub("", PLAIN.sub(lambda found: _with_article(found[1]), text))


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def about(count: int) -> str:
    """A count as a message gives it: six digits, however large it is.

    >>> about(12), about(1234567), about(7 * 10**598)
    ('12', '1.23457e+06', '7.00000e+598')
    """
    return f"{count:.6g}" if count < LARGEST else f"{Decimal(count):.6g}"


def counted(count: int, noun: str) -> str:
    """A count and what is counted, in the plural unless it is one.

    >>> counted(1, "token"), counted(20, "token")
    ('1 token', '20 tokens')
    """
    return f"{count if count < EXACT else about(count)} {noun}{'' if count == 1 else 's'}"


def digits(number: float) -> str:
    """A number with as many digits as tell it apart from every other float.

    >>> digits(0.5), digits(1.0), digits(1.0000000000000002)
    ('0.5', '1', '1.0000000000000002')
    """
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))


def did_you_mean(word: object, known: Collection[str]) -> str:
    """A remedy that names what a misspelt word may stand for; nothing if it is like none of them.

    >>> did_you_mean("spectal", ["grid", "spectral"])
    "Did you mean 'spectral'?"
    """
    near = nearest(word, known) if isinstance(word, str) else ""
    return f"Did you mean {near!r}?" if near else ""


def nearest(word: str, known: Collection[str]) -> str:
    """The word that is most like one; of those that are alike, one of the same letters. Nothing if there is none.

    >>> nearest("sni", ["si", "sin", "cos"]), nearest("xyz", ["sin"])
    ('sin', '')
    """
    near = get_close_matches(word, known)
    return min(near, key=lambda each: sorted(each) != sorted(word), default="")


class AttnfunError(Exception):
    """Base of all errors raised on purpose.

    >>> raise AttnfunError("eps must be positive", got=-1, remedy="Pass eps=1e-3, say.")
    Traceback (most recent call last):
        ...
    attnfun.errors.AttnfunError: eps must be positive; got -1. Pass eps=1e-3, say.
    """

    def __init__(self, constraint: str, *, got: object = None, remedy: str = "") -> None:
        self.constraint, self.got, self.remedy = constraint, got, remedy
        sentence = constraint if got is None else f"{constraint}; got {without_addresses(str(got))}"
        end = "" if sentence.endswith(".") else "."  # what was got may be a sentence itself
        super().__init__(f"{sentence}{end} {remedy}".rstrip())


class InputError(AttnfunError, ValueError):
    """An argument, formula, domain or point that cannot be used."""


class FileFormatError(AttnfunError, ValueError):
    """A file that is truncated, not ours, or of a newer format."""


class MissingExtra(AttnfunError, ImportError):
    """A back end whose package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package}, which is not installed",
            remedy=f"Install it with: pip install 'attnfun[{extra}]'",
        )


def require(package: str, extra: str) -> None:
    """Refuse work whose result needs a package that is not installed, before the work is done."""
    try:
        found = find_spec(package) is not None
    except ValueError:  # a module that was taken away
        found = False
    if not found:
        raise MissingExtra(package, extra)


class ToleranceNotMet(AttnfunError):
    """The tolerance was not reached or not proved; `best` is the closest result there is (or None)."""

    def __init__(self, constraint: str, *, got: object = None, remedy: str = "", best: Any = None) -> None:
        super().__init__(constraint, got=got, remedy=remedy)
        self.best = best


class TimeLimitReached(ToleranceNotMet):
    """The time limit, or a share of it, was over before there was a result; `best` is what there was (or None)."""

    estimate: Any = None
    """The certificate of a network for whose proof there was no time."""

    def __init__(self, work: str, limit: float, *, share: bool = False, got: object = None, remedy: str = "") -> None:
        whole = f"The time limit of {limit:g} s was reached: allow more"
        part = f"The proof's share of the time limit of {limit:g} s, counted in boxes, was used: allow more"
        self.reason = part if share else whole
        remedy = f"{self.reason}. {remedy}".rstrip()
        within = "its share of the time limit" if share else "the time limit"
        super().__init__(f"{work} must end within {within}", got=got, remedy=remedy)


class ProofFailed(AttnfunError):
    """A bound that cannot be proved, or a certificate that could not be proved again.

    `closest` is the box and the point that came closest to a counterexample, where they are known (or None).
    """

    def __init__(self, constraint: str, *, got: object = None, remedy: str = "", closest: Any = None) -> None:
        super().__init__(constraint, got=got, remedy=remedy)
        self.closest = closest


class SoundnessError(AttnfunError):
    """A proof that a point contradicts, or a certificate that contradicts itself: an error of attnfun, not of the user.

    No certificate is issued then.
    """

    def __init__(self, constraint: str, *, got: object = None) -> None:
        super().__init__(
            constraint,
            got=got,
            remedy="This is an internal error of attnfun and no certificate is issued: please report it with the call.",
        )


class WorkersLost(AttnfunError):
    """The workers of an executor are gone, or fail again and again."""
