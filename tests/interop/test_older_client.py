"""Clients in use that parse less than the newest ones."""

from __future__ import annotations

import pytest

from tests.interop import pypi
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\nj\rk"


@pytest.mark.requirement("T-SSE-08", "SSE1-02")
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_client_that_splits_at_unicode_separators_reads_every_message(
    live: LiveServer, transport: str
) -> None:
    address = live.url if transport == "http" else live.url.replace("/mcp", "/sse")
    report = pypi.run_script("mcp112", transport, address, SEPARATORS)
    assert report["answers"] == {"echo": SEPARATORS, "repeat": SEPARATORS}
    assert report["logs"] == [SEPARATORS]
