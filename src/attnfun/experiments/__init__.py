"""The theorems behind all constructions and the experiments of arXiv 2504.15956, to be run again: `attnfun reproduce`.

    experiment -> tables and pictures (data) -> pages, CSV files and PNG files

`REGISTRY` finds experiments by name; `reproduce` runs some of them and writes what they found.

>>> from attnfun.experiments import REGISTRY
>>> REGISTRY["one-head"].title
'One head, sup norm'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InputError, MissingExtra, did_you_mean
from .base import Experiment, Result, Step, Table, quietly
from .circuit import CircuitRate
from .incontext import InContext
from .max_affine import MaxAffineRate
from .one_head import OneHead, OneHeadLp
from .regression import Regression
from .relu import Relu
from .softmax_readout import SoftmaxReadout
from .spectral import Spectral
from .subspace import Subspace
from .truncated_linear import TruncatedLinearRate
from .two_layer import TwoLayer
from .writing import made, write

__all__ = ["REGISTRY", "Experiment", "Result", "Table", "missing", "named", "reproduce"]

REGISTRY: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        OneHead(),
        OneHeadLp(),
        TruncatedLinearRate(),
        TwoLayer(),
        SoftmaxReadout(),
        Relu(),
        MaxAffineRate(),
        Spectral(),
        CircuitRate(),
        Subspace(),
        Regression(),
        InContext(),
    )
}


def named(names: Sequence[str]) -> list[Experiment]:
    """Experiments by name, all of them if none is named."""
    unknown = [name for name in names if name not in REGISTRY]
    if unknown:
        raise InputError(
            f"experiments are {', '.join(REGISTRY)}",
            got=", ".join(map(repr, unknown)),
            remedy=did_you_mean(unknown[0], REGISTRY),
        )
    return [REGISTRY[name] for name in dict.fromkeys(names or REGISTRY)]


def missing(experiments: Sequence[Experiment]) -> dict[str, MissingExtra]:
    """Those that cannot run, by name, and why."""
    found = {}
    for experiment in experiments:
        try:
            experiment.check()
        except MissingExtra as reason:
            found[experiment.name] = reason
    return found


def reproduce(
    experiments: Sequence[Experiment], folder: Path, quick: bool = False, step: Step = quietly
) -> Iterator[tuple[Experiment, Result, list[Path]]]:
    """Run one after the other; what one found is written, whole, before the next begins."""
    made(folder)
    for experiment in experiments:
        result = experiment.run(quick, lambda doing, title=experiment.title: step(f"{title}: {doing}"))
        yield experiment, result, write(experiment, result, folder, quick)
