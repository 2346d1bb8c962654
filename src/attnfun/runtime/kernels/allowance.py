"""How much fast evaluation may change, and where [T 11.9].

A certificate's part `windows` is set aside for what fast evaluation leaves out. Behind the last attention layer there
are only affine maps; if head h of that layer is off by at most κ_h in each value, the outputs are off by at most
`Σ_h F_h κ_h`, with F_h the largest row sum of the absolute weights behind it. Every head gets the same share:
`κ_h = allowance / (H F_h)`. Layers before get nothing, because a head behind them may magnify what they do.
"""

from __future__ import annotations

from math import isinf

import numpy as np
import numpy.typing as npt

from ...network import Affine, Attention, FactoredAttention, Network

Floats = npt.NDArray[np.float64]

SHARE = 0.01
"""The share of a bound that is set aside."""
LEAST_SHARE = 1e-9
"""A smaller share is not worth it."""
HEADS = Attention | FactoredAttention
LARGE = 32
"""Banks of so few tokens are read as a whole."""


def allowance_for(network: Network, bound: float, eps: float | None, norm: float) -> float:
    """What to set aside, given the bound on the network's error and the tolerance; 0 if that would be no use.

    >>> from attnfun import compile
    >>> net = compile("sin(3*x)*y", domain={"x": (-1, 1), "y": (-1, 1)}, eps=0.1, construction="cross").network
    >>> allowance_for(net, 0.09, 0.1, float("inf")), allowance_for(net, 0.1, 0.1, float("inf"))
    (0.0009, 0.0)
    """
    spare = np.inf if eps is None else 0.99 * (eps - bound)
    large = bool(network.attention) and len(network.attention[-1].memory) > LARGE
    if not large or not isinf(norm) or not any(room.any() for room in rooms(network, 1.0)):
        return 0.0
    found = float(min(SHARE * bound, spare))
    return found if found > LEAST_SHARE * bound else 0.0


def rooms(network: Network, allowance: float) -> list[Floats]:
    """What each head of each layer may be off by, (H,) for attention and (0,) for other layers."""
    found = [np.zeros(layer.heads if isinstance(layer, HEADS) else 0) for layer in network.layers]
    behind: Floats | None = None  # (n', outputs): largest absolute weight from features of any token to the outputs
    for number in range(len(network.layers) - 1, -1, -1):
        layer = network.layers[number]
        if isinstance(layer, HEADS):
            width = layer.width_out
            gain = np.abs(layer.output).sum(axis=1) @ (np.eye(width) if behind is None else behind)  # (H, outputs)
            largest = gain.max(axis=1)  # (H,)
            found[number] = allowance / (layer.heads * np.maximum(largest, 1e-300))
            return found
        if not isinstance(layer, Affine):
            return found
        behind = _through(layer, np.eye(layer.width_out) if behind is None else behind)
    return found


def _through(layer: Affine, behind: Floats) -> Floats:
    """Largest weights from a feature, of any token, to the outputs, those of any output token."""
    if layer.left is None:
        return np.abs(layer.right[0]) @ behind
    reach = np.abs(layer.left).sum(axis=2).max(axis=1)  # (K,)
    return np.einsum("k,kdm->dm", reach, np.abs(layer.right)) @ behind
