"""Trained baselines: the papers' architectures with all weights free. The only training there is in this package.

Everybody who compares a construction with training calls `fitted` (one layer, two layers, by Adam on samples) or
`trained_head` (one softmax head of one variable, by Adam and L-BFGS in float64, from a good start).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import MissingExtra

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise MissingExtra("torch", "torch") from None

Floats = npt.NDArray[np.float64]

FEATURES, BATCH, RATE = 32, 32, 1e-3
ADAM, LBFGS = 500, 200
"""Steps for one head."""


class OneLayer(nn.Module):
    """The architecture of both truncated-linear theorems: one layer, p memory tokens, H heads, a map for each token."""

    def __init__(self, length: int, width: int, points: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, width, FEATURES) / width**0.5)
        self.bias = nn.Parameter(torch.randn(length, FEATURES))
        self.memory = nn.Parameter(torch.randn(points, FEATURES))
        self.attention = nn.MultiheadAttention(FEATURES, heads, batch_first=True)
        self.out = nn.Linear(FEATURES, 1)

    def forward(self, X: Tensor) -> Tensor:
        """(B, n, d) -> (B, n)."""
        tokens = torch.einsum("bnd,ndf->bnf", X, self.weight) + self.bias
        keys = torch.cat([tokens, self.memory.expand(len(X), -1, -1)], dim=1)  # (B, n + p, f)
        return self.out(self.attention(tokens, keys, keys, need_weights=False)[0])[..., 0]


class TwoLayers(nn.Module):
    """Two attention layers behind an embedding with positions, no feed-forward part; a map for each output token."""

    def __init__(self, length: int, width: int, heads: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Linear(width, FEATURES), nn.Parameter(torch.randn(length, FEATURES))
        self.layers = nn.ModuleList(nn.MultiheadAttention(FEATURES, heads, batch_first=True) for _ in range(2))
        self.weight = nn.Parameter(torch.randn(length, FEATURES, width) / FEATURES**0.5)
        self.bias = nn.Parameter(torch.zeros(length, width))

    def forward(self, X: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, d)."""
        tokens = self.embed(X) + self.position
        for layer in self.layers:
            tokens = layer(tokens, tokens, tokens, need_weights=False)[0]
        return torch.einsum("bnf,nfd->bnd", tokens, self.weight) + self.bias


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches are small: threads that wait for each other take longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@_one_thread()
def fitted(make: Callable[[], nn.Module], X: Floats, Y: Floats, samples: int, epochs: int) -> float:
    """Train on the first samples, in float32; the mean squared error on the others."""
    torch.manual_seed(0)
    model = make()
    inputs, values = (torch.tensor(part, dtype=torch.float32) for part in (X, Y))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(epochs):
        for batch in torch.randperm(samples).split(BATCH):
            optimiser.zero_grad()
            nn.functional.mse_loss(model(inputs[batch]), values[batch]).backward()
            optimiser.step()
    with torch.no_grad():
        return nn.functional.mse_loss(model(inputs[samples:]), values[samples:]).item()


def recipe(samples: int, fresh: int, epochs: int) -> str:
    """How `fitted` trains, in words."""
    return (
        f"Adam, {epochs} epochs, batches of {BATCH}, lr {RATE:g}, {samples} samples, {FEATURES} features; errors on "
        f"{fresh} fresh samples"
    )


@_one_thread()
def trained_head(function: Callable[[Floats], Floats], tokens: int, checks: Floats) -> float:
    """Largest error at the checks, in [-1, 1], of one softmax head trained there, from equidistant centres."""
    torch.manual_seed(0)
    points, truth = torch.tensor(checks), torch.tensor(function(checks))
    centres = torch.linspace(-1, 1, tokens, dtype=torch.float64)
    sharp = float(max(tokens - 1, 1)) ** 2 / 4
    slopes = (sharp * centres).requires_grad_()
    offsets = (-sharp * centres**2 / 2).requires_grad_()
    values = torch.tensor(function(centres.numpy())).requires_grad_()
    parameters = [slopes, offsets, values]

    def error() -> Tensor:
        return torch.softmax(points[:, None] * slopes + offsets, dim=1) @ values - truth

    adam = torch.optim.Adam(parameters, lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, ADAM)
    for _ in range(ADAM):
        adam.zero_grad()
        (error() ** 2).mean().backward()
        adam.step()
        schedule.step()
    fine = torch.optim.LBFGS(parameters, max_iter=LBFGS, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Any:
        fine.zero_grad()
        loss = (error() ** 2).mean()
        loss.backward()
        return loss

    fine.step(closure)
    with torch.no_grad():
        return float(error().abs().max())
