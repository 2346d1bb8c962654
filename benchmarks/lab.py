"""The lab under hostile requests: what it answers, and how long that takes.

    python benchmarks/lab.py               # all of them
    python benchmarks/lab.py --seconds 5   # with another time limit; printed and not written

Requests go the way of the page: its checks, then a worker process with limits of time and memory. Writes
benchmarks/results/lab.md: request, answer, seconds. Uploads are no requests: the page has no field for files, and its
server takes none.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnfun.errors import AttnfunError
from attnfun.lab import requests
from attnfun.lab.worker import Limits, Worker

RESULTS = Path(__file__).parent / "results"
SECONDS, GRACE = 10.0, 60.0
"""The time limit of a request here, and what its pictures may take; the lab itself has 60 s and 10 s."""
WORDS = 400
"""Letters of an answer that the table shows."""
LINE, NAMES = "x=-1:1", "abcdefgh"
CUBE = " ".join(f"{name}=-1:1" for name in NAMES)
BUMP = "sin(3*x) + (1 - (1e5*(x - 0.500013))**2)*where(0.500003 < x < 0.500023, 1, 0)"
SCRIPT = "<script>alert(1)</script>"


@dataclass(frozen=True)
class Fields:
    """What stands in the fields of the first tab."""

    formula: Any = "sin(3*x)"
    domain: Any = LINE
    eps: Any = "1e-3"
    norm: Any = "inf"
    dtype: Any = "float64"
    construction: Any = "auto"


@dataclass(frozen=True)
class Hostile:
    """A request, in words and as the page would send it."""

    words: str
    send: Callable[[Worker, str], dict[str, Any]]


def compiled(words: str, **fields: Any) -> Hostile:
    """A press of the button."""
    return Hostile(words, lambda worker, folder: requests.compiled(worker, folder, **vars(Fields(**fields))))


def warmed(words: str, formula: Any = "sin(3*x)", domain: Any = LINE, tokens: Any = 30, warmth: Any = 0.0) -> Hostile:
    """Sliders of the second tab."""
    return Hostile(words, lambda worker, _: requests.warmed(worker, formula, domain, tokens, warmth))


def ridge(words: str, strength: Any = -1.0, rows: Any = 100) -> Hostile:
    """Sliders of the third tab."""
    return Hostile(words, lambda worker, _: requests.ridge(worker, strength, rows))


REQUESTS = (
    # texts that are no formulas, or long ones
    compiled("a formula of 2,001 letters", formula="x" * 2001),
    compiled("a formula of 10 million letters", formula="x+" * 5_000_000 + "x"),
    compiled("900 nested brackets", formula="(" * 900 + "x" + ")" * 900),
    compiled("450 nested sines", formula="sin(" * 399 + "x" + ")" * 399),
    compiled("1,900 minus signs", formula="-" * 1900 + "x"),
    compiled("a tower of 600 powers", formula="x**" * 600 + "x", domain="x=0:1"),
    compiled("a number of 1,999 digits", formula="1" * 1999),
    compiled("1e-99999999", formula="x + 1e-99999999"),
    compiled("9**9**9**9", formula="9**9**9**9"),
    compiled("x**1000000", formula="x**1000000"),
    compiled("180 fast sines", formula="+".join(f"sin({k}*x)" for k in range(10, 190))),
    compiled("a product of 180 factors", formula="*".join(f"(1+x/{k})" for k in range(2, 182)), eps="1e-9"),
    compiled("a vector of 900 outputs", formula=f"[{','.join('x' * 900)}]"),
    compiled("an empty formula", formula=""),
    compiled("blanks and line ends", formula=" \n\t "),
    compiled("a null character", formula="x\0"),
    compiled("half of a character (a lone surrogate)", formula="\ud800"),
    compiled("no text at all", formula=None),
    # code and markup
    compiled("a call of the system", formula="__import__('os').system('id')"),
    compiled("an attribute", formula="x.__class__.__bases__"),
    compiled("a function of Python", formula="(lambda: x)()"),
    compiled("a list comprehension", formula="[x for x in (1,)]"),
    compiled("a file", formula="open('/etc/passwd')"),
    compiled("two statements", formula="x; import os"),
    compiled("a script as the formula", formula=SCRIPT),
    compiled("an image with a handler", formula="<img src=x onerror=alert(1)>"),
    compiled("a script as the domain", domain=SCRIPT),
    compiled("a variable named <b>", formula="1", domain="<b>=0:1", eps="0.1"),
    compiled("a script as the tolerance", eps=SCRIPT),
    # functions that cannot be served, or hardly
    compiled("a pole", formula="1/x"),
    compiled("a division by zero everywhere", formula="1/(x-x)"),
    compiled("a logarithm of negative numbers", formula="log(x)"),
    compiled("poles between samples", formula="1/(x - 0.123456789)**2"),
    compiled("a jump in the sup norm", formula="where(x < 0.3, 0, 1)"),
    compiled("a peak of width 2e-5", formula=BUMP),
    compiled("sin(1e6 x) to 1e-6", formula="sin(1e6*x)", eps="1e-6"),
    compiled("sin(1e300 x)", formula="sin(1e300*x)"),
    compiled("values beyond all floats", formula="exp(1000*x)"),
    compiled("values of 1e308", formula="1e308*sin(x)"),
    compiled("a formula named nan", formula="nan"),
    compiled("a product of 8 variables", formula=f"sin({'*'.join(NAMES)})", domain=CUBE, eps="1e-9"),
    compiled("a kink along a curve", formula="abs(sin(a*b) - c)", domain="a=-3:3 b=-3:3 c=-1:1", eps="1e-6"),
    # domains
    compiled("no domain", domain=""),
    compiled("9 variables", formula="a", domain=f"{CUBE} i=0:1"),
    compiled("a domain of 1 million variables", domain=" ".join(f"x{k}=0:1" for k in range(1_000_000))),
    compiled("ends the wrong way round", domain="x=1:-1"),
    compiled("an end that is not a number", domain="x=nan:1"),
    compiled("an infinite domain", domain="x=-inf:inf"),
    compiled("a domain of 1e308", domain="x=-1e308:1e308"),
    compiled("a domain of one point", domain="x=0:0"),
    compiled("a domain of denormal width", domain="x=0:5e-324"),
    compiled("a domain that floats hardly divide", formula="exp(x)-1", domain="x=1e15:1.000000000000001e15"),
    compiled("a variable twice", domain="x=0:1 x=0:1"),
    # tolerances and choices
    *(compiled(f"eps {eps!r}", eps=eps) for eps in ("1e-300", "1e-20", "0", "-1", "nan", "inf", "1e400", "", "a")),
    compiled("a norm that is not offered", norm="0.5"),
    compiled("a dtype that does not exist", dtype="float8"),
    compiled("a construction that does not exist", construction="magic"),
    compiled("a construction for data", construction="regression"),
    compiled("a construction for clipped maps", construction="truncated-linear"),
    compiled("float16 to 1e-9", dtype="float16", eps="1e-9"),
    compiled("6 variables on a grid, 1e-3", formula="sin(a*b+c*d+e*f)", domain=CUBE[:41], construction="grid"),
    compiled("two layers to 1e-6", construction="two-layer", eps="1e-6"),
    compiled("a softmax to 1e-6", construction="softmax-readout", eps="1e-6"),
    # sliders
    warmed("a billion tokens", tokens=1e9),
    warmed("tokens that are not a number", tokens=float("nan")),
    warmed("a temperature of 1e400", warmth=400),
    warmed("a head in 8 variables", formula="*".join(NAMES), domain=CUBE, tokens=400),
    warmed("a head for a pole", formula="1/x"),
    ridge("a penalty that is not a number", strength=float("nan")),
    ridge("a billion examples", rows=1e9),
    ridge("the smallest penalty and the most examples", strength=-3.0, rows=400),
)


@dataclass(frozen=True)
class Row:
    """An answer."""

    words: str
    answer: str
    computing: float
    wall: float


def computed(worker: Worker) -> float:
    """Seconds of computing of this process and of the worker's, where the system says."""
    own, child = time.process_time(), worker.process
    try:
        if child is not None:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            return own + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        pass
    return own


