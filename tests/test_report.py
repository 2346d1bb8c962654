"""Reports: complete, self-contained, escaped; the program in them makes the same network again."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest

import attnfun as af
from attnfun.cli import main
from attnfun.look.report import MOST_NUMBERS
from cases import branching

NASTY = "</script><img src=x onerror=alert(1)>&'\""


class Page(HTMLParser):
    """What a browser would see: tags, text, and what lies behind links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.links, self.scripts, self.words, self.sources = [], {}, [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        known = dict(attrs)
        self.sources += [known[name] for name in ("src", "href") if name in known]
        if tag == "a":
            self.links[known["download"]] = b64decode(known["href"].partition("base64,")[2])

    def handle_data(self, data):
        (self.scripts if self.tags[-1:] == ["script"] else self.words).append(data)

    @property
    def content(self) -> dict:
        return json.loads(self.scripts[0])

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture
def page(tmp_path):
    def write(net: af.types.Compiled) -> Page:
        net.report(tmp_path / "f.html")
        return Page((tmp_path / "f.html").read_text())

    return write


def hostile() -> af.types.Compiled:
    """A function and a variable whose names are markup."""

    def f(p):
        return np.stack([p[..., 0] * p[..., 1], p[..., 0] + p[..., 1]], axis=-1)

    f.__name__ = NASTY
    return af.compile(f, {f'"><b>{NASTY}': (-1, 1), "y": (0, 1)}, 0.4, construction="cross")


def large() -> af.types.Compiled:
    """A network of more numbers than a page holds."""
    formula, tokens = f"[{', '.join(['x'] * 30)}]", MOST_NUMBERS // 30
    return af.compile(formula, (0, 1), construction="cross", options={"tokens": tokens}, proof=False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"target": "sin(3*x)*y", "domain": {"x": (-1, 1), "y": (-1, 1)}, "eps": 0.3, "construction": "grid"},
        {"target": "[exp(x), 'x']".replace("'", ""), "domain": (0, 1), "eps": 0.01, "dtype": "float32"},
        {"target": "where(x < 0.3, 0, 1)", "domain": {"x": (0, 1)}, "eps": 0.1, "norm": 1, "seed": 3},
        {
            "target": "x*y",
            "domain": af.Region("x**2 + y**2 >= 0.3", {"x": (-1, 1), "y": (-1, 1)}),
            "options": {"tokens": np.int64(40)},
            "proof": False,
        },
        {"target": "x + sin(x)", "domain": af.Points([0.1, 0.3, 0.4], names=["x"]), "eps": 0.3, "outside": "allow"},
    ],
    ids=lambda arguments: arguments["target"],
)
def test_the_program_makes_the_same_network_again(page, arguments, tmp_path, monkeypatch):
    net = af.compile(**arguments)
    found = page(net)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(found.links["reproduce.py"].decode(), "reproduce.py", "exec"), names)  # noqa: S102 - our own text
    again = names["net"]
    net.save("one.safetensors")
    again.save("two.safetensors")
    assert found.links["network.safetensors"] == (tmp_path / "one.safetensors").read_bytes()
    assert again.certificate.as_dict() == net.certificate.as_dict()
    assert all(
        np.array_equal(mine, yours)
        for one, two in zip(net.network.layers, again.network.layers, strict=True)
        for mine, yours in zip(vars(one).values(), vars(two).values(), strict=True)
        if isinstance(mine, np.ndarray)
    )


def test_what_the_page_says(page):
    net = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 0.3, construction="grid")
    found, summary = page(net), net.summary()
    for said in (net.certificate.headline, net.theorem, f"{summary.tokens:,}", f"{summary.paper_tokens:,}"):
        assert said in found.text
    assert "Construction." in found.text  # the theorem with its proof
    assert json.loads(found.links["certificate.json"])["certificate"] == net.certificate.as_dict()
    error = np.array(found.content["figures"][0]["error"]["data"][0]["z"])
    assert 0 < error.max() <= net.certificate.bound
    target, values = (found.content["figures"][0][name]["data"][0] for name in ("target", "values"))
    assert (target["zmin"], target["zmax"]) == (values["zmin"], values["zmax"])  # one scale
    assert f"Error, bound {net.certificate.bound:.3g} (proved)" in found.text
    drawn = found.content["figures"][0]["error"]["data"][0]
    assert drawn["zmin"] == 0
    assert "zmax" not in drawn  # a top of its own: the bound may be far above
    assert all(source.startswith("data:") for source in found.sources)


