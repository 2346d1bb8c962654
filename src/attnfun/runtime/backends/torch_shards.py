"""A network whose banks are split over the processes of a `torch.distributed` group, on whatever device they have.

Each process holds one shard. In a layer that is split it computes the scores of its own tokens; the largest score of
all processes is found by one reduction, sums of `e^{s - t}` and of `e^{s - t} v` by another, so that every process has
the average over the whole bank. Weights are never rescaled, so rounding is that of one dense kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from ...arithmetic.formats import held_in
from ...errors import InputError, MissingExtra
from ...network import Attention

try:
    import torch
    import torch.distributed as distributed
    from torch import Tensor, nn

    from .torch import made_of, translate
except ImportError:
    raise MissingExtra("torch", "torch") from None

if TYPE_CHECKING:
    from ..evaluation import Evaluation
    from ..sharding import ShardFile

BLOCK = 2**24
"""Scores that a process computes at a time."""


class SplitAttention(nn.Module):
    """One attention layer with this process's part of the memory. Data tokens are counted by the first process."""

    keys: Tensor  # (H, M, k)
    values: Tensor  # (H, M, v)
    query: Tensor
    query_bias: Tensor
    key: Tensor
    key_bias: Tensor
    value: Tensor
    value_bias: Tensor
    output: Tensor
    output_bias: Tensor

    def __init__(self, layer: Attention, group: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.group, self.first = group, distributed.get_rank(group) == 0
        self.attends_data, self.residual = layer.attends_data, layer.residual
        weights = {"keys": layer.keys(), "values": layer.values()}
        for name in ("query", "query_bias", "key", "key_bias", "value", "value_bias", "output", "output_bias"):
            weights[name] = getattr(layer, name)
        for name, array in weights.items():
            self.register_buffer(name, torch.tensor(array, dtype=dtype))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, o)."""
        q = self._projected(tokens, self.query, self.query_bias)  # (B, H, n, k)
        scores, values = q @ self.keys.transpose(1, 2), self.values[None]  # (B, H, n, M), (1, H, M, v)
        pairs = [(scores, values)]
        if self.attends_data and self.first:
            keys = self._projected(tokens, self.key, self.key_bias)  # (B, H, n, k)
            pairs.append((q @ keys.transpose(2, 3), self._projected(tokens, self.value, self.value_bias)))
        top = torch.stack([scores.amax(dim=-1) for scores, _ in pairs]).amax(dim=0)  # (B, H, n)
        distributed.all_reduce(top, distributed.ReduceOp.MAX, group=self.group)
        sums = torch.zeros((*q.shape[:3], self.values.shape[2] + 1), dtype=q.dtype, device=q.device)  # (B, H, n, v + 1)
        for scores, values in pairs:
            weights = torch.exp(scores - top[..., None])
            sums[..., :-1] += weights @ values
            sums[..., -1] += weights.sum(dim=-1)
        distributed.all_reduce(sums, group=self.group)
        mean = sums[..., :-1] / sums[..., -1:]
        out = torch.einsum("bhnv,hvo->bno", mean, self.output) + self.output_bias
        return tokens + out if self.residual else out

    def _projected(self, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.einsum("bnd,hdk->bhnk", tokens, weight) + bias[:, None]


class SplitNetwork(nn.Module):
    """Layers in order, with points and values in the shapes that the user sees; no gradients."""

    def __init__(self, layers: list[nn.Module], evaluation: Evaluation, rows: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.layers, self.rows, self.dtype = nn.ModuleList(layers), rows, dtype
        self.domain, self.value_shape = evaluation.domain, evaluation.output_shape
        self.shape_in, self.stored = evaluation.network.shape_in, getattr(torch, evaluation.network.dtype)

    @torch.no_grad()
    def forward(self, points: Tensor) -> Tensor:
        """(..., *point shape) -> (..., *value shape), in blocks. It is not checked that points lie in the domain."""
        lead = self.domain.leading(tuple(points.shape))
        tokens = points.to(self.stored).to(self.dtype).reshape(prod(lead), *self.shape_in)  # (B, n, d)
        blocks = []
        for block in tokens.split(self.rows):
            for layer in self.layers:
                block = layer(block)
            blocks.append(block)
        return torch.cat(blocks).reshape(*lead, *self.value_shape)


def module(
    read: Callable[[int], ShardFile], frame: ShardFile, evaluation: Evaluation, device: Any, group: Any
) -> SplitNetwork:
    """The module of this process; `read` gives its shard."""
    if not distributed.is_initialized() or distributed.get_world_size(group) != frame.shards:
        world = distributed.get_world_size(group) if distributed.is_initialized() else "no process group"
        raise InputError(
            f"a network in {frame.shards} shards needs as many processes",
            got=world,
            remedy="Start them with torchrun, or split the network into as many shards as there are processes.",
        )
    part = read(distributed.get_rank(group))
    stored = part.network.dtype
    dtype = getattr(torch, held_in(stored))
    length, most, layers = part.network.rows, 1, list[nn.Module]()
    for number, layer in enumerate(part.network.layers):
        if number in part.split and isinstance(layer, Attention):
            layers.append(SplitAttention(layer, group, dtype))
            most = max(most, layer.heads * length * len(layer.memory))
        else:
            layers.append(made_of(translate(layer, length), dtype))
        length = layer.length_out(length)
    sizes = torch.tensor([most], device=device)
    distributed.all_reduce(sizes, distributed.ReduceOp.MAX, group=group)  # all processes cut blocks alike
    return SplitNetwork(layers, evaluation, max(1, BLOCK // int(sizes)), dtype).to(device).eval()
