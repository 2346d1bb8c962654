"""Files: bit-identical after loading, provable again, atomic, and refused with a reason when they are not ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import attnfun as af
from cases import CASES


@pytest.fixture
def saved(tmp_path, compiled):
    path = tmp_path / "f.safetensors"
    compiled(CASES[1], construction="grid").save(path)
    return path


def test_outputs_are_bit_identical(case, compiled, tmp_path):
    for dtype in ("float64", "float32"):
        net = compiled(case, case.fitting(dtype))
        net.save(tmp_path / "f.safetensors")
        again = af.load(tmp_path / "f.safetensors")
        points = net.domain.unflatten(net.domain.sample(50, np.random.default_rng(0)))
        assert np.array_equal(net(points), again(points))
        assert {**net.certificate.as_dict(), "judged": False} == again.certificate.as_dict()  # files are not believed
        assert net.summary() == again.summary()


def test_a_new_process_gives_the_same_bits_and_proves_again(saved, compiled):
    code = (
        "import sys, attnfun as af; net = af.load(sys.argv[1]);"
        "print(net.certificate.recheck().status.value, net([[0.1, 0.2], [-0.5, 0.9]]).tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True)
    status, bits = done.stdout.split()
    assert status == "proved"
    assert bits == compiled(CASES[1], construction="grid")([[0.1, 0.2], [-0.5, 0.9]]).tobytes().hex()


def test_a_black_box_needs_its_function(compiled, tmp_path):
    box = next(case for case in CASES if case.name == "black box")
    compiled(box).save(tmp_path / "f.safetensors")
    certificate = af.load(tmp_path / "f.safetensors").certificate
    with pytest.raises(af.errors.InputError, match="recheck\\(target=f\\)"):
        certificate.recheck()
    assert certificate.recheck(target=box.target).status is af.types.Status.ESTIMATED


def test_a_declared_black_box_is_rechecked_from_its_recorded_samples(compiled, tmp_path):
    compiled(next(case for case in CASES if case.name == "declared")).save(tmp_path / "f.safetensors")
    assert af.load(tmp_path / "f.safetensors").certificate.recheck().status is af.types.Status.CONDITIONAL


def test_truncated_and_foreign_files_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    for size in (0, 7, 100, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:size])
        with pytest.raises(af.errors.FileFormatError, match="complete safetensors"):
            af.load(saved)
    save_file({"a": np.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(af.errors.FileFormatError, match="written by attnfun"):
        af.load(tmp_path / "other.safetensors")
    with pytest.raises(af.errors.FileFormatError, match="must exist"):
        af.load(tmp_path / "missing.safetensors")


def rewrite(path, change):
    """Save the file again with a changed description."""
    from safetensors import safe_open

    with safe_open(str(path), "numpy") as file:
        header = json.loads(file.metadata()["attnfun"])
    change(header)
    save_file(load_file(path), path, {"attnfun": json.dumps(header)})


def test_what_to_install_is_a_version(saved):
    """The remedy is a command that users may copy."""
    rewrite(saved, lambda header: header.update(format=99, attnfun="9'; echo '"))
    with pytest.raises(af.errors.FileFormatError, match="must be a version") as refused:
        af.load(saved)
    assert "pip" not in str(refused.value)


def test_a_newer_format_names_the_version_to_install(saved):
    rewrite(saved, lambda header: header.update(format=99, attnfun="7.5.0"))
    with pytest.raises(af.errors.FileFormatError, match=r"attnfun>=7\.5\.0"):
        af.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("domain"),
        lambda h: h["network"]["layers"].pop(),
        lambda h: h["network"]["layers"][0].update(kind="pickle"),
        lambda h: h["network"].update(dtype="object"),
        lambda h: h["certificate"].update(status="certain"),
        lambda h: h.update(output_shape=[2]),
        lambda h: h["target"].update(kind="expression", text="__import__('os')"),
        lambda h: h.update(format="x"),
    ],
)
def test_damaged_descriptions_are_refused(saved, change):
    rewrite(saved, change)
    with pytest.raises(af.errors.AttnfunError):
        af.load(saved)


def test_nothing_is_half_written(compiled, tmp_path):
    net = compiled(CASES[0])
    with pytest.raises(af.errors.FileFormatError, match="writable"):
        net.save(tmp_path / "no" / "such" / "folder" / "f.safetensors")
    (tmp_path / "taken").mkdir()
    with pytest.raises(af.errors.FileFormatError, match="taken must be the name of a file"):
        net.save(tmp_path / "taken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_files_are_readable_by_whom_the_umask_lets(compiled, tmp_path):
    compiled(CASES[0]).save(tmp_path / "f.safetensors")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "f.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_devices_and_pipes_are_written_to_not_replaced(compiled, tmp_path):
    pipe, file = tmp_path / "pipe", tmp_path / "f.safetensors"
    net = compiled(CASES[0])
    net.save(file)
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        net.save(pipe)
        assert read.result(timeout=600) == file.read_bytes()
    assert pipe.is_fifo()
