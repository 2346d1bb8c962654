"""What mkdocs does beyond its own: the tables in benchmarks/results become pages of the site, under results/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RESULTS = "benchmarks/results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every page, picture and table of the results."""
    root = Path(config.config_file_path).parent / RESULTS
    for path in sorted(root.rglob("*")):
        if path.is_file():
            place = f"results/{path.relative_to(root).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to the results, as they are written for readers of the repository, lead to those pages."""
    return markdown.replace(f"../{RESULTS}/", "results/")
