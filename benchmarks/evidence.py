"""attnfun against everyone, in one run.

    python benchmarks/evidence.py            # in full, about half an hour on one core
    python benchmarks/evidence.py --quick    # three functions, about two minutes
    python benchmarks/evidence.py --file mine.csv -o out   # name,formula,domain: your own functions
    python benchmarks/evidence.py --table    # no run: the table in the docs, from the entries in the results

Writes pages, tables (CSV) and pictures: evidence (functions), fine-tuning (networks trained on), tasks (learning in
context) and resources (size against tolerance). The functions are those of benchmarks/functions.csv; `--totals FILE`
adds totals over the many functions of another file. pykan takes part if it is installed
(`pip install 'attnfun[bench]'`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from attnfun.experiments import reproduce
from contests.base import Contest
from contests.evidence import contest, verdict
from contests.evidence.experiment import QUICK_SECONDS, SECONDS, TOTALS_SECONDS, Evidence, Totals
from contests.evidence.problem import problems
from contests.fine_tuning import FineTuning
from contests.resources import Resources
from contests.tasks import Tasks

HERE = Path(__file__).resolve().parent
PAGE, RESULTS = HERE.parent / "docs" / "evidence.md", HERE / "results"
PARTS = (Evidence.name, Totals.name, FineTuning.name, Tasks.name, Resources.name)


def parts(functions: Path, totals: Path | None, seconds: float, journal: Path | None) -> dict[str, Contest]:
    """What there is to run, by name."""
    found: list[Contest] = [
        Evidence(tuple(problems(functions)), seconds, journal),
        FineTuning(),
        Tasks(),
        Resources(),
    ]
    if totals is not None:
        beside = journal and journal.with_stem(f"{journal.stem}-{totals.stem}")
        found.append(Totals(tuple(problems(totals)), min(seconds, TOTALS_SECONDS), beside))
    return {each.name: each for each in found}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer functions, less time for each")
    parser.add_argument("--file", type=Path, default=HERE / "functions.csv", help="a CSV of name, formula, domain")
    parser.add_argument("--totals", type=Path, help="a CSV of many functions, of which only totals are told")
    parser.add_argument("--seconds", type=float, help="for each contestant, function and tolerance")
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is named")
    parser.add_argument("-o", "--output", type=Path, help="a folder; benchmarks/results, or out after --quick")
    parser.add_argument(
        "--journal", type=Path, help="a CSV file to keep what is done; the same command goes on from it"
    )
    parser.add_argument("--table", action="store_true", help="rewrite the table in docs/evidence.md, and no more")
    arguments = parser.parse_args()
    if arguments.table:
        entries = contest.read((RESULTS / Evidence.name / "entries.csv").read_text())
        PAGE.write_text(verdict.placed(PAGE.read_text(), verdict.block(entries)))
        return
    console = Console(file=sys.stderr)
    known = parts(
        arguments.file,
        arguments.totals,
        arguments.seconds or (QUICK_SECONDS if arguments.quick else SECONDS),
        arguments.journal,
    )
    names = arguments.part or PARTS
    if arguments.part and Totals.name in names and Totals.name not in known:
        parser.error(f"--part {Totals.name} takes a file of functions: --totals FILE")
    chosen = [known[name] for name in names if name in known]
    folder = arguments.output or (HERE.parent / "out" if arguments.quick else RESULTS)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None)
        step = lambda doing: bar.update(task, description=doing)  # noqa: E731
        for experiment, _, files in reproduce(chosen, folder, arguments.quick, step):
            console.print(f"{experiment.title}: {', '.join(path.name for path in files)} in {folder}")


if __name__ == "__main__":
    main()
