"""Exports at work in their own frameworks, and as files in a process where attnfun cannot be imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import onnxruntime
import pytest
import torch
from safetensors import safe_open

import attnfun as af
from attnfun.arithmetic.formats import FORMATS
from attnfun.network.reference import run as reference
from attnfun.runtime.backends import standalone
from attnfun.runtime.backends.lens import residual_of
from cases import CASES

FILES = sorted(Path(standalone.__file__).parent.glob("*_model.py"))
PRODUCT = next(case for case in CASES if case.name == "product")


@pytest.fixture(scope="module")
def coarse() -> af.types.Compiled:
    return af.compile("tanh(x)", {"x": (-1, 1)}, 0.5, dtype="bfloat16")


def test_one_point_is_as_good_as_a_batch_in_every_framework(compiled):
    net = compiled(PRODUCT)
    point = np.array([0.1, -0.7])
    assert np.allclose(net.to_torch()(torch.tensor(point)).item(), net(point), rtol=1e-12)
    with jax.enable_x64(True):
        apply, weights = net.to_jax()
        assert apply(weights, point).shape == ()
        assert np.allclose(apply(weights, point), net(point), rtol=1e-12)


def test_torch_compile_and_torch_export_take_the_whole_module(compiled, tmp_path):
    """One graph without breaks, any batch; the saved program needs nothing of ours."""
    net = compiled(PRODUCT)
    module = net.to_torch()
    points = torch.tensor(net.domain.sample(6, np.random.default_rng(0)))
    values = module(points).detach()
    graph = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.allclose(graph(points), values, rtol=1e-12, atol=1e-12)
    program = torch.export.export(module, (points,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "f.pt2")
    again = torch.export.load(tmp_path / "f.pt2").module()
    assert torch.allclose(again(points[:4]), values[:4], rtol=1e-12, atol=1e-12)


def test_weights_load_into_stock_attention(compiled):
    module = compiled(PRODUCT).to_torch()
    own = module.layers[1].attention
    assert type(own) is torch.nn.MultiheadAttention
    stock = torch.nn.MultiheadAttention(
        own.embed_dim, own.num_heads, kdim=own.kdim, vdim=own.vdim, batch_first=True, dtype=torch.float64
    )
    start = "layers.1.attention."
    state = {name.removeprefix(start): w for name, w in module.state_dict().items() if name.startswith(start)}
    stock.load_state_dict(state)
    assert all(torch.equal(tensor, own.state_dict()[name]) for name, tensor in stock.state_dict().items())


def test_a_step_of_training_changes_every_kind_of_weight(compiled):
    net = compiled(PRODUCT)
    module = net.to_torch()
    before = {name: weight.detach().clone() for name, weight in module.named_parameters()}
    points = torch.tensor(net.domain.sample(20, np.random.default_rng(0)))
    torch.nn.functional.mse_loss(module(points), points.sum(-1)).backward()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    changed = {name for name, weight in module.named_parameters() if not torch.equal(weight, before[name])}
    assert {"layers.0.weight", "layers.1.memory", "layers.1.attention.out_proj.weight"} <= changed


def test_derivatives_by_torch_and_jax_are_those_of_the_function_itself(compiled):
    net = compiled(PRODUCT)
    rows = net.domain.sample(4, np.random.default_rng(0)) * 0.9
    step = 1e-5
    steps = step * np.eye(2)
    measured = np.stack([(net(rows + s) - net(rows - s)) / (2 * step) for s in steps], axis=-1)
    points = torch.tensor(rows, requires_grad=True)
    net.to_torch()(points).sum().backward()
    assert np.allclose(points.grad, measured, atol=1e-6)
    with jax.enable_x64(True):
        apply, weights = net.to_jax()
        by_jax = jax.jit(jax.vmap(jax.grad(apply, argnums=1), in_axes=(None, 0)))(weights, rows)
        by_weights = jax.grad(lambda w: apply(w, rows).sum())(weights)
    assert np.allclose(by_jax, measured, atol=1e-6)
    assert jax.tree.structure(by_weights) == jax.tree.structure(weights)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(by_weights))


def test_jax_refuses_float64_unless_the_caller_has_enabled_it(compiled):
    with jax.enable_x64(False), pytest.raises(af.errors.InputError, match=r"jax_enable_x64.*float32"):
        compiled(PRODUCT).to_jax()
    with jax.enable_x64(False):
        apply, weights = compiled(PRODUCT, "float32").to_jax()
        assert apply(weights, [[0.1, 0.2]]).dtype == "float32"


@pytest.mark.parametrize("name", ["wave", "sequence", "rectifiers"])
def test_jax_in_float32_stays_within_the_rounding_part(name, compiled):
    net = compiled(next(case for case in CASES if case.name == name), "float32")
    rows = net.domain.sample(200, np.random.default_rng(1)).astype(np.float32)
    apply, weights = net.to_jax()
    values = np.asarray(jax.jit(apply)(weights, net.domain.unflatten(rows)), dtype=float)
    expected = reference(net.network, rows.astype(float).reshape(len(rows), *net.network.shape_in))
    assert np.abs(values - expected.reshape(values.shape)).max() <= net.certificate.parts["rounding"]


@pytest.mark.parametrize("dtype", [name for name, each in FORMATS.items() if each.store])
def test_coarsely_stored_formats_keep_the_certificate(dtype, tmp_path):
    net = af.compile("tanh(x)", {"x": (-1, 1)}, 0.5, dtype=dtype)
    rows = np.linspace(-1, 1, 2001)
    kind = getattr(torch, dtype)
    with torch.no_grad():
        by_torch = net.to_torch()(torch.tensor(rows, dtype=kind)[:, None])
    assert by_torch.dtype == kind
    apply, weights = net.to_jax()
    by_jax = apply(weights, rows[:, None])
    assert by_jax.dtype == dtype
    answers = [by_torch.double().numpy(), np.asarray(by_jax, dtype=float)]
    for attention in ("decomposed", "operator") if hasattr(np, dtype) else ():
        net.to_onnx(tmp_path / "f.onnx", attention=attention)
        session = onnxruntime.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
        (values,) = session.run(["values"], {"points": rows[:, None].astype(dtype)})
        assert values.dtype == dtype
        answers.append(values.astype(float))
    for values in answers:
        assert np.abs(values.ravel() - np.tanh(rows)).max() <= net.certificate.bound


def test_a_residual_stream_in_float16_is_refused():
    net = af.compile("tanh(x)", {"x": (-1, 1)}, 0.5, dtype="float16")
    with pytest.raises(
        af.errors.InputError, match=r"masks rows by scores .* dtype must hold; got float16.*export to torch"
    ):
        residual_of(net.network)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_that_are_handed_out_need_nothing_of_ours(file):
    text = file.read_text()
    assert "import attnfun" not in text
    assert "from attnfun" not in text
    assert set(re.findall(r"from \.(\w*)", text)) <= {"torch_model"}  # which is handed out beside it


ELSEWHERE = """
import sys; sys.modules["attnfun"] = None
import importlib, json, numpy as np
def torch(module, points):
    import torch
    net = module.load()
    return net(torch.tensor(points, dtype=getattr(torch, net.description["dtype"]))).detach().double().numpy()
