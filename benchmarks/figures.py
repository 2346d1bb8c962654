"""Every page in `benchmarks/results`, made again: which of them are out of date, and the commands that make them.

    python benchmarks/figures.py                       # list all pages, then make those that are out of date
    python benchmarks/figures.py --list                # list them, and no more
    python benchmarks/figures.py tokens planner        # these parts, whatever their pages say
    python benchmarks/figures.py --data DIR            # with the files that are not in the repository

A *part* is one command and the pages that it writes. When it has finished, each of its pages gets a record below its
title: the commit, the versions of what it ran with, the load of the machine, and a hash of the sources that the page
depends on. A page is *current* if that hash is the hash of the same sources now. So an interrupted run goes on with the
first part that it has not finished, and a list needs no run.

The sources of a page are the script that makes it, what that imports from `benchmarks` and `tests`, the files of the
repository that its command names, and the package without the rooms that no number depends on.

>>> print(recorded("# Title\\n\\nText.\\n", Record("0123abc", "f" * 12, "NumPy 2.4", "load 0.1 on 2 cores")))
# Title
<BLANKLINE>
Record: commit 0123abc; sources ffffffffffff; NumPy 2.4; load 0.1 on 2 cores.
<BLANKLINE>
Text.
<BLANKLINE>
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attnfun.experiments import REGISTRY
from attnfun.network.storage import write_whole

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGE = ROOT / "src" / "attnfun"
APART = ("__main__.py", "cli.py", "experiments", "look", "zoo")
"""Rooms of the package that no number depends on, unless a script imports them."""
LIBRARIES = ("attnfun", "numpy", "scipy", "numba", "torch", "scikit-learn", "python-flint")
RECORD = re.compile(r"^Record: commit (\S+); sources (\S+); (.*); (load .*)\.$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A command and the pages that it writes."""

    name: str
    command: tuple[str, ...]
    """Arguments of Python. `DATA/` begins the path of a file that is not in the repository."""
    pages: tuple[str, ...]

    @property
    def data(self) -> tuple[str, ...]:
        """The files that it takes from outside of the repository."""
        return tuple(word for word in self.command if word.startswith("DATA"))

    @property
    def sources(self) -> list[Path]:
        """Every file of the repository that the pages depend on, in order."""
        if self.command[0] == "-m":
            return sorted(_files("attnfun.experiments"))
        named = {ROOT / word for word in self.command if (ROOT / word).is_file()}
        return sorted(named | imported(ROOT / self.command[0]))

    @property
    def digest(self) -> str:
        """A hash of the sources as they are now."""
        found = hashlib.sha256(" ".join(self.command).encode())
        for path in self.sources:
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + _content(path) + b"\0")
        return found.hexdigest()[:12]

    def state(self) -> str:
        """Whether its pages are current, in words."""
        digest = self.digest
        return "; ".join(dict.fromkeys(_state(RESULTS / page, digest) for page in self.pages))


def script(name: str, *arguments: str, pages: Sequence[str] = ()) -> Part:
    """A part made by a script of this folder, which writes a page of its own name unless said otherwise."""
    return Part(name, (f"benchmarks/{name}.py", *arguments), tuple(pages) or (f"{name}.md",))


def experiment(name: str) -> Part:
    """A part made by an experiment of the package."""
    return Part(name, ("-m", "attnfun", "reproduce", name, "-o", "benchmarks/results"), (f"{name}.md",))


FUNCTIONS = ("--file", "benchmarks/functions.csv")
PARTS = (
    *(experiment(name) for name in REGISTRY),
    *(
        Part(name, ("benchmarks/evidence.py", "--part", name, *totals), (f"{name}.md",))
        for name, totals in (
            ("evidence", ()),
            ("evidence-totals", ("--totals", "DATA/feynman.csv")),
            ("fine-tuning", ()),
            ("tasks", ()),
            ("resources", ()),
        )
    ),
    script("calculus"),
    script("circuits", *FUNCTIONS, "--file", "DATA/feynman.csv"),
    script("data"),
    script("gallery"),
    script("given", "--networks", "DATA/networks"),
    script("inputs"),
    script("judging"),
    script("kernels"),
    script("lab"),
    script("limits", "--clock", "cpu"),
    script("looseness"),
    script("planner", *FUNCTIONS),
    script("proof_speed", "DATA/before/src", pages=("proof-speed.md",)),
    script("proofs"),
    script("readers"),
    script("scale"),
    script("singular"),
    script("sollya", *FUNCTIONS),
    script("tightness", *FUNCTIONS),
    script("tokens", *FUNCTIONS, pages=("tokens.md", "smallest.md", "precision.md")),
    script("traced"),
    script("zoo"),
    Part("soak", ("tests/soak.py",), ("soak.md",)),
)


