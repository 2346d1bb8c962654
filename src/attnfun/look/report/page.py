"""The page: what was compiled, its certificate, its size beside the paper's, and the network itself, which runs in it.

All text that users wrote is escaped, in HTML and inside scripts; a policy in the page forbids anything from outside.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from importlib import import_module, resources
from math import prod
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._version import __version__
from ...constructions import REGISTRY
from ...network.storage import refuse_place, write_as
from ...targets import Status
from ..plots.style import AMOUNTS, ERRORS, VALUES
from ..views import Window, held_out_rows, look
from .code import python_code
from .figures import function_figures
from .running import attention_content, controls

if TYPE_CHECKING:
    from ...compiled import Compiled

FILES = re.compile(r" ?\(`[\w/]+\.py`\)|`[\w/]+\.py`")
BOLD, FORMULA = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")
"""Names of files, bold words and formulas in docstrings."""
SCRIPTS = ("chart.js", "network.js", "page.js")
STOPS = 33
"""Colours of a map that the page knows; it blends those between."""
MOST_NUMBERS = 500_000
"""Weights of a network that is put into the page; larger ones are described only."""
MOST_OUTPUTS = 6
"""Outputs that are drawn."""
MOST_BYTES = 8_000_000
"""Size of a file of weights that is offered for download."""


def report(net: Compiled, path: str | os.PathLike[str]) -> None:
    """Write the page; it appears complete or not at all."""
    refuse_place(path)
    first = look(net)
    windows = [first.of_output(k) for k in range(min(prod(net.output_shape), MOST_OUTPUTS))]
    runs = net.network.parameters <= MOST_NUMBERS and bool(net.network.attention)
    content: dict[str, Any] = {"figures": [function_figures(window) for window in windows]}
    content["scales"] = {name: _colours(name) for name in (VALUES, AMOUNTS, ERRORS)}
    content |= attention_content(windows[0]) if runs else {}
    page = Template(_text("page.html")).substitute(
        title=escape(f"attnfun: {net.name}"),
        name=escape(net.name),
        status=escape(net.certificate.status.value),
        headline=escape(net.certificate.headline),
        meaning=escape(net.certificate.meaning.capitalize()),
        what=_what(net),
        certificate=_certificate(net),
        resources=_resources(net),
        function=_function(windows, content["figures"][0]),
        attention=controls(windows[0]) if runs else _no_attention(net),
        downloads=_downloads(net),
        version=escape(__version__),
        css=_text("page.css"),
        content=_json(content),
        scripts="".join(map(_text, SCRIPTS)),
    )
    write_as(".html", path, page.encode())


def _text(name: str) -> str:
    return resources.files("attnfun.look.report").joinpath(name).read_text(encoding="utf-8")


def _colours(name: str) -> list[list[int]]:
    """A colour map by STOPS of its colours, from 0 to 255."""
    from matplotlib import colormaps

    return np.rint(255 * colormaps[name](np.linspace(0, 1, STOPS))[:, :3]).astype(int).tolist()


def _json(content: Any) -> str:
    """JSON that cannot end the script that it stands in."""
    text = json.dumps(content, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _table(caption: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows whose first cell names them."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(
            f"<td{' class=number' * isinstance(cell, int | float)}>{escape(_shown(cell))}</td>" for cell in rest
        )
        body += f'<tr><th scope="row">{escape(_shown(first))}</th>{cells}</tr>'
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _what(net: Compiled) -> str:
    rows: list[tuple[str, object]] = [
        ("target", net.name),
        ("domain", repr(net.domain)),
        ("tolerance requested", net.eps),
        ("construction", net.construction),
        ("theorem", net.theorem),
        ("arithmetic", net.network.dtype),
    ]
    rows += [
        (f"option {name}", "not a number or text" if value is None else value) for name, value in net.options.items()
    ]
    return _table("The function and the theorem that turned it into attention", ("", ""), rows) + _theorem(net)


def _theorem(net: Compiled) -> str:
    """The construction with its proof, as it stands beside its code."""
    if net.construction not in REGISTRY:
        return ""
    module = import_module(type(REGISTRY[net.construction]).__module__)
    text = typeset(module.__doc__ or "")
    return f"<details><summary>The construction and its bound</summary>{text}</details>"


def typeset(words: str) -> str:
    """A docstring as HTML: paragraphs, displayed formulas, bold words, formulas in the line; no names of files.

    >>> typeset("**Bound.** `x < 1` (`pieces/lines.py`).")
    '<p><strong>Bound.</strong> <code>x &lt; 1</code>.</p>'
    """
    parts = []
    for block in FILES.sub("", words).split("\n\n"):
        text = escape(block.strip("\n"))
        if text.startswith("    "):
            parts.append(f"<pre>{text}</pre>")
        elif text.strip():
            bold = BOLD.sub(r"<strong>\1</strong>", " ".join(text.split()))
            parts.append("<p>" + FORMULA.sub(r"<code>\1</code>", bold) + "</p>")
    return "".join(parts)


def _certificate(net: Compiled) -> str:
    certificate = net.certificate
    rows: list[tuple[str, object]] = [(f"part: {name}", float(part)) for name, part in certificate.parts.items()]
    rows += [(_what_is_known(net), float(certificate.bound))]
    rows += [("largest error found", float(certificate.found))]
    rows += [("random points" if name == "random" else name, count) for name, count in certificate.effort.items()]
    lines = "".join(f"<li>{escape(line)}</li>" for line in certificate.assumptions)
    listed = f"<p>It takes for granted:</p><ul>{lines}</ul>" if lines else ""
    statement = f"<p>{escape(certificate.as_dict()['statement'])}.</p>"
    return statement + _table("The certificate and its parts", ("", "size"), rows) + listed


def _what_is_known(net: Compiled) -> str:
    return "estimate" if net.certificate.status is Status.ESTIMATED else "bound"


def _resources(net: Compiled) -> str:
    summary = net.summary()
    rows: list[tuple[object, ...]] = [
        ("memory tokens", summary.tokens, summary.paper_tokens),
        ("bound in advance", net.a_priori if net.a_priori_proved else "no bound in advance", summary.paper_bound),
        (f"{_what_is_known(net)} of the certificate", summary.bound, None),
        ("layers", summary.layers, None),
        ("heads", summary.heads, None),
        ("parameters", summary.parameters, None),
        ("largest logit", summary.largest_logit, None),
        ("largest value", summary.largest_value, None),
        *((name, float(value), None) for name, value in summary.figures.items()),
    ]
    table = _table("Resources, beside what the paper's own bound needs", ("", "this network", "the paper"), rows)
    others = "".join(f"<li>{escape(str(each))}</li>" for each in summary.alternatives)
    return table + (f"<details><summary>What was considered</summary><ul>{others}</ul></details>" if others else "")


def _function(windows: list[Window], figures: dict[str, Any]) -> str:
    window, shape = windows[0], windows[0].net.output_shape
    chooser = ""
    if len(windows) > 1:
        names = [", ".join(map(str, np.unravel_index(k, shape))) for k in range(len(windows))]
        options = "".join(f'<option value="{k}">{name}</option>' for k, name in enumerate(names))
        select = f'<label for="output">Output</label><select id="output">{options}</select>'
        chooser = f'<div class="controls"><div>{select}</div></div>'
    left = prod(shape) - len(windows)
    notes = [f"Outputs that are not drawn: {left}."] if left else []
    if not window.has_target and held_out_rows(window) is None:
        notes.append("The target's values are not at hand, so the network is drawn alone.")
    if not window.bounded_everywhere:
        notes.append("The bound is one of an L_p norm: single points may err by more.")
    said = "".join(f'<p class="note">{note}</p>' for note in notes)
    panels = "".join(_panel(window, name, drawn) for name, drawn in figures.items())
    return f'{chooser}{said}<div class="pair">{panels}</div>'


def _panel(window: Window, name: str, figure: dict[str, Any]) -> str:
    """The place of a figure, under what it shows."""
    beside = window.has_target and window.domain.size != 2
    power = "log10 of the error" if figure["layout"].get("logarithmic") else "Error"
    word, _, status = window.word.partition(" ")
    bounded = f"{power}, {word} {window.net.certificate.bound:.3g} {status}" if window.domain.size == 2 else ""
    data = held_out_rows(window) is not None and window.domain.size <= 2
    title = {
        "target": "Target",
        "values": "Network and target" if beside else "Network and data" if data else "Network",
        "error": bounded or f"Error and {window.word}",
        "held_out": "Held-out rows",
        "residuals": "Residuals of held-out rows",
    }[name]
    return f'<div><h3>{escape(title)}</h3><div id="{name}" role="img" aria-label="{escape(title)}"></div></div>'


def _no_attention(net: Compiled) -> str:
    if not net.network.attention:
        return '<p class="note">This network needs no attention.</p>'
    return (
        f'<p class="note">The network has {net.network.parameters:,} parameters; pages hold up to {MOST_NUMBERS:,}. '
        "Use net.plot(), or a larger tolerance.</p>"
    )


def _downloads(net: Compiled) -> str:
    code = python_code(net, "network.safetensors")
    files = [("reproduce.py", "text/x-python", code.encode(), "Python program")]
    known = json.dumps({"summary": net.summary().as_dict(), "certificate": net.certificate.as_dict()}, indent=1)
    files.append(("certificate.json", "application/json", known.encode(), "certificate and summary"))
    weights = _saved(net)
    if len(weights) <= MOST_BYTES:
        files.append(("network.safetensors", "application/octet-stream", weights, "network with its weights"))
    links = "".join(
        f'<li><a download="{name}" href="data:{kind};base64,{b64encode(data).decode()}">{name}</a>: {words}</li>'
        for name, kind, data, words in files
    )
    return f"<ul>{links}</ul><pre>{escape(code)}</pre>"


def _saved(net: Compiled) -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "network.safetensors"
        net.save(file)
        return file.read_bytes()
