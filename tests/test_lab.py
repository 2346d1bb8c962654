"""The lab's worker: the API's own messages, and limits that hold."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest

import attnfun as af
from attnfun.cli import main
from attnfun.lab import requests
from attnfun.lab.child import serve
from attnfun.lab.gallery import GALLERY
from attnfun.lab.tasks import TASKS, at_temperature, compiled, ridge, warmed
from attnfun.lab.worker import Limits, RequestFailed, Worker

WAVE = {"formula": "sin(3*x)", "domain": "x=-1:1", "temperature": 1.0}
HUGE = {"formula": "sin(3*x)", "domain": "x=-1:1", "construction": "cross", "proof": False}


def test_too_much_memory_or_time_ends_a_request_and_not_the_lab():
    worker = Worker(Limits(seconds=120))
    try:
        with pytest.raises(RequestFailed, match="must fit into the memory limit"):
            worker.send("compiled", folder="", eps=None, budget=10**10, options={"tokens": 10**10}, **HUGE)
        assert worker.send("warmed", **WAVE, tokens=10)["tokens"] == 10
        with pytest.raises(RequestFailed, match="every variable in a formula must be known; got 'q'"):
            worker.send("warmed", **WAVE | {"formula": "q"}, tokens=10)
        worker.limits = Limits(seconds=0.1, grace=0.0)
        with pytest.raises(RequestFailed, match=r"may take 0\.1 s.*took longer"):
            worker.send("warmed", **WAVE, tokens=200_000)
    finally:
        worker.stop()


FIELDS = {
    "formula": "sin(3*x)",
    "domain": "x=-1:1",
    "eps": "0.1",
    "norm": "inf",
    "dtype": "float64",
    "construction": "auto",
}


class Busy:
    """A worker that must not be asked."""

    limits = Limits()

    def send(self, task, **arguments):
        raise AssertionError(f"{task} was requested with {arguments}")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"formula": "x+" * 5_000_000 + "x"}, "a formula has at most 2000 letters; got 10000001"),
        ({"domain": " ".join(f"x{k}=0:1" for k in range(100_000))}, "a domain has at most 2000 letters"),
        ({"domain": " ".join(f"x{k}=0:1" for k in range(9))}, "at most 8 variables; got 9"),
        ({"formula": "x\0"}, r"printable letters only; got 'x\\x00'"),
        ({"formula": "\ud800"}, r"printable letters only; got '\\ud800'"),
        ({"formula": None}, "the formula must be a text; got None"),
        ({"domain": "<script>alert(1)</script>"}, "each range of a domain must be a name, =, and two ends"),
        ({"eps": "<b>"}, "eps must be a finite number > 0; got '<b>'"),
        ({"eps": None}, "eps must be a finite number > 0; got None"),
        ({"norm": "0.5"}, "norm must be one of inf, 1, 2; got '0.5'"),
        ({"dtype": "float8"}, "dtype must be one of .*; got 'float8'"),
        ({"construction": "magic"}, "construction must be one of .*; got 'magic'"),
    ],
)
def test_hostile_fields_are_refused_before_any_work(changed, words, tmp_path):
    with pytest.raises(af.errors.InputError, match=words):
        requests.compiled(Busy(), str(tmp_path), **FIELDS | changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tokens", "warmth"), [(1e9, 0.0), (float("nan"), 0.0), ("7", 0.0), (30, 400), (30, float("inf")), (None, None)]
)
def test_hostile_sliders_are_refused_before_any_work(tokens, warmth):
    with pytest.raises(af.errors.InputError, match="must be a finite number >="):
        requests.warmed(Busy(), "sin(3*x)", "x=-1:1", tokens, warmth)  # type: ignore[arg-type]
    with pytest.raises(af.errors.InputError, match="must be a finite number >="):
        requests.ridge(Busy(), warmth, tokens)  # type: ignore[arg-type]


def served(task) -> list[dict]:
    """What the child process writes for two requests."""
    lines, replies = json.dumps({"task": "hostile", "arguments": {}}) + "\n", io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "hostile", task)
        serve(io.StringIO(2 * lines), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def test_what_goes_wrong_in_the_process_is_told_as_what_it_is(capsys):
    def raising(error):
        def task():
            raise error

        return task

    assert served(raising(MemoryError())) == [{"error": "memory", "ends": True}]  # and no second request
    assert served(raising(af.errors.InputError("x must be 1"))) == 2 * [{"error": "x must be 1."}]
    first, second = served(raising(KeyError("y")))
    assert first == second == {"error": "this is an internal error of attnfun, please report it: KeyError('y')"}
    assert "KeyError" in capsys.readouterr().err


def test_a_process_that_ends_is_not_called_slow(monkeypatch):
    worker = Worker(Limits())
    command = [sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(7)"]
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **pipes: start(command, **pipes))
    with pytest.raises(RequestFailed, match=r"ended without a reply \(exit code"):
        worker.send("warmed")
    command[-1] = 'import sys; sys.stdin.readline(); print(\'{"error": "memory", "ends": true}\', flush=True)'
    with pytest.raises(RequestFailed, match="may take 4 GiB of memory; this one needs more"):
        worker.send("warmed")
    worker.stop()


def test_a_request_leaves_all_files(tmp_path):
    reply = compiled(str(tmp_path), "sin(3*x)", "x=-1:1", 0.1, budget=100, construction="grid")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"network.safetensors", "network.onnx", "report.html", "reproduce.py", "dark.png", "picture.png"}
    assert af.load(tmp_path / "network.safetensors").certificate.headline == reply["headline"]


def test_temperature_blurs_and_sharpens():
    replies = [warmed("sin(3*x)", "x=-1:1", 20, temperature) for temperature in (0.1, 1.0, 10.0)]
    steps, plain, blurred = (np.array(reply["figures"]["values"]["data"][1]["y"]) for reply in replies)
    assert np.median(np.abs(np.diff(steps))) < 0.1 * np.median(np.abs(np.diff(plain)))
    assert np.ptp(blurred) < np.ptp(plain)
    assert replies[2]["met"] > replies[1]["met"]
    with pytest.raises(af.errors.InputError, match="temperature"):
        at_temperature(af.compile("x", {"x": (0, 1)}, 0.5).network, 0.0)


def test_ridge_regression_in_context_is_that_of_scikit_learn():
    reply = ridge(alpha=0.1, rows=60)
    ours, theirs = (bars["y"] for bars in reply["figures"]["coefficients"]["data"])
    assert ours == pytest.approx(theirs, rel=1e-6)
    distance, bound = (np.array(line["y"]) for line in reply["figures"]["convergence"]["data"])
    assert (distance <= bound).all()


def test_long_formulas_and_bad_ports_are_refused():
    with pytest.raises(af.errors.InputError, match="at most 2000 letters"):
        requests.check(Limits(), "x" * 2001, "x=0:1")
    with pytest.raises(af.errors.InputError, match="at most 8 variables"):
        requests.check(Limits(), "x", " ".join(f"x{k}=0:1" for k in range(9)))
    with pytest.raises(SystemExit) as left:
        main(["lab", "--port", "70000"])
    assert left.value.code == 2


@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.name)
def test_the_gallery_is_fine(example):
    from attnfun.domains.box import read_box

    norm = example.norm if example.norm == "inf" else float(example.norm)
    net = af.compile(
        example.formula, read_box(example.domain), float(example.eps), norm=norm, construction=example.construction
    )
    assert net.certificate.proved
