"""`python -m attnfun.judge FILE`."""

from __future__ import annotations

import sys

from . import Unreadable, judge_file
from .errors import NotCovered

AGREED, UNREADABLE, NOT_AGREED = 0, 2, 3


def main(arguments: list[str]) -> int:
    """Judge one file, print the verdict, and return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m attnfun.judge FILE\n")
        return UNREADABLE
    try:
        verdict = judge_file(arguments[0])
    except Unreadable as reason:
        sys.stderr.write(f"unreadable: {reason}\n")
        return UNREADABLE
    except NotCovered as reason:
        sys.stdout.write(f"not agreed: not covered yet: {reason}\n")
        return NOT_AGREED
    sys.stdout.write(f"{verdict}\n")
    return AGREED if verdict.agreed else NOT_AGREED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
