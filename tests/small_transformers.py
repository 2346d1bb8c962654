"""Small random networks for attacks: attention, rectifiers and smooth functions, LayerNorm; and attacks on bounds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

ACTIVATIONS = [nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Hardtanh]


class Transformer(nn.Module):
    """Layers of attention and two-layer perceptrons on (n, d) tokens, then a linear map of all of them."""

    def __init__(
        self, rng: np.random.Generator, tokens: int, width: int, depth: int, norm: bool, softmax: bool
    ) -> None:
        super().__init__()
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(depth))
        kinds = [ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))] for _ in range(depth)]
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), kind(), nn.Linear(2 * width, width)) for kind in kinds
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) if norm else nn.Identity() for _ in range(2 * depth))
        self.read = nn.Linear(tokens * width, 3)
        self.last = nn.Softmax(dim=-1) if softmax else nn.Identity()
        scale = float(rng.choice([0.3, 1.0, 2.0]))
        with torch.no_grad():
            for name, weight in self.named_parameters():
                size = scale / np.sqrt(weight.shape[-1]) if weight.dim() > 1 else 0.3
                centre = 1.0 if "norms" in name and "weight" in name else 0.0
                weight.copy_(torch.tensor(rng.normal(centre, size, tuple(weight.shape))))

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) -> (B, 3)."""
        for number, (attention, mlp) in enumerate(zip(self.attention, self.mlp, strict=True)):
            x = self.norms[2 * number](x + attention(x, x, x, need_weights=False)[0])
            x = self.norms[2 * number + 1](x + mlp(x))
        return self.last(self.read(x.flatten(1)))


def drawn(seed: int) -> tuple[Transformer, np.ndarray, float]:
    """A network in evaluation mode, the centre of a box (n, d), and its radius."""
    rng = np.random.default_rng(seed)
    norm, tokens, depth = bool(rng.integers(2)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    width = 4 if norm else int(rng.choice([2, 4]))  # of two features LayerNorm leaves the signs
    network = Transformer(rng, tokens, width, depth, norm, softmax=bool(rng.integers(2)))
    radius = float(10.0 ** rng.uniform(-4, -2 if norm else -0.5))
    return network.eval(), rng.normal(size=(tokens, width)), radius


def perturbed(network: nn.Module, seed: int, size: float) -> nn.Module:
    """A copy with weights moved by so much of their own size."""
    from copy import deepcopy

    rng, copy = np.random.default_rng(seed), deepcopy(network)
    with torch.no_grad():
        for weight in copy.parameters():
            weight.add_(weight * torch.tensor(rng.normal(size=tuple(weight.shape)) * size, dtype=weight.dtype))
    return copy


def climbed(values, lo: np.ndarray, hi: np.ndarray, seed: int, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and largest numbers that a function of tensors takes at samples, corners and climbed points."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(lo, hi, (96, *lo.shape))
    points[:32] = np.where(rng.random((32, *lo.shape)) < 0.5, lo, hi)
    low, high = torch.tensor(lo, dtype=dtype), torch.tensor(hi, dtype=dtype)
    x = torch.tensor(points, dtype=dtype)
    x = torch.minimum(torch.maximum(x, low), high)
    found = [values(x).detach()]
    for sign in (1.0, -1.0):
        for output in range(found[0].shape[1]):
            place = (sign * found[0][:, output]).argmax()
            start = x[place : place + 1].clone()
            for step in (0.5, 0.2, 0.05):
                start.requires_grad_(True)
                (slope,) = torch.autograd.grad(sign * values(start)[0, output], start)
                moved = start.detach() + step * (high - low) * slope.sign()
                start = torch.minimum(torch.maximum(moved, low), high)
                found.append(values(start).detach())
    seen = torch.cat(found).double().numpy()
    return seen.min(axis=0), seen.max(axis=0)
