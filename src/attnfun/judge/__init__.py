"""The judge: a second reader of certificates that shares nothing with the first.

It has its own readers of files and formulas and its own enclosures, in ball arithmetic (python-flint), and imports
nothing else of this package. Read the files in this order: `limits`, `ranges`, `functions`, `special`, `models`,
`formula`, `formats`, `files`, `rounding`, `network`, `targets`, `covers`, `slopes`, `tails`, `forms`, `structure`,
`planes`, `one_feature`, `one_token`, `symbols`, `circuits`, `combined`, `in_context`, `least`, `rules`; for networks of
other makers `graphs` and `given`. What it does not cover yet it says.

    python -m attnfun.judge FILE        # exit status 0: agreed, 3: not agreed, 2: unreadable
"""

from __future__ import annotations

import os

from .errors import NotCovered, Unreadable
from .files import claim_of, contents, read
from .formula import values_at
from .given import GivenVerdict, given_claim, judge_given
from .limits import Limits
from .rules import Verdict, judge

__all__ = [
    "GivenVerdict", "Limits", "NotCovered", "Unreadable", "Verdict", "claim_of", "given_claim", "judge", "judge_file",
    "judge_given", "read", "values_at",
]  # fmt: skip


def judge_file(path: str | os.PathLike[str]) -> Verdict | GivenVerdict:
    """The verdict on the claim in a file; Unreadable if it has none."""
    description, arrays = contents(path)
    if isinstance(description, dict) and "given" in description:
        return judge_given(given_claim(description["given"], arrays))
    return judge(claim_of(description, arrays))
