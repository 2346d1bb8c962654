"""attnfun: turn functions into attention networks, with a proof of how close they are.

>>> import attnfun as af
>>> net = af.compile("sin(3*x)*y", domain={"x": (-1, 1), "y": (-1, 1)}, eps=0.1)
>>> net.certificate.proved
True
"""

from typing import Any

from ._version import __version__
from .certificates import Certificate, Progress
from .compiled import Compiled, load
from .domain import Box
from .errors import AttnfunError, FileFormatError, InputError, MissingExtra, ProofFailed, ToleranceNotMet
from .pieces.partition import Partition, partition
from .pipeline import compile
from .targets import MaxAffine, Samples, Status, TruncatedLinear
from .targets.regions import Points, Region

__all__ = [
    "AttentionRegressor",
    "AttnfunError",
    "Box",
    "Certificate",
    "Compiled",
    "FileFormatError",
    "InputError",
    "MaxAffine",
    "MissingExtra",
    "Partition",
    "Points",
    "Progress",
    "ProofFailed",
    "Region",
    "Samples",
    "Status",
    "ToleranceNotMet",
    "TruncatedLinear",
    "__version__",
    "compile",
    "incontext",
    "load",
    "partition",
]


def __getattr__(name: str) -> Any:
    """`af.incontext` and `af.AttentionRegressor` need scikit-learn: they are imported when they are first used."""
    import importlib

    if name == "incontext":
        return importlib.import_module(".incontext", __name__)
    if name == "AttentionRegressor":
        return importlib.import_module(".regressor", __name__).AttentionRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
