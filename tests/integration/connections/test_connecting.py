"""A user connects an account at our own server, calls its tools with it, and disconnects."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from mcp_app.models import Upstream
from mcp_app.testing import Client, call_tool
from mcp_app.upstreams.accounts import tokens
from tests.integration.connections.conftest import Visitor, publish
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


async def complete(user: Any) -> list[str]:
    async with Client(stored=True, user=user) as ours:
        return await ours.complete({"type": "ref/prompt", "name": "crm_code_review"}, "language", "py")


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def test_connected_user_calls_with_the_own_account(
    behind: LiveServer, crm: Upstream, ada: Visitor, bob: Visitor
) -> None:
    row = ada.connect(crm)
    publish(crm, ada.user, "echo", "prompt code_review")
    result = call_tool("crm_echo", {"text": "hello"}, stored=True, user=ada.user)
    assert text_of(result) == "hello"
    refused = call_tool("crm_echo", {"text": "hello"}, stored=True, user=bob.user)
    assert refused["isError"]
    assert f"/connections/?server={crm.pk}" in text_of(refused)
    stored = tokens.opened(row)
    assert stored is not None
    assert stored.access not in row.sealed
    assert row.can_renew
    assert asyncio.run(complete(ada.user)) == ["Python"]
    assert asyncio.run(complete(bob.user)) == []
    before = status(behind, stored.access)
    ada.browser.post(f"/connections/{crm.pk}/end/")
    assert (before, status(behind, stored.access)) == (200, 401)


def status(behind: LiveServer, token: str) -> int:
    """Return the status of a request with an access token."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    told = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return httpx2.post(
        behind.url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}, headers=headers
    ).status_code
