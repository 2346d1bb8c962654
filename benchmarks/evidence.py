"""attnfun against everyone, in one run.

    python benchmarks/evidence.py            # in full, about half an hour on one core
    python benchmarks/evidence.py --quick    # three functions, about two minutes
    python benchmarks/evidence.py --file mine.csv -o out   # name,formula,domain: your own functions
    python benchmarks/evidence.py --table    # no run: the table in the docs, from the entries in the results

Writes pages, tables (CSV) and pictures: evidence (functions), tasks (learning in context) and resources (size against
tolerance). The functions are those of benchmarks/functions.csv; totals over ../shared/data/feynman.csv are added if
that file is there. pykan takes part if it is installed (`pip install 'attnfun[bench]'`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from attnfun.experiments import REGISTRY, Experiment, reproduce
from attnfun.experiments.evidence import contest, verdict
from attnfun.experiments.evidence.experiment import QUICK_SECONDS, SECONDS, TOTALS_SECONDS, Evidence, Totals
from attnfun.experiments.evidence.problem import problems

HERE = Path(__file__).resolve().parent
PAGE, RESULTS = HERE.parent / "docs" / "evidence.md", HERE / "results"
FEYNMAN = HERE.parent.parent / "shared" / "data" / "feynman.csv"
PARTS = (Evidence.name, Totals.name, "tasks", "resources")


def parts(functions: Path, seconds: float, journal: Path | None) -> dict[str, Experiment]:
    """What there is to run, by name."""
    found: dict[str, Experiment] = {Evidence.name: Evidence(tuple(problems(functions)), seconds, journal)}
    if FEYNMAN.exists():
        beside = journal and journal.with_stem(f"{journal.stem}-{FEYNMAN.stem}")
        found[Totals.name] = Totals(tuple(problems(FEYNMAN)), min(seconds, TOTALS_SECONDS), beside)
    return {**found, **{name: REGISTRY[name] for name in PARTS if name in REGISTRY}}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer functions, less time for each")
    parser.add_argument("--file", type=Path, default=HERE / "functions.csv", help="a CSV of name, formula, domain")
    parser.add_argument("--seconds", type=float, help="for each contestant, function and tolerance")
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is named")
    parser.add_argument("-o", "--output", type=Path, help="a folder; benchmarks/results, or out after --quick")
    parser.add_argument(
        "--journal", type=Path, help="a CSV file to keep what is done; the same command goes on from it"
    )
    parser.add_argument("--table", action="store_true", help="rewrite the table in docs/evidence.md, and no more")
    asked = parser.parse_args()
    if asked.table:
        entries = contest.read((RESULTS / Evidence.name / "entries.csv").read_text())
        PAGE.write_text(verdict.placed(PAGE.read_text(), verdict.block(entries)))
        return
    console = Console(file=sys.stderr)
    known = parts(asked.file, asked.seconds or (QUICK_SECONDS if asked.quick else SECONDS), asked.journal)
    names = asked.part or PARTS
    if Totals.name in names and Totals.name not in known:
        console.print(f"skipped: {Totals.name}, there is no {FEYNMAN.name} in {FEYNMAN.parent}")
    chosen = [known[name] for name in names if name in known]
    folder = asked.output or (HERE.parent / "out" if asked.quick else RESULTS)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None)
        step = lambda doing: bar.update(task, description=doing)  # noqa: E731
        for experiment, _, files in reproduce(chosen, folder, asked.quick, step):
            console.print(f"{experiment.title}: {', '.join(path.name for path in files)} in {folder}")


if __name__ == "__main__":
    main()
