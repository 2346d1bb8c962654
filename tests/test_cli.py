"""The command line, run as a user would, with wrong input too."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import pytest

from attnfun.cli import main

ATTNFUN = [sys.executable, "-c", "from attnfun.cli import main; main()"]
Done = subprocess.CompletedProcess[str]


def in_a_process(*arguments: str) -> Done:
    return subprocess.run([*ATTNFUN, *arguments], capture_output=True, text=True, check=False)


def attnfun(*arguments: str, text: str = "") -> Done:
    """The same command, without the second that a new process takes to import everything."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        with patch.object(sys, "stdin", io.StringIO(text)), pytest.raises(SystemExit) as left:
            main(list(arguments))
        return subprocess.CompletedProcess(arguments, left.value.code or 0, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "f.safetensors"
    done = in_a_process(
        "compile", "sin(3*x)*y", "--domain", "x=-1:1 y=-1:1", "--eps", "0.2", "--construction", "grid", "-o", str(path)
    )
    assert done.returncode == 0
    assert "proved" in done.stdout
    return str(path)


def test_verify_info_and_json(saved):
    assert "holds again" in attnfun("verify", saved).stdout
    assert json.loads(attnfun("verify", saved, "--json").stdout)["status"] == "proved"
    info = json.loads(attnfun("info", saved, "--json").stdout)
    assert info["summary"]["construction"] == "grid"
    assert info["certificate"]["bound"] <= 0.2
    assert "2504.19901" in attnfun("info", saved).stdout


def test_eval_from_arguments_csv_and_standard_input(saved, tmp_path):
    by_arguments = attnfun("eval", saved, "0.1,0.2", "-0.5,-0.25").stdout.split()
    assert len(by_arguments) == 2
    assert attnfun("eval", saved, text="0.1 0.2\n\n-0.5,-0.25\n").stdout.split() == by_arguments
    table = tmp_path / "points.csv"
    table.write_text("y,extra,x\n0.2,9,0.1\n-0.25,9,-0.5\n")
    assert attnfun("eval", saved, "--csv", str(table)).stdout.split() == by_arguments
    assert "Write --csv" in " ".join(attnfun("eval", saved, str(table)).stderr.split())
    assert json.loads(attnfun("eval", saved, "0.1,0.2", "--json").stdout) == [float(by_arguments[0])]
    assert attnfun("eval", saved, "0.1,5", "--outside", "clip").returncode == 0


def test_export_writes_files_beside_the_network_or_where_told(saved, tmp_path):
    written = attnfun("export", saved, "--to", "torch").stdout.split()
    assert [name.rpartition("/")[2] for name in written] == ["f_torch.py", "f_torch.weights.safetensors"]
    assert json.loads(attnfun("export", saved, "--to", "onnx", "-o", str(tmp_path / "g.onnx"), "--json").stdout) == [
        str(tmp_path / "g.onnx")
    ]
    refused = attnfun("export", saved, "--to", "caffe")
    assert refused.returncode == 2
    assert "onnx, torch, jax" in " ".join(refused.stderr.split())


def test_a_plot_is_written(tmp_path):
    done = attnfun("compile", "x**2", "-d", "x=0:1", "--eps", "0.1", "--plot", str(tmp_path / "p.png"))
    assert done.returncode == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    wrong, asked = str(tmp_path / "p.xyz"), ("compile", "x**2", "-d", "x=0:1", "--eps", "0.1")
    refused = attnfun(*asked, "-o", str(tmp_path / "f.safetensors"), "--plot", wrong)
    assert refused.returncode == 2
    assert "must end in one of" in " ".join(refused.stderr.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["compile", "sin(q)", "-d", "x=0:1", "--eps", "0.1"], 2, "'q'"),
        (["compile", "sin(x)", "-d", "x=1:0", "--eps", "0.1"], 2, "lo < hi"),
        (["compile", "sin(x)", "-d", "x", "--eps", "0.1"], 2, "Write x=-1:1"),
        (["compile", "sin(x)", "-d", "x=0:1", "--eps", "-1"], 2, "eps must be"),
        (["compile", "sin(x)", "-d", "x=0:1", "--eps", "0.1", "-o", "/no/such/place/f"], 2, "writable"),
        (["compile", "x**2", "-d", "x=0:1", "--eps", "1e-4", "--construction", "grid", "--budget", "99"], 3, "tokens"),
        (["info", "missing.safetensors"], 2, "must exist"),
        (["compile", "sin(x)", "--eps", "0.1"], 2, "--domain"),
        (["nonsense"], 2, "nonsense"),
        (["compile", "x", "-d", "x=0:1", "--eps", "0.1", "--budget", "-4"], 2, "--budget must be"),
        (["compile", "x", "-d", "x=0:1", "--eps", "0.1", "--memory-limit", "10"], 3, "got --memory-limit 10"),
        (["compile", "sin(x)", "-d", "x=0:1"], 2, "must say how many"),
        (["compile", "sin(x)", "-d", "x=0:1", "--eps", "1", "-O", "tokens"], 2, "Write tokens=500"),
        (["compile", "sin(x)", "-d", "x=0:1", "--eps", "1", "--norm", "two"], 2, "norm must be"),
    ],
)
def test_bad_input_has_an_exit_code_and_one_clear_line(arguments, code, message):
    done = attnfun(*arguments)
    assert done.returncode == code
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_sizes_norms_and_densities():
    sized = (
        "compile",
        "sin(3*x)",
        "-d",
        "x=-1:1",
        "--construction",
        "grid",
        "-O",
        "tokens=20",
        "--norm",
        "2",
        "--json",
    )
    found = json.loads(attnfun(*sized).stdout)
    assert found["summary"]["tokens"] == 20
    assert found["certificate"]["norm"] == 2
    dense = attnfun("compile", "1/(1+25*x**2)", "-d", "x=-1:1", "--eps", "1e-3", "-O", "density=1/(0.2+abs(x))")
    assert "proved" in dense.stdout


def test_bad_input_leaves_a_process_with_its_code():
    done = in_a_process("compile", "sin(q)", "-d", "x=0:1", "--eps", "0.1")
    assert done.returncode == 2
    assert done.stderr.count("error") == 1


def test_bad_points_are_refused(saved, tmp_path):
    assert "must lie in" in attnfun("eval", saved, "0.1,5").stderr
    assert "2 numbers" in attnfun("eval", saved, "0.1").stderr
    (tmp_path / "bad.csv").write_text("x\n1\n")
    assert attnfun("eval", saved, "--csv", str(tmp_path / "bad.csv")).returncode == 2


def test_a_changed_file_is_not_verified(saved, tmp_path):
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    with safe_open(saved, "numpy") as file:
        metadata = file.metadata()
    tensors = {name: np.array(tensor) for name, tensor in load_file(saved).items()}
    tensors["layers.1.memory"][3, -1] += 1.0
    save_file(tensors, tmp_path / "changed.safetensors", metadata)
    done = attnfun("verify", str(tmp_path / "changed.safetensors"))
    assert done.returncode == 3
    assert "could not be proved again" in " ".join(done.stderr.split())
