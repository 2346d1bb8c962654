"""The page on arXiv 2504.15956: every row is run, and the sizes and constants it names are those of the networks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun import constructions
from attnfun.constructions.sharpness import RECTIFIER
from attnfun.experiments import REGISTRY

PAGE = (Path(__file__).parent.parent / "docs" / "paper-b.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]
RUN = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))


def test_every_row_says_how_it_compares_and_is_run():
    assert len(ROWS) == 9
    for _, here, _, verdict in ROWS:
        assert verdict.startswith(("stronger", "as stated", "weaker", "one reading"))
        named = re.findall(r'construction="([a-z-]+)"', here)
        assert set(named) <= set(constructions.REGISTRY)
        assert all(f'construction="{name}"' in RUN for name in named)
        if not named:
            first = re.findall(r"`(af\.[A-Za-z.]+)`", here)[0]
            assert f"{first}(" in RUN
    for experiment in re.findall(r"attnfun reproduce ([a-z -]+)`", PAGE)[0].split():
        assert experiment in REGISTRY


def test_constants_and_sizes_are_those_of_the_page():
    assert f"{RECTIFIER:.5g}" == "0.27846"  # rounded up on the page
    assert "`0.27847/R`" in PAGE
    n, ends = 8, 2.0
    target = af.TruncatedLinear(np.ones((n, 1)), 0.0, -ends / 2, ends / 2)
    box = af.Box(np.full((n, 1), -2.0), np.full((n, 1), 2.0))
    points = af.compile(target, box, construction="truncated-linear", options={"p": 60})
    assert 0.05 * ends / 60 < points.certificate.bound < 0.08 * ends / 60
    heads = af.compile(target, box, construction="multihead", options={"heads": 4})
    assert 0.05 * ends / (7 * 4) < heads.certificate.bound < 0.08 * ends / (7 * 4)


@pytest.mark.parametrize("layout", ["position-dependent", "token-wise"])
def test_two_layers_have_the_heads_that_the_page_counts(layout):
    torch.manual_seed(0)
    n, M = 3, 5
    module = torch.nn.Sequential(torch.nn.Linear(2 * n, M), torch.nn.ReLU(), torch.nn.Linear(M, 2 * n))
    box = af.Box(np.zeros((n, 2)), np.ones((n, 2)))
    net = af.compile(module, box, 1e-4, construction="two-layer", options={"layout": layout})
    assert net.network.heads == (M + n + 1 if layout == "position-dependent" else n * M + n + 2)
    assert net.network.tokens == 0


STOCK = """
import sys; sys.modules["attnfun"] = None
import numpy as np, torch
for name in sys.argv[1:]:
    program = torch.export.load(f"{name}.pt2").module()
    np.save(f"{name}_values.npy", program(torch.tensor(np.load(f"{name}.npy"))).detach().numpy())
"""


def test_stock_torch_runs_every_network_of_the_page_without_code_of_ours(tmp_path):
    page: dict[str, Any] = {}
    exec(compile(RUN, "paper-b.md", "exec"), page)  # noqa: S102 - our own text
    nets: dict[str, Any] = {name: net for name, net in page.items() if isinstance(net, af.types.Compiled)}
    assert {net.construction for net in nets.values()} == set(re.findall(r'construction="([a-z-]+)"', PAGE))
    modules, points = {}, {}
    for name, net in nets.items():
        rows = net.domain.sample(50, np.random.default_rng(1))
        modules[name], points[name] = net.to_torch(), net.domain.unflatten(rows)
    prompts = {name: page[name].prompt(page["X"], page["y"], page["X"][:3]) for name in ("learner", "ridge")}
    for name, prompt in prompts.items():
        modules[name], points[name] = page[name].to_torch(), prompt.rows[None]
    for name, module in modules.items():
        np.save(tmp_path / f"{name}.npy", points[name])
        torch.export.save(torch.export.export(module, (torch.tensor(points[name]),)), tmp_path / f"{name}.pt2")
    subprocess.run([sys.executable, "-c", STOCK, *modules], cwd=tmp_path, check=True, capture_output=True)
    for name, net in nets.items():
        values = np.load(tmp_path / f"{name}_values.npy")
        target = net.certificate.claim.target.values(points[name].reshape(len(values), -1)).reshape(values.shape)
        errors = np.abs(values - target)
        if net.certificate.norm == np.inf:
            assert errors.max() <= net.certificate.bound
        else:
            assert np.abs(values - net(points[name]).reshape(values.shape)).max() <= 1e-9
    for name, prompt in prompts.items():
        answer = prompt.read(np.load(tmp_path / f"{name}_values.npy")[0])
        assert np.allclose(answer.values[:, 0], page[name].predict(page["X"][:3]), rtol=1e-7)
