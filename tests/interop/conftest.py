"""One live server with the demo, and one local page, for all clients."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.interop.walk import PAGE
from tests.servers.live import LiveServer
from tests.servers.sinks import page_server


@pytest.fixture(scope="session")
def page_url() -> Iterator[str]:
    with page_server(PAGE) as address:
        yield f"{address}/page"


@pytest.fixture(scope="session")
def live(page_url: str) -> Iterator[LiveServer]:
    """Start two web processes and a worker with the demo catalogue."""
    port = str(urlsplit(page_url).port)
    with LiveServer(2, settings="tests.interop.settings", env={"PAGE_PORT": port}, worker=True) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]
