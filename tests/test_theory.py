"""Every citation of the theory leads to a statement, every statement is cited, and nothing outside is relied on."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
THEORY = (ROOT / "docs" / "theory.md").read_text()
STATEMENTS = re.findall(r"^### (\d+\.\d+) \S", THEORY, re.MULTILINE)
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.py")]
CITED = {
    (path.relative_to(ROOT).as_posix(), number)
    for path in SOURCES
    for number in re.findall(r"\[T (\d+\.\d+)\]", path.read_text())
    if path.name != "theory.md"
}


def test_statements_are_numbered_once_and_in_order():
    assert [name for name, count in Counter(STATEMENTS).items() if count > 1] == []
    places = [tuple(map(int, number.split("."))) for number in STATEMENTS]
    assert places == sorted(places)
    assert len(places) > 40


def test_every_citation_leads_to_a_statement():
    assert {(path, number) for path, number in CITED if number not in STATEMENTS} == set()


def test_every_statement_is_used():
    assert set(STATEMENTS) - {number for _, number in CITED} == set()


def test_nothing_cites_a_theory_that_is_not_here():
    assert [path.name for path in SOURCES if re.search(r"THEORY \d|THEORY\.md", path.read_text())] == []


def test_files_named_by_the_theory_exist():
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", THEORY)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "src" / "attnfun" / name).exists()] == []
