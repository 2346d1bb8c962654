"""Places for a network of one layer in an `nn.MultiheadAttention` of the user's, and its numbers written there.

Taken are

    in_proj    the rows of the heads that are used, of queries, keys and values
    out_proj   their columns, and the rows and biases of the features that the value is written to

and nothing else: other heads and other features of the output compute what they computed, but for what they got from
the heads that were taken. Heads of the network are smaller than those of the layer; what is left of them becomes zero.
Query weights hold √(head size) times what the network has, because stock attention divides scores by it.

**Self-attention.** If rows of data are keys as well, one feature tells memory from data: it is 1 in memory rows and 0
in others. One more feature of a head has the key `FAR (flag - 1)`, which is 0 in memory rows and -2^100 elsewhere, and
the query 1. So data get weights that are exactly zero, and the sums are those over the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, MissingExtra, shown
from ...network import DTYPES, Attention, Network
from ...network.layers import selects
from .lens import FAR

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise MissingExtra("torch", "torch") from None

Floats = npt.NDArray[np.float64]
Places = tuple[int, ...]
SMALLER = "Use a larger layer, or a larger eps."


def usable(module: nn.Module, flag: int | None, one: int | None) -> nn.MultiheadAttention:
    """The layer, if it is one whose weights decide what it computes."""
    if not isinstance(module, nn.MultiheadAttention):
        parts = module.named_modules() if isinstance(module, nn.Module) else ()
        inner = [name for name, part in parts if isinstance(part, nn.MultiheadAttention)]
        raise InputError(
            "af.init_ needs an nn.MultiheadAttention",
            got=type(module).__name__,
            remedy=f"Pass one of its parts: {', '.join(inner)}." if inner else "",
        )
    need(module.dropout == 0, "a layer that computes a function drops nothing out", f"dropout={module.dropout}")
    need(not module.add_zero_attn, "a token of zeros must not be added", "add_zero_attn=True")
    need(dtype_of(module) in DTYPES, f"the layer's dtype must be one of {', '.join(DTYPES)}", dtype_of(module))
    for name, place in (("flag", flag), ("one", one)):
        fits = place is None or (isinstance(place, Integral) and 0 <= place < module.embed_dim)
        need(fits, f"{name} must be a feature of the layer's {module.embed_dim}", place)
    if flag is not None:
        together = module.kdim == module.vdim == module.embed_dim and module.in_proj_bias is not None
        need(together, "self-attention with memory needs one width and biases", repr(module), "Leave flag out.")
    return module


@dataclass(frozen=True, eq=False)
class Written:
    """What came of it: rows of memory, and which numbers of each parameter are the network's."""

    keys: Tensor  # (M, kdim)
    values: Tensor  # (M, vdim)
    masks: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Seat:
    """A network of one layer, and where in the user's layer it will live; it is known to fit."""

    network: Network
    heads: Places
    reads: Places
    writes: Places
    flag: int | None
    one: int | None
    keys: Places
    """Features of the memory that keys are made of; those of the user's rows are the first ones, without the flag."""
    values: Places

    @classmethod
    def in_layer(
        cls,
        layer: nn.MultiheadAttention,
        network: Network,
        heads: Sequence[int] | None,
        reads: Sequence[int] | None,
        writes: Sequence[int] | None,
        flag: int | None,
        one: int | None,
    ) -> Seat:
        """Places for everything, or an error that says what is too small."""
        own, width, masked = network.attention[0], layer.embed_dim, flag is not None
        taken = {place for place in (flag, one) if place is not None}
        free = [place for place in range(width) if place not in taken]
        size, value_size = own.key.shape[2] + masked, own.value.shape[2]
        need(own.heads <= layer.num_heads, f"the layer must have {own.heads} heads", layer.num_heads, SMALLER)
        wide = max(size, value_size) <= layer.head_dim
        need(wide, f"its heads must have {max(size, value_size)} features", layer.head_dim, SMALLER)
        every = tuple(range(own.memory.shape[1]))
        keys, values = every, every
        if layer.kdim != layer.vdim:
            keys, values = (tuple(np.flatnonzero(part.any(axis=(0, 2))).tolist()) for part in (own.key, own.value))
        for name, needed, there in (("keys", len(keys), layer.kdim), ("values", len(values), layer.vdim)):
            fits = needed + masked <= (there or width)
            need(fits, f"its {name} must be made of {needed + masked} features", there, SMALLER)
        seat = cls(
            network,
            _places("heads", heads, own.heads, range(layer.num_heads)),
            _places("reads", reads, own.width_in, free),
            _places("writes", writes, own.width_out, range(width)),
            flag,
            one,
            keys,
            values,
        )
        seat._check_biases(layer, own)
        return seat

    def _check_biases(self, layer: nn.MultiheadAttention, own: Attention) -> None:
        """Constants need biases, or a feature that is 1; a token of the layer's own must be given exactly."""
        if layer.in_proj_bias is None:
            need(
                self.one is not None or not own.query_bias.any(),
                "a layer without biases needs a feature of queries that is 1",
                "bias=False",
                "Name it: one=63, say.",
            )
            others = (own.key_bias, own.value_bias, own.output_bias)
            need(not any(part.any() for part in others), "this network needs biases", "bias=False", 'Use "spectral".')
        if layer.bias_k is not None:
            pairs = [*zip(own.key, own.key_bias, strict=True), *zip(own.value, own.value_bias, strict=True)]
            exact = all(selects(*pair).all() for pair in pairs)
            need(exact, "the token in bias_k must be given exactly", "add_bias_kv=True", "Use add_bias_kv=False.")

    def write(self, layer: nn.MultiheadAttention) -> Written:
        """Write everything, first into copies, then in one go."""
        weights = dict(layer.named_parameters())
        sheets = {name: Sheet(w.detach().clone(), torch.zeros_like(w, dtype=torch.bool)) for name, w in weights.items()}
        keys, values = self._fill(layer, sheets)
        finite = all(torch.isfinite(sheet.new[sheet.written]).all() for sheet in sheets.values())
        need(finite, f"weights must be finite in {dtype_of(layer)}", "an overflow", "Use float64.")
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(sheets[name].new)
        return Written(keys, values, {name: sheet.written for name, sheet in sheets.items()})

    def _fill(self, layer: nn.MultiheadAttention, sheets: dict[str, Sheet]) -> tuple[Tensor, Tensor]:
        """Put the numbers onto the sheets; rows of memory for keys and values."""
        own, size, masked = self.network.attention[0], layer.head_dim, self.flag is not None
        if layer.in_proj_weight is None:
            query, key, value = (sheets[f"{name}_proj_weight"] for name in "qkv")
        else:
            query, key, value = sheets["in_proj_weight"].thirds()
        biases = sheets["in_proj_bias"].thirds() if layer.in_proj_bias is not None else None
        out, k, v, scale = sheets["out_proj.weight"], own.key.shape[2], own.value.shape[2], sqrt(size)
        key_at, value_at = (self._free(len(part)) for part in (self.keys, self.values))
        out[list(self.writes)] = 0.0
        for number, head in enumerate(self.heads):
            rows, first = slice(head * size, (head + 1) * size), head * size
            for part in (query, key, value, *(biases or ())):
                part[rows] = 0.0
            out[:, rows] = 0.0
            query.put(range(first, first + k), self.reads, own.query[number].T * scale)
            key.put(range(first, first + k), key_at, own.key[number][list(self.keys)].T)
            value.put(range(first, first + v), value_at, own.value[number][list(self.values)].T)
            out.put(self.writes, range(first, first + v), own.output[number].T)
            if biases:
                parts = own.query_bias[number] * scale, own.key_bias[number], own.value_bias[number]
                for bias, numbers in zip(biases, parts, strict=True):
                    bias[first : first + len(numbers)] = torch.tensor(numbers)
            elif self.one is not None:
                query.put(range(first, first + k), [self.one], own.query_bias[number][:, None] * scale)
            if self.flag is not None and biases:
                key[first + k, self.flag] = FAR
                biases[0][first + k], biases[1][first + k] = scale, -FAR
            if layer.bias_k is not None:  # the layer's own token is the last one of the memory
                for name, part in (("bias_k", own.keys()), ("bias_v", own.values())):
                    sheets[name][..., rows] = 0.0
                    sheets[name][..., first : first + part.shape[2]] = torch.tensor(part[number, -1])
        if layer.out_proj.bias is not None:
            sheets["out_proj.bias"][list(self.writes)] = torch.tensor(own.output_bias)
        memory = own.memory[: len(own.memory) - (layer.bias_k is not None)]
        return self._rows(layer, memory, masked)

    def _rows(self, layer: nn.MultiheadAttention, memory: Floats, masked: bool) -> tuple[Tensor, Tensor]:
        """Memory tokens in rows of the user's widths."""
        made: list[Tensor] = []
        for part, width in ((self.keys, layer.kdim), (self.values, layer.vdim)):
            rows = np.zeros((len(memory), width or layer.embed_dim))  # (M, kdim)
            rows[:, self._free(len(part))] = memory[:, list(part)]
            if masked:
                rows[:, self.flag] = 1.0
            made.append(torch.tensor(rows).to(layer.out_proj.weight))
        return (made[0], made[0]) if layer.kdim == layer.vdim else (made[0], made[1])

    def _free(self, count: int) -> list[int]:
        """The first features of rows of memory, without the flag."""
        return [place for place in range(count + 1) if place != self.flag][:count]


