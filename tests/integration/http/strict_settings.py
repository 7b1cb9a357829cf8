"""Settings that require authentication, with low limits and short timeouts."""

from __future__ import annotations

from tests.integration.http.settings import *  # noqa: F403
from tests.integration.http.settings import MCP as _MCP

MCP = {
    **_MCP,
    "AUTH": "required",
    "ALLOWED_ORIGINS": ["https://app.example.com"],
    "VERSIONS": ["2025-11-25", "2025-06-18"],
    "INSTRUCTIONS": "",
    "MAX_BODY_BYTES": 64 * 1024,
    "MAX_STRING_BYTES": 8 * 1024,
    "MAX_JSON_MEMBERS": 1_000,
    "MAX_SESSIONS_PER_PRINCIPAL": 4,
    "MAX_STREAMS_PER_PRINCIPAL": 3,
    "MAX_RUNNING_CALLS_PER_PRINCIPAL": 4,
    "MAX_SUBSCRIPTIONS": 3,
    # Most tests send wrong requests on purpose, all from one address.
    "WRONG_KEYS_PER_MINUTE": 0,
    "MAX_STREAM_EVENTS": 40,
    "MAX_RESULT_BYTES": 32 * 1024,
    "LOG_MESSAGES_PER_CALL": 1_000,
    "BODY_SECONDS": 1.0,
    "KEEP_ALIVE_SECONDS": 0.5,
    "STALL_SECONDS": 1.0,
    "STREAM_MAX_SECONDS": 2.0,
    "STREAM_RETRY_MS": 100,
    "SESSION_IDLE_SECONDS": 4,
    "SESSION_RECHECK_SECONDS": 0.5,
    "CLIENT_REQUEST_SECONDS": 1.0,
}
