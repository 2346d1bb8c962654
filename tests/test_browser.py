"""Pages in a real browser: they load without errors, controls change what is drawn, and a phone is wide enough."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import attnfun as af
from attnfun.lab.gallery import GALLERY
from test_report import NASTY, hostile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = {"width": 390, "height": 844}
PATIENCE = 600_000
"""Milliseconds that pages and the lab may take to answer on a busy machine."""
Open = Callable[[str], Page]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed: apt-get install chromium"
)


@pytest.fixture
def lab() -> Iterator[str]:
    """The address of a lab that is starting."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from attnfun.cli import main; main()", "lab", "--no-show", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    yield f"http://127.0.0.1:{port}"
    process.terminate()  # it cleans up, as after Ctrl-C
    process.wait(PATIENCE / 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "in CI, pages are tested in a browser: apt-get install chromium"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser) -> Iterator[Open]:
    """Opens addresses; afterwards, nothing may have gone wrong and nothing may have been fetched from elsewhere."""
    trouble, asked, pages = list[str](), list[str](), list[Page]()

    def visit(address: str) -> Page:
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        pages.append(page)
        return page

    yield visit
    for page in pages:
        page.close()
    assert not trouble
    assert all(url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", "ws://127.0.0.1:")) for url in asked)


def drawn(page: Page, name: str, what: str = "y") -> list[float]:
    """The numbers that are drawn in a place of the page."""
    return page.evaluate(f"Array.from(document.getElementById('{name}').data[0].{what})")


def fits_a_phone(page: Page) -> bool:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type] - pictures follow a little later
    return eventually(page, lambda: page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"])


def eventually(page: Page, holds: Callable[[], bool]) -> bool:
    """Does it come true? (A page's own policy forbids Playwright to wait inside it.)"""
    for _ in range(PATIENCE // 50):
        if holds():
            return True
        page.wait_for_timeout(50)
    return holds()


def report_of(net: af.types.Compiled, folder: Path) -> str:
    net.report(folder / "f.html")
    return (folder / "f.html").as_uri()


def test_a_report_runs_the_network_and_follows_its_controls(visit, tmp_path):
    net = hostile()
    page = visit(report_of(net, tmp_path))
    assert "<img_src" in page.get_by_role("heading", level=1).inner_text()  # markup in names stays text
    assert NASTY in page.locator("#values .xtitle").text_content()
    assert page.locator("img, b").count() == 0
    for point in ([-0.3, 0.7], [1.0, 0.0]):
        assert np.allclose(page.evaluate("p => report.network.run(p)", point), net(point), rtol=0, atol=1e-9)
    weights, answer = drawn(page, "weights"), page.locator("#answer").inner_text()
    assert sum(weights) == pytest.approx(1.0)
    page.get_by_label(NASTY).press("End")
    moved = drawn(page, "weights")
    assert np.abs(np.subtract(moved, weights)).max() > 0.1
    assert page.locator("#answer").inner_text() != answer
    x, y = 1.0, 0.5
    assert [
        float(number) for number in page.locator("#answer").inner_text().split(". It")[0].split(": ")[1].split(", ")
    ] == (pytest.approx(net([x, y]).tolist(), abs=1e-6))
    first = drawn(page, "values", "z")
    page.get_by_label("Output").select_option("1")
    assert drawn(page, "values", "z") != first
    assert page.get_by_role("img", name="Error, bound").is_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="reproduce.py").click()
    assert "af.load" in Path(download.value.path()).read_text()
    assert fits_a_phone(page)


def test_heads_and_tokens_of_a_deep_network_can_be_chosen(visit, tmp_path):
    clip = af.TruncatedLinear([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0]], 0.1, -1.0, 1.5)
    net = af.compile(clip, af.Box(np.full((3, 2), -1.0), np.full((3, 2), 2.0)), 0.05, construction="multihead")
    page = visit(report_of(net, tmp_path))
    point = net.domain.sample(1, np.random.default_rng(0))  # (1, 6)
    said = page.evaluate("p => report.network.run(p)", point[0].tolist())
    assert np.allclose(said, net(net.domain.unflatten(point)).ravel(), rtol=0, atol=1e-9)
    before = drawn(page, "weights")
    page.get_by_label("Token of the query").select_option("1")
    assert drawn(page, "weights") != before
    before = drawn(page, "weights")
    page.get_by_label("Head").select_option("1")
    assert drawn(page, "weights") != before
    assert fits_a_phone(page)


