"""attnfun: turn functions into attention networks, with a proof of how close they are.

>>> import attnfun as af
>>> net = af.compile("sin(3*x)*y", domain={"x": (-1, 1), "y": (-1, 1)}, eps=0.1)
>>> net.certificate.proved
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

from ._version import __version__

if TYPE_CHECKING:
    from . import errors, incontext, types, zoo
    from .compiled import load
    from .compiler import compile
    from .domains import Box, Points, Region
    from .given import certify, compare, ranges
    from .given.hidden_layer import rectifiers
    from .given.initialise import init_
    from .given.partition import partition
    from .incontext.regressor import AttentionRegressor
    from .targets import MaxAffine, Samples, TruncatedLinear

__all__ = [
    "AttentionRegressor",
    "Box",
    "MaxAffine",
    "Points",
    "Region",
    "Samples",
    "TruncatedLinear",
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
    "rectifiers",
    "types",
    "zoo",
]

_HOMES = {
    "compiled": ("load",),
    "compiler": ("compile",),
    "domains": ("Box", "Points", "Region"),
    "given": ("certify", "compare", "ranges"),
    "given.initialise": ("init_",),
    "given.partition": ("partition",),
    "given.hidden_layer": ("rectifiers",),
    "incontext.regressor": ("AttentionRegressor",),
    "targets": ("MaxAffine", "Samples", "TruncatedLinear"),
}
_MODULES = ("errors", "incontext", "types", "zoo")
_MOVED = {
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
    "types": ("Certificate", "Compiled", "Partition", "Placement", "Progress", "Sharded", "Status"),
}
"""Names that stood here before version 0.1: they are found for one version, with a warning."""


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used: `import attnfun` takes no time, some need scikit-learn."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f".{home}", __name__), name)
            return value
    for home, names in _MOVED.items():
        if name in names:
            warn(f"attnfun.{name} is attnfun.{home}.{name} now", DeprecationWarning, stacklevel=2)
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
