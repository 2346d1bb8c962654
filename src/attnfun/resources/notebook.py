"""How results look in a notebook: plain tables, without styles of their own, so that they follow its light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ..errors import digits


def html_table(caption: str, rows: Iterable[tuple[str, object]]) -> str:
    """Names and values as an HTML table; whatever they contain is text.

    >>> html_table("f", [("bound", 0.5), ("target", "<x>")])
    '<table><caption>f</caption><tr><th>bound</th><td>0.5</td></tr><tr><th>target</th><td>&lt;x&gt;</td></tr></table>'
    """
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(_text(value))}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(caption)}</caption>{body}</table>"


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if len(digits(value)) > 6 else digits(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
