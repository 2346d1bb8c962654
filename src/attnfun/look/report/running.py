"""The network as the page runs it: its weights, its heads, and sliders for the input."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import fields
from html import escape
from typing import Any

import numpy as np

from ...network import Network
from ...network.layers import tokens_read
from ..views import HeadPlace, Window, cells, heads, leading_axes
from .figures import figure, numbers

MOST_SLIDERS, MOST_HEADS, MOST_KEYS, MOST_PLACES = 8, 64, 128, 2000
"""Variables with a slider, heads to choose from, bars in the picture, keys whose places are worked out."""


def attention_content(window: Window) -> dict[str, Any]:
    """What the page's scripts need to run the network and to draw its heads."""
    network = window.net.network
    chosen = heads(network)[:MOST_HEADS]
    flat = window.domain.size == 2
    names = window.domain.axes
    return {
        "network": _weights(network),
        "domain": {
            "lo": window.domain.lo.ravel().tolist(),
            "hi": window.domain.hi.ravel().tolist(),
            "point": window.point.tolist(),
        },
        "heads": [_head(window, place) for place in chosen],
        "most_keys": MOST_KEYS,
        "weights_layout": figure([], "key", "weight")["layout"],
        "places_layout": figure([], names[0], names[1] if flat else "weight", showlegend=False)["layout"],
    }


def controls(window: Window) -> str:
    """Labelled inputs for head, token and variables, and the places where the page draws."""
    network = window.net.network
    chosen = heads(network)[:MOST_HEADS]
    several = len(network.attention) > 1
    names = [(f"layer {place.layer + 1}, " if several else "") + f"head {place.head + 1}" for place in chosen]
    options = "".join(f'<option value="{k}">{name}</option>' for k, name in enumerate(names))
    low, high, here = (ends.ravel().tolist() for ends in (window.domain.lo, window.domain.hi, window.point))
    axes = range(window.domain.size)
    if len(axes) > MOST_SLIDERS:
        axes = sorted(leading_axes(window)[:MOST_SLIDERS])
    sliders = "".join(
        f'<div><label for="axis-{axis}">{escape(window.domain.axes[axis])}</label><output for="axis-{axis}"></output>'
        f'<input type="range" id="axis-{axis}" data-axis="{axis}" min="{low[axis]!r}" max="{high[axis]!r}" step="any" '
        f'value="{here[axis]!r}"></div>'
        for axis in axes
    )
    fixed = window.domain.size - len(axes)
    notes = [f"Variables that matter less and stay where they are: {fixed}."] if fixed else []
    notes += [f"Heads that are not listed: {network.heads - len(chosen)}."] if network.heads > len(chosen) else []
    return (
        f'<p class="note">The network runs in this page, in double precision. {" ".join(notes)}</p>'
        f'<div class="controls"><div><label for="head">Head</label><select id="head">{options}</select></div>'
        f'<div><label for="token">Token of the query</label><select id="token"></select></div>{sliders}</div>'
        '<p class="answer" id="answer" aria-live="polite"></p>'
        '<div class="pair"><div><h3>Weights of its keys</h3>'
        '<div id="weights" role="img" aria-label="Attention weights of the query"></div></div>'
        "<div hidden><h3>Where its keys lead</h3>"
        '<div id="places" role="img" aria-label="Attention weights at the places of the keys"></div></div></div>'
    )


def _weights(network: Network) -> dict[str, Any]:
    """Layers with arrays as base64 of little-endian float64."""
    layers = []
    for layer in network.layers:
        plain: dict[str, Any] = {"kind": layer.kind}
        for field in fields(layer):
            value = getattr(layer, field.name)
            if isinstance(value, np.ndarray):
                value = {"shape": value.shape, "data": b64encode(value.astype("<f8").tobytes()).decode()}
            plain[field.name] = value
        layers.append(plain)
    return {"length": network.rows, "layers": layers}


def _head(window: Window, place: HeadPlace) -> dict[str, Any]:
    """Where a head is, which tokens have queries, and where its keys lead."""
    network, length = window.net.network, window.net.network.rows
    for layer in network.layers[: place.layer + 1]:
        length = layer.length_out(length)
    after = network.layers[place.layer + 1] if place.layer + 1 < len(network.layers) else None
    querying = np.flatnonzero(tokens_read(after, length)).tolist()
    data = length if place.attention.attends_data else 0
    return {
        "layer": place.layer,
        "head": place.head,
        "token": place.token,
        "tokens": querying,
        "data": data,
        "places": _places(window, place),
    }


def _places(window: Window, place: HeadPlace) -> dict[str, Any] | None:
    """The middles of the cells on which keys lead, for one or two variables."""
    if window.domain.size > 2 or len(place.attention.memory) > MOST_PLACES:
        return None
    found = cells(window, place, tuple(range(window.domain.size)))
    if found is None:
        return None
    corners = found.partition.corners
    live = [cell for cell in range(len(corners)) if len(corners[cell]) > window.domain.size]
    middles = np.array([corners[cell].mean(axis=0) for cell in live]).reshape(len(live), window.domain.size)
    columns = dict(zip("xy", (numbers(column) for column in middles.T), strict=False))
    return {"keys": found.keys[live].tolist(), **columns}
