"""Training on from a compiled network, against the same architecture from random weights: gains and losses.

Functions are trained on here, learners in context in `shifted.py`; `trials.py` says how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import attnfun as af
from attnfun.experiments.base import Cell, Picture, Result, Step, Table, quietly

from . import shifted
from .base import Contest
from .trials import Start, Task, every_seed, finals, panels, tried

if TYPE_CHECKING:
    from torch import nn

    from .training import Batch

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats], Floats]
"""(S, D) -> (S,)."""
BATCH = 128
CONSTRUCTIONS = {"spectral": 0.1, "cross": 0.2}
"""Two networks for one function, and their tolerances: few tokens with large values that cancel, and sharp heads."""
TEXT = (
    "A compiled network is a point in the space of weights, and training can go on from it. It does here, against the "
    "same architecture from random weights (as PyTorch draws them), with Adam on fresh samples, all weights free. Both "
    "get the same steps and the same learning rates to choose from. Two networks compute sin(3x)y on the square: "
    "`spectral`, 8 tokens, whose large values cancel, and `cross`, one token a cell, whose heads are sharp. Noise is "
    "normal and added to every number, relative to the root mean square of its tensor. Learners in context are "
    "`KernelRegression` (one head) and `GradientDescent` (two steps) of `af.incontext`, on tasks that they were not "
    "compiled for; their errors are measured in the unit of y that a prompt is written in. Where masks are held, "
    "affine maps and the features of heads with keys beyond 1024 do not train."
)


@dataclass(frozen=True)
class Setup:
    """Steps for functions, kernel regression and gradient descent in context; seeds, rates, prompts held out."""

    steps: int
    kernel_steps: int
    descent_steps: int
    seeds: int
    rates: tuple[float, ...]
    checks: int
    noise: dict[str, tuple[float, ...]]
    quick: bool = False


FULL = Setup(
    300, 150, 25, 5, (1e-5, 1e-4, 1e-3, 1e-2, 1e-1), 32, {"spectral": (0.0001, 0.001, 0.01), "cross": (0.01, 0.1)}
)
QUICK = Setup(20, 10, 2, 2, (1e-4, 1e-3), 8, {"spectral": (0.001,)}, quick=True)


class FineTuning(Contest):
    """Compiled networks as starting points."""

    name = "fine-tuning"
    title = "Training on from a compiled network"
    extras = ("torch", "sklearn")

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Functions, perturbed and changed; learners in context on shifted tasks."""
        setup = QUICK if quick else FULL
        noisy, changed = after_noise(setup), changed_targets(setup)
        learners = shifted.tasks(setup.kernel_steps, setup.descent_steps, setup.checks)
        learners = learners[1:] if quick else learners
        everything = [*noisy, *changed, *learners]
        trials = {task.title: tried(task, setup.rates, setup.seeds, step) for task in everything}
        pictures = (
            Picture("noise", "The same function after noise: error against steps", panels(noisy, trials)),
            Picture("targets", "Other functions: error against steps", panels(changed, trials)),
            Picture("learners", "Learners in context: error against steps", panels(learners, trials), across=3),
        )
        tables = finals(everything, trials, setup.rates, setup.seeds), every_seed(everything, trials, setup.seeds)
        return Result(TEXT, pictures, (*tables, beginnings()))


@lru_cache(maxsize=len(CONSTRUCTIONS))
def network(construction: str) -> af.types.Compiled:
    """The function that is compiled, in float32."""
    box, eps = {"x": (-1, 1), "y": (-1, 1)}, CONSTRUCTIONS[construction]
    return af.compile("sin(3*x)*y", box, eps, dtype="float32", construction=construction)


def start(construction: str, noise: float | None) -> Start:
    """The compiled network with so much noise, or with random weights."""
    from .training import perturbed, randomised

    module = network(construction).to_torch()
    return lambda seed: randomised(module, seed) if noise is None else perturbed(module, noise, seed)


def after_noise(setup: Setup) -> list[Task]:
    """The same target from weights that were disturbed, for each network."""
    tasks: list[Task] = []
    for name, sizes in setup.noise.items():
        starts = {f"noise {size:g}": start(name, size) for size in sizes} | {"random": start(name, None)}
        tasks.append(Task(f"the same function after noise, {name}", *_of(_before), starts, setup.steps))
    return tasks


def changed_targets(setup: Setup) -> list[Task]:
    """A neighbour and a stranger, for both networks."""
    starts = {
        f"{word}, {construction}": start(construction, noise)
        for construction in CONSTRUCTIONS
        for word, noise in (("compiled", 0.0), ("random", None))
    }
    near = Task("a neighbour, sin(3.5x)y", *_of(_neighbour), starts, setup.steps)
    far = Task("a stranger, exp(-4(x²+y²))", *_of(_stranger), starts, setup.steps)
    return [near] if setup.quick else [near, far]


def _before(p: Floats) -> Floats:
    return np.sin(3 * p[:, 0]) * p[:, 1]


def _neighbour(p: Floats) -> Floats:
    return np.sin(3.5 * p[:, 0]) * p[:, 1]


def _stranger(p: Floats) -> Floats:
    return np.exp(-4 * np.square(p).sum(axis=1))


def _of(target: Function) -> tuple[Batch, Callable[[nn.Module], float]]:
    """Fresh points of the square with their values, and the root mean square error on a grid."""
    import torch

    line = np.linspace(-1, 1, 33)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)  # (S, 2)
    checks, truth = (torch.tensor(part, dtype=torch.float32) for part in (grid, target(grid)))

    def batch(rng: np.random.Generator) -> tuple[Any, Any]:
        points = rng.uniform(-1, 1, (BATCH, 2))
        return torch.tensor(points, dtype=torch.float32), torch.tensor(target(points), dtype=torch.float32)

    return batch, lambda model: float((model(checks) - truth).square().mean().sqrt())


def beginnings() -> Table:
    """Why sharp heads hardly move: the gradient of the loss by keys and by values, where training begins."""
    import torch

    points, wanted = _of(_neighbour)[0](np.random.default_rng(0))
    rows: list[tuple[Cell, ...]] = []
    for construction in CONSTRUCTIONS:
        net = network(construction)
        module = net.to_torch()
        torch.nn.functional.mse_loss(module(points), wanted).backward()
        memory, size = module.layers[1].memory.grad, net.network.attention[0].key.shape[2]
        by_keys, by_values = (float(part.norm()) for part in (memory[:, :size], memory[:, size:]))
        sizes = net.summary()
        rows.append((construction, sizes.tokens, sizes.largest_logit, sizes.largest_value, by_keys, by_values))
    columns = ("network", "tokens", "largest logit", "largest value", "gradient by keys", "gradient by values")
    notes = "Norms of the gradient of the first loss of the neighbour by the memory tokens, keys and values apart."
    return Table("gradients", "Where training begins", columns, tuple(rows), notes)