def test_names_are_text_and_never_markup(page):
    net = hostile()
    found = page(net)
    assert "img" not in found.tags
    assert "b" not in found.tags
    assert NASTY in found.text
    assert found.tags.count("script") == 2
    assert "<" not in found.scripts[0]
    program = found.links["reproduce.py"].decode()
    assert NASTY not in program  # the function has no code to write down, so the file is read
    assert "af.load" in program


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: af.compile("x", {"x": (0, 1)}, 0.1, dtype="bfloat16"), "bfloat16"),
        (lambda: af.compile(branching, [(0, 1)] * 2, 0.4, construction="cross"), "estimate"),
        (lambda: af.compile(branching, [(0, 1)] * 2, 0.4, lipschitz=2.5), "not at hand"),
        (lambda: af.compile("where(x < 0.3, 0, 1)", {"x": (0, 1)}, 0.1, norm=1), "single points may err by more"),
        (
            lambda: af.compile(af.MaxAffine(np.eye(9), np.zeros(9)), [(-1, 1)] * 9, 0.1),
            "Variables that matter less and stay where they are: 1.",
        ),
        (
            lambda: af.compile("[x, 2*x, 3*x, 4*x, 5*x, 6*x, 7*x]", (0, 1), 0.5, construction="cross"),
            "Outputs that are not drawn: 1.",
        ),
        (lambda: af.compile(af.Samples(np.eye(4), np.arange(4)), options={"tokens": 2, "polish": False}), "held out"),
        (large, f"pages hold up to {MOST_NUMBERS:,}"),
    ],
    ids=["bfloat16", "black box", "declared", "L_1", "nine variables", "seven outputs", "samples", "large"],
)
def test_special_networks_have_pages_too(page, make, said):
    assert said in page(make()).text


def test_a_network_from_a_file_has_a_page_without_its_function(tmp_path):
    af.compile(np.cos, (0, 1), 0.1).save(tmp_path / "g.safetensors")
    with pytest.raises(SystemExit) as left:
        main(["report", str(tmp_path / "g.safetensors")])
    assert left.value.code == 0
    found = Page((tmp_path / "g.html").read_text())
    assert "the network is drawn alone" in found.text
    assert "pass target=f" in found.text


def test_nothing_is_written_where_nothing_can_be(tmp_path):
    net = af.compile("x", {"x": (0, 1)}, 0.1)
    with pytest.raises(af.errors.FileFormatError, match="writable"):
        net.report(tmp_path / "none" / "f.html")
    assert not list(tmp_path.iterdir())


def test_the_construction_is_typeset_without_names_of_files():
    from attnfun.constructions import REGISTRY
    from attnfun.look.report.page import typeset

    for construction in REGISTRY.values():
        page = typeset(sys.modules[type(construction).__module__].__doc__ or "")
        plain = re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)
        assert "**Bound" not in plain
        assert "`" not in plain
        assert ".py" not in plain


def test_an_estimate_is_not_quoted_as_a_bound_in_advance(tmp_path):
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1, construction="spectral")
    net.report(tmp_path / "f.html")
    assert "no bound in advance" in (tmp_path / "f.html").read_text()


def test_data_are_shown_with_what_held_out_rows_got(page):
    X = np.random.default_rng(0).normal(size=(40, 3))
    found = page(af.compile(af.Samples(X, X[:, 0])))
    figures = found.content["figures"][0]
    assert set(figures) == {"values", "held_out", "residuals"}  # no empty panel of an error that is not known
    assert len(figures["held_out"]["data"][0]["x"]) == 40
    assert "Residuals of held-out rows" in found.text
    assert "estimate of the certificate" in found.text
    assert "bound of the certificate" not in found.text
    for variables in (1, 2):
        data = af.Samples(X[:, :variables], X[:, 0])
        drawn = page(af.compile(data, options={"tokens": 4, "polish": False, "folds": 2}))
        dots = drawn.content["figures"][0]["values"]["data"][-1]
        assert (dots["name"], len(dots["x"])) == ("data", 40)
        assert "Network and data" in drawn.text


def test_errors_of_many_decades_are_drawn_as_powers_of_ten(page):
    size = {"tokens": 64}
    peak = "exp(-99*(x**2 + y**2))"
    net = af.compile(peak, {"x": (-1, 1), "y": (-1, 1)}, construction="cross", options=size, proof=False)
    found = page(net)
    assert found.content["figures"][0]["error"]["data"][0]["zmax"] < 0  # the largest error is below 1
    assert "log10 of the error" in found.text


def test_a_page_is_light(tmp_path):
    net = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 0.1)
    net.report(tmp_path / "f.html")
    assert (tmp_path / "f.html").stat().st_size < 500_000
