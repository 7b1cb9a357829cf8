"""An installation that lets every call take its time before its answer becomes a stream."""

from __future__ import annotations

from tests.integration.http.settings import *  # noqa: F403
from tests.integration.http.settings import MCP as _MCP

MCP = {**_MCP, "GRACE_SECONDS": 60.0}
