"""Starting the page: on this machine only, without telemetry and without anything from outside."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from ..errors import InputError, require
from .worker import Limits, Worker

QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1"}
"""Set before gradio is imported: it reports nothing and looks for no updates."""


def launch(port: int = 7860, limits: Limits | None = None, *, show: bool = True) -> None:
    """Serve the page at 127.0.0.1 until interrupted; `show` opens it in a browser."""
    if not 1 <= port <= 65535:
        raise InputError("port must be a whole number from 1 to 65535", got=port)
    for package in ("gradio", "plotly"):
        require(package, "lab")
    worker = Worker(limits or Limits())
    with TemporaryDirectory(prefix="attnfun-lab-") as folder:
        os.environ |= {**QUIET, "GRADIO_TEMP_DIR": folder}
        from .page import CSS, THEME, build

        page = build(worker, folder)
        try:
            page.launch(
                server_name="127.0.0.1",
                server_port=port,
                inbrowser=show,
                share=False,
                quiet=True,
                prevent_thread_lock=True,
                footer_links=[],
                theme=THEME,
                css=CSS,
                allowed_paths=[folder],
                enable_monitoring=False,
                ssr_mode=False,
                pwa=False,
                mcp_server=False,
                max_file_size=0,
            )
            print(f"attnfun lab: http://127.0.0.1:{port} (on this machine only; stop it with Ctrl-C)")  # noqa: T201
            page.block_thread()
        except OSError:
            raise InputError(f"port {port} must be free", remedy="Choose another one with --port.") from None
        finally:
            worker.stop()
