"""A started in-memory gateway, and a drain without time limit."""

from __future__ import annotations

import pytest

from mcp_app.conf import Settings
from mcp_app.streams.gateway import Streams


@pytest.fixture
async def streams() -> Streams:
    """Return the event streams of one process."""
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
def settings() -> Settings:
    """Return the default settings."""
    return Settings()


@pytest.fixture(autouse=True)
def _in_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one step of the drain take its maximum of batches on any machine."""
    monkeypatch.setattr("mcp_app.message_log.writer.WRITE_SECONDS", 3_600.0)
