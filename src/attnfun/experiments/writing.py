"""Results written down: a page of Markdown, and beside it a folder with its pictures (PNG) and tables (CSV)."""

from __future__ import annotations

import io
import platform
from pathlib import Path

import numpy as np

from .._version import __version__
from ..errors import InputError
from ..network.storage import write_whole
from .base import Experiment, Result
from .drawing import draw

DPI = 110


def page(experiment: Experiment, result: Result, quick: bool) -> str:
    """The Markdown text, which refers to the pictures."""
    how = "quick mode: fewer and smaller networks, less time for proofs" if quick else "full mode"
    made = (
        f"Made by `{experiment.command(quick)}` ({how}); attnfun {__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}."
    )
    parts = [f"# {experiment.title}", result.text, made]
    parts += [f"![{picture.title}]({experiment.name}/{picture.name}.png)" for picture in result.pictures]
    for table in result.tables:
        shown = table.markdown() if table.whole else f"[As CSV]({experiment.name}/{table.name}.csv)."
        parts += [f"## {table.title}", shown] + [table.notes] * bool(table.notes)
    return "\n\n".join(parts) + "\n"


def made(folder: Path) -> Path:
    """The folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise InputError("the folder for results must be writable", got=str(reason)) from None
    return folder


def write(experiment: Experiment, result: Result, folder: Path, quick: bool) -> list[Path]:
    """All files, each complete or not there at all, the page last: what a page refers to exists."""
    beside = made(folder / experiment.name)
    files: dict[Path, bytes] = {}
    for picture in result.pictures:
        image = io.BytesIO()
        draw(picture).savefig(image, format="png", dpi=DPI, metadata={"Software": None})
        files[beside / f"{picture.name}.png"] = image.getvalue()
    files |= {beside / f"{table.name}.csv": table.csv().encode() for table in result.tables}
    files[folder / f"{experiment.name}.md"] = page(experiment, result, quick).encode()
    for path, data in files.items():
        write_whole(path, data)
    return list(files)
