"""A client in the same process, for tests of applications: no server, no Redis, no database by default.

Messages pass through the real code from the parser to the answer; only HTTP is skipped.
"""

from __future__ import annotations

from mcp_app.testing.answers import Answers, RequestError
from mcp_app.testing.client import Client, call_tool

__all__ = ["Answers", "Client", "RequestError", "call_tool"]
