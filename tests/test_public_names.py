"""The names at the top of the package: few, lazily imported, and old ones with a warning that says the new place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import attnfun as af

AT_THE_TOP = {
    *("compile", "certify", "compare", "ranges", "load", "partition", "init_", "rectifiers"),  # functions
    *("Box", "Region", "Points", "Samples", "MaxAffine", "TruncatedLinear", "AttentionRegressor"),  # classes
    *("errors", "incontext", "types", "zoo", "__version__"),
}
MOVED = [(name, home) for home, names in af._MOVED.items() for name in names]


def test_the_top_has_the_names_that_are_documented_and_no_others():
    assert set(af.__all__) == AT_THE_TOP
    assert all(getattr(af, name) is not None for name in af.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = af.Nothing


@pytest.mark.parametrize(("name", "home"), MOVED)
def test_a_name_that_moved_is_found_with_a_warning_of_the_new_place(name, home):
    with pytest.warns(DeprecationWarning, match=rf"attnfun\.{name} is attnfun\.{home}\.{name} now") as warned:
        old = getattr(af, name)
    assert old is getattr(getattr(af, home), name)
    assert warned[0].filename == __file__  # the caller's line, not ours
    assert name not in dir(af)


def test_importing_the_package_imports_nothing_else():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, attnfun; print([name for name in sys.modules if 'numpy' in name])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_no_public_name_is_hidden_by_a_module_of_that_name():
    modules = {path.stem for path in Path(af.__file__).parent.glob("*.py")}
    rooms = {path.parent.name for path in Path(af.__file__).parent.glob("*/__init__.py")}
    assert {name for name in af.__all__ if name in modules | rooms} <= {"errors", "types", "incontext", "zoo"}
