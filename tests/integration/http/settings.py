"""Settings of most HTTP tests: the conformance fixture's entries, more entries, short keep-alives."""

from __future__ import annotations

from tests.conformance.settings import *  # noqa: F403
from tests.conformance.settings import INSTALLED_APPS as _APPS
from tests.conformance.settings import MCP as _MCP

INSTALLED_APPS = [*_APPS, "tests.integration.http.app"]
MCP = {
    **_MCP,
    "KEEP_ALIVE_SECONDS": 1.0,
    "CLIENT_REQUEST_SECONDS": 15.0,
    "LOG_MESSAGES_PER_CALL": 5_000,
    "INSTRUCTIONS": "Be gentle.",
}
