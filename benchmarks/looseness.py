"""Which certificates are far above the largest error that an attack finds, and why: random cases of the whole grammar.

    PYTHONPATH=tests python benchmarks/looseness.py --cases 100

A bound more than FAR times the largest error found is *loose*. A proof stops where the tolerance is reached, so the
error is first bounded again without one, in as much processor time. What is still loose then is counted by the part
that is the largest: construction, input or rounding. In L_p the attack bounds the norm from below by enclosures, which
may take longer than it has; so the norm on random points counts as found if it is larger. Writes
benchmarks/results/looseness.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import attnfun as af
from attack import judge
from attnfun.proofs import Effort, certify
from attnfun.resources.deadline import Deadline
from grammar import Case, random_case
from soak import compiled

RESULTS = Path(__file__).parent / "results"
LIMIT = 2.0
"""Seconds of processor time to compile a case, and as many to bound its error without a tolerance."""
POINTS = 400
"""Work of an attack."""
FAR = 10.0
"""A bound so many times the largest error found is loose."""
SAMPLES = 2**14
"""Random points on which an L_p norm is estimated."""
UNITS = 64
"""A bound of so many units in the last place of the largest value is as small as proofs in float64 get."""
STOPPED, LAST = "tolerance reached: the proof stopped", "units in the last place"
"""Causes that are no part of a bound."""
NOTES = {
    STOPPED: "The proof stops at the tolerance. Without one the bound is close to the error.",
    LAST: f"The bound is at most {UNITS} units in the last place of the largest value. Proofs compute in float64 and "
    "allow 8 units for each library function; the error found is a rounding of that size.",
}
SHOWN = 20
"""Loose cases that are listed."""
WIDTH = 160
"""Characters of a case that are shown."""


@dataclass(frozen=True)
class Row:
    """One attacked certificate."""

    number: int
    case: Case
    construction: str
    dtype: str
    bound: float
    """With the tolerance as asked for."""
    again: float
    """Without one; the same number if that was not tried."""
    found: float
    cause: str

    @property
    def loose(self) -> bool:
        """Is the first bound far above the largest error found?"""
        return self.bound > FAR * self.found


def examined(number: int, seed: int, limit: float) -> Row | None:
    """One case, or None where there is no certificate to attack."""
    case = random_case(seed, number)
    try:
        net = compiled(case, limit)
        if net.certificate.status is af.types.Status.ESTIMATED:
            return None
        found = judge(net, case.truth, POINTS, number, ("call",)).ratio * net.certificate.bound
        found = max(found, sampled(net, number))
    except (af.errors.InputError, af.errors.ToleranceNotMet, af.errors.ProofFailed):
        return None
    again, cause = net.certificate, ""
    if again.bound > FAR * found:
        again, cause = tightened(net, limit), STOPPED
        if again.bound > FAR * found and again.bound <= least(net):
            cause = LAST
        elif again.bound > FAR * found:
            cause = f"{max(again.parts, key=lambda name: again.parts[name])} part"
            cause += " (L_p)" if again.norm < float("inf") else ""
    return Row(number, case, net.construction, net.network.dtype, net.certificate.bound, again.bound, found, cause)


def sampled(net: af.types.Compiled, seed: int) -> float:
    """The L_p norm of the error on random points; 0 in the sup norm and where the domain is no box."""
    norm, domain = net.certificate.norm, net.domain
    if np.isinf(norm) or not domain.fills_box:
        return 0.0
    points = domain.sample(SAMPLES, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        errors = np.abs(
            net(points).reshape(SAMPLES, -1) - net.certificate.claim.imitated.values(points).reshape(SAMPLES, -1)
        ).max(axis=1)
        return float(
            np.nan_to_num(errors.max() * (volume(net) * ((errors / errors.max()) ** norm).mean()) ** (1 / norm))
        )


def volume(net: af.types.Compiled) -> float:
    """Of the box around the domain."""
    return float(np.prod(net.domain.hi - net.domain.lo))


def least(net: af.types.Compiled) -> float:
    """UNITS units in the last place of the target's largest value, in float64; 0 for coarser networks."""
    if net.network.dtype != "float64":
        return 0.0
    unit = UNITS * float(np.spacing(net.certificate.claim.imitated.largest_value(0)))
    return unit if np.isinf(net.certificate.norm) else unit * volume(net) ** (1 / net.certificate.norm)


def tightened(net: af.types.Compiled, limit: float) -> af.types.Certificate:
    """The better of the certificate and one that is made without a tolerance."""
    known, effort = net.certificate, Effort(Deadline.after(limit, time.process_time))
    try:
        other = certify(known.claim, None, norm=known.norm, seed=known.seed, effort=effort)
    except af.errors.AttnfunError:
        return known
    return min((known, other), key=lambda certificate: certificate.bound)


def written(rows: list[Row], cases: int, seed: int) -> str:
    """The tables."""
    loose = [row for row in rows if row.loose]
    lines = [
        "# Loose certificates, by cause",
        "",
        f"{cases} random cases (seed {seed}), {len(rows)} certificates attacked, {len(loose)} of them with a bound "
        f"more than {FAR:g} times the largest error found. Limits are in processor time: {LIMIT:g} s for each case, "
        "and as much for a proof without a tolerance.",
        "",
        "| cause | certificates | constructions | formats |",
        "|---|---|---|---|",
    ]
    for cause, count in Counter(row.cause for row in loose).most_common():
        mine = [row for row in loose if row.cause == cause]
        kinds, formats = (_counted(getattr(row, name) for row in mine) for name in ("construction", "dtype"))
        lines.append(f"| {cause} | {count} | {kinds} | {formats} |")
    notes = [f"- {cause}: {NOTES[cause]}" for cause in NOTES if any(row.cause == cause for row in loose)]
    lines += ["", *notes] if notes else []
    still = [row for row in loose if row.again > FAR * row.found and row.cause != LAST]
    still = sorted(still, key=lambda row: -row.again / max(row.found, 1e-300))
    lines += ["", f"The loosest without a tolerance, {SHOWN} at most:", ""]
    lines += ["| case | cause | construction | format | bound | found |", "|---|---|---|---|---|---|"]
    for row in still[:SHOWN]:
        code = row.case.code.replace("|", "\\|")
        code = code if len(code) <= WIDTH else f"{code[:WIDTH]}..."
        columns = row.cause, row.construction, row.dtype, f"{row.again:.3g}", f"{row.found:.3g}"
        lines.append(f"| {row.number}: `{code}` | {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def main() -> None:
    """Draw, attack, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=25)
    parser.add_argument("--output", type=Path, default=RESULTS / "looseness.md")
    asked, rows = parser.parse_args(), list[Row]()
    for number in range(asked.cases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = examined(number, asked.seed, LIMIT)
        if row is not None:
            rows.append(row)
        asked.output.write_text(written(rows, number + 1, asked.seed))


if __name__ == "__main__":
    main()
