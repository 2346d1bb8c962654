"""One self-attention layer and a softmax: each head looks at one token, and stock PyTorch computes the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnfun as af

LENGTHS = (1, 2)


def first_and_last(X):
    return X[..., :1, 0] - X[..., -1:, 0] / 2


@pytest.mark.parametrize("length", LENGTHS)
def test_each_head_looks_at_one_token_in_stock_pytorch(length):
    box = af.Box(np.full((length, 1), -1.0), np.full((length, 1), 1.0))
    net = af.compile(first_and_last, box, eps=0.9, construction="softmax-readout")
    assert net.network.heads == length
    assert net.network.tokens == 0
    module, seen = net.to_torch(), list[torch.Tensor]()
    (layer,) = (part for part in module.modules() if isinstance(part, torch.nn.MultiheadAttention))
    layer.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    X = np.random.default_rng(0).uniform(-1, 1, (300, length, 1))
    with torch.no_grad():
        values = module(torch.tensor(X)).numpy()
        tokens, keys, held = seen[:3]
        weights = layer(tokens, keys, held, need_weights=True, average_attn_weights=False)[1]  # (B, H, L, L)
    for head in range(length):
        assert (weights[:, head, :, head + 1] == 1).all()  # row 0 is the start row
    assert np.abs(values.reshape(300, -1) - first_and_last(X).reshape(300, -1)).max() <= net.certificate.bound <= 0.9
