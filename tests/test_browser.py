"""Pages in a real browser: they load without errors, controls change what is drawn, and a phone is wide enough."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import attnfun as af
from test_report import NASTY, hostile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = {"width": 390, "height": 844}
Open = Callable[[str], Page]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed: apt-get install chromium"
)


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
    """The numbers that plotly draws in a place of the page."""
    return page.evaluate(f"Array.from(document.getElementById('{name}').data[0].{what})")


def fits_a_phone(page: Page) -> bool:
    page.set_viewport_size(PHONE)  # pictures follow a little later
    return eventually(page, lambda: page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"])


def eventually(page: Page, holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Does it come true? (A page's own policy forbids Playwright to wait inside it.)"""
    for _ in range(int(seconds / 0.05)):
        if holds():
            return True
        page.wait_for_timeout(50)
    return holds()


def report_of(net: af.Compiled, folder: Path) -> str:
    net.report(folder / "f.html")
    return (folder / "f.html").as_uri()


def test_a_report_runs_the_network_and_follows_its_controls(visit, tmp_path):
    net = af.compile("[x*y, x + y]", {"x": (-1, 1), "y": (0, 1)}, 0.4, construction="cross")
    page = visit(report_of(net, tmp_path))
    for point in ([-0.3, 0.7], [1.0, 0.0]):
        assert np.allclose(page.evaluate("p => report.network.run(p)", point), net(point), rtol=0, atol=1e-9)
    weights, answer = drawn(page, "weights"), page.locator("#answer").inner_text()
    assert sum(weights) == pytest.approx(1.0)
    page.get_by_label("x", exact=True).press("End")
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
    assert page.get_by_role("img", name="Error of the network under its bound").is_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="reproduce.py").click()
    assert "af.compile" in Path(download.value.path()).read_text()
    assert fits_a_phone(page)


def test_heads_and_tokens_of_a_deep_network_can_be_chosen(visit, tmp_path):
    clip = af.TruncatedLinear([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0]], 0.1, -1.0, 1.5)
    net = af.compile(clip, af.Box(np.full((3, 2), -1.0), np.full((3, 2), 2.0)), 0.05, construction="multihead")
    page = visit(report_of(net, tmp_path))
    point = net.domain.sample(1, np.random.default_rng(0))  # (1, 6)
    said = page.evaluate("p => report.network.run(p)", point[0].tolist())
    assert np.allclose(said, net(net.domain.unflatten(point)).ravel(), rtol=0, atol=1e-9)
    before = drawn(page, "weights")
    page.get_by_label("Token that asks").select_option("1")
    assert drawn(page, "weights") != before
    before = drawn(page, "weights")
    page.get_by_label("Head").select_option("1")
    assert drawn(page, "weights") != before
    assert fits_a_phone(page)


def test_markup_in_names_stays_text(visit, tmp_path):
    page = visit(report_of(hostile(), tmp_path))
    assert NASTY in page.get_by_role("heading", level=1).inner_text()
    assert page.locator("img, b").count() == 0
    assert NASTY in page.locator("#values .xtitle").text_content()
