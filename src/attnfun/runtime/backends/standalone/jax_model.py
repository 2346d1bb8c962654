"""An attention network in JAX, rebuilt from the safetensors file beside this one. Needs jax and safetensors.

`apply, weights = load()` gives a pure function and its weights, a list with one dict of arrays a layer:
`apply(weights, points)` maps points of shape (..., *point shape) to values; with one variable, (k,) is a batch of k
points. A network of two inputs takes points of both, `apply(weights, Q, K)`. It can be jitted, mapped and
differentiated by points and by weights. Points are taken in the network's dtype.
What is proved about it is in `describe()["certificate"]`; it does not check that points lie in the domain.

Products are taken at full precision. In bfloat16 and float16 sums and softmax are float32, results are stored in
the network's dtype. Float64 needs `jax.config.update("jax_enable_x64", True)` before the first array is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from safetensors import safe_open

Layer = dict[str, Any]
Weights = list[dict[str, Array]]


def build(description: dict[str, Any]) -> Callable[..., Array]:
    """The pure function of a network with this description."""
    second_shape = tuple(description.get("second_shape", ()))
    point, shape_in, value = (tuple(description[name]) for name in ("point_shape", "shape_in", "value_shape"))
    layers, dtype = description["layers"], description["dtype"]
    check_dtype(dtype)

    def apply(weights: Weights, points: Any, second: Any = None) -> Array:
        """(..., *point shape) -> (..., *value shape); with a second input (..., *second shape), where there are two."""
        points = jnp.asarray(points, dtype)
        flat = point == () or (point == (1,) and points.ndim < 2)
        lead = points.shape if flat else points.shape[: points.ndim - len(point)]
        tokens = points.reshape(prod(lead), *shape_in)  # (B, n, d)
        for layer, arrays in zip(layers, weights, strict=True):
            if layer["kind"] == "cross":
                if second is None:
                    raise TypeError("this network has two inputs: apply(weights, first, second)")
                keys = jnp.broadcast_to(jnp.asarray(second, dtype), (*lead, *second_shape)).reshape(prod(lead), -1)
                tokens = _cross(arrays, tokens, keys).astype(dtype)
            else:
                tokens = LAYERS[layer["kind"]](layer, arrays, tokens).astype(dtype)
        return tokens.reshape(*lead, *value)

    return apply


def check_dtype(dtype: str) -> None:
    """Refuse float64 where JAX would silently make it float32."""
    if dtype == "float64" and jnp.result_type(float) != jnp.float64:
        raise ValueError(
            "this network is float64, and JAX has float64 disabled. Call jax.config.update('jax_enable_x64', True) "
            "at the start of the program, or compile the network with dtype='float32'."
        )


def _product(equation: str, *factors: Array) -> Array:
    """Sums of products, in float32 at least and at full precision on every device."""
    kind = jnp.promote_types(factors[0].dtype, jnp.float32)
    return jnp.einsum(equation, *factors, precision="highest", preferred_element_type=kind)


def _linear(layer: Layer, weights: dict[str, Array], tokens: Array) -> Array:
    return _product("bnd,dm->bnm", tokens, weights["weight"]) + weights["bias"]  # (B, n, m)


def _mixing(layer: Layer, weights: dict[str, Array], tokens: Array) -> Array:
    flat = tokens.reshape(len(tokens), len(weights["weight"]))  # (B, n*d)
    out = _product("bi,ij->bj", flat, weights["weight"]) + weights["bias"]
    return out.reshape(len(tokens), *layer["shape"])  # (B, N, m)


def _attention(layer: Layer, weights: dict[str, Array], tokens: Array) -> Array:
    """Scores against data and memory are taken apart, so that the memory is never copied over the batch."""
    dtype = tokens.dtype
    q = _project("bnd,hdk->bhnk", tokens, weights, "query")  # (B, H, n, k)
    sources = []
    if layer["attends_data"]:
        k, v = (_project("bnd,hdk->bhnk", tokens, weights, name) for name in ("key", "value"))  # (B, H, n, .)
        sources.append((_product("bhnk,bhtk->bhnt", q, k), v, "bhnt,bhtv->bhnv"))
    if len(weights["memory"]):
        k, v = (_project("te,hek->htk", weights["memory"], weights, name) for name in ("key", "value"))  # (H, M, .)
        sources.append((_product("bhnk,htk->bhnt", q, k), v, "bhnt,htv->bhnv"))
    shares = jax.nn.softmax(jnp.concatenate([scores for scores, _, _ in sources], axis=-1), axis=-1)  # (B, H, n, T)
    cut = sources[0][0].shape[-1]
    parts = [shares[..., :cut], shares[..., cut:]]
    y = sum(_product(mix, part, v) for part, (_, v, mix) in zip(parts, sources, strict=False))  # (B, H, n, v)
    out = _product("bhnv,hvo->bno", jnp.asarray(y, dtype), weights["output"]) + weights["output_bias"]  # (B, n, o)
    return tokens + out if layer["residual"] else out


def _cross(weights: dict[str, Array], tokens: Array, second: Array) -> Array:
    """Attention of tokens (B, n, d) to memory tokens whose last feature a second input (B, s) makes."""
    dtype = tokens.dtype
    features = (_product("bs,sf->bf", second, weights["features"]) + weights["features_bias"]).astype(dtype)
    sums = _product("bf,ft->bt", features, weights["sums"]).astype(dtype)  # (B, M)
    memory = jnp.broadcast_to(weights["memory"], (len(tokens), *weights["memory"].shape)).at[..., -1].set(sums)
    q = _project("bnd,hdk->bhnk", tokens, weights, "query")  # (B, H, n, k)
    k, v = (_project("bte,hek->bhtk", memory, weights, name) for name in ("key", "value"))  # (B, H, M, .)
    shares = jax.nn.softmax(_product("bhnk,bhtk->bhnt", q, k), axis=-1)  # (B, H, n, M)
    y = jnp.asarray(_product("bhnt,bhtv->bhnv", shares, v), dtype)  # (B, H, n, v)
    return _product("bhnv,hvo->bno", y, weights["output"]) + weights["output_bias"]  # (B, n, o)


def _project(equation: str, rows: Array, weights: dict[str, Array], name: str) -> Array:
    """Queries, keys or values of all heads, in the dtype of the rows."""
    return (_product(equation, rows, weights[name]) + weights[f"{name}_bias"][:, None]).astype(rows.dtype)


def _softmax(layer: Layer, weights: dict[str, Array], tokens: Array) -> Array:
    return jax.nn.softmax(tokens.astype(jnp.promote_types(tokens.dtype, jnp.float32)), axis=-1)


LAYERS: dict[str, Callable[[Layer, dict[str, Array], Array], Array]] = {
    "linear": _linear,
    "mixing": _mixing,
    "attention": _attention,
    "softmax": _softmax,
}


def describe(path: str | Path | None = None) -> dict[str, Any]:
    """The description in a safetensors file, by default the one beside this file: shapes, domain, certificate."""
    with safe_open(_beside(path), "numpy") as file:
        return json.loads(file.metadata()["network"])


def load(path: str | Path | None = None) -> tuple[Callable[..., Array], Weights]:
    """Function and weights from a safetensors file, by default the one beside this file."""
    description = describe(path)
    apply = build(description)
    weights: Weights = [{} for _ in description["layers"]]
    with safe_open(_beside(path), "numpy") as file:
        for full in file.keys():  # noqa: SIM118 - not a dict
            _, number, name = full.split(".")
            weights[int(number)][name] = jnp.asarray(file.get_tensor(full), description["dtype"])
    return apply, weights


def _beside(path: str | Path | None) -> str:
    return str(path or Path(__file__).with_suffix(".weights.safetensors"))