def contrast(ink: str, paper: str) -> float:
    """The contrast ratio of two colours, as accessibility guidelines define it."""

    def luminance(colour: str) -> float:
        shares = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        parts = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))

    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


WORDS = """() => Array.from(document.querySelectorAll("body *")).filter(element => {
  const box = element.getBoundingClientRect(), own = Array.from(element.childNodes).some(
    node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  const seen = box.width > 2 && box.height > 2 && getComputedStyle(element).visibility === "visible";
  return seen && (own || (element.value && element.type !== "range"));
}).map(element => {
  const style = getComputedStyle(element), ink = element instanceof SVGElement ? style.fill : style.color;
  for (let around = element; around; around = around.parentElement) {
    const paper = getComputedStyle(around).backgroundColor;
    if (!/, 0(\\.\\d+)?\\)$/.test(paper)) return [ink, paper, element.textContent.trim() || element.value];
  }
  return [ink, "rgb(255, 255, 255)", element.textContent.trim()];
})"""
"""Every word that is seen: its colour, the colour behind it, and what it says."""
PLACES = """selector => Array.from(document.querySelectorAll(selector)).map(element => {
  const box = element.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom];
}).filter(box => box[2] > box[0] && box[3] > box[1])"""

BROKEN = """() => Array.from(document.querySelectorAll("td")).filter(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return /^[-+\\d.,e]+$/.test(cell.textContent) && range.getClientRects().length > 1;
}).map(cell => cell.textContent)"""
"""Numbers in tables that take more than one line."""


@pytest.mark.parametrize("data", [False, True])
def test_text_of_a_report_can_be_read_in_light_dark_and_on_a_phone(visit, tmp_path, data):
    x = np.linspace(0, 1, 40)
    samples = af.Samples(x[:, None], np.sin(3 * x))
    net = af.compile(samples, options={"tokens": 4, "polish": False, "folds": 2}) if data else hostile()
    page = visit(report_of(net, tmp_path))
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1100, PHONE["width"], 320):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(300)
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            words = page.evaluate(WORDS)
            assert len(words) > 60
            assert [each for each in words if contrast(*each[:2]) < 4.5] == []
            boxes = page.evaluate(PLACES, "header, section, footer")
            assert all(above[3] <= below[1] + 1 for above, below in pairwise(boxes))
            assert max(box[2] for box in boxes) <= width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(BROKEN) == []
            for name in page.evaluate("Array.from(document.querySelectorAll('.chart')).map(chart => chart.id)"):
                parts = (".xtick text", ".ytick text", ".ctick", ".xtitle", ".legend span")
                labels = page.evaluate(PLACES, ", ".join(f"#{name} {part}" for part in parts))
                assert overlapping(labels) == []
    assert len(papers) == 2


def test_a_plane_of_a_report_has_equal_axes_and_labels_that_do_not_touch(visit, tmp_path):
    page = visit(report_of(af.compile("x*y", {"x": (-1, 1), "y": (-1, 3)}, 0.1), tmp_path))
    for width in (1100, PHONE["width"]):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        for name in ("target", "values", "error"):
            ((left, top, right, bottom),) = page.evaluate(PLACES, f"#{name} image")
            assert (right - left) / (bottom - top) == pytest.approx(0.5, rel=0.02)
            labels = page.evaluate(PLACES, f"#{name} .xtick text, #{name} .ytick text, #{name} .ctick, #{name} .xtitle")
            assert len(labels) > 6
            assert overlapping(labels) == []


def open_lab(visit: Open, address: str) -> Page:
    """The page, when it is there."""
    for _ in range(PATIENCE // 100):
        try:
            urllib.request.urlopen(address, timeout=5).close()  # noqa: S310 - our own server
            break
        except OSError:
            time.sleep(0.1)
    return visit(address)


def plotted(page: Page, place: str, trace: int = 0) -> list[float]:
    """The heights that plotly draws in a part of the lab; none before there is a picture."""
    picture = page.locator(f"#{place} .js-plotly-plot")
    return picture.evaluate(f"element => Array.from(element.data[{trace}].y)") if picture.count() else []


ROWS = ".form:not(:has(#summary)), #said, #values, #error, #picture, #picture_dark, .file-preview, #summary"
"""Parts of the lab's first tab."""
TAB = "[role=tabpanel] .form, [role=tabpanel] .js-plotly-plot"
"""Parts of its other tabs."""


def readable_in_light_dark_and_on_a_phone(page: Page, parts: str, least: int) -> None:
    """Text stands out from the page, and parts of the lab neither overlap nor leave the window."""
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1100, PHONE["width"]):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(500)
            papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            words = page.evaluate(WORDS)
            assert len(words) > 20
            assert [each for each in words if contrast(*each[:2]) < 4.5] == []
            boxes = page.evaluate(PLACES, parts)
            assert len(boxes) >= least
            assert overlapping(boxes) == []
            assert max(box[2] for box in boxes) <= width
            for plot in page.locator(".js-plotly-plot").all():
                labels = plot.evaluate(f"element => ({PLACES_IN})(element)")
                assert overlapping(labels) == []
                bottom = plot.evaluate("element => element.getBoundingClientRect().bottom")
                assert max([box[3] for box in labels], default=bottom) <= bottom
    assert len(papers) == 2
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1100, "height": 900})


