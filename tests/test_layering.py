"""Data flows down, imports go up only: a module may import what stands above it in this list, never below."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import attnfun

ORDER = [
    "_version",
    "errors",
    "arguments",
    "notebook",
    "resources",
    "arithmetic",
    "judge",
    "formula",
    "domains",
    "targets",
    "pieces",
    "network",
    "readers",
    "runtime",
    "constructions",
    "proofs",
    "calculus",
    "planner",
    "sharding",
    "algebra",
    "compiled",
    "compiler",
    "combine",
    "given",
    "initialise",
    "regressor",
    "types",
    "incontext",
    "zoo",
    "__init__",
    "look",
    "experiments",
    "cli",
]
SOURCE = Path(attnfun.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Top-level rooms that a file imports when it is loaded (lazy imports inside functions are free)."""
    depth = len(path.relative_to(SOURCE).parts)
    rooms = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level == depth and node.module:
            rooms.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.level == depth:
            rooms.update(alias.name for alias in node.names)
    return rooms


def test_every_room_has_its_place():
    assert {room(path) for path in FILES} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_up_only(path):
    here = ORDER.index(room(path))
    below = {name for name in imported_rooms(path) if ORDER.index(name) > here}
    assert not below


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_user_text_is_never_run_and_nothing_is_unpickled(path):
    tree = ast.parse(path.read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "__import__"}
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not imports & {"pickle", "marshal", "shelve"}


def test_every_construction_states_its_theorem():
    from attnfun.constructions import REGISTRY

    for name, construction in REGISTRY.items():
        assert construction.name == name
        assert construction.theorem
        assert "**Bound.**" in (__import__(type(construction).__module__, fromlist=["x"]).__doc__ or "")
