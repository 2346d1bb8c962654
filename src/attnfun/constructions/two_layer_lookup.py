"""Two layers, the second of which looks up in a constant memory; see `two_layer.py`."""

from .two_layer import LookupConstruction

__all__ = ["LookupConstruction"]
