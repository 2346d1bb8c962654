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
from .targets import MaxAffine, Status, TruncatedLinear
from .targets.regions import Points, Region

__all__ = [
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
    """`af.incontext` needs scikit-learn, so it is imported when it is first used."""
    if name == "incontext":
        import importlib

        return importlib.import_module(".incontext", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
