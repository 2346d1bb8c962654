"""One theorem a file, found by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module

from ..errors import InputError
from ..targets import Target
from .base import Construction, Forecast, Plan, PlanRequest

CLASSES = {
    "grid": "grid.GridConstruction",
    "cross": "cross.CrossConstruction",
    "spectral": "spectral.SpectralConstruction",
    "circuit": "circuit.CircuitConstruction",
    "subspace": "subspace.SubspaceConstruction",
    "knots": "knots.KnotsConstruction",
    "relu": "relu.ReluConstruction",
    "truncated-linear": "truncated_linear.TruncatedLinearConstruction",
    "multihead": "multihead.MultiheadConstruction",
    "two-layer": "two_layer.TwoLayerConstruction",
    "two-layer-lookup": "two_layer.LookupConstruction",
    "softmax-readout": "softmax_readout.SoftmaxReadoutConstruction",
    "max-affine": "max_affine.MaxAffineConstruction",
    "regression": "regression.RegressionConstruction",
}
"""The file and class of each construction by its public name."""


class Registry(Mapping[str, Construction]):
    """Constructions by name. A file is imported when its construction is looked up, so that loading a network is quick.

    >>> "grid" in REGISTRY, REGISTRY["grid"].name, len(REGISTRY) > 10
    (True, 'grid', True)
    """

    def __getitem__(self, name: str) -> Construction:
        return _made(name)

    def __contains__(self, name: object) -> bool:
        return name in CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(CLASSES)

    def __len__(self) -> int:
        return len(CLASSES)


@lru_cache(maxsize=64)  # more than there are
def _made(name: str) -> Construction:
    """The one instance of a construction; KeyError for a name that is none."""
    file, _, kind = CLASSES[name].partition(".")
    return getattr(import_module(f".{file}", __name__), kind)()


REGISTRY = Registry()
"""Every construction by its public name."""

__all__ = ["REGISTRY", "Construction", "Forecast", "Plan", "PlanRequest", "candidates", "for_one_token"]


def candidates(name: str, target: Target) -> list[Construction]:
    """The constructions to consider: the one called `name`, or with "auto" all that serve the target."""
    if name == "auto":
        made = [each for each in REGISTRY.values() if type(target) in each.made_for and each.fits(target)]
        return made or [each for each in REGISTRY.values() if each.rivals(target) and each.fits(target)]
    if not REGISTRY[name].fits(target):
        served = [other for other, construction in REGISTRY.items() if construction.fits(target)]
        raise InputError(
            f"the construction {name} must serve the target", got=repr(target), remedy=f"These do: {', '.join(served)}."
        )
    return [REGISTRY[name]]


def for_one_token(name: str, token: Target) -> list[Construction]:
    """Those of the constructions called `name`, or with "auto" of all, whose network for one token serves each token.

    Also those that are not automatic: the one that does the same with the same tokens may not be for tokens alone.
    """
    alone = [each for each in REGISTRY.values() if each.treats_tokens_alone]
    serving = [
        construction for construction in alone if name in ("auto", construction.name) and construction.fits(token)
    ]
    return [each for each in serving if name == each.name or not each.automatic or each.rivals(token)]