def jax(module, points):
    import jax; jax.config.update("jax_enable_x64", True)
    apply, weights = module.load()
    return np.asarray(jax.jit(apply)(weights, points), dtype=float)
def onnx(path, points):
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kind = np.float32 if "float)" in session.get_inputs()[0].type else np.float64
    return session.run(None, {"points": points.astype(kind)})[0]
to, names = sys.argv[1], sys.argv[2:]
for name in names:
    points = np.load(f"{name}.npy")
    given = f"{name}.onnx" if to == "onnx" else importlib.import_module(name)
    np.save(f"{name}_values.npy", globals()[to](given, points))
"""
SOME = ("wave", "vector", "sequence", "sequence by two layers", "truncated linear", "rectifiers", "circuit at an edge")


@pytest.mark.parametrize("to", ["torch", "onnx", "jax"])
def test_files_run_where_attnfun_cannot_be_imported(to, compiled, coarse, tmp_path):
    nets = {case.name.replace(" ", "_"): compiled(case) for case in CASES if case.name in SOME}
    if to != "onnx":
        nets["coarse"] = coarse
    for name, net in nets.items():
        rows = net.domain.sample(30, np.random.default_rng(5))
        np.save(tmp_path / f"{name}.npy", net.domain.unflatten(rows))
        written = net.export(tmp_path / f"{name}.{'onnx' if to == 'onnx' else 'py'}", to)
        assert all(path.exists() for path in written)
    subprocess.run([sys.executable, "-c", ELSEWHERE, to, *nets], cwd=tmp_path, check=True, capture_output=True)
    for name, net in nets.items():
        points, values = np.load(tmp_path / f"{name}.npy"), np.load(tmp_path / f"{name}_values.npy")
        assert values.shape == (len(points), *net.output_shape)
        target = net.certificate.claim.target.values(points.reshape(len(points), -1)).reshape(values.shape)
        assert np.abs(values - target).max() <= net.certificate.bound


def test_an_export_carries_what_is_proved(compiled, tmp_path):
    net = compiled(PRODUCT)
    for to in ("torch", "jax"):
        code, weights = net.export(tmp_path / f"{to}_net.py", to)
        assert code.read_bytes() == (Path(standalone.__file__).parent / f"{to}_model.py").read_bytes()
        with safe_open(str(weights), "numpy") as file:
            known = json.loads(file.metadata()["network"])
        assert known["certificate"] == net.certificate.as_dict()
        assert known["domain"] == net.domain.as_dict()
        assert known["variables"] == ["x", "y"]


def test_bad_exports_are_refused_and_leave_nothing(compiled, coarse, tmp_path):
    net = compiled(PRODUCT)
    with pytest.raises(af.errors.InputError, match="to must be one of onnx, torch, jax, transformer-lens, huggingface"):
        net.export(tmp_path / "f.py", "caffe")
    with pytest.raises(af.errors.InputError, match=r"Python file.*f\.bin"):
        net.export(tmp_path / "f.bin", "torch")
    with pytest.raises(af.errors.InputError, match="attention must be one of decomposed, operator"):
        net.to_onnx(tmp_path / "f.onnx", attention="fused")
    with pytest.raises(af.errors.InputError, match="bfloat16"):
        coarse.to_onnx(tmp_path / "f.onnx")
    assert not list(tmp_path.iterdir())


def test_the_attention_operator_stays_within_the_certificate(compiled, tmp_path):
    net = compiled(PRODUCT, "float32", "grid")
    net.to_onnx(tmp_path / "f.onnx", attention="operator")
    rows = net.domain.sample(500, np.random.default_rng(3))
    session = onnxruntime.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
    (values,) = session.run(None, {"points": rows.astype(np.float32)})
    assert np.abs(values - np.sin(3 * rows[:, 0]) * rows[:, 1]).max() <= net.certificate.bound
