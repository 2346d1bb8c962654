"""The table of tasks in CONTRIBUTING.md names files that are there, at most three for a task beside its tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [
    tuple(cell.strip() for cell in line.strip("|\n").split("|"))
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    if line.startswith(("| a ", "| an "))
]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def exists(place: str) -> bool:
    """A file, or for a name that is still to be chosen a folder that has such files."""
    base = ROOT if place.startswith(("docs/", "tests/", "pyproject")) else ROOT / "src" / "attnfun"
    return any(base.glob(place.replace("<name>", "*")))


def test_there_are_ten_tasks():
    assert len(ROWS) == 10
    assert not exists("constructions/nothing.py")


@pytest.mark.parametrize(("task", "files", "tests"), ROWS, ids=[row[0] for row in ROWS])
def test_a_task_names_at_most_three_files_that_are_there(task, files, tests):
    assert 1 <= len(named(files)) <= 3
    assert named(tests)
    assert [place for place in (*named(files), *named(tests)) if not exists(place)] == []


def test_every_room_has_a_row_with_its_tests():
    lines = (ROOT / "CONTRIBUTING.md").read_text().partition("## Rooms and their tests")[2].partition("\n## ")[0]
    rows = {named(first)[0]: named(tests) for first, _, tests in cells(lines) if named(first)}
    rooms = {path.parent.name for path in (ROOT / "src" / "attnfun").glob("*/__init__.py")}
    assert set(rows) == rooms
    assert [name for tests in rows.values() for name in tests if not (ROOT / "tests" / f"{name}.py").exists()] == []


def cells(lines: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines() if line.startswith("| `")
    ]
