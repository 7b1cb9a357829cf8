"""The state of upstream servers that a process keeps, which the next test must not find."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.sources.upstream import addresses, known
from mcp_app.credentials import services as credentials
from mcp_app.upstreams import client, health, sessions
from mcp_app.upstreams.accounts import use


def forget_upstreams() -> None:
    """Forget sessions, breakers, outcomes, published entries, credentials and accounts of this process."""
    kept: Any
    for kept in (
        sessions._kept, sessions._legacy_until, client._breakers, health._reported, known._kept,
        addresses._kept, credentials._opened, use._opened, use._used_at,
    ):  # fmt: skip
        kept.clear()
