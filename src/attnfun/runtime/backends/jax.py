"""Networks as pure JAX functions with a pytree of weights.

Layers become a description and weights; `standalone/jax_model.py`, which needs no attnfun, makes the function of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, MissingExtra
from ...network import Affine, Attention, Network, Softmax
from .dense import CrossKeys, Planned, emitted, mixing, planned, written_out

try:
    import jax
    import jax.numpy as jnp

    from .standalone import jax_model
except ImportError:
    raise MissingExtra("jax", "jax") from None

Array = npt.NDArray[Any]


def plan(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and weights of the function; refused if too large."""
    form = emitted(network, second_shape)
    parts = map(translate, form.layers)
    return written_out("JAX", network, form, parts, point_shape, value_shape, second_shape)


def to_jax(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
) -> tuple[Callable[..., jax.Array], jax_model.Weights]:
    """A pure function `apply(weights, points)` and its weights, in the network's dtype; of two inputs if there are."""
    description, arrays = plan(network, point_shape, value_shape, second_shape)
    try:
        apply = jax_model.build(description)
    except ValueError as reason:
        raise InputError(str(reason).rstrip(".")) from None
    weights: jax_model.Weights = [{} for _ in description["layers"]]
    for full, array in arrays.items():
        _, number, name = full.split(".")
        weights[int(number)][name] = jnp.asarray(array, network.dtype)
    return apply, weights


@singledispatch
def translate(layer: object) -> tuple[dict[str, Any], dict[str, Planned]]:
    """One layer in the terms of `jax_model.py`: its kind and flags, and its weights."""
    raise TypeError(f"no JAX translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine) -> tuple[dict[str, Any], dict[str, Planned]]:
    if layer.left is None:
        return {"kind": "linear"}, {"weight": planned(layer.right[0]), "bias": planned(layer.constant[0])}
    weights = {"weight": mixing(layer), "bias": planned(layer.constant.ravel())}  # (n*d, N*m), (N*m,)
    return {"kind": "mixing", "shape": layer.constant.shape}, weights


@translate.register
def _(layer: Attention) -> tuple[dict[str, Any], dict[str, Planned]]:
    named = {field.name: getattr(layer, field.name) for field in fields(layer)}
    weights = {name: planned(value) for name, value in named.items() if isinstance(value, np.ndarray)}
    return {"kind": "attention", "attends_data": layer.attends_data, "residual": layer.residual}, weights


@translate.register
def _(layer: CrossKeys) -> tuple[dict[str, Any], dict[str, Planned]]:
    _, weights = translate(layer.layer)
    features, shift = planned(layer.features.right[0]), planned(layer.features.constant[0])
    weights |= {"features": features, "features_bias": shift, "sums": planned(layer.sums)}
    return {"kind": "cross"}, weights


@translate.register
def _(layer: Softmax) -> tuple[dict[str, Any], dict[str, Planned]]:
    return {"kind": "softmax"}, {}
