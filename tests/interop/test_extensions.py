"""Extensions with their settings, in both directions, as the official conformance suite checks them for
2025-11-25.
"""

from __future__ import annotations

import json
import shlex

import pytest

from tests.clients.stdio_child import COMMAND, ROOT
from tests.interop import npm
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
LEGACY, MODERN = "legacy", "2026-07-28"
OFFERED = {
    "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
    "com.example/odd": {"nested": {"on": True, "most": 3}, "values": ["b", 4]},
}
DECLARED = {
    "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
    "com.example/other": {"nested": {"enabled": False, "limit": 0}, "values": ["a", 2, None]},
    "com.example/empty": {},
}


@pytest.mark.requirement("CAP-05", "DLG-000-12", "EXT-01")
@pytest.mark.parametrize("member", ["extensions", "experimental"])
@pytest.mark.parametrize(
    ("era", "transport"), [(LEGACY, "http"), (LEGACY, "sse"), (LEGACY, "stdio"), (MODERN, "http")]
)
def test_official_client_negotiates_extensions(
    live: LiveServer, era: str, transport: str, member: str
) -> None:
    # A server started by the client has the same database and settings.
    started = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(COMMAND)}"
    target = {"http": [live.url], "sse": [live.url.replace("/mcp", "/sse")]}
    arguments = (era, transport, json.dumps({member: DECLARED}))
    report = npm.run_script(
        "extensions.mjs",
        *arguments,
        *target.get(transport, ["/bin/sh", "-c", started]),
        environment=live.environment,
    )
    announced = report["announced"]
    if era == LEGACY:
        assert announced["extensions"] == announced["experimental"] == OFFERED
        assert report["seen"] == DECLARED
    else:
        assert announced["extensions"].items() >= OFFERED.items()
        assert "experimental" not in announced
        assert report["seen"] == (DECLARED if member == "extensions" else {})
