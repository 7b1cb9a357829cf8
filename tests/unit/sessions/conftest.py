"""A started in-memory gateway and the session dependencies of a process."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.conf import Settings
from mcp_app.sessions.open_sessions import Sessions
from mcp_app.sessions.session import stored_fields
from mcp_app.streams.gateway import Streams


@pytest.fixture
async def streams() -> Streams:
    """Return the event streams of one process, or of several that share them."""
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
def settings() -> Settings:
    """Return the default settings."""
    return Settings()


@pytest.fixture
async def sessions(streams: Streams, settings: Settings) -> Sessions:
    """Return the sessions of one process."""
    return process(streams, settings)


def process(streams: Streams, settings: Settings) -> Sessions:
    """Return the sessions of one more process on the same streams."""
    made = Sessions(streams, settings)
    made.start()
    return made


def opening(**changes: Any) -> dict[str, str]:
    """Return the arguments that create a session."""
    given: dict[str, Any] = {
        "version": "2025-11-25",
        "principal_key": "ada",
        "client_info": {"name": "tests", "version": "1"},
        "capabilities": {"roots": {}},
        "announced": 3,
    }
    return stored_fields(**(given | changes))
