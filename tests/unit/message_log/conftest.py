"""A started in-memory gateway, and a drain that no slow machine cuts short."""

from __future__ import annotations

import pytest

from mcp_app.conf import Settings
from mcp_app.streams.gateway import Streams


@pytest.fixture
async def streams() -> Streams:
    """The event streams of one process."""
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
def settings() -> Settings:
    """The defaults."""
    return Settings()


@pytest.fixture(autouse=True)
def _in_no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, one step of the drain takes as many batches as it may."""
    monkeypatch.setattr("mcp_app.message_log.writer.WRITE_SECONDS", 3_600.0)
