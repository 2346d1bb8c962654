"""Data flows down, imports go up only: a module may import what stands above it in this list, never below."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import attnfun
from attnfun.constructions import CLASSES

ORDER = [
    "_version",
    "errors",
    "arguments",
    "resources",
    "arithmetic",
    "judge",
    "formula",
    "domains",
    "targets",
    "pieces",
    "network",
    "runtime",
    "constructions",
    "proofs",
    "look",
    "calculus",
    "compiled",
    "compiler",
    "combine",
    "given",
    "types",
    "incontext",
    "zoo",
    "__init__",
    "lab",
    "experiments",
    "cli",
    "__main__",
]
pytestmark = pytest.mark.xdist_group("layering")  # each file is read once
SOURCE = Path(attnfun.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


DOWN = {("calculus", "combine")}
"""Operators of a compiled network compile others, so that class and function need each other: one import waits."""


@cache
def imports_of(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All imports of a file but those for the type checker alone, and whether they wait inside a function."""
    found: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while waiting:
        node, lazy = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append((node, lazy))
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            waiting.extend((child, inside) for child in ast.iter_child_nodes(node))
    return found


@cache
def classes_and_calls_of(path: Path) -> list[ast.ClassDef | ast.Call | ast.Compare]:
    """The classes, calls and comparisons of a file."""
    kinds = ast.ClassDef | ast.Call | ast.Compare
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def imported_rooms(path: Path) -> set[tuple[str, bool]]:
    """Top-level rooms that a file imports, and whether it does so inside a function."""
    depth = len(path.relative_to(SOURCE).parts)
    rooms = set()
    for node, lazy in imports_of(path):
        if isinstance(node, ast.ImportFrom) and node.level == depth and node.module:
            names = [node.module]
        elif isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "attnfun":
            within = (node.module or "").split(".")[1:]
            names = [".".join(within)] if within else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            whole = [alias.name for alias in node.names if alias.name.split(".")[0] == "attnfun"]
            names = [name.partition(".")[2] or "__init__" for name in whole]
        else:
            names = []
        first = {name.split(".")[0] for name in names}
        rooms.update((name if name in ORDER else "__init__", lazy) for name in first)
    return rooms


def test_every_room_has_its_place():
    assert {room(path) for path in FILES} == set(ORDER)


def test_imports_go_up_only():
    for path in FILES:
        here = ORDER.index(room(path))
        below = {(name, lazy) for name, lazy in imported_rooms(path) if ORDER.index(name) > here}
        assert {(name, lazy) for name, lazy in below if not (lazy and (room(path), name) in DOWN)} == set(), path


def test_every_import_that_goes_down_is_one_that_some_file_has():
    """The list holds nothing that nobody needs."""
    found = {(room(path), name) for path in FILES for name, lazy in imported_rooms(path) if lazy}
    assert found >= DOWN


def test_imports_inside_functions_and_of_the_package_itself_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("test_layering.SOURCE", tmp_path)
    path = tmp_path / "arithmetic" / "sums.py"
    path.parent.mkdir()
    path.write_text("import attnfun as af\ndef f():\n    from ..compiler import compile\n    from attnfun import cli\n")
    assert imported_rooms(path) == {("__init__", False), ("compiler", True), ("cli", True)}


def test_rooms_import_each_other_in_no_circle():
    """Within a room, files that are imported when it is loaded make no circle either."""
    needs = {path: {file for file in files_of(path) if file != path} for path in FILES}
    while free := [path for path, others in needs.items() if not others]:
        needs = {path: others - set(free) for path, others in needs.items() if path not in free}
    assert not needs


def files_of(path: Path) -> set[Path]:
    """The files that a file imports when it is loaded; a package stands for itself only if it is named as such."""
    files = set()
    for node, lazy in imports_of(path):
        if isinstance(node, ast.ImportFrom) and node.level and not lazy:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in [alias.name for alias in node.names]:
                places = [
                    base / f"{name}.py",
                    base / name / "__init__.py",
                    base.with_suffix(".py"),
                    base / "__init__.py",
                ]
                found = next((place for place in places if place.exists()), None)
                if found is not None:
                    files.add(found)
    return files


def test_loading_a_file_imports_no_construction_but_that_of_the_network(tmp_path):
    attnfun.compile("x**2", {"x": (0, 1)}, 0.1, construction="grid").save(tmp_path / "f.safetensors")
    script = "import sys, attnfun; print(attnfun.load(sys.argv[1])(0.5)); print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "f.safetensors"], capture_output=True, text=True, check=True
    )
    loaded = {name.rpartition(".")[2] for name in done.stdout.split() if name.startswith("attnfun.constructions.")}
    assert {name.replace("_", "-") for name in loaded} & set(CLASSES) == {"grid"}


@pytest.mark.parametrize("apart", [True, False], ids=["judge", "package"])
def test_one_class_has_one_name(apart):
    """The judge shares nothing with the package, so it has names of its own for the same things."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        if (room(path) == "judge") == apart:
            for node in classes_and_calls_of(path):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_nobody_asks_for_the_class_of_a_domain():
    """A box, a region and points are domains behind one contract; only their own room knows the classes."""
    asked = []
    for path in FILES:
        for node in classes_and_calls_of(path) if room(path) not in ("domains", "judge") else ():
            match node:
                case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                    names = kinds
                case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=[names]):
                    pass
                case _:
                    continue
            if {each.id for each in ast.walk(names) if isinstance(each, ast.Name)} & {"Box", "Region", "Points"}:
                asked.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert asked == []


def test_user_text_is_never_run_and_nothing_is_unpickled():
    for path in FILES:
        calls = [node.func for node in classes_and_calls_of(path) if isinstance(node, ast.Call)]
        assert not {name.id for name in calls if isinstance(name, ast.Name)} & {"eval", "exec", "__import__"}, path
        imports = {alias.name for node, _ in imports_of(path) if isinstance(node, ast.Import) for alias in node.names}
        assert not imports & {"pickle", "marshal", "shelve"}, path


def test_every_construction_states_its_theorem():
    from attnfun.constructions import REGISTRY

    for name, construction in REGISTRY.items():
        assert construction.name == name
        assert construction.theorem
        assert "**Bound.**" in (__import__(type(construction).__module__, fromlist=["x"]).__doc__ or "")


def test_tuning_values_are_frozen_records_whose_fields_say_what_they_are():
    records = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        made = {ast.unparse(node.value.func) for node in tree.body if isinstance(node, ast.Assign) and is_tuning(node)}
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in made]
        assert [ast.unparse(mark) for node in classes for mark in node.decorator_list] == [
            "dataclass(frozen=True)"
        ] * len(made)
        for node in classes:
            following = zip(node.body, [*node.body[1:], ast.Pass()], strict=True)
            told = {
                each.target.id: isinstance(after, ast.Expr)
                for each, after in following
                if isinstance(each, ast.AnnAssign)
            }
            assert [name for name, said in told.items() if not said] == [], path
        records += classes
    assert len(records) > 30


def is_tuning(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "TUNING"
