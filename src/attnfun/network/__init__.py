"""WEIGHTS: layers as frozen arrays, networks, and what they mean."""

from .layers import LAYERS, Affine, Attention, Layer, Softmax
from .network import DTYPES, Network

__all__ = ["DTYPES", "LAYERS", "Affine", "Attention", "Layer", "Network", "Softmax"]
