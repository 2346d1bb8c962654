"""Figures of the source: rooms, files, lines of code, public names, imports inside functions, and the files of a call.

`python benchmarks/rooms.py` prints one row for the package that is imported (a minute; `PYTHONPATH=... python
benchmarks/rooms.py` for another version). The walk is the set of files of which a function runs while
`af.compile("sin(3*x)*y", ...)` works, constructions that are merely considered included. `trusted` counts the lines
that somebody must believe who believes a certificate: the rules of proof and all that they import.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import attnfun as af

SOURCE = Path(af.__file__).parent
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Lines with code on them: no blank lines, comments or strings that stand alone."""
    alone = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    used = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used - alone)


def lazy_imports(text: str) -> int:
    """Imports of the package's own files inside functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inside = {
        (node.lineno, node.module)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("attnfun"))
    }
    return len(inside)


def imported(path: Path) -> Iterator[Path]:
    """The package's own files that one imports, inside functions too, but for those that only name types."""
    tree = ast.parse(path.read_text())
    typing = {
        below
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for below in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in typing:
            place = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for alias in node.names:  # a file of that name, or something in the file that is named
                files = place / f"{alias.name}.py", place / alias.name / "__init__.py", place.with_suffix(".py")
                yield next(each for each in (*files, place / "__init__.py") if each.exists())


def trusted() -> dict[str, int]:
    """Lines of code of the rules, and of what they import, by what it is for."""
    rules = SOURCE / "proofs" / "rules"
    found, stack = set[Path](), sorted(rules.rglob("*.py"))
    while stack:
        path = stack.pop()
        if path not in found and path != SOURCE / "__init__.py":
            found.add(path)
            stack += imported(path)
    names = {"proofs": "enclosures of networks", "arithmetic": "arithmetic", "formula": "formulas"}
    lines = dict.fromkeys(["rules", *names.values(), "networks, domains, targets and the rest"], 0)
    for path in found:
        room = path.relative_to(SOURCE).parts[0]
        kind = "rules" if rules in path.parents else names.get(room, "networks, domains, targets and the rest")
        lines[kind] += code_lines(path.read_text())
    return lines


def lines_of(place: str) -> int:
    """Lines of code of a file or of all files of a room."""
    path = SOURCE / place
    return sum(code_lines(file.read_text()) for file in (path.rglob("*.py") if path.is_dir() else [path]))


def walked() -> set[str]:
    """Files of the package of which a function runs while a formula is compiled."""
    files = set[str]()

    def note(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:  # the bodies of modules and classes are not
            files.add(code.co_filename)

    sys.setprofile(note)
    try:
        af.compile("sin(3*x)*y", domain={"x": (-1, 1), "y": (-1, 1)}, eps=0.05)
    finally:
        sys.setprofile(None)
    return {name for name in files if name.startswith(str(SOURCE))}


def main() -> None:
    """One row."""
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    places = {path.relative_to(SOURCE).parts[0] for path in texts}
    files = {place for place in places if place.endswith(".py")}
    figures = {
        "rooms": len(places - files),
        "files beside them": len(files),
        "files": len(texts),
        "lines of code": sum(map(code_lines, texts.values())),
        "public names": len(af.__all__),
        "imports inside functions": sum(map(lazy_imports, texts.values())),
        "files that run": len(walked()),
    }
    lines = " | ".join(figures), "|".join("---" for _ in figures), " | ".join(f"{each:,}" for each in figures.values())
    sys.stdout.write("".join(f"| {line} |\n" for line in lines))


if __name__ == "__main__":
    main()
