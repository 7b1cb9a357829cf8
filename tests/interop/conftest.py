"""One live server with the demo and one local page for all clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.interop.walk import PAGE
from tests.live import LiveServer


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Nothing: pytest's output is for failures."""


@pytest.fixture(scope="session")
def page_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/page"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def live(page_url: str) -> Iterator[LiveServer]:
    """Two web processes and a worker with the demo catalogue."""
    port = str(urlsplit(page_url).port)
    with LiveServer(2, settings="tests.interop.settings", env={"PAGE_PORT": port}, worker=True) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]
