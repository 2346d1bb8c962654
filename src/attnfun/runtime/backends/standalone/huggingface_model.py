"""An attention network as a Hugging Face model. Needs transformers and torch, and `torch_model.py` beside this file.

The folder that this file is in is what `save_pretrained` writes, `config.json` and `model.safetensors`, and these two
files, so `NetworkModel.from_pretrained(folder)` or `load()` gives the model back; no code is fetched and none has to be
trusted. Once this file is imported, `AutoModel.from_pretrained(folder)` knows the model, too.

`model(points).logits` are the values, `model(Q, K).logits` those of a network of two inputs. With `labels`, `.loss` is
the mean squared error, as trainers expect. What is proved is in `model.config.certificate`: it holds for the weights as
they were compiled, in the dtype it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import (  # pyright: ignore[reportMissingImports] - it is large; see the extra `hf`
    AutoConfig,
    AutoModel,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.utils.generic import ModelOutput  # pyright: ignore[reportMissingImports]

from .torch_model import AttentionNetwork


class NetworkConfig(PretrainedConfig):
    """Layers and shapes of a network, and what is known about it."""

    model_type = "attnfun"

    def __init__(
        self,
        network: dict[str, Any] | None = None,
        summary: str = "",
        variables: list[str] | None = None,
        domain: dict[str, Any] | None = None,
        certificate: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.network = network or {}
        self.summary, self.variables, self.domain = summary, variables or [], domain or {}
        self.certificate = certificate or {}
        super().__init__(**others)


@dataclass
class NetworkOutput(ModelOutput):
    """Values (..., *value shape) as `logits`, the usual name, and the mean squared error where there are labels."""

    loss: Tensor | None = None
    logits: Tensor | None = None


class NetworkModel(PreTrainedModel):
    """Stock `nn.MultiheadAttention`, `nn.Linear` and `nn.Softmax` in order, weights trainable."""

    config_class = NetworkConfig
    base_model_prefix = "network"
    main_input_name = "points"

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.network = AttentionNetwork(config.network)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Weights are compiled and loaded, never drawn."""

    def forward(
        self, points: Tensor, second: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> NetworkOutput:
        """Points (..., *point shape), of the model's dtype, and those of the second input where there are two."""
        values = self.network(points, second)
        loss = None if labels is None else nn.functional.mse_loss(values, labels.to(values))
        return NetworkOutput(loss=loss, logits=values)


def build(config: NetworkConfig, weights: dict[str, Tensor]) -> NetworkModel:
    """The model with its weights, which its dtype holds exactly."""
    model = NetworkModel(config)
    model.network.load_state_dict(weights)
    return model.eval()


def load(folder: str | Path | None = None) -> NetworkModel:
    """The model of a folder, by default the one that this file is in."""
    return NetworkModel.from_pretrained(str(folder or Path(__file__).parent), dtype="auto", local_files_only=True)


AutoConfig.register(NetworkConfig.model_type, NetworkConfig, exist_ok=True)
AutoModel.register(NetworkConfig, NetworkModel, exist_ok=True)