@dataclass(frozen=True, eq=False)
class Sheet:
    """A parameter as it will be, and which of its numbers are ours."""

    new: Tensor
    written: Tensor

    def __setitem__(self, place: Any, numbers: float | Tensor) -> None:
        self.new[place] = numbers.to(self.new) if isinstance(numbers, Tensor) else numbers
        self.written[place] = True

    def put(self, rows: Sequence[int], columns: Sequence[int], numbers: Floats) -> None:
        """Numbers (R, C) where these rows and columns meet."""
        self[torch.tensor(list(rows))[:, None], torch.tensor(list(columns))] = torch.tensor(numbers)

    def thirds(self) -> tuple[Sheet, Sheet, Sheet]:
        """Views of the parts for queries, keys and values."""
        first, second, third = zip(self.new.chunk(3), self.written.chunk(3), strict=True)
        return Sheet(*first), Sheet(*second), Sheet(*third)


def dtype_of(layer: nn.MultiheadAttention) -> str:
    """The name of the layer's dtype."""
    return str(layer.out_proj.weight.dtype).removeprefix("torch.")


def _places(name: str, given: Sequence[int] | None, count: int, there: Sequence[int]) -> Places:
    """So many different places, the first ones if none are given."""
    need(given is not None or count <= len(there), f"{name} takes {count} of the layer's places", len(there), SMALLER)
    listed = isinstance(given, list | tuple | range | np.ndarray)
    chosen = tuple(there)[:count] if given is None else tuple(given) if listed else ()
    fits = all(isinstance(place, Integral) for place in chosen) and set(chosen) <= set(there)
    fits = fits and len(chosen) == len(set(chosen)) == count
    need(fits, f"{name} must be {count} different numbers among {min(there)} to {max(there)}", shown(given))
    return tuple(int(place) for place in chosen)


def need(holds: bool, constraint: str, got: object, remedy: str = "") -> None:
    """Refuse what does not hold."""
    if not holds:
        raise InputError(constraint, got=got, remedy=remedy)
