"""The work of the lab, done by its worker process: arguments and replies are plain JSON, results are files."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import attnfun as af

from ..domains.box import read_box, read_ranges
from ..errors import InputError
from ..look.plots.style import BOUND, ERROR, NETWORK, QUERY, TARGET
from ..look.report.code import python_code
from ..look.report.figures import figure, function_figures, numbers
from ..look.views import Window, look
from ..network import Attention, Network
from ..resources.deadline import TIME_LIMIT

LINE, MAP = 401, 41
"""Points along a line and along each side of a plane at which the error of a warmed network is measured."""
TEMPERATURES = np.geomspace(0.1, 10.0, 21)


def compiled(folder: str, formula: str, domain: str, eps: float, budget: int, **keywords: Any) -> dict[str, Any]:
    """Compile, and write network, pictures, report and program into the folder."""
    place, file = Path(folder), Path(folder) / "network.safetensors"
    net = af.compile(formula, read_ranges(domain), eps, budget=budget, **keywords)
    net.save(file)
    net.report(place / "report.html")
    net.plot(place / "picture.png")
    net.plot(place / "dark.png", style="dark")
    (place / "reproduce.py").write_text(python_code(net, file.name))
    files = [str(file), str(place / "report.html"), str(place / "reproduce.py")]
    try:
        net.to_onnx(place / "network.onnx")
        files.append(str(place / "network.onnx"))
    except af.errors.MissingExtra:
        pass  # one file less
    return {
        "headline": net.certificate.headline,
        "status": net.certificate.status.value,
        "summary": f"{net.summary()}\n\n{net.certificate}",
        "figures": function_figures(look(net)),
        "picture": str(place / "picture.png"),
        "dark": str(place / "dark.png"),
        "files": files,
    }


def warmed(
    formula: str, domain: str, tokens: int, temperature: float, time_limit: float = TIME_LIMIT
) -> dict[str, Any]:
    """One head with so many tokens at this temperature, and its error at others. Measured, not proved."""
    net = _head(formula, domain, tokens, time_limit)
    errors = [_error(net, value) for value in TEMPERATURES]
    here = _error(net, temperature)
    curve = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": numbers(TEMPERATURES),
        "y": numbers(errors),
        "name": "head",
        "line": {"color": ERROR},
    }
    spot = {
        "type": "scatter",
        "mode": "markers",
        "x": [temperature],
        "y": [here],
        "name": "now",
        "marker": {"size": 14, "color": QUERY},
    }
    trade = figure([curve, spot], "temperature", "largest error met", log="xy")
    values = function_figures(look(_at(net, temperature)))["values"]
    return {"figures": {"values": values, "trade": trade}, "met": here, "tokens": net.network.tokens}


def ridge(alpha: float, rows: int) -> dict[str, Any]:
    """Ridge regression in context on the first rows of the diabetes data, beside scikit-learn's."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge

    data: Any = load_diabetes()
    X, y = data.data[:rows], data.target[:rows]
    ours, theirs = af.incontext.Ridge(alpha=alpha).fit(X, y), Ridge(alpha=alpha).fit(X, y)
    bars = [
        {"type": "bar", "x": data.feature_names, "y": numbers(model.coef_), "name": name, "marker": {"color": colour}}
        for name, model, colour in (("attention", ours, NETWORK), ("scikit-learn", theirs, TARGET))
    ]
    steps = [iterate for iterate in ours.report().iterates if iterate.register == "w"]
    layers = [iterate.layer for iterate in steps]
    lines = [
        {
            "type": "scatter",
            "x": layers,
            "y": numbers([getattr(i, kind) / i.size for i in steps]),
            "name": kind,
            "line": line,
        }
        for kind, line in (("distance", {"color": ERROR}), ("bound", {"color": BOUND, "dash": "dash"}))
    ]
    convergence = figure(lines, "attention layer", "relative distance", log="y")
    return {
        "figures": {"coefficients": figure(bars, "", "coefficient"), "convergence": convergence},
        "difference": float(np.abs(ours.coef_ - theirs.coef_).max() / np.abs(theirs.coef_).max()),
        "layers": len(ours.network().attention),
    }


TASKS = {"compiled": compiled, "warmed": warmed, "ridge": ridge}


@lru_cache(maxsize=8)
def _head(formula: str, domain: str, tokens: int, time_limit: float) -> af.types.Compiled:
    """The paper's head with this many tokens, at temperature 1."""
    return af.compile(
        formula,
        read_box(domain),
        construction="cross",
        options={"tokens": tokens},
        proof=False,
        time_limit=time_limit,
    )


def at_temperature(network: Network, temperature: float) -> Network:
    """Every head's scores divided by the temperature: weights sharpen below 1 and blur above.

    The network is for looking at: no certificate speaks of it.
    """
    if not 0 < temperature < float("inf"):
        raise InputError("temperature must be a finite number > 0", got=temperature)
    layers = (
        replace(layer, query=layer.query / temperature, query_bias=layer.query_bias / temperature)
        if isinstance(layer, Attention)
        else layer
        for layer in network.layers
    )
    return replace(network, layers=tuple(layers))


def _at(net: af.types.Compiled, temperature: float) -> af.types.Compiled:
    return replace(net, network=at_temperature(net.network, temperature))


def _error(net: af.types.Compiled, temperature: float) -> float:
    """The largest error at points of a line, of a plane, or at random ones."""
    window: Window = look(_at(net, temperature))
    size = window.domain.size
    if size > 2:
        found, truth = window.values(window.domain.sample(MAP**2, np.random.default_rng(0)))
        return float(np.abs(found - truth).max()) if truth is not None else float("nan")
    return float(np.nanmax(window.slice(tuple(range(size)), LINE if size == 1 else MAP).error))
