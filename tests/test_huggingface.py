"""Hugging Face: models that save and load offline, say what is proved, train, and run without attnfun."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
import torch

import attnfun as af
from cases import CASES

pytest.importorskip("transformers", reason="transformers is not installed: `make lens` installs it and runs this")
pytestmark = pytest.mark.filterwarnings("ignore")

SOME = [case for case in CASES if case.name in ("wave", "vector", "sequence", "rectifiers", "circuit at an edge")]


@pytest.fixture(scope="module", autouse=True)
def offline():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.mark.parametrize("case", SOME, ids=str)
def test_a_folder_gives_the_same_model_back_within_its_certificate(case, compiled, tmp_path):
    net = compiled(case)
    model = net.to_huggingface()
    model.save_pretrained(tmp_path / "saved")
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {".json", ".safetensors"}
    again = type(model).from_pretrained(tmp_path / "saved")
    assert again.dtype == torch.float64
    assert all(torch.equal(again.state_dict()[name], weight) for name, weight in model.state_dict().items())
    rows = net.domain.sample(50, np.random.default_rng(0))
    points = net.domain.unflatten(rows)
    with torch.no_grad():
        values = again(torch.tensor(points)).logits.numpy()
    target = net.certificate.claim.target.values(rows).reshape(values.shape)
    assert np.abs(values - target).max() <= net.certificate.bound
    assert again.config.certificate == json.loads(json.dumps(net.certificate.as_dict()))
    assert again.config.variables == list(net.domain.axes)


def test_coarse_arithmetic_is_kept_and_the_auto_classes_know_the_model(tmp_path):
    from transformers import AutoConfig, AutoModel

    net = af.compile("tanh(x)", {"x": (-1, 1)}, 0.5, dtype="bfloat16")
    net.to_huggingface().save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path)
    rows = np.linspace(-1, 1, 501)
    with torch.no_grad():
        values = model(torch.tensor(rows).bfloat16()).logits
    assert values.dtype == torch.bfloat16
    assert np.abs(values.double().numpy() - np.tanh(rows)).max() <= net.certificate.bound
    assert AutoConfig.from_pretrained(tmp_path).summary.startswith(net.certificate.headline)


def test_a_network_of_two_inputs_takes_both_by_place():
    net = af.compile("sin(Q)*K", {"Q": af.Box(-1, 1), "K": af.Box(-1, 1)}, eps=0.5)
    model = net.to_huggingface()
    Q, K = np.linspace(-1, 1, 7), np.linspace(1, -1, 7)
    with torch.no_grad():
        out = model(torch.tensor(Q), torch.tensor(K), labels=torch.zeros(7))
    assert np.abs(out.logits.numpy() - net(Q, K)).max() <= 1e-12
    assert out.loss.item() == pytest.approx(float((net(Q, K) ** 2).mean()))


def test_labels_give_a_loss_that_trains(compiled):
    model = compiled(CASES[1]).to_huggingface()
    points = torch.rand(20, 2, dtype=torch.float64)
    out = model(points, labels=points.sum(dim=1))
    assert out.loss.item() == pytest.approx((out.logits - points.sum(dim=1)).square().mean().item())
    out.loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_an_exported_folder_is_enough_to_load_the_model(compiled, tmp_path, monkeypatch):
    net = compiled(CASES[1])
    written = net.export(tmp_path / "product_model", "huggingface")
    names = {"config.json", "model.safetensors", "huggingface_model.py", "torch_model.py"}
    assert {path.name for path in written} == names == {path.name for path in (tmp_path / "product_model").iterdir()}
    monkeypatch.syspath_prepend(tmp_path)
    load = importlib.import_module("product_model.huggingface_model").load
    value = load()(torch.tensor([0.1, -0.7], dtype=torch.float64)).logits.item()
    assert value == pytest.approx(net([0.1, -0.7]), rel=1e-12)
    with pytest.raises(af.errors.InputError, match=r"is a folder; got .*f\.py"):
        net.export(tmp_path / "f.py", "huggingface")
    assert not (tmp_path / "f.py").exists()
