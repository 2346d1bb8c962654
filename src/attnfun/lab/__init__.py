"""LAB: a local web page to play with, bound to this machine. `attnfun lab` starts it."""

from .server import launch

__all__ = ["launch"]
