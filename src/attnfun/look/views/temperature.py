"""The same network, warmer or colder: what the sharpness of its heads does to its values."""

from __future__ import annotations

from dataclasses import replace

from ...errors import InputError
from ...network import Attention, Network


def at_temperature(network: Network, temperature: float) -> Network:
    """Every head's scores divided by the temperature: weights sharpen below 1 and blur above.

    The network is for looking at: no certificate speaks of it.
    """
    if not 0 < temperature < float("inf"):
        raise InputError("temperature must be a finite number > 0", got=temperature)
    layers = (
        replace(layer, query=layer.query / temperature, query_bias=layer.query_bias / temperature)
        if isinstance(layer, Attention)
        else layer
        for layer in network.layers
    )
    return replace(network, layers=tuple(layers))
