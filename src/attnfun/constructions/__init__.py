"""One theorem a file, found by name."""

from __future__ import annotations

from ..errors import InputError
from ..targets import Target
from .base import Construction, Forecast, Plan, PlanRequest
from .circuit import CircuitConstruction
from .cross import CrossConstruction
from .grid import GridConstruction
from .knots import KnotsConstruction
from .max_affine import MaxAffineConstruction
from .multihead import MultiheadConstruction
from .regression import RegressionConstruction
from .relu import ReluConstruction
from .softmax_readout import SoftmaxReadoutConstruction
from .spectral import SpectralConstruction
from .subspace import SubspaceConstruction
from .truncated_linear import TruncatedLinearConstruction
from .two_layer import TwoLayerConstruction

REGISTRY: dict[str, Construction] = {
    construction.name: construction
    for construction in (
        GridConstruction(),
        CrossConstruction(),
        SpectralConstruction(),
        CircuitConstruction(),
        SubspaceConstruction(),
        KnotsConstruction(),
        ReluConstruction(),
        TruncatedLinearConstruction(),
        MultiheadConstruction(),
        TwoLayerConstruction(),
        SoftmaxReadoutConstruction(),
        MaxAffineConstruction(),
        RegressionConstruction(),
    )
}
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
