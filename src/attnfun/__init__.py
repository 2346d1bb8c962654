"""attnfun: turn functions into attention networks, with a proof of how close they are.

>>> import attnfun as af
>>> net = af.compile("sin(3*x)*y", domain={"x": (-1, 1), "y": (-1, 1)}, eps=0.1)
>>> net.certificate.proved
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import errors, incontext, types, zoo
    from .compiled import Compiled, load
    from .compiler import compile
    from .domains import Box, Points, Region
    from .errors import (
        AttnfunError,
        FileFormatError,
        InputError,
        MissingExtra,
        ProofFailed,
        SoundnessError,
        ToleranceNotMet,
        WorkersLost,
    )
    from .given import certify, compare, ranges
    from .initialise import Placement, init_
    from .pieces.partition import Partition, partition
    from .proofs import Certificate, Progress
    from .regressor import AttentionRegressor
    from .sharding import Sharded
    from .targets import MaxAffine, Samples, Status, TruncatedLinear

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
    "Placement",
    "Points",
    "Progress",
    "ProofFailed",
    "Region",
    "Samples",
    "Sharded",
    "SoundnessError",
    "Status",
    "ToleranceNotMet",
    "TruncatedLinear",
    "WorkersLost",
    "__version__",
    "certify",
    "compare",
    "compile",
    "errors",
    "incontext",
    "init_",
    "load",
    "partition",
    "ranges",
    "types",
    "zoo",
]

_HOMES = {
    "proofs": ("Certificate", "Progress"),
    "compiled": ("Compiled", "load"),
    "errors": (
        "AttnfunError",
        "FileFormatError",
        "InputError",
        "MissingExtra",
        "ProofFailed",
        "SoundnessError",
        "ToleranceNotMet",
        "WorkersLost",
    ),
    "given": ("certify", "compare", "ranges"),
    "initialise": ("Placement", "init_"),
    "pieces.partition": ("Partition", "partition"),
    "compiler": ("compile",),
    "regressor": ("AttentionRegressor",),
    "sharding": ("Sharded",),
    "targets": ("MaxAffine", "Samples", "Status", "TruncatedLinear"),
    "domains": ("Box", "Points", "Region"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used: `import attnfun` takes no time, some need scikit-learn."""
    if name in ("errors", "incontext", "types", "zoo"):
        return import_module(f".{name}", __name__)
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f".{home}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
