"""TransformerLens: the weights do what they should in its architecture, and the package itself computes the same."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.constructions import REGISTRY
from attnfun.network import Affine, Network, Softmax
from attnfun.network.reference import run as reference
from attnfun.network.reference import softmax
from attnfun.runtime.backends.lens import plan
from cases import CASES
from test_backends import RANDOM
from test_network import random_attention

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("transformer_lens") is None,
    reason="transformer-lens is not installed; it takes half a gigabyte: `make lens` installs it and runs this",
)
BETWEEN = {
    "an affine map between": Network(
        (random_attention(out=5), Affine.tokenwise(np.ones((5, 3)), np.arange(3.0)), random_attention(seed=5)), 4
    ),
    "memory behind a residual layer": Network(
        (random_attention(out=3, residual=True), random_attention(out=3, residual=True, seed=5)), 4
    ),
    "cross-attention behind a residual layer": Network(
        (random_attention(out=3, residual=True), random_attention(attends_data=False, seed=5)), 4
    ),
}


def by_formula(network: Network, X: np.ndarray) -> np.ndarray:
    """The formulas of an attention-only, bidirectional TransformerLens model without norms, for weights in float64."""
    description, weights = plan(network, network.shape_in, network.shape_out)
    config = description["config"]

    def ends(where: str, tokens: np.ndarray) -> np.ndarray:
        for number, layer in enumerate(description[where]):
            if layer["kind"] == "softmax":
                tokens = softmax(tokens)
                continue
            weight, bias = (weights[f"{where}.{number}.{name}"] for name in ("weight", "bias"))
            flat = tokens.reshape(len(tokens), -1) if layer["kind"] == "mixing" else tokens
            tokens = flat @ weight + bias
            if layer["kind"] == "mixing":
                tokens = tokens.reshape(len(tokens), *layer["shape"])
        return tokens

    tokens = ends("before", X)
    stream = np.tile(weights["start"], (len(X), 1, 1))  # (B, T, D)
    stream[:, : tokens.shape[1], : tokens.shape[2]] += tokens
    for block in range(config["n_layers"]):
        at = f"blocks.{block}.attn"
        q, k, v = (
            (stream @ weights[f"{at}.{name}.weight"].T + weights[f"{at}.{name}.bias"])
            .reshape(*stream.shape[:2], config["n_heads"], config["d_head"])
            .swapaxes(1, 2)
            for name in "qkv"
        )  # (B, H, T, k)
        y = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(config["d_head"])) @ v
        stream = stream + y.swapaxes(1, 2).reshape(*stream.shape[:2], -1) @ weights[f"{at}.o.weight"].T
    return ends("after", (stream @ weights["unembed.weight"].T)[:, : description["data_tokens"]])


SERVED = {name: case for case in reversed(CASES) for name in case.constructions if name in REGISTRY}


@pytest.mark.parametrize("name", SERVED)
def test_every_construction_fits_the_architecture(name, compiled):
    net = compiled(SERVED[name], "float64", name)
    rows = net.domain.sample(20, np.random.default_rng(1))
    X = rows.reshape(len(rows), *net.network.shape_in)
    expected = reference(net.network, X)
    room = net.certificate.parts.get("rounding", 0.0) + 1e-11 * (1 + np.abs(expected).max())
    assert np.abs(by_formula(net.network, X) - expected).max() <= room
    if name == "regression":
        with pytest.raises(
            af.errors.InputError, match=r"a target that is a function; got Samples.*made of data have none"
        ):
            af.zoo.specimen(net)
        return
    model = af.zoo.specimen(net)
    assert model.farthest(rows) <= net.certificate.bound
    exact, streams = model.truth.values(rows), model.streams(rows)
    for carrier in model.truth.carriers:
        off = np.abs(carrier.read(streams[carrier.last + 1]) - exact[carrier.register]).max()
        assert off <= 10 * net.certificate.bound


def test_no_construction_is_forgotten():
    assert set(SERVED) == set(REGISTRY)


@pytest.mark.parametrize("name", [name for name, network in (RANDOM | BETWEEN).items() if network.attention])
def test_random_layers_fit_the_architecture(name):
    network = (RANDOM | BETWEEN)[name]
    X = np.random.default_rng(2).normal(size=(6, *network.shape_in))
    assert np.allclose(by_formula(network, X), reference(network, X), rtol=1e-12, atol=1e-12)


def test_the_map_names_every_row_feature_and_head(compiled):
    net = af.compile("x*y", {"x": (0, 1), "y": (0, 1)}, 0.1, construction="spectral")
    description, weights = plan(net.network, net.domain.shape, net.output_shape)
    rows, features = weights["start"].shape
    assert len(description["tokens"]) == rows == description["config"]["n_ctx"]
    assert len(description["features"]) == features == len(set(description["features"]))
    assert any("x[0]" in name and "x[1]" not in name for name in description["features"])
    circuit = compiled(next(case for case in CASES if case.name == "circuit"))
    known, weights = plan(circuit.network, circuit.domain.shape, circuit.output_shape)
    size = known["config"]["d_head"]
    for block, roles in enumerate(known["heads"]):
        output = weights[f"blocks.{block}.attn.o.weight"].reshape(len(known["features"]), -1, size)
        assert [role != "idle" for role in roles] == output.any(axis=(0, 2)).tolist()
    assert any("maps its own token" in role for roles in known["heads"] for role in roles)


def test_what_does_not_fit_is_refused():
    mixing = Affine(np.ones((1, 4, 3)), np.zeros((4, 3)), np.ones((1, 4, 4)))
    for between, got in ((mixing, "mixes tokens"), (Softmax(4), "softmax")):
        network = Network((random_attention(), between, random_attention(width=between.width_out)), 4)
        with pytest.raises(af.errors.InputError, match=f"token-wise affine maps between.*{got}.*to_torch"):
            plan(network, network.shape_in, network.shape_out)
    with pytest.raises(af.errors.InputError, match="needs an attention layer"):
        plan(RANDOM["mixing tokens"], (4, 2), (5, 2))


def test_a_model_that_would_be_too_large_is_refused_with_its_size():
    network = Network((random_attention(memory=60_000),), 4)
    with pytest.raises(af.errors.InputError, match=r"at most 2,000,000,000 bytes.*got 3,6\d\d,\d\d\d,\d\d\d bytes"):
        plan(network, network.shape_in, network.shape_out)


SOME = ("wave", "sequence by two layers", "truncated linear", "rectifiers", "circuit at an edge")


@needs_package
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", [case for case in CASES if case.name in SOME], ids=str)
def test_the_package_computes_the_network(case, dtype, compiled):
    net = compiled(case, case.fitting(dtype))
    rows = net.domain.sample(50, np.random.default_rng(1)).astype(dtype).astype(float)
    lens = net.to_transformer_lens()
    values, cache = lens.run_with_cache(net.domain.unflatten(rows))
    assert torch.equal(values, lens(net.domain.unflatten(rows)))
    assert values.dtype == getattr(torch, net.network.dtype)
    expected = reference(net.network, rows.reshape(len(rows), *net.network.shape_in))
    slack = 1e-11 * (1 + np.abs(expected).max()) if net.network.dtype == "float64" else 0.0
    off = np.abs(values.detach().double().numpy() - expected.reshape(values.shape)).max()
    assert off <= net.certificate.parts["rounding"] + slack
    description, weights = plan(net.network, net.domain.shape, net.output_shape)
    for name, tensor in lens.bridge.state_dict().items():
        assert np.array_equal(tensor.double().numpy(), weights.get(name, np.zeros(tensor.shape)))
    for block in range(description["config"]["n_layers"]):
        pattern = cache[f"blocks.{block}.attn.hook_pattern"]  # (B, H, T, T)
        assert (pattern[:, 0, lens.description["data_tokens"] :, -1] == 1).all()  # rows without data look at the sink
        assert cache[f"blocks.{block}.hook_resid_post"].shape[-1] == len(lens.features)


@needs_package
@pytest.mark.filterwarnings("ignore")
def test_bfloat16_keeps_the_certificate():
    net = af.compile("tanh(x)", {"x": (-1, 1)}, 0.5, dtype="bfloat16")
    rows = np.linspace(-1, 1, 501)
    values = net.to_transformer_lens()(rows)
    assert values.dtype == torch.bfloat16
    assert np.abs(values.detach().double().numpy() - np.tanh(rows)).max() <= net.certificate.bound


@needs_package
def test_the_files_run_without_attnfun(compiled, tmp_path):
    net = compiled(next(case for case in CASES if case.name == "circuit at an edge"))
    net.export(tmp_path / "looked_at.py", "transformer-lens")
    code = (
        "import sys; sys.modules['attnfun'] = None; import looked_at\n"
        "lens = looked_at.load(); print(*lens([[0.1, 0.2, 0.3, 0.4, 0.5]]).tolist()); print(lens.heads[0][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    value, role = done.stdout.strip().splitlines()[-2:]
    assert abs(float(value) - net([0.1, 0.2, 0.3, 0.4, 0.5])) < 1e-9
    assert role == "looks its memory up"


@needs_package
@pytest.mark.filterwarnings("ignore")
def test_the_tutorial_is_right_in_transformer_lens_too():
    text = (Path(__file__).parent.parent / "docs/tutorials/multiplication-head.md").read_text()
    blocks = re.findall(r"```(python|py)\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in blocks].count("py") == 2
    names: dict[str, object] = {}
    for _, block in blocks:
        exec(compile(block, "multiplication-head.md", "exec"), names)  # noqa: S102 - our own text
