"""What the entries say: who is within a tolerance with how many numbers, where attnfun loses, and why.

Everything here is a function of the entries, so the table in the docs can be made, and checked, from their file alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from attnfun.experiments.base import Cell, Table

from .contest import Entry
from .contestants import CONTESTANTS, OURS

Entries = Sequence[Entry]
MARK = "†"
BEGIN, END = "<!-- evidence -->", "<!-- /evidence -->"
NOT_PROVED = "The network is within the tolerance, but its proof was not finished in the time."
NOT_BUILT = "Within the time no network of ours was close enough."
CELLS = "So coarse a grid of values does here that its cells take fewer numbers than solved tokens with projections."
REASONS = {
    "attnfun, values only": "One head fitted to values is smaller here than the circuit that can be proved.",
    "arXiv 2504.19901, one head": CELLS,
    "arXiv 2504.15956, two layers": "So few rectifiers do here that they take fewer numbers than solved tokens.",
    "attention, trained": "Trained keys suit this function better than those we construct.",
    "MLP, trained": "Few hidden units serve all variables at once; a circuit has a head for each step of the formula.",
    "KAN (pykan), trained": "Sums of splines of one variable are what this function is made of.",
    "Chebyshev": "A polynomial converges fast here and stores one number a coefficient; a token has a key and a value.",
    "AAA": "A rational function puts poles anywhere, for three numbers each; a head's follow from its slopes.",
    "Sollya": "The closest polynomial stores one number a coefficient; a token has a key and a value.",
    "cubic spline": "A few cubic pieces do here, one number each; a token has a key and a value.",
    "RBF (SciPy)": "At this tolerance a few radial functions do, and they come without projections.",
    "GP (scikit-learn)": "A smooth kernel with well chosen lengths needs few points here, and no projections.",
}
"""Why somebody needs fewer numbers."""


def tolerances(entries: Entries) -> list[float]:
    """Those there are, the largest first."""
    return sorted({entry.eps for entry in entries}, reverse=True)


def by_case(entries: Entries) -> dict[tuple[str, float], dict[str, Entry]]:
    """Entries by function and tolerance, then by contestant."""
    found: dict[tuple[str, float], dict[str, Entry]] = defaultdict(dict)
    for entry in entries:
        found[entry.function, entry.eps][entry.contestant] = entry
    return dict(found)


def names(entries: Entries) -> list[str]:
    """Contestants in their order."""
    present = {entry.contestant for entry in entries}
    return [one.name for one in CONTESTANTS if one.name in present]


def favoured(entries: Entries) -> set[str]:
    """Functions that are attention by construction: the largest and the smallest tolerance take the same tokens."""
    sizes: dict[str, set[int | None]] = defaultdict(set)
    for entry in entries:
        if entry.contestant == OURS:
            sizes[entry.function].add(entry.tokens if entry.within else None)
    return {name for name, found in sizes.items() if len(found) == 1 and None not in found}


def beats(entry: Entry, ours: Entry) -> bool:
    """Is it within the tolerance with fewer numbers, or where ours is not?"""
    if entry.contestant == OURS or not entry.within or entry.numbers is None:
        return False
    return not ours.within or ours.numbers is None or entry.numbers < ours.numbers


def reason(entry: Entry, ours: Entry) -> str:
    """One sentence."""
    if not ours.within:
        return NOT_PROVED if ours.attacked is not None and ours.attacked <= ours.eps else NOT_BUILT
    return REASONS[entry.contestant]


def losses(entries: Entries) -> Table:
    """Every function and tolerance at which somebody else is better, the best of them, and why."""
    rows: list[tuple[Cell, ...]] = []
    cases = by_case(entries)
    for (function, eps), found in cases.items():
        ours = found[OURS]
        better = sorted((one for one in found.values() if beats(one, ours)), key=lambda one: one.numbers or 0)
        if better:
            best = better[0]
            shown = ours.numbers if ours.within else "not within"
            rows.append((function, f"{eps:g}", best.contestant, best.numbers, shown, len(better), reason(best, ours)))
    columns = ("function", "eps", "best", "its numbers", "attnfun's", "better in all", "why")
    nobody = sum(not any(one.within for one in found.values()) for found in cases.values())
    notes = (
        f"Of {len(cases)} cases, attnfun stores the fewest numbers in {len(cases) - len(rows) - nobody}, somebody else "
        f"is better in {len(rows)}, and nobody is within the tolerance in {nobody}."
    )
    return Table("losses", "Where attnfun loses on size", columns, tuple(rows), notes)


def sizes(entries: Entries, eps: float) -> Table:
    """Numbers stored by each contestant that is within the tolerance, the largest error of the others."""
    marks, rows = favoured(entries), []
    for (function, tolerance), found in by_case(entries).items():
        if tolerance == eps:
            least = min((one.numbers or 0 for one in found.values() if one.within), default=None)
            cells = [_size(found.get(name), least) for name in names(entries)]
            rows.append((function + MARK * (function in marks), found[OURS].variables, *cells))
    columns = ("function", "D", *names(entries))
    notes = (
        f"Numbers stored if the error is at most {eps:g} of the largest value, the fewest in bold; in brackets the "
        f"error otherwise. {MARK}: favours attention by construction, its size does not depend on the tolerance."
    )
    return Table(f"sizes-{eps:g}", f"Numbers stored for {eps:g}", columns, tuple(rows), notes)


def _size(entry: Entry | None, least: int | None) -> str:
    if entry is None or entry.attacked is None:
        return ""
    if not entry.within:
        return f"({entry.attacked:.0e})"
    return f"**{entry.numbers}**" if entry.numbers == least else str(entry.numbers)


def ours(entries: Entries) -> Table:
    """What attnfun made."""
    rows = [
        (one.function, f"{one.eps:g}", one.size, one.numbers, one.attacked, one.bound, _status(one), *_costs(one))
        for one in entries
        if one.contestant == OURS
    ]
    columns = ("function", "eps", "network", "numbers", "largest error", "bound", "status")
    columns += ("seconds", "µs a point", "MB", "tokens by the paper's bound")
    return Table("attnfun", "attnfun", columns, tuple(rows))


def _status(entry: Entry) -> str:
    return entry.status if entry.within else f"not reached ({entry.status or entry.note})"


def _costs(entry: Entry) -> tuple[Cell, ...]:
    return entry.build, entry.evaluate, entry.memory, entry.paper


def front(entries: Entries) -> Table:
    """Everybody in a row: how often within, how often better, and ratios to attnfun."""
    cases, asked = by_case(entries), tolerances(entries)
    rows = []
    for name in names(entries):
        took = [found[name] for found in cases.values() if name in found and found[name].attacked is not None]
        within = [_count(one.within for one in took if one.eps == eps) for eps in asked]
        against = [(one, cases[one.function, one.eps][OURS]) for one in took]
        smaller = "" if name == OURS else str(_count(beats(*pair) for pair in against))
        pairs = [pair for pair in against if all(one.within for one in pair)]
        proved = str(_count(one.within and one.status == "proved" for one in took))
        rows.append(
            (
                name,
                *within,
                proved,
                smaller,
                _ratio((one.numbers, mine.numbers) for one, mine in pairs),
                _ratio((one.tuning, mine.tuning) for one, mine in against),
                _ratio((one.evaluate, mine.evaluate) for one, mine in against),
            )
        )
    columns = ("", *(f"within {eps:g}" for eps in asked), "proved", "beats attnfun on size")
    return Table("front", "Everybody", (*columns, "numbers", "seconds to find it", "seconds to evaluate"), tuple(rows))


def _count(truths: Iterable[bool]) -> str:
    found = list(truths)
    return f"{sum(found)}/{len(found)}"


def _ratio(pairs: Iterable[tuple[float | None, float | None]]) -> str:
    """The median of quotients."""
    found = [a / b for a, b in pairs if a is not None and b]
    return f"{median(found):.2g}" if found else ""


def block(entries: Entries) -> str:
    """The table of the page docs/evidence.md, between its markers."""
    functions = {entry.function for entry in entries}
    favours, table = favoured(entries), front(entries)
    text = (
        f"{len(functions)} functions of 1 to {max(one.variables for one in entries)} variables, tolerances relative to "
        f"the largest value; last columns: medians relative to attnfun, numbers where both are within. {len(favours)} "
        f"of the functions ({', '.join(sorted(favours))}) favour attention by construction. {losses(entries).notes}"
    )
    return "\n".join([BEGIN, table.markdown(), "", text, END])


def placed(page: str, block: str) -> str:
    """A page with the block between the markers replaced.

    >>> placed(f"a {BEGIN} old {END} z", f"{BEGIN} new {END}") == f"a {BEGIN} new {END} z"
    True
    """
    before, _, rest = page.partition(BEGIN)
    return before + block + rest.partition(END)[2]
