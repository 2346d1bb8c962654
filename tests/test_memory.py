"""What a compile made can be collected afterwards, and caches are bounded."""

from __future__ import annotations

import ast
import gc
import sys
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnfun as af
from cases import BY_CONSTRUCTION


@pytest.mark.parametrize("construction", BY_CONSTRUCTION)
def test_a_network_that_was_compiled_run_and_dropped_is_collected(construction):
    case = BY_CONSTRUCTION[construction]
    net = replace(case, eps=2 * case.eps).compile(construction=construction)
    points = net.domain.sample(5, np.random.default_rng(0))
    net(points.reshape(5, *net.domain.shape))
    parts = [weakref.ref(part) for part in (net, net.network, net.certificate, net.certificate.claim.target)]
    del net
    gc.collect()
    assert [part() for part in parts] == [None] * len(parts)


def living() -> Counter[str]:
    """Objects of this library's classes."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("attnfun"))


def test_two_hundred_compiles_leave_nothing_behind():
    """No object of the library; nor, once caches of 128 entries are full, two blocks each: an object and its fields."""

    def compiles(start: int, count: int) -> int:
        for k in range(start, start + count):
            name = ("grid", "cross", "spectral", "max-affine")[k % 4]
            af.compile(f"{1 + k / 1000}*x", {"x": (0, 1)}, 0.5, construction=name)(0.5)
        gc.collect()
        return sys.getallocatedblocks()

    compiles(0, 4)
    before = living()
    full = compiles(4, 140)
    assert compiles(144, 60) < full + 2 * 60
    assert living() - before == Counter()


def unbounded(source: str) -> list[str]:
    """Functions whose cache grows without limit, and methods with one, which keeps every object it was called on."""
    found = []
    for place in ast.walk(ast.parse(source)):
        for function in getattr(place, "body", []) if isinstance(place, ast.ClassDef | ast.Module) else []:
            for decorator in getattr(function, "decorator_list", []):
                words = ast.unparse(decorator).removeprefix("functools.")
                grows = words in ("cache", "cache()") or "None" in words
                if words.partition("(")[0] in ("cache", "lru_cache") and (grows or isinstance(place, ast.ClassDef)):
                    found.append(function.name)
    return found


def test_caches_are_bounded_and_none_belongs_to_a_method():
    assert unbounded("@cache\ndef f(x): ...") == unbounded("@lru_cache(maxsize=None)\ndef f(x): ...") == ["f"]
    assert unbounded("class A:\n  @functools.lru_cache\n  def f(x): ...") == ["f"]
    assert unbounded("@lru_cache\ndef f(x): ...\nclass A:\n  @cached_property\n  def g(self): ...") == []
    files = sorted(Path(af.__file__).parent.rglob("*.py"))
    assert {file.name: names for file in files if (names := unbounded(file.read_text()))} == {}
