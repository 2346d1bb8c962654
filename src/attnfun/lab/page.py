"""The page itself, in gradio: fields, buttons and sliders on one side, what the worker replies on the other."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr
import plotly.graph_objects as go
from gradio import themes

from ..arithmetic.formats import DTYPES
from ..errors import AttnfunError
from ..look.plots.style import CYCLE
from . import requests
from .gallery import GALLERY
from .worker import Worker

THEME = themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]).set(
    block_info_text_color="*neutral_600",
    block_info_text_color_dark="*neutral_300",
    button_primary_background_fill="#c2410c",  # white words can be read on it
    button_primary_background_fill_dark="#c2410c",
    button_primary_background_fill_hover="#9a3412",
)
CSS = """
.gradio-container { max-width: none !important; padding: 0 2vw !important; }
#said p { font-size: 1.1rem; margin: 0; }
[role=alert] { border-left: 0.4rem solid #c62828; background: #c628281f; padding: 0.5rem 0.75rem; }
.dark #picture, #picture_dark { display: none !important; }
.dark #picture_dark { display: block !important; }
.min_value, .max_value { color: var(--body-text-color) !important; }
button[role=tab][aria-selected=true] { color: #c2410c !important; }
.dark button[role=tab][aria-selected=true] { color: #fb923c !important; }
.file-preview button { color: var(--body-text-color) !important; }
.dark .file-preview a { color: #93c5fd !important; }
.js-plotly-plot text { fill: var(--body-text-color) !important; }
#summary textarea { font-family: ui-monospace, monospace; white-space: pre-wrap; }
@media (max-width: 700px) { #summary textarea { white-space: pre; overflow-x: auto; } }
"""
ZERO = {"zerolinecolor": "#80808080", "zerolinewidth": 1}
EXAMPLES = {each.name: (each.formula, each.domain, each.eps, each.norm, each.construction) for each in GALLERY}

Update = Any


def build(worker: Worker, folder: str) -> gr.Blocks:
    """All tabs; results go to folders of their own below `folder`."""
    with gr.Blocks(title="attnfun lab", analytics_enabled=False, delete_cache=(600, 3600)) as page:
        gr.Markdown("# attnfun lab\nName a function and a tolerance; get an attention network and a proof.")
        formula, domain = _compile_tab(page, worker, folder)
        _trade_tab(worker, formula, domain)
        _ridge_tab(worker)
    return page


def _compile_tab(page: gr.Blocks, worker: Worker, folder: str) -> tuple[gr.Textbox, gr.Textbox]:
    first = GALLERY[0]
    with gr.Tab("Compile"):
        example = gr.Dropdown(list(EXAMPLES), value=first.name, label="Gallery")
        formula = gr.Textbox(first.formula, label="Formula", max_lines=4)
        with gr.Row():
            domain = gr.Textbox(first.domain, label="Domain", info="As x=-1:1 y=0:2")
            eps = gr.Textbox(first.eps, label="Tolerance eps", info="As 1e-3")
            norms, info = list(requests.NORMS), "inf: at every point; p: in L_p"
            norm = gr.Dropdown(norms, value=first.norm, label="Norm", info=info)
        with gr.Row():
            dtype = gr.Dropdown(list(DTYPES), value="float64", label="Arithmetic")
            construction = gr.Dropdown(list(requests.CONSTRUCTIONS), value="auto", label="Construction")
        button = gr.Button("Compile", variant="primary")
        said = gr.HTML(elem_id="said")
        with gr.Row():
            values = gr.Plot(label="Network and target", elem_id="values")
            error = gr.Plot(label="Error under its bound", elem_id="error")
        kind = {"label": "Values, error, cells and weights", "show_label": False, "type": "filepath", "buttons": []}
        picture, dark = gr.Image(elem_id="picture", **kind), gr.Image(elem_id="picture_dark", **kind)
        files = gr.File(label="Downloads", file_count="multiple", interactive=False)
        summary = gr.Textbox(label="Summary and certificate", lines=12, max_lines=30, elem_id="summary")

    def fill(name: str) -> tuple[str, ...]:
        """The fields of an example of the gallery."""
        return EXAMPLES[name]

    def named(name: str | None, *now: str) -> str | None:
        """The example, unless a field was edited: then it is none any more."""
        return name if EXAMPLES.get(name or "") == now else None

    def run(formula: str, domain: str, eps: str, norm: str, dtype: str, construction: str) -> tuple[Update, ...]:
        try:
            reply = requests.compiled(worker, folder, formula, domain, eps, norm, dtype, construction)
        except AttnfunError as failure:
            return _wrong(failure), None, None, None, None, None, ""
        figures = reply["figures"]
        of_target = "" if "target" in figures else " and target"  # which has a map of its own in a plane
        return (
            _right(reply["headline"]),
            gr.update(value=_drawn(figures["values"]), label=f"Network{of_target}"),
            _drawn(figures["error"]),
            reply["picture"],
            reply["dark"],
            reply["files"],
            reply["summary"],
        )

    fields = [formula, domain, eps, norm, dtype, construction]
    shown = [said, values, error, picture, dark, files, summary]
    filled = [formula, domain, eps, norm, construction]
    example.input(fill, example, filled, show_progress="hidden")
    edits = [field.change for field in filled]  # typed or pasted
    gr.on(edits, named, [example, *filled], example, show_progress="hidden", trigger_mode="always_last")
    button.click(run, fields, shown)
    page.load(run, fields, shown)  # the first example
    return formula, domain


def _trade_tab(worker: Worker, formula: gr.Textbox, domain: gr.Textbox) -> None:
    """Tokens and temperature of one head for the formula of the first tab."""
    with gr.Tab("Tokens and temperature") as tab:
        gr.Markdown(
            "One head of the paper, for the formula on the first tab. Cold heads look one value up: steps. Warm heads "
            "blur. Errors here are measured, not proved."
        )
        with gr.Row():
            tokens = gr.Slider(*requests.TOKENS, value=30, step=1, label="Memory tokens")
            warmth = gr.Slider(*requests.WARMTH, value=0, step=0.05, label="Temperature, as a power of ten")
        said = gr.HTML()
        with gr.Row():
            values = gr.Plot(label="Network and target at this temperature", elem_id="warmed")
            trade = gr.Plot(label="Error against temperature", elem_id="trade")

    def run(formula: str, domain: str, tokens: float, warmth: float) -> tuple[Update, ...]:
        try:
            reply = requests.warmed(worker, formula, domain, tokens, warmth)
        except AttnfunError as failure:
            return _wrong(failure), None, None
        figures = reply["figures"]
        line = f"{reply['tokens']} tokens at temperature {10.0**warmth:.3g}: largest error met {reply['met']:.4g}"
        return _right(line), _drawn(figures["values"]), _drawn(figures["trade"])

    gr.on(
        [tab.select, tokens.change, warmth.change],
        run,
        [formula, domain, tokens, warmth],
        [said, values, trade],
        show_progress="hidden",
        trigger_mode="always_last",
    )


def _ridge_tab(worker: Worker) -> None:
    """Ridge regression by a fixed network from the examples in its prompt."""
    with gr.Tab("Ridge regression in context") as tab:
        gr.Markdown("A fixed attention network reads examples of the diabetes data and puts out coefficients.")
        with gr.Row():
            strength = gr.Slider(*requests.STRENGTH, value=-1, step=0.25, label="Penalty alpha, as a power of ten")
            rows = gr.Slider(*requests.ROWS, value=100, step=20, label="Examples in the prompt")
        said = gr.HTML()
        with gr.Row():
            coefficients = gr.Plot(label="Coefficients", elem_id="coefficients")
            convergence = gr.Plot(label="Convergence by layer")

    def run(strength: float, rows: float) -> tuple[Update, ...]:
        try:
            reply = requests.ridge(worker, strength, rows)
        except AttnfunError as failure:
            return _wrong(failure), None, None
        figures = reply["figures"]
        line = f"{reply['layers']} attention layers, {reply['difference']:.2g} from scikit-learn (relative)"
        return _right(line), _drawn(figures["coefficients"]), _drawn(figures["convergence"])

    gr.on(
        [tab.select, strength.change, rows.change],
        run,
        [strength, rows],
        [said, coefficients, convergence],
        show_progress="hidden",
        trigger_mode="always_last",
    )


def _drawn(figure: dict[str, Any]) -> go.Figure:
    """A figure of the worker's in plotly, with room for gradio's label; the page says the colour of its words."""
    layout = figure["layout"]
    traces = [trace | {"name": _plain(trace["name"])} if "name" in trace else trace for trace in figure["data"]]
    style = {
        "template": "none",
        "colorway": list(CYCLE),
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#808080"},
        "margin": {"l": 60, "r": 16, "t": 88, "b": 48},
        "height": 356,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
    for axis in "xy":
        kind = "log" if axis in layout.get("log", "") else None
        common = {"automargin": True, "exponentformat": "e", "gridcolor": "#80808040", "type": kind} | ZERO
        style[f"{axis}axis"] = {"title": {"text": _plain(layout[axis]), "standoff": 8}, **common}
    if layout.get("equal"):
        style["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
        style["xaxis"] |= {"constrain": "domain"}
    return go.Figure({"data": traces, "layout": style})


def _plain(text: str) -> str:
    """Text that plotly shows as it is: it understands some HTML tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _right(line: str) -> str:
    return f'<p role="status">{escape(line)}</p>'


def _wrong(failure: AttnfunError) -> str:
    """The API's own message, as text."""
    return f'<p role="alert">error: {escape(str(failure))}</p>'
