"""What users read: messages that name the part, the value and the remedy; progress; results in a notebook."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import attnfun as af
from attnfun.cli import as_options
from attnfun.compiler import Request, _missed, _rounding
from attnfun.domains import read_box
from attnfun.errors import InputError, ToleranceNotMet
from attnfun.experiments import named
from attnfun.proofs import Effort, Progress
from attnfun.resources import progress
from attnfun.zoo.catalogue import chosen
from test_cli import attnfun as command


class Thing:
    pass


@pytest.fixture(scope="module")
def net() -> af.types.Compiled:
    return af.compile("x**2", {"x": (0, 1)}, 0.1, construction="grid")


def test_the_command_line_says_its_version_and_shows_formulas_of_vectors():
    assert command("--version").stdout == f"attnfun {af.__version__}\n"
    assert "[x*y, x+y]" in " ".join(command("compile", "--help").stdout.replace("│", " ").split())


def test_a_file_has_the_format_that_its_name_says(net, tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    request = ("compile", "x**2", "-d", "x=0:1", "--eps", "0.1", "-o")
    assert command(*request, str(tmp_path / "f.onnx")).returncode == 0
    assert onnx.load(tmp_path / "f.onnx").graph.input[0].name == "points"
    for name in ("f.pt", "f.png", "f.json"):
        assert "must not end in" in " ".join(command(*request, str(tmp_path / name)).stderr.split())
        with pytest.raises(InputError, match="must not end in"):
            net.save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["f.onnx"]
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(af, "compile", lambda *_, **__: pytest.fail("work was done before the extra was missed"))
    assert "attnfun[onnx]" in command(*request, str(tmp_path / "g.onnx")).stderr


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: af.compile("x", {"x": (0, 1)}, 0.1, construction="spectal"), "Did you mean 'spectral'"),
        (lambda: af.compile("x", {"x": (0, 1)}, construction="grid", options={"token": 9}), "Did you mean 'tokens'"),
        (lambda: af.compile("sni(x)", {"x": (0, 1)}, 0.1), "Did you mean sin[?]"),
        (lambda: af.compile(af.Samples([[1.0], [2.0]], [1.0, 2.0]), [(0, 1)] * 2), "must have 1 variable[;,]"),
        (lambda: named(["one-haed"]), "Did you mean 'one-head'"),
        (lambda: chosen(["prodct"], False), "Did you mean 'product'"),
        (lambda: read_box("x=0:2*pie"), r"the upper end of x must be a number; got '2\*pie'"),
        (lambda: read_box("x=:1"), "the lower end of x must be a number; got ''"),
        (lambda: read_box("x=0:1 x=0:2"), "each variable once, but x is named twice"),
        (lambda: read_box("x0:1"), "a name, =, and two ends.*got 'x0:1'"),
        (lambda: af.Box(1.0000000000000002, 1.0), r"got \(1.0000000000000002, 1\)"),
        (lambda: af.compile(Thing(), (0, 1), 0.1), "got a Thing"),
        (lambda: af.Box(Thing(), 1), "got a Thing"),
        (lambda: af.compile("x", {"x": (0, 1)}, Thing()), "got a Thing"),
        (lambda: af.compile("x", {"x": (0, 1)}, 0.1, progress=True), "progress must be None, False or a function"),
        (lambda: af.compile("x", {"x": (0, 1)}, 0.1, progress=7), "progress must be a function"),
    ],
)
def test_messages_name_what_is_wrong(refused, words):
    with pytest.raises(InputError, match=words) as told:
        refused()
    assert "0x" not in str(told.value)


def test_two_numbers_in_place_of_one_array_are_told_what_to_write():
    plane = af.compile("x + y", {"x": (0, 1), "y": (0, 1)}, 0.1)
    with pytest.raises(InputError, match=r"one array, or net\(x=..., y=...\)"):
        plane(0.1, 0.2)


def test_a_point_just_outside_is_told_with_all_its_digits(net):
    with pytest.raises(InputError, match=r"x must lie in \[0, 1\]; got 1.0000000000000002"):
        net(np.nextafter(1.0, 2.0))


def test_errors_of_the_command_line_speak_of_its_options(net, tmp_path):
    done = command("compile", "x**2", "-d", "x=0:1", "--eps", "1e-4", "--construction", "grid", "--budget", "99")
    words = " ".join(done.stderr.split())
    assert "--eps 0.0001 needs about" in words
    assert "got --budget 99" in words
    assert "Raise --budget, relax --eps," in words
    net.save(tmp_path / "f.safetensors")
    words = " ".join(command("eval", str(tmp_path / "f.safetensors"), "7").stderr.split())
    assert "pass --outside clip or --outside allow" in words
    assert as_options("without eps, give a size") == "without --eps, give a size"
    words = " ".join(command("export", str(tmp_path / "f.safetensors"), "--to", "onx", "-o", "h").stderr.split())
    assert "--to must be one of onnx" in words
    assert as_options("got 'x=3', y must be 1") == "got 'x=3', y must be 1"  # no option
    for name, words in (
        ("f.pt", "attnfun export f.safetensors --to torch"),
        ("f.html", "attnfun report f.safetensors"),
    ):
        done = command("compile", "x", "-d", "x=0:1", "--eps", "0.1", "-o", str(tmp_path / name))
        assert words in " ".join(done.stderr.split())


def test_a_tolerance_that_is_missed_is_told_without_contradiction(net):
    """The parts of a bound are largest at different points, so that their sum may be above it."""
    parts = {"construction": 0.01, "input": 0.05, "rounding": 0.06}
    worse = replace(net, certificate=replace(net.certificate, bound=0.08, parts=parts))
    assert _rounding(worse) == 0.08
    request = Request(0.05, "inf", False, "float16", 99, {}, True, "raise", 0, Effort())
    words = str(_missed(request, worse, f"Of this, up to {_rounding(worse):.3g} is rounding"))
    assert "error <= 0.08 proved" in words
    assert "up to 0.08 is rounding" in words
    with pytest.raises(ToleranceNotMet, match=r"The bound on what rounding in bfloat16 adds is") as told:
        af.compile("sin(x)", {"x": (0, 1)}, 0.05, dtype="bfloat16", construction="grid")
    assert told.value.best is not None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


STEP = Progress(bound=0.25, found=0.1, boxes=2000, waiting=7)


def test_progress_is_shown_on_a_terminal_after_a_while_and_nowhere_else(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.showing("compiling") as tell:
            assert (tell is not None) == expected
            if tell is not None:
                tell(STEP)
        assert ("compiling: bound 0.25, 2,000 boxes" in stream.getvalue()) == expected
    with progress.showing("compiling", False) as tell:
        assert tell is None
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.showing("compiling") as tell:
        assert tell is not None
        tell(STEP)
    assert "compiling" not in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_progress_is_shown_below_the_cell_of_a_notebook(monkeypatch):
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))

    def display(content, raw, display_id):
        shown.append(content["text/plain"])
        return handle

    shell = SimpleNamespace(kernel=None)
    notebook = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.showing("compiling") as tell:
        assert tell is not None
        tell(STEP)
    assert shown[0].startswith("compiling: bound 0.25, 2,000 boxes")
    assert shown[-1] == ""


def test_compile_tells_whoever_listens():
    told: list[Progress] = []
    af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1, construction="grid", progress=told.append)
    assert told
    assert told[-1].bound <= 0.1


def test_results_have_a_form_for_notebooks(net):
    for result in (net, net.certificate, net.summary()):
        page = result._repr_html_()
        assert page.startswith("<table>")
        assert "proved" in page
    hostile = af.compile("x", af.Box([0.0], [1.0], ["<b>"]).renamed(("x",)), 0.1)
    assert "<b>" not in hostile._repr_html_()
    odd = af.compile(lambda x: x[..., 0] ** 2, af.Box([0.0], [1.0], ["<script>"]), 0.5)
    assert "<script>" not in odd._repr_html_() + odd.summary()._repr_html_() + odd.certificate._repr_html_()


def test_columns_keep_their_names_through_a_regressor():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).uniform(size=(40, 2))
    frame = pandas.DataFrame(X, columns=["age", "body mass"])
    model = af.AttentionRegressor(tokens=4, polish=False, folds=2).fit(frame, X[:, 0])
    assert model.network_.domain.axes == ("age", "body mass")
    swapped = frame[["body mass", "age"]]
    assert np.array_equal(np.asarray(model.network_(swapped)), model.predict(frame))


OLD_WORDS = re.compile(
    r"(?<![a-z])(guilt|guilty|wish|wishes|wished|culprit|ask|asks|asked|asking|blame|blames|blamed)(?![a-z])",
    re.IGNORECASE,
)
"""Words that stand for a request, a need or a reason; docs/glossary.md has those to use."""
TURNS = re.compile(
    r"give the game away|none of this is trusted|on its word|head start|go on with|by nobody|told apart|hushed|strays",
    re.IGNORECASE,
)
"""Turns of phrase that pages and docstrings had, and sentences without them say better."""
SOURCES = sorted(Path(af.__file__).parent.rglob("*.py"))
HOUSE = Path(__file__).parent.parent
PAGES = sorted([*(HOUSE / "docs").rglob("*.md"), HOUSE / "README.md", HOUSE / "CONTRIBUTING.md"])


def test_old_words_are_gone_from_names_and_texts():
    for path in SOURCES:
        assert OLD_WORDS.findall(path.read_text()) + TURNS.findall(path.read_text()) == [], path
    assert OLD_WORDS.search("the_guilty = 1")
    assert OLD_WORDS.search("as is asked;")
    assert not OLD_WORDS.search("the task of a basket")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_no_old_words_and_say_what_the_reader_can_do(path):
    text = path.read_text()
    assert OLD_WORDS.findall(text) == []
    assert TURNS.findall(text) == []
    if path.parent != HOUSE:
        first = text.split("\n\n")[1]
        assert first.startswith("After this page you"), first
