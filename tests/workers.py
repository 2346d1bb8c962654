"""What workers import to be tested: little, so that they start quickly."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

import attnfun as af
from attnfun.domains.box import as_box
from attnfun.proofs.provers.boxes import TUNING
from attnfun.targets import Expression

FORMULA = "abs(x - y)"
SQUARE = {"x": (-1, 1), "y": (-1, 1)}
POINTS = np.random.default_rng(3).uniform(-1, 1, (50, 2))


def simulator(points):
    """A function that looks at values, so that it cannot be traced."""
    return np.array([abs(x) * y if x > y else y * abs(x) for x, y in points.reshape(-1, 2)]).reshape(points.shape[:-1])


def dies_once(flag: Path, number: int) -> int:
    if number == 3 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


class Deadly(Expression):
    """A formula that kills the first worker that is given a whole chunk of boxes."""

    flag: Path
    home: int

    def __init__(self, flag: Path) -> None:
        super().__init__(FORMULA, as_box(SQUARE))
        vars(self).update(flag=flag, home=os.getpid())

    def enclose(self, boxes):
        if len(boxes) == TUNING.chunk and os.getpid() != self.home and not self.flag.exists():
            self.flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().enclose(boxes)


def gloo_process(rank: int, folders: list[Path], meeting: str) -> list[np.ndarray]:
    """One of two processes, each with half of the banks."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    modules = [af.types.Sharded(folder).to_torch() for folder in folders]
    values = [module(torch.tensor(POINTS)).numpy() for module in modules]
    torch.distributed.destroy_process_group()
    return values
