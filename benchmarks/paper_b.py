"""The set-ups of arXiv 2504.15956, constructed and trained side by side, and trained networks converted.

    python benchmarks/paper_b.py

Writes benchmarks/results/paper_b.md and paper_b.png in about a quarter of an hour. Needs the extras torch and sklearn.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
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
EPOCHS, SAMPLES, FRESH, RATE = 50, 800, 200, 1e-3
TRAINING = f"Adam, {EPOCHS} epochs, batches of 32, lr {RATE:g}, {SAMPLES} samples; errors on {FRESH} fresh samples"
FEATURES = 32
MINUTES = 20
"""For a proof; the branch and bound inside gets a fifth."""


class OneLayer(nn.Module):
    """The architecture of both truncated-linear theorems with all weights free: one layer, p memory tokens, H heads."""

    def __init__(self, points: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(LENGTH, WIDTH, FEATURES) / WIDTH**0.5)  # a map for each token
        self.bias = nn.Parameter(torch.randn(LENGTH, FEATURES))
        self.memory = nn.Parameter(torch.randn(points, FEATURES))
        self.attention = nn.MultiheadAttention(FEATURES, heads, batch_first=True)
        self.out = nn.Linear(FEATURES, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """(B, n, d) -> (B, n)."""
        tokens = torch.einsum("bnd,ndf->bnf", X, self.weight) + self.bias
        keys = torch.cat([tokens, self.memory.expand(len(X), -1, -1)], dim=1)
        return self.out(self.attention(tokens, keys, keys, need_weights=False)[0])[..., 0]


class TwoLayers(nn.Module):
    """Two attention layers behind an embedding with positions, no feed-forward part; a map for each output token."""

    def __init__(self, length: int, width: int, heads: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Linear(width, FEATURES), nn.Parameter(torch.randn(length, FEATURES))
        self.layers = nn.ModuleList(nn.MultiheadAttention(FEATURES, heads, batch_first=True) for _ in range(2))
        self.weight = nn.Parameter(torch.randn(length, FEATURES, width) / FEATURES**0.5)
        self.bias = nn.Parameter(torch.zeros(length, width))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """(B, n, d) -> (B, n, d)."""
        tokens = self.embed(X) + self.position
        for layer in self.layers:
            tokens = layer(tokens, tokens, tokens, need_weights=False)[0]
        return torch.einsum("bnf,nfd->bnd", tokens, self.weight) + self.bias


def trained(model: nn.Module, X: np.ndarray, Y: np.ndarray) -> float:
    """Train on the first samples; the mean squared error on the others."""
    inputs, values = (torch.tensor(part, dtype=torch.float32) for part in (X, Y))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for batch in torch.randperm(SAMPLES).split(32):
            optimiser.zero_grad()
            nn.functional.mse_loss(model(inputs[batch]), values[batch]).backward()
            optimiser.step()
    with torch.no_grad():
        return nn.functional.mse_loss(model(inputs[SAMPLES:]), values[SAMPLES:]).item()


@dataclass(frozen=True)
class Run:
    """One construction at one size."""

    construction: str
    option: str
    size: float
    ends: float
    """b - a."""
    train: bool = False

    @property
    def paper(self) -> float | None:
        """The paper's bound."""
        return {"p": self.ends / self.size, "heads": self.ends / ((LENGTH - 2) * self.size)}.get(self.option)


@dataclass(frozen=True)
class Measured:
    """What came out."""

    run: Run
    proved: float
    largest: float
    mse: float
    trained: float | None

    @property
    def line(self) -> str:
        """A row of the table."""
        figures = [self.run.paper, self.proved, self.largest, self.mse, self.trained]
        shown = " | ".join("-" if figure is None else f"{figure:.3g}" for figure in figures)
        return f"| {self.run.construction} | {self.run.option} = {self.run.size:g} | {self.run.ends:g} | {shown} |"


SWEEPS = {
    "p": [Run("truncated-linear", "p", p, 50.0, p in (30, 60, 120)) for p in (15, 30, 60, 120, 240)],
    "heads": [Run("multihead", "heads", heads, 50.0, heads in (1, 4, 16)) for heads in (1, 2, 4, 8, 16)],
    "b - a": [Run("truncated-linear", "p", 60, ends, ends != 50) for ends in (10.0, 25.0, 50.0, 100.0)],
    "knots": [Run("knots", "R", 2.0**27, 50.0)],
}


