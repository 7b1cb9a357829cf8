"""A server that needs a login, and users of this installation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app.catalogue.upstreams import storing
from mcp_app.models import Upstream
from tests.integration.connections.steps import HERE
from tests.servers.login_server import LoginServer, login_server
from tests.servers.upstream_state import forget_upstreams


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    """Allow loopback, and forget what this process keeps of servers and accounts."""
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "PUBLIC_URL": HERE}
    yield
    forget_upstreams()


@pytest.fixture
def site() -> Iterator[LoginServer]:
    with login_server() as found:
        yield found


@pytest.fixture
def crm(site: LoginServer) -> Upstream:
    return storing.save_upstream(actor=None, name="crm", url=site.url, era="legacy", user_connections=True)


@pytest.fixture
def ada(django_user_model: Any) -> Any:
    return django_user_model.objects.create_superuser("ada", password="x")


@pytest.fixture
def bob(django_user_model: Any) -> Any:
    return django_user_model.objects.create_superuser("bob", password="x")
