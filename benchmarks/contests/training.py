"""Trained contestants: modules, starts and ways to train them.

`within` trains any module for so many seconds, `course` from where it is on fresh samples, `trained_head` one softmax
head of one variable, by Adam and L-BFGS in float64, from a good start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt

from attnfun.errors import MissingExtra
from attnfun.experiments.training import FEATURES, one_thread

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise MissingExtra("torch", "torch") from None

Floats = npt.NDArray[np.float64]

MASK = 2.0**10
"""Weights beyond this are there for masks."""
ADAM, LBFGS = 500, 200
"""Steps for one head."""
FIRST = 3.0
RATE_WITHIN, ROUND = 3e-3, 20
"""The largest rate of Adam, and the steps of L-BFGS after which the time is looked at, in `within`."""
NEVER_CONTENT: Any = {"tolerance_grad": 0.0, "tolerance_change": 0.0}
Batch = Callable[[np.random.Generator], tuple[Tensor, Tensor]]
"""Makes inputs and what is wanted for them."""


class OneLayer(nn.Module):
    """One layer, p memory tokens, H heads, a map for each token: more freedom than the authors' `PointsLayer` has."""

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


class Reader(nn.Module):
    """A transformer without feed-forward parts that reads examples and answers queries: (B, n + k, .) -> (B, k)."""

    def __init__(self, width: int, examples: int, features: int = 64, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.examples = examples
        self.embed, self.out = nn.Linear(width, features), nn.Linear(features, 1)
        self.layers = nn.ModuleList(nn.MultiheadAttention(features, heads, batch_first=True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(features) for _ in range(layers))

    def forward(self, X: Tensor) -> Tensor:
        """All rows attend to the examples."""
        tokens = self.embed(X)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            seen = norm(tokens)
            known = seen[:, : self.examples]
            tokens = tokens + layer(seen, known, known, need_weights=False)[0]
        return self.out(tokens[:, self.examples :])[..., 0]


def perceptron(width_in: int, hidden: int) -> nn.Module:
    """A feed-forward network of two hidden layers, (B, D) -> (B, 1); tanh, which suits smooth functions.

    Its first layer begins larger than usual: from the usual start, such networks learn waves late.
    """
    first, middle = nn.Linear(width_in, hidden), nn.Linear(hidden, hidden)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter *= FIRST
    return nn.Sequential(first, nn.Tanh(), middle, nn.Tanh(), nn.Linear(hidden, 1))


def parameters(model: nn.Module) -> int:
    """How many numbers are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@one_thread()
def within(
    make: Callable[[], nn.Module],
    batches: Callable[[], tuple[Tensor, Tensor]],
    seconds: float,
    polish: tuple[Tensor, Tensor] | None = None,
) -> nn.Module:
    """Train on batches, (inputs, values), for so many seconds of computing, in the dtype of the batches.

    By Adam, its rate falling along a cosine to zero at the end. If there are samples for a polish, the second half of
    the time goes to L-BFGS on those.
    """
    torch.manual_seed(0)
    model = make().to(batches()[0].dtype)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE_WITHIN)
    began, share = time.process_time(), seconds / 2 if polish else seconds
    while (spent := time.process_time() - began) < share:
        for group in optimiser.param_groups:
            group["lr"] = RATE_WITHIN * (1 + np.cos(np.pi * spent / share)) / 2
        inputs, values = batches()
        optimiser.zero_grad()
        nn.functional.mse_loss(model(inputs), values).backward()
        optimiser.step()
    if polish:
        fine = torch.optim.LBFGS(
            model.parameters(), max_iter=ROUND, history_size=50, line_search_fn="strong_wolfe", **NEVER_CONTENT
        )

        def closure() -> Any:
            fine.zero_grad()
            loss = nn.functional.mse_loss(model(polish[0]), polish[1])
            loss.backward()
            return loss

        while time.process_time() - began < seconds:
            fine.step(closure)
    return model.eval()


@one_thread()
def course(
    model: nn.Module, batch: Batch, error: Callable[[nn.Module], float], rate: float, marks: tuple[int, ...], seed: int
) -> list[float]:
    """Errors at the marks (steps, the first one 0) of Adam on mean squares over fresh batches; inf once it diverged."""
    free = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser, rng, errors = torch.optim.Adam(free, lr=rate), np.random.default_rng(seed), list[float]()
    for step in range(marks[-1] + 1):
        if step in marks:
            with torch.no_grad():
                found = error(model)
            errors.append(found if np.isfinite(found) else np.inf)
        inputs, wanted = batch(rng)
        optimiser.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimiser.step()
    return errors


class OutputRows(nn.Module):
    """What a module for sequences puts out in some rows, its first feature: (B, N, .) -> (B, k)."""

    def __init__(self, inner: nn.Module, rows: slice) -> None:
        super().__init__()
        self.inner, self.rows = inner, rows

    def forward(self, tokens: Tensor) -> Tensor:
        """The whole sequence goes in."""
        return self.inner(tokens)[:, self.rows, 0]


def randomised(model: nn.Module, seed: int) -> nn.Module:
    """A copy with weights as PyTorch draws them for its parts; memory tokens are normal."""
    torch.manual_seed(seed)
    model = deepcopy(model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("memory"):
                weight.normal_()
        for part in model.modules():
            if isinstance(part, nn.MultiheadAttention):
                part._reset_parameters()
                part.out_proj.reset_parameters()
            elif isinstance(part, nn.Linear):
                part.reset_parameters()
    return model


def perturbed(model: nn.Module, size: float, seed: int) -> nn.Module:
    """A copy with normal noise on every number, `size` times the root mean square of its tensor."""
    torch.manual_seed(seed)
    model = deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.numel():
                weight += size * weight.square().mean().sqrt() * torch.randn_like(weight)
    return model


def masks_held(model: nn.Module) -> nn.Module:
    """The module, with what masks are made of kept: features of heads with keys beyond MASK, and affine maps."""
    for part in model.modules():
        if type(part) is nn.Linear:
            part.requires_grad_(False)
        elif isinstance(part, nn.MultiheadAttention):
            packed = part.in_proj_weight is not None
            key = part.in_proj_weight.chunk(3)[1] if packed else part.k_proj_weight  # (E, e)
            free = (key.abs().amax(dim=1) < MASK) & (part.in_proj_bias.chunk(3)[1].abs() < MASK)  # (E,)
            every = torch.cat([free, free, torch.ones_like(free)])
            for weight in [part.in_proj_weight] if packed else [part.q_proj_weight, part.k_proj_weight]:
                weight.register_hook(lambda grad, kept=every if packed else free: grad * kept[:, None])
            part.in_proj_bias.register_hook(lambda grad, kept=every: grad * kept)
    return model


@one_thread()
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