def truncated(rng: np.random.Generator) -> list[str]:
    """Error against p, H and b - a, with a picture."""
    w, t = rng.normal(size=(LENGTH, WIDTH)), rng.normal(size=LENGTH)
    box = af.Box(np.full((LENGTH, WIDTH), -5.0), np.full((LENGTH, WIDTH), 5.0))
    X = rng.uniform(-5, 5, (SAMPLES + FRESH, LENGTH, WIDTH))
    done: dict[Run, Measured] = {}
    for run in (run for sweep in SWEEPS.values() for run in sweep):
        if any((run.option, run.size, run.ends) == (old.option, old.size, old.ends) for old in done):
            continue
        target = af.TruncatedLinear(w, t, -run.ends / 2, run.ends / 2)
        size = run.size if run.option == "R" else int(run.size)
        net = af.compile(
            target, box, construction=run.construction, options={run.option: size}, time_limit=MINUTES * 60
        )
        wanted = target(X)
        error = net(X[SAMPLES:]) - wanted[SAMPLES:]
        free = None
        if run.train:
            torch.manual_seed(0)
            free = trained(OneLayer(*((int(size), 1) if run.option == "p" else (0, int(size)))), X, wanted)
        done[run] = Measured(run, net.certificate.bound, float(np.abs(error).max()), float(np.mean(error**2)), free)
    draw(list(done.values()))
    return [
        f"\n## Truncated linear maps: n = {LENGTH} tokens, d = {WIDTH}, x uniform in [-5, 5]\n",
        f"Trained: the same architecture with {FEATURES} features, {TRAINING}.\n",
        "| construction | size | b - a | paper's bound | proved | largest error | MSE | MSE trained |",
        "|---|---|---|---|---|---|---|---|",
        *(result.line for result in done.values()),
        "\n![Errors against p, H and b - a, constructed and trained](paper_b.png)",
    ]


def draw(results: list[Measured]) -> None:
    """Errors against each size; the colours can be told apart by everybody."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = (
        ("p (one head, b - a = 50)", "size", lambda run: run.option == "p" and run.ends == 50),
        ("H (no memory, b - a = 50)", "size", lambda run: run.option == "heads"),
        ("b - a (p = 60)", "ends", lambda run: run.option == "p" and run.size == 60),
    )
    for place, (label, axis, belongs) in enumerate(panels, 1):
        axes = figure.add_subplot(1, 3, place)
        rows = sorted((row for row in results if belongs(row.run)), key=lambda row: getattr(row.run, axis))
        sizes = [getattr(row.run, axis) for row in rows]
        axes.loglog(sizes, [row.run.paper for row in rows], "--", color="#999999", label="paper's bound")
        axes.loglog(sizes, [row.proved for row in rows], "-", color="#0072B2", label="proved")
        axes.loglog(sizes, [row.largest for row in rows], "o", color="#56B4E9", label="largest error")
        axes.loglog(sizes, [row.mse**0.5 for row in rows], "s", color="#009E73", label="root mean square")
        free = [(getattr(row.run, axis), row.trained**0.5) for row in rows if row.trained is not None]
        axes.loglog(*zip(*free, strict=True), "x", color="#D55E00", label="root mean square, trained")
        axes.set_xlabel(label)
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("error")
    figure.axes[0].legend(fontsize=8)
    figure.savefig(RESULTS / "paper_b.png", dpi=110)


def sequences(rng: np.random.Generator) -> list[str]:
    """20 x 5 inputs in [0, 1], ten hidden rectifiers with normal weights, 20 x 5 outputs."""
    module = nn.Sequential(nn.Linear(100, 10), nn.ReLU(), nn.Linear(10, 100)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
    box = af.Box(np.zeros((20, 5)), np.ones((20, 5)))
    X = rng.uniform(0, 1, (SAMPLES + FRESH, 20, 5))
    with torch.no_grad():
        wanted = module(torch.tensor(X.reshape(len(X), -1))).numpy().reshape(X.shape)
    lines = [
        "\n## Sequence to sequence: 20 x 5 to 20 x 5, ten hidden units\n",
        f"Variance of the target: {wanted.var():.3g}. Trained: two attention layers with {FEATURES} features and a map "
        f"for each output token, {TRAINING}.\n",
        "| network | heads | proved | largest error | MSE |",
        "|---|---|---|---|---|",
    ]
    for layout in ("position-dependent", "token-wise"):
        net = af.compile(module, box, 1e-6, construction="two-layer", options={"layout": layout})
        error = net(X[SAMPLES:]) - wanted[SAMPLES:]
        lines.append(
            f"| constructed, {layout} | {net.network.heads} | {net.certificate.bound:.3g} "
            f"| {np.abs(error).max():.3g} | {np.mean(error**2):.3g} |"
        )
    for heads in (4, 16):
        torch.manual_seed(0)
        lines.append(f"| trained | 2 x {heads} | - | - | {trained(TwoLayers(20, 5, heads), X, wanted):.3g} |")
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
    lines = ["# arXiv 2504.15956: constructed, proved and trained", *converted(), *sequences(rng), *truncated(rng)]
    RESULTS.joinpath("paper_b.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
