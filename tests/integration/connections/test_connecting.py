"""A user connects an account at our own server, calls its tools with it, and disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from django.test import Client as Browser

from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.models import Upstream, UserConnection
from mcp_app.testing import Client, call_tool
from mcp_app.upstreams.accounts import tokens
from tests.integration.connections.steps import HERE
from tests.integration.oauth.person import PEOPLE, Person
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.fixture(scope="session")
def behind() -> Iterator[LiveServer]:
    """Start the upstream that all tests of this folder share."""
    with LiveServer(web_processes=1, env={"MCP_AUTH": "required"}) as running:
        running.shell(PEOPLE)
        yield running


@pytest.fixture
def crm(behind: LiveServer) -> Upstream:
    return storing.save_upstream(actor=None, name="crm", url=behind.url, user_connections=True)


class Visitor:
    """A user of this installation, with an account ``name`` at the other server."""

    def __init__(self, user: Any, name: str = "ada") -> None:
        self.user, self.browser, self.name = user, Browser(), name
        self.browser.force_login(user)

    def leave(self, server: Upstream) -> str:
        """Press "Connect", and return the address of the authorization server."""
        page = self.browser.post(f"/connections/{server.pk}/connect/")
        assert page.status_code == 200, page.content.decode()
        return str(page.context["url"])

    def return_address(self, url: str, decision: str = "allow") -> str:
        """Log in at the authorization server, and return the path and query of the redirect."""
        person = Person(decision, self.name)
        asyncio.run(person.open(url))
        parts = urlsplit(person.sent_to)
        assert f"{parts.scheme}://{parts.netloc}" == HERE
        return f"{parts.path}?{parts.query}"

    def connect(self, server: Upstream) -> UserConnection:
        back = self.browser.get(self.return_address(self.leave(server)))
        assert back.status_code == 302, back.content.decode()
        return UserConnection.objects.get(user=self.user, upstream=server)


def publish(server: Upstream, actor: Any, *tools: str) -> None:
    """Read the lists with the account of a user, and publish tools."""
    refreshing.refresh(upstream=server, actor=actor)
    server.refresh_from_db()
    done = importing.import_items(upstream=server, keys=tools, actor=None, publish=True)
    assert done.skipped == {}


@pytest.fixture
def ada(django_user_model: Any) -> Visitor:
    return Visitor(django_user_model.objects.create_superuser("ada-here", password="x"))


@pytest.fixture
def bob(django_user_model: Any) -> Visitor:
    return Visitor(django_user_model.objects.create_user("bob-here", password="x"), "root")


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
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}
    return httpx2.post(behind.url, json=first, headers=headers, timeout=60).status_code
