"""Kolmogorov-Arnold networks by pykan, if that is installed: splines on the edges, refined as training goes on."""

from __future__ import annotations

import contextlib
import copy
import io
import time
from collections.abc import Iterator
from typing import Any

from attnfun.errors import MissingExtra

from .peers import Fit, Floats, Function, sites

GRIDS = (3, 6, 12, 24, 48)
"""Intervals of the splines, one after the other: what pykan's authors advise."""
SAMPLES, STEPS = 1024, 2


def grown(function: Function, variables: int, seconds: float) -> Iterator[tuple[int, Fit]]:
    """Networks of shape D, 2D + 1, 1 with finer and finer splines, each with its share of the seconds, by L-BFGS."""
    try:
        import kan  # pyright: ignore[reportMissingImports] - it is in the extra `bench`
        import torch

        from .training import parameters
    except ImportError:
        raise MissingExtra("pykan", "bench") from None
    points = sites(SAMPLES, variables)
    inputs, labels = torch.tensor(points), torch.tensor(function(points))[:, None]
    data = {"train_input": inputs, "train_label": labels, "test_input": inputs[:8], "test_label": labels[:8]}
    model: Any = None
    for grid in GRIDS:
        began = time.process_time()
        with _as_we_work():
            if model is None:
                model = kan.KAN([variables, 2 * variables + 1, 1], grid=grid, k=3, seed=0, auto_save=False)
            else:
                model = copy.deepcopy(model)  # what is refined shares parameters with its origin
                model.save_act = True  # and starts from what the splines were asked
                model.get_act(inputs)
                model = model.refine(grid)
            model.speed()
            while time.process_time() - began < seconds / len(GRIDS):
                model.fit(data, opt="LBFGS", steps=STEPS, lamb=0.0, update_grid=grid == GRIDS[0])
        yield grid, Fit(lambda rows, model=model: _values(model, rows), parameters(model))


def _values(model: Any, rows: Floats) -> Floats:
    import torch

    with torch.no_grad(), _as_we_work():
        return model(torch.tensor(rows))[:, 0].numpy()


@contextlib.contextmanager
def _as_we_work() -> Iterator[None]:
    """In float64 and one thread, and without the bars that it draws."""
    import torch

    before = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        torch.set_default_dtype(before[0])
        torch.set_num_threads(before[1])
