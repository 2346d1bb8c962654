"""WEIGHTS: layers as frozen arrays, networks, and what they mean."""

from ..arithmetic.formats import DTYPES
from .layers import LAYERS, Affine, Attention, FactoredAttention, Layer, Softmax
from .network import Network

__all__ = ["DTYPES", "LAYERS", "Affine", "Attention", "FactoredAttention", "Layer", "Network", "Softmax"]
