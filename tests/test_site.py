"""The documentation as a site: it builds without warnings and loads nothing from outside; theorems have their pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from attnfun import constructions

ROOT = Path(__file__).parent.parent
BUILD = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
LOADED = re.compile(r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*>")
OUTSIDE = re.compile(r"""(?:src|href|data)\s*=\s*["']?((?:https?:)?//[^"' >]*)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([*BUILD, str(folder)], cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_pages_load_nothing_from_outside(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    loaded = [tag for page in pages for tag in LOADED.findall(page.read_text())]
    assert any("stylesheet" in tag for tag in loaded)
    assert [tag for tag in loaded if OUTSIDE.search(tag)] == []
    styles = "".join(sheet.read_text() for sheet in site.rglob("*.css"))
    assert not re.search(r"""(?:url\(|@import)\s*["']?https?:""", styles)


def test_no_page_shows_a_search_that_needs_a_server(site):
    assert [page.name for page in site.rglob("*.html") if 'data-md-component="search"' in page.read_text()] == []


def is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def test_the_reference_has_every_public_name(site):
    import attnfun

    reference = (site / "reference.html").read_text()
    public = [name for name in attnfun.__all__ if not name.startswith("__")]
    public += [f"types.{name}" for name in attnfun.types.__all__]
    public += [f"errors.{name}" for name, kind in vars(attnfun.errors).items() if is_error(kind)]
    assert [name for name in public if f'id="attnfun.{name}"' not in reference] == []


def test_every_construction_has_a_page_with_statement_construction_picture_and_rate():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    theorems = next(part["Theorems"] for part in nav if "Theorems" in part)
    pages = [(ROOT / "docs" / path).read_text() for entry in theorems for path in entry.values()]
    for page in pages:
        assert all(f"**{word}" in page for word in ("Statement", "Construction", "Measured"))
        assert re.search(r"!\[.*?\]\(\.\./benchmarks/results/", page)
    assert [name for name in constructions.REGISTRY if not any(f"`{name}`" in page for page in pages)] == []
