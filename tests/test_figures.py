"""Pages of results say how they were made, and a list says which are out of date."""

from __future__ import annotations

from pathlib import Path

import pytest

import figures
from figures import PARTS, RESULTS, Part, Record, record_of, recorded

PAGE = "# Title\n\nText.\n\n| a |\n|---|\n| 1 |\n"
RECORD = Record("0123abc", "f" * 12, "NumPy 2.4, Python 3.11", "load 0.1 on 2 cores at the start")


def test_every_page_is_made_by_one_part():
    made = [page for part in PARTS for page in part.pages]
    assert len(made) == len(set(made))
    assert {path.name for path in RESULTS.glob("*.md")} <= set(made)


def test_the_scripts_of_parts_exist():
    for part in PARTS:
        assert part.command[:2] == ("-m", "attnfun") or (figures.ROOT / part.command[0]).exists(), part


def test_a_record_stands_below_the_title_once():
    page = recorded(recorded(PAGE, Record("old", "e" * 12, "NumPy 1", "load 9")), RECORD)
    assert page.splitlines()[:4] == ["# Title", "", str(RECORD), ""]
    assert record_of(page) == RECORD
    assert page.count("Record:") == 1
    assert page.endswith(PAGE.partition("\n")[2].lstrip())
    assert record_of(PAGE) is None


def test_sources_follow_imports_and_leave_out_rooms_that_no_number_depends_on():
    sources = {part.name: {path.relative_to(figures.ROOT).as_posix() for path in part.sources} for part in PARTS}
    assert "benchmarks/functions.csv" in sources["tightness"]  # named by the command
    assert "benchmarks/contests/evidence/problem.py" in sources["tokens"]  # imported by what it imports
    assert "tests/grammar.py" in sources["soak"]
    assert "src/attnfun/constructions/spectral.py" in sources["tightness"]  # found by name when it runs
    assert not [name for name in sources["tightness"] if name.startswith("src/attnfun/look/")]
    assert "src/attnfun/lab/page.py" in sources["lab"]
    assert "src/attnfun/experiments/relu.py" in sources["relu"]


@pytest.fixture
def part(tmp_path, monkeypatch) -> Part:
    """A part whose script is the only source, in a repository of its own."""
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    script = "from pathlib import Path\nPath('benchmarks/results/one.md').write_text('# One\\n\\nText.\\n')\n"
    (tmp_path / "benchmarks" / "one.py").write_text(script)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "RESULTS", tmp_path / "benchmarks" / "results")
    return Part("one", ("benchmarks/one.py",), ("one.md",))


def test_a_page_is_current_until_a_source_changes(part, tmp_path, capfd):
    assert part.state() == "missing"
    assert figures.run(part, None) == 0
    assert part.state() == "current"
    source = tmp_path / "benchmarks" / "one.py"
    source.write_text(source.read_text() + "# changed\n")
    figures._content.cache_clear()
    assert part.state().startswith("out of date: made at ")
    (tmp_path / "benchmarks" / "results" / "one.md").write_text(PAGE)
    assert part.state() == "no record"


def test_a_command_that_fails_leaves_no_record(part, tmp_path, capfd):
    path = tmp_path / "benchmarks" / "one.py"
    path.write_text(path.read_text() + "raise SystemExit(3)\n")
    assert figures.run(part, None) == 3
    assert part.state() == "no record"


def test_parts_that_take_other_files_are_left_out_in_words(tmp_path: Path, capsys):
    outside = Part("far", ("benchmarks/absent.py", "--file", "DATA/far.csv"), ("far.md",))
    assert figures.run(outside, None) == 0
    assert "DATA/far.csv: name the folder with --data DIR" in capsys.readouterr().out


def test_unknown_parts_are_named():
    with pytest.raises(SystemExit, match=r"parts are one-head.*got nonsense"):
        list(figures.chosen(["nonsense"]))
