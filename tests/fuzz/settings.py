"""The fuzzed installation: the conformance fixture's tools (none opens a connection), short waits."""

from __future__ import annotations

from tests.conformance.settings import *  # noqa: F403
from tests.conformance.settings import MCP as _MCP

# A mutated call may ask a client that never answers; it must not hold a slot for minutes.
MCP = {**_MCP, "CLIENT_REQUEST_SECONDS": 1.0, "TOOL_TIMEOUT_SECONDS": 2.0}