PLACES_IN = """plot => Array.from(
  plot.querySelectorAll(".xtick text, .legend .traces, .xtitle, .ytitle")
).map(element => {
  const box = element.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom];
}).filter(box => box[2] > box[0] && box[3] > box[1])"""
"""Words of a picture."""


def overlapping(boxes: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    """Pairs of boxes (left, top, right, bottom) that share more than an edge."""
    pairs = [(a, b) for k, a in enumerate(boxes) for b in boxes[k + 1 :]]
    return [(a, b) for a, b in pairs if min(a[2], b[2]) - max(a[0], b[0]) > 1 < min(a[3], b[3]) - max(a[1], b[1])]


def test_the_lab_compiles_refuses_and_follows_its_sliders(visit, lab):
    page = open_lab(visit, lab)
    button, said = page.get_by_role("button", name="Compile"), page.locator("#said")
    button.wait_for()
    for label in ("Gallery", "Formula", "Domain", "Tolerance eps", "Norm", "Arithmetic", "Construction"):
        assert page.get_by_label(label).first.is_visible()
    assert eventually(page, lambda: len(plotted(page, "error")) > 100)  # an example is worked out
    gallery = page.get_by_label("Gallery").first
    assert gallery.input_value() == GALLERY[0].name
    readable_in_light_dark_and_on_a_phone(page, ROWS, 7)
    gallery.click()
    page.get_by_role("option", name=GALLERY[1].name).click()
    formula = page.get_by_label("Formula")
    assert eventually(page, lambda: formula.input_value() == GALLERY[1].formula)
    page.wait_for_timeout(1000)
    assert gallery.input_value() == GALLERY[1].name
    formula.fill("sin(3*x")  # at once, as by a clipboard
    assert eventually(page, lambda: gallery.input_value() == "")  # it is no example any more
    page.get_by_label("Formula").fill("<img src=x onerror=alert(1)>")
    button.click()
    said.get_by_role("alert").wait_for()
    assert "got '<img src=x onerror=alert(1)>'" in said.inner_text()
    readable_in_light_dark_and_on_a_phone(page, ROWS, 6)
    page.get_by_label("Formula").fill("sin(3*x)")
    page.get_by_label("Tolerance eps").fill("0.1")
    button.click()
    said.get_by_role("status").wait_for()
    assert "proved" in said.inner_text()
    assert eventually(page, lambda: len(plotted(page, "error")) > 100)
    bound = plotted(page, "error", 1)[0]
    assert 0 < max(plotted(page, "error")) <= bound <= 0.1
    for name in ("network.safetensors", "network.onnx", "report.html", "reproduce.py"):
        assert page.get_by_text(name.partition(".")[0]).first.is_visible()
    page.get_by_role("tab", name="Tokens and temperature").click()
    assert eventually(page, lambda: len(plotted(page, "warmed", 1)) > 100)
    for label in ("Memory tokens", "Temperature"):
        before, curve = plotted(page, "warmed", 1), plotted(page, "trade", 1)
        page.locator("input[type=range]").and_(page.get_by_label(label)).press("End")
        assert eventually(page, lambda before=before: plotted(page, "warmed", 1) != before)
        assert plotted(page, "trade", 1) != curve
    readable_in_light_dark_and_on_a_phone(page, TAB, 3)
    page.get_by_role("tab", name="Ridge regression in context").click()
    assert eventually(page, lambda: len(plotted(page, "coefficients")) == 10)
    readable_in_light_dark_and_on_a_phone(page, TAB, 3)
    assert fits_a_phone(page)
