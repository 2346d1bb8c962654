"""The pictures of the documentation, each of the example beside it.

    python benchmarks/pictures.py      # writes docs/images; the page and the lab are photographed in Chromium

`benchmarks/calculus.py` makes the one of its page.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

import attnfun as af

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SQUARE = {"x": (-1, 1), "y": (-1, 1)}


def drawn() -> None:
    """Those of net.plot()."""
    demo = af.compile("sin(3*x)*y", SQUARE, 0.1)
    demo.plot(IMAGES / "demo.png", panels=["target", "values", "error"])
    af.compile("sin(3*x)*y", SQUARE, 0.2, construction="grid").plot(IMAGES / "cells.png")
    circuit = af.compile("x*exp(-y*z) + log(3 + max(x, y))", dict.fromkeys("xyz", (0, 1)), 1e-6, construction="circuit")
    circuit.plot(IMAGES / "circuit.png", panels=["error", "circuit"], at=[0.5, 0.5, 0.25])


def report(browser: Browser) -> None:
    """A report, down to the weights of a query."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f.html"
        af.compile("tanh(5*x)*cos(4*y)", SQUARE, 0.2, construction="cross").report(path)
        page = browser.new_page(viewport={"width": 1100, "height": 1350})
        page.goto(path.as_uri())
        for _ in range(8):
            page.get_by_label("x", exact=True).press("ArrowRight")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report.png")


def lab(browser: Browser) -> None:
    """The lab with its first example."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from attnfun.cli import main; main()", "lab", "--no-show", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        page = browser.new_page(viewport={"width": 1100, "height": 1000})
        page.goto(address)
        page.locator("#picture img").wait_for(timeout=120_000)
        page.wait_for_timeout(1500)
        page.screenshot(path=IMAGES / "lab.png")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    drawn()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        report(browser)
        lab(browser)
        browser.close()
