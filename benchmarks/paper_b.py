"""The set-ups of arXiv 2504.15956, constructed and trained side by side, and trained networks converted.

    python benchmarks/paper_b.py

Writes benchmarks/results/paper_b.md. Needs the extras torch and sklearn.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from torch import nn

import attnfun as af

RESULTS = Path(__file__).parent / "results"
LENGTH, WIDTH = 50, 10
EPOCHS, SAMPLES, RATE = 50, 800, 1e-3


class Trained(nn.Module):
    """The same architecture with all weights free: per-token linear maps, one attention layer, p memory tokens."""

    def __init__(self, points: int, heads: int, features: int = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(LENGTH, WIDTH, features) / WIDTH**0.5)
        self.bias = nn.Parameter(torch.randn(LENGTH, features))
        self.memory = nn.Parameter(torch.randn(points, features))
        self.attention = nn.MultiheadAttention(features, heads, batch_first=True)
        self.out = nn.Linear(features, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """(B, n, d) -> (B, n)."""
        tokens = torch.einsum("bnd,ndf->bnf", X, self.weight) + self.bias
        keys = torch.cat([tokens, self.memory.expand(len(X), -1, -1)], dim=1)
        return self.out(self.attention(tokens, keys, keys, need_weights=False)[0])[..., 0]


def train(model: nn.Module, X: torch.Tensor, Y: torch.Tensor) -> None:
    """Adam on the squared error, batches of 32."""
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(X)).split(32):
            optimiser.zero_grad()
            nn.functional.mse_loss(model(X[batch]), Y[batch]).backward()
            optimiser.step()


def truncated(rng: np.random.Generator) -> list[str]:
    """Error against p, H and b - a."""
    w, t = rng.normal(size=(LENGTH, WIDTH)), rng.normal(size=LENGTH)
    box = af.Box(np.full((LENGTH, WIDTH), -5.0), np.full((LENGTH, WIDTH), 5.0))
    X = rng.uniform(-5, 5, (SAMPLES + 200, LENGTH, WIDTH))
    lines = [
        "## Truncated linear maps: n = 50 tokens, d = 10, x uniform in [-5, 5]\n",
        f"MSE on 200 fresh samples; trained: Adam, {EPOCHS} epochs, lr {RATE:g}, {SAMPLES} samples.\n",
        "| construction | size | b - a | paper's bound | proved | largest error | MSE | MSE trained |",
        "|---|---|---|---|---|---|---|---|",
    ]
    runs = [
        ("truncated-linear", {"p": 30}, 25.0, False),
        ("truncated-linear", {"p": 60}, 25.0, True),
        ("truncated-linear", {"p": 120}, 25.0, True),
        ("truncated-linear", {"p": 60}, 5.0, False),
        ("multihead", {"heads": 1}, 25.0, False),
        ("multihead", {"heads": 4}, 25.0, True),
        ("multihead", {"heads": 16}, 25.0, True),
        ("knots", {"R": 2.0**27}, 25.0, False),
    ]
    for construction, options, end, compare in runs:
        target = af.TruncatedLinear(w, t, -end, end)
        net = af.compile(target, box, construction=construction, options=options)
        wanted = target(X)
        error = net(X[SAMPLES:]) - wanted[SAMPLES:]
        (name, size), free = *options.items(), "-"
        paper = {"p": 2 * end / size, "heads": 2 * end / ((LENGTH - 2) * size)}.get(name)
        if compare:
            torch.manual_seed(0)
            model = Trained(size if name == "p" else 0, 1 if name == "p" else size)
            inputs, values = (torch.tensor(part, dtype=torch.float32) for part in (X, wanted))
            train(model, inputs[:SAMPLES], values[:SAMPLES])
            with torch.no_grad():
                free = f"{nn.functional.mse_loss(model(inputs[SAMPLES:]), values[SAMPLES:]).item():.3g}"
        lines.append(
            f"| {construction} | {name} = {size:g} | {2 * end:g} | {f'{paper:.3g}' if paper else '-'} "
            f"| {net.certificate.bound:.3g} | {np.abs(error).max():.3g} | {np.mean(error**2):.3g} | {free} |"
        )
    return lines


def sequences(rng: np.random.Generator) -> list[str]:
    """20 x 5 inputs in [0, 1], ten hidden rectifiers with normal weights, 20 x 5 outputs."""
    module = nn.Sequential(nn.Linear(100, 10), nn.ReLU(), nn.Linear(10, 100)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
    box = af.Box(np.zeros((20, 5)), np.ones((20, 5)))
    X = rng.uniform(0, 1, (200, 20, 5))
    with torch.no_grad():
        wanted = module(torch.tensor(X.reshape(200, -1))).numpy().reshape(200, 20, 5)
    lines = [
        "\n## Sequence to sequence: 20 x 5 to 20 x 5, ten hidden units\n",
        f"Variance of the target: {wanted.var():.3g}.\n",
        "| construction | layout | heads | proved | largest error | MSE |",
        "|---|---|---|---|---|---|",
    ]
    for layout in ("position-dependent", "token-wise"):
        net = af.compile(module, box, 1e-6, construction="two-layer", options={"layout": layout})
        error = net(X) - wanted
        lines.append(
            f"| two-layer | {layout} | {net.network.heads} | {net.certificate.bound:.3g} "
            f"| {np.abs(error).max():.3g} | {np.mean(error**2):.3g} |"
        )
    return lines


def converted() -> list[str]:
    """A regressor on diabetes and a classifier on digits, on the box that holds all data."""
    lines = [
        "\n## scikit-learn networks to attention\n",
        "| data | network | heads | proved | largest deviation on the test split | same classes | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, load, kind in (("diabetes", load_diabetes, MLPRegressor), ("digits", load_digits, MLPClassifier)):
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        train_X, test_X, train_y, _ = train_test_split(X, y, random_state=0)
        model = kind(hidden_layer_sizes=(32,), max_iter=300, random_state=0).fit(train_X, train_y)
        began = time.monotonic()
        net = af.compile(model, af.Box(X.min(axis=0) - 0.1, X.max(axis=0) + 0.1), 1e-6)
        seconds, output = time.monotonic() - began, net(test_X)
        hidden = np.maximum(test_X @ model.coefs_[0] + model.intercepts_[0], 0)
        plain = (hidden @ model.coefs_[1] + model.intercepts_[1]).reshape(output.shape)
        same = "-"
        if kind is MLPClassifier:
            agree = model.classes_[output.argmax(axis=1)] == model.predict(test_X)
            same = f"{agree.sum()} of {len(agree)}"
        lines.append(
            f"| {name} | {kind.__name__}, 32 units | {net.network.heads} | {net.certificate.bound:.3g} "
            f"| {np.abs(output - plain).max():.3g} | {same} | {seconds:.1f} |"
        )
    return lines


def main() -> None:
    """All tables."""
    rng = np.random.default_rng(0)
    lines = [
        "# arXiv 2504.15956: constructed, proved and trained\n",
        *converted(),
        *sequences(rng),
        "",
        *truncated(rng),
    ]
    RESULTS.joinpath("paper_b.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
