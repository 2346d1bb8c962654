"""The contest: peers approximate, entries are honest, verdicts follow, the table in the docs is the file's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnfun.errors import InputError
from contests import peers, sollya
from contests.evidence import contest, problem, verdict
from contests.evidence.contestants import CONTESTANTS, OURS, Contestant, Offer
from contests.evidence.experiment import Evidence, Totals
from contests.evidence.problem import Problem, problems

ROOT = Path(__file__).parent.parent
LINE = Problem("line", "2*tanh(3*x)", {"x": (0.0, 1.0)})
PLANE = Problem("plane", "exp(-x*y)", {"x": (-1.0, 1.0), "y": (0.0, 2.0)})
CHEAP = ("attnfun", "Chebyshev", "AAA", "cubic spline")


def named(*names):
    return [one for one in CONTESTANTS if one.name in names]


@pytest.fixture(scope="module")
def entries():
    return list(contest.run([LINE, PLANE], 5.0, named(*CHEAP), (1e-3, 1e-5)))


@pytest.mark.parametrize("name", peers.FITS)
def test_fits_come_close_to_smooth_functions(name):
    one = LINE if name == "AAA" else PLANE
    fit = peers.FITS[name](one.values, one.variables, 12 if name in ("AAA", "Chebyshev", "spline") else 100)
    assert one.error(fit) < 5e-2
    assert one.error(fit) <= one.attacked(fit)
    assert fit.numbers >= 12


def test_an_interpolant_stores_and_keeps_its_values():
    nodes = np.linspace(-1, 1, 7)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    fit = peers.spline_fit(PLANE.values, 2, 7)
    assert np.abs(fit.values(grid) - PLANE.values(grid)).max() < 1e-12
    polynomial = peers.chebyshev_fit(lambda rows: rows[:, 0] ** 2 * rows[:, 1], 2, 3)
    assert np.abs(polynomial.values(grid) - grid[:, 0] ** 2 * grid[:, 1]).max() < 1e-14
    assert (fit.numbers, polynomial.numbers) == (49, 9)


def test_entries_keep_what_they_say(entries):
    assert len(entries) == 2 * 2 * len(CHEAP)
    for one in entries:
        if one.within:
            assert one.error <= one.attacked <= one.eps
            assert min(one.numbers, one.build, one.evaluate) > 0
            assert one.build <= one.tuning
    ours = [one for one in entries if one.contestant == OURS]
    assert all(one.within and one.status == "proved" and one.attacked <= one.bound <= one.eps for one in ours)
    assert [one.within for one in entries if one.contestant == "AAA" and one.variables == 2] == [False, False]
    assert contest.read(contest.table(entries).csv()) == entries


def test_a_sharp_error_between_the_points_is_found_and_a_false_proof_stops_everything():
    spike = peers.Fit(lambda rows: LINE.values(rows) + np.exp(-((rows[:, 0] - 0.3) ** 2) * 1e7), 1)
    assert LINE.attacked(spike) > 0.999
    broken = peers.Fit(lambda rows: np.full(len(rows), np.nan), 1)
    assert LINE.attacked(broken) == np.inf
    false = Contestant("false", "", lambda *_: iter([Offer("1", spike, 1e-4, "proved")]), must_prove=True)
    assert not contest.entered(LINE, replace(false, offers=lambda *_: iter([Offer("1", spike)])), 1.0)[0].within
    with pytest.raises(contest.ProofFailed, match="above the proved bound"):
        contest.entered(LINE, false, 1.0)


def test_who_is_missing_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "kan", None)
    found = contest.entered(LINE, named("KAN (pykan), trained")[0], 1.0)
    assert all("pykan" in one.note and not one.within for one in found)


def test_training_gives_a_function_of_every_kind(monkeypatch):
    monkeypatch.setattr(problem, "POINTS", 200)
    few = Problem("few", "2*tanh(3*x)", {"x": (0.0, 1.0)})
    for contestant in named("attention, trained", "MLP, trained"):
        (one,) = contest.entered(few, contestant, 0.3, (1e-9,))
        assert not one.within
        assert one.attacked < 1
        assert one.numbers > 50


def test_losses_are_told_with_their_reason_and_exact_heads_are_marked(entries):
    assert set(verdict.REASONS) == {one.name for one in CONTESTANTS} - {OURS}
    assert verdict.favoured(entries) == {"line"}
    least = {one.function: one.numbers for one in entries if one.contestant == OURS and one.eps == 1e-3}
    lost = verdict.losses(entries)
    assert lost.rows
    for function, eps, _, numbers, mine, _, why in lost.rows:
        assert why.endswith(".")
        assert numbers < mine
        assert eps != "0.001" or mine == least[function]
    assert lost.notes.startswith(f"Of 4 cases, attnfun stores the fewest numbers in {4 - len(lost.rows)},")
    none = verdict.losses([replace(one, within=False) for one in entries])
    assert none.notes.endswith("nobody is within the tolerance in 4.")
    late = [replace(one, within=False) if one.contestant == OURS else one for one in entries]
    assert {row[-1] for row in verdict.losses(late).rows} == {verdict.NOT_PROVED}
    assert f"line{verdict.MARK}" in verdict.sizes(entries, 1e-3).markdown()


def test_pages_have_everything_and_totals_hide_single_results(entries, monkeypatch):
    monkeypatch.setattr(Evidence, "measured", lambda *_: entries)
    monkeypatch.setattr(Totals, "measured", lambda *_: entries)
    whole, totals = Evidence((LINE,)).run(), Totals((LINE,)).run()
    assert {"front", "losses", "entries"} <= {one.name for one in whole.tables}
    assert len(whole.pictures) == 1
    assert [one.name for one in totals.tables] == ["front"]
    assert "plane" not in totals.tables[0].markdown()


def test_an_interrupted_run_goes_on_from_its_journal(tmp_path):
    journal, told = tmp_path / "journal.csv", []
    once = Evidence((LINE,), 1.0, journal).measured(False, named("Chebyshev"), told.append)
    both = Evidence((LINE, PLANE), 1.0, journal).measured(False, named("Chebyshev"), told.append)
    assert both[: len(once)] == once
    assert [doing for doing in told if "loading" not in doing] == ["line: Chebyshev", "plane: Chebyshev"]


def test_files_of_functions_are_read_or_refused(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("name,formula,domain\nwave,sin(10*x)*y,x=-1:1 y=0:2\n")
    (one,) = problems(path)
    assert (one.variables, one.domain["y"]) == (2, (0.0, 2.0))
    assert np.abs(one.values(np.array([[0.5, 1.0]])) - np.sin(5) * 2 / one.scale) < 1e-12
    path.write_text("name,formula,domain\nwave,sin(10*x)*y,x=-1..1\n")
    with pytest.raises(InputError, match="x=-1:1 y=0:2"):
        problems(path)
    path.write_text("title,text\n")
    with pytest.raises(InputError, match="columns name, formula and domain"):
        problems(path)


def test_the_table_in_the_docs_is_the_one_of_the_results():
    found = contest.read((ROOT / "benchmarks" / "results" / "evidence" / "entries.csv").read_text())
    page = (ROOT / "docs" / "evidence.md").read_text()
    assert verdict.block(found) in page, "run: python benchmarks/evidence.py --table"
    assert verdict.placed(page, verdict.block(found)) == page


@pytest.mark.skipif(shutil.which("sollya") is None, reason="the program sollya is not installed")
def test_sollya_proves_polynomials_and_errors_stay_under_its_bounds():
    one = Problem("exp", "exp(-x)", {"x": (0.0, 2.0)})
    found = sollya.polynomial(one.formula, ("x", 0.0, 2.0), one.scale, 1e-6, 20)
    assert found is not None
    assert 0.9 * found.least <= one.attacked(found.fit) <= found.bound <= 1e-6


def test_formulas_that_sollya_does_not_read_are_refused():
    for formula in ("max(x, 0)", "where(x < 0, 1, 2)", "sinc(x)"):
        with pytest.raises(InputError, match="Sollya takes formulas"):
            sollya.written(formula, "x")