def answered(worker: Worker, folder: str, hostile: Hostile) -> Row:
    """Send a request; whatever is no answer of the lab is an error here."""
    process, began, wall = worker.process, computed(worker), time.monotonic()
    try:
        reply = hostile.send(worker, folder)
        answer = reply.get("headline") or "done"
    except AttnfunError as reason:
        answer = f"refused: {reason}"
    taken = computed(worker) - (began if worker.process == process else 0.0)
    return Row(hostile.words, answer, max(taken, 0.0), time.monotonic() - wall)


def page(rows: list[Row], limits: Limits) -> str:
    """The results in Markdown."""
    most = limits.seconds + limits.grace
    held = sum(row.wall <= most + 1 for row in rows)
    lines = [
        "# The lab under hostile requests",
        "",
        f"Made by `python benchmarks/lab.py`: {len(rows)} requests to a worker of `attnfun lab`, one after the other, "
        f"with {limits.seconds:g} s for compiling, {limits.grace:g} s for files and pictures, "
        f"{limits.memory / 2**30:g} GiB. {held} of {len(rows)} were answered within {most + 1:g} s by the clock, on a "
        "machine shared with other work. Where the worker was killed, its seconds of computing are not known.",
        "",
        "| request | answer | computing, s | wall, s |",
        "|---|---|---|---|",
    ]
    for row in rows:
        lines.append(f"| {_cell(row.words)} | {_cell(row.answer)} | {row.computing:.1f} | {row.wall:.1f} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text in a cell of a table, markup as text."""
    short = text if len(text) <= WORDS else f"{text[:WORDS]} ..."
    for letter, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("*", "&#42;")):
        short = short.replace(letter, written)
    return " ".join(short.encode("utf-8", "replace").decode().split())


def main() -> None:
    """Send all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="another time limit; nothing is written then")
    parser.add_argument("--only", default="", help="requests with these words; nothing is written then")
    asked = parser.parse_args()
    limits = replace(Limits(), seconds=asked.seconds or SECONDS, grace=GRACE)
    worker, rows = Worker(replace(limits, seconds=600.0)), list[Row]()
    with TemporaryDirectory() as folder:
        try:
            requests.warmed(worker, "x", LINE, 3, 0.0)  # kernels are compiled
            worker.limits = limits
            for hostile in REQUESTS:
                if asked.only in hostile.words:
                    rows.append(row := answered(worker, folder, hostile))
                    sys.stderr.write(f"{row.computing:6.1f} {row.wall:6.1f}  {row.words}: {_cell(row.answer)}\n")
        finally:
            worker.stop()
    if not asked.only and asked.seconds is None:
        (RESULTS / "lab.md").write_text(page(rows, limits))


if __name__ == "__main__":
    main()
