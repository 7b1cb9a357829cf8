"""The source of entries from other MCP servers. They are stored but not served yet."""

from __future__ import annotations

from typing import Final

from mcp_app.catalogue.sources.base import Source


class UpstreamSource(Source):
    """Other MCP servers."""

    stored = "upstream"
    label = "upstream server"
    tone = "warn"
    origin = "its server"
    gone = "its server no longer has it"
    unserved = "what other servers offer is not served"


UPSTREAM: Final = UpstreamSource()