@dataclass(frozen=True)
class Record:
    """What a page says about how it was made."""

    commit: str
    sources: str
    versions: str
    load: str

    def __str__(self) -> str:
        return f"Record: commit {self.commit}; sources {self.sources}; {self.versions}; {self.load}."


def recorded(page: str, record: Record) -> str:
    """The page with this record below its title, in the place of an older one."""
    title, _, rest = RECORD.sub("", page).partition("\n")
    return f"{title}\n\n{record}\n\n{rest.lstrip()}"


def record_of(page: str) -> Record | None:
    """The record that a page has."""
    found = RECORD.search(page)
    return found and Record(*found.groups())


def _state(path: Path, digest: str) -> str:
    record = record_of(path.read_text()) if path.exists() else None
    if record is None:
        return "no record" if path.exists() else "missing"
    return "current" if record.sources == digest else f"out of date: made at {record.commit}"


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


@cache
def core() -> frozenset[Path]:
    """The package without the rooms apart."""
    return frozenset(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in APART)


def imported(start: Path) -> set[Path]:
    """A script and everything that it imports from the repository, inside functions too.

    Whoever imports anything of the package depends on its core, and on a room apart only by naming it. Complexity: each
    file is parsed once.
    """
    waiting, found = [start], {start}
    while waiting:
        path = waiting.pop()
        for name in _names(path):
            new = _files(name) - found
            found |= new
            waiting += [file for file in new if PACKAGE not in file.parents]
    return found


@cache
def _names(path: Path) -> list[str]:
    """The modules that a file of `benchmarks` or `tests` imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            here = path.relative_to(ROOT).with_suffix("").parts[1 : len(path.relative_to(ROOT).parts) - node.level]
            module = ".".join([*(here if node.level else ()), *filter(None, [node.module])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return names


@cache
def _files(name: str) -> frozenset[Path]:
    """The files of the repository that are imported by a name; none for other libraries."""
    head, *rest = name.split(".")
    if head == "attnfun":
        apart = [PACKAGE / room for room in APART if rest and room.removesuffix(".py") == rest[0]]
        return core() | {file for room in apart for file in ([room] if room.is_file() else room.rglob("*.py"))}
    for folder in ("benchmarks", "tests"):
        path = ROOT / folder / Path(*name.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return frozenset({file})
    return frozenset()


def versions() -> str:
    """Of everything that numbers may depend on."""
    return ", ".join([*(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES), _python()])


def _python() -> str:
    return f"Python {platform.python_version()}"


def commit() -> str:
    """What is checked out; `-dirty` if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"


def run(part: Part, data: Path | None) -> int:
    """Make the pages of a part, and record how; the exit status of its command."""
    if part.data and data is None:
        sys.stdout.write(f"left out: {part.name}: it takes {', '.join(part.data)}: name the folder with --data DIR\n")
        return 0
    known, digest = commit(), part.digest
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start"
    words = [word.replace("DATA", str(data), 1) if word.startswith("DATA") else word for word in part.command]
    sys.stdout.write(f"{part.name}: python {' '.join(part.command)}\n")
    sys.stdout.flush()
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests", "benchmarks"))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, check=False)  # noqa: S603
    if done.returncode == 0:
        for page in part.pages:
            path = RESULTS / page
            write_whole(path, recorded(path.read_text(), Record(known, digest, versions(), load)).encode())
    return done.returncode


def chosen(names: Sequence[str]) -> Iterator[Part]:
    """Parts by name; without a name those whose pages are not current."""
    unknown = set(names) - {part.name for part in PARTS}
    if unknown:
        raise SystemExit(f"parts are {', '.join(part.name for part in PARTS)}; got {', '.join(sorted(unknown))}")
    yield from (part for part in PARTS if (part.name in names if names else part.state() != "current"))


def main() -> int:
    """List, then make."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="all that are out of date if none is named")
    parser.add_argument("--list", action="store_true", help="list the parts and whether their pages are current")
    parser.add_argument(
        "--data", type=Path, help="a folder with feynman.csv, networks/ and before/, an earlier checkout"
    )
    asked = parser.parse_args()
    todo = list(chosen(asked.parts))
    for part in PARTS if asked.list or not asked.parts else ():
        sys.stdout.write(f"{part.name:18} {part.state()}\n")
    failed = [] if asked.list else [part.name for part in todo if run(part, asked.data)]
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
