"""REPORT: one self-contained HTML file about a compiled network, to be opened from disk without a connection."""

from .page import MOST_NUMBERS, report

__all__ = ["MOST_NUMBERS", "report"]
