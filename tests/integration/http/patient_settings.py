"""Settings under which calls may run for a long time before the response becomes a stream."""

from __future__ import annotations

from tests.integration.http.settings import *  # noqa: F403
from tests.integration.http.settings import MCP as _MCP

MCP = {**_MCP, "GRACE_SECONDS": 60.0}
