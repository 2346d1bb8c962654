"""The README's examples run, and so do the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

import attnfun
from attnfun.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
MODULES = ["attnfun", *(name for _, name, _ in pkgutil.walk_packages(attnfun.__path__, "attnfun."))]


def has_examples(name: str) -> bool:
    """Does the source of a module hold examples?"""
    path = ROOT / "src" / Path(*name.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ">>>" in source.read_text()


EXAMPLES = [name for name in MODULES if has_examples(name)]


def test_the_python_in_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own text
    assert (tmp_path / "f.safetensors").exists()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_the_python_in_the_docs_runs_and_its_links_lead_somewhere(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)  # noqa: S102 - our own text
    links = [link for link in re.findall(r"\]\((.*?)\)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_begins_with_what_its_reader_can_do_afterwards():
    beginnings = {page.name: page.read_text().split("\n## ")[0][:600] for page in (ROOT / "docs").rglob("*.md")}
    assert [name for name, text in beginnings.items() if "After this page " not in text] == []


def test_the_commands_in_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [shlex.split(line, comments=True) for line in README.splitlines() if line.startswith("attnfun ")]
    assert len(lines) >= 4
    for _, *arguments in lines:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert not left.value.code, arguments


def test_the_readme_gives_the_two_commands_and_its_picture_exists():
    for command in ("make demo", "make test"):
        assert command in README
    assert all((ROOT / path).exists() for path in re.findall(r"!\[.*?\]\((.*?)\)", README))


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda page: page.name)
def test_the_first_picture_is_that_of_the_example_above_it(page):
    before, _, after = page.read_text().partition("![")
    formula = re.findall(r'af\.compile\("(.*?)"', before)[-1]
    with Image.open(page.parent / re.findall(r"\((.*?)\)", after)[0]) as image:
        assert image.info["Title"].startswith(f"{formula} ")


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_examples(name):
    try:
        module = importlib.import_module(name)
    except ImportError as reason:  # a framework that is not installed; the next test says that it is nothing else
        pytest.skip(str(reason))
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_every_module_can_be_imported_or_names_the_framework_that_it_lacks():
    own = {name: reason for name in MODULES if (reason := lacks(name)) and "attnfun." in reason}
    assert own == {}


def lacks(name: str) -> str:
    """Why a module cannot be imported; nothing if it can."""
    try:
        importlib.import_module(name)
    except ImportError as reason:
        return str(reason)
    return ""
