"""Trained baselines: the papers' architectures with all weights free. The only training there is in this package.

Experiments that compare a construction with training call `trained` or `fitted`: any module, by Adam on samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


class SharedTokens(nn.Module):
    """p tokens: the data by one projection for all with a diagonal for each of them, the other p - n free."""

    def __init__(self, length: int, width: int, points: int, features: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, features)
        self.diagonals = nn.Parameter(torch.ones(length, features))
        self.others = nn.Parameter(torch.linspace(-1, 1, points - length)[:, None].repeat(1, features))

    def forward(self, X: Tensor) -> Tensor:
        """(B, n, d) -> (B, p, f)."""
        return torch.cat([self.project(X) * self.diagonals, self.others.expand(len(X), -1, -1)], dim=1)


class SelfAttention(nn.Module):
    """Multi-head self-attention whose four maps begin as PyTorch draws linear maps."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(features, features) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, p, f) -> (B, p, f)."""
        query, key, value = (self._split(part(tokens)) for part in (self.query, self.key, self.value))
        found = nn.functional.scaled_dot_product_attention(query, key, value)  # (B, H, p, f/H)
        return self.out(found.transpose(1, 2).flatten(2))

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, p, f) -> (B, H, p, f/H)


class PointsLayer(nn.Module):
    """The authors' network for truncated linear maps (arXiv 2504.15956): one layer over p tokens in all."""

    def __init__(self, length: int, width: int, points: int, heads: int, features: int = FEATURES) -> None:
        super().__init__()
        self.length, self.tokens = length, SharedTokens(length, width, points, features)
        self.attention = SelfAttention(features, heads)

    def forward(self, X: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, f); the target is the first feature, the others are to be zero."""
        return self.attention(self.tokens(X))[:, : self.length]


class HeldPoints(SelfAttention):
    """The authors' layer for pictures: one feature of the keys and one of the values are held at the points L_k.

    The key's is `k (L_k + L_0) - 2 k`, the value's L_k; scores are taken times `sharpness`.
    """

    def __init__(self, features: int, points: Tensor, sharpness: float) -> None:
        super().__init__(features, 1)
        number = torch.arange(len(points))
        self.points, self.held = points, number * (points + points[0]) - 2 * number  # (p,)
        self.sharpness = sharpness

    def weights(self, tokens: Tensor) -> Tensor:
        """(B, p, f) -> (B, p, p), over keys."""
        key = torch.cat([self.key(tokens)[..., :-1], self.held.expand(len(tokens), -1)[..., None]], dim=2)
        return torch.softmax(self.sharpness * self.query(tokens) @ key.mT / key.shape[-1] ** 0.5, dim=-1)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, p, f) -> (B, p, f)."""
        value = torch.cat([self.points.expand(len(tokens), -1)[..., None], self.value(tokens)[..., 1:]], dim=2)
        return self.out(self.weights(tokens) @ value)


class TwoLayers(nn.Module):
    """The authors' network for sequences (arXiv 2504.15956): two layers over p tokens, a linear map after each."""

    def __init__(self, length: int, width: int, points: int, heads: int, features: int = FEATURES) -> None:
        super().__init__()
        self.length, self.tokens = length, SharedTokens(length, width, points, features)
        self.first, self.second = SelfAttention(features, heads), SelfAttention(features, heads)
        self.between, self.out = nn.Linear(features, features), nn.Linear(features, width)

    def forward(self, X: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, d)."""
        return self.out(self.second(self.between(self.first(self.tokens(X))))[:, : self.length])


@contextmanager
def one_thread() -> Iterator[None]:
    """Batches are small: threads that wait for each other take longer than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def trained(
    make: Callable[[], nn.Module], X: Floats, Y: Floats, epochs: int, seed: int = 0
) -> Callable[[Floats], Floats]:
    """Train on samples, in float32; what the module computes."""
    torch.manual_seed(seed)
    model = make()
    inputs, values = (torch.tensor(part, dtype=torch.float32) for part in (X, Y))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(inputs)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.mse_loss(model(inputs[batch]), values[batch]).backward()
            optimiser.step()

    def computed(points: Floats) -> Floats:
        with torch.no_grad():
            parts = torch.tensor(points, dtype=torch.float32).split(1024)
            return torch.cat([model(part) for part in parts]).double().numpy()

    return computed


def fitted(make: Callable[[], nn.Module], X: Floats, Y: Floats, samples: int, epochs: int, seed: int = 0) -> float:
    """Train on the first samples; the mean squared error on the others."""
    return float(np.mean((trained(make, X[:samples], Y[:samples], epochs, seed)(X[samples:]) - Y[samples:]) ** 2))


def recipe(samples: int, fresh: int, epochs: int) -> str:
    """How `fitted` trains, in words."""
    return (
        f"Adam, {epochs} epochs, batches of {BATCH}, lr {RATE:g}, {samples} samples, {FEATURES} features; errors on "
        f"{fresh} fresh samples"
    )
