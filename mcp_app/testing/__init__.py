"""A client for tests of applications, which runs the server's code in the test's process.

By default it needs no Redis and no database. Messages pass through the real code from the parser to the
answer. Only HTTP is skipped.
"""

from __future__ import annotations

from mcp_app.testing.answers import Answers, RequestError
from mcp_app.testing.client import Client, call_tool

__all__ = ["Answers", "Client", "RequestError", "call_tool"]
