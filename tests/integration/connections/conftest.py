"""Our own server with its authorization server as the upstream, and a user with a browser at both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client as Browser

from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.models import Upstream, UserConnection
from tests.integration.oauth.person import PEOPLE, Person
from tests.servers.live import LiveServer
from tests.servers.upstream_state import forget_upstreams

HERE = "http://127.0.0.1:8765"


@pytest.fixture(scope="session")
def behind() -> Iterator[LiveServer]:
    """Start the upstream that all tests of this folder share."""
    with LiveServer(web_processes=1, env={"MCP_AUTH": "required"}) as running:
        running.shell(PEOPLE)
        yield running


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    """Allow loopback, and forget what this process keeps of servers and accounts."""
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "PUBLIC_URL": HERE}
    yield
    forget_upstreams()


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
