"""The judge: a second reader of certificates that shares nothing with the first.

It has its own readers of files and formulas and its own enclosures, in ball arithmetic (python-flint), and imports
nothing else of this package. Read the files in this order: `limits`, `ranges`, `functions`, `special`, `models`,
`formula`, `formats`, `files`, `rounding`, `network`, `targets`, `covers`, `slopes`, `tails`, `forms`, `structure`,
`planes`, `one_feature`, `one_token`, `symbols`, `circuits`, `combined`, `rules`. What it does not cover yet it says.

    python -m attnfun.judge FILE        # exit status 0: agreed, 3: not agreed, 2: unreadable
"""

from __future__ import annotations

import os

from .errors import NotCovered, Unreadable
from .files import claim_of, read
from .formula import values_at
from .limits import Limits
from .rules import Verdict, judge

__all__ = ["Limits", "NotCovered", "Unreadable", "Verdict", "claim_of", "judge", "judge_file", "read", "values_at"]


def judge_file(path: str | os.PathLike[str]) -> Verdict:
    """The verdict on the claim in a file; Unreadable if it has none."""
    return judge(read(path))
