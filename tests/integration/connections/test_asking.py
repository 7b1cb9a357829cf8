"""A call without a connection asks the user to open the page, in the form of each revision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.sources.upstream import accounts
from mcp_app.catalogue.upstreams import storing
from mcp_app.database.queries import aquery
from mcp_app.models import Tool, Upstream
from mcp_app.protocol.versions import V2025_06_18, V2025_11_25, V2026_07_28
from mcp_app.testing import Client
from mcp_app.testing.answers import RequestError
from tests.integration.connections.steps import connect, publish
from tests.servers.login_server import LoginServer

HERE = "https://here.example"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def public(settings: Any, fresh: None) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": HERE}


@pytest.fixture
def crm(site: LoginServer, django_user_model: Any) -> Upstream:
    row = storing.save_upstream(actor=None, name="crm", url=site.url, era="legacy", user_connections=True)
    operator = django_user_model.objects.create_superuser("operator", password="x")
    connect(operator, row, site)
    publish(row, operator)
    return row


@pytest.fixture
def ada(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("ada", password="x")


async def call(user: Any, version: str, elicit: Any = None) -> Any:
    """Return the text of the result, or the error."""
    async with Client(stored=True, version=version, user=user, elicit=elicit) as ours:
        try:
            return (await ours.call_tool("crm_whoami"))["content"][0]["text"]
        except RequestError as error:
            return error


def page_of(crm: Upstream) -> str:
    return f"{HERE}/connections/?server={crm.pk}"


@pytest.mark.parametrize("background", [False, True])
def test_client_of_2025_11_25_gets_the_error_with_the_page(crm: Upstream, ada: Any, background: bool) -> None:
    services.update_entry(entry=Tool.objects.get(name="crm_whoami"), actor=None, background=background)
    error = asyncio.run(call(ada, V2025_11_25, "decline"))
    (asked,) = error.data["elicitations"]
    assert (error.code, asked["mode"], asked["url"]) == (-32042, "url", page_of(crm))
    assert asked["elicitationId"]


def test_call_of_2026_07_28_goes_on_after_the_user_has_connected(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    asked = []

    async def follow(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        await aquery(connect, ada, crm, site)
        return {"action": "accept"}

    assert asyncio.run(call(ada, V2026_07_28, follow)) == "ada"
    assert [(params["mode"], params["url"]) for params in asked] == [("url", page_of(crm))]


@pytest.mark.parametrize("wait", [0.0, 0.1])
def test_call_fails_if_the_user_does_not_connect(
    crm: Upstream, ada: Any, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    monkeypatch.setattr(accounts, "WAIT_SECONDS", wait)
    answer: Any = "decline" if not wait else lambda _: {"action": "accept"}
    assert page_of(crm) in asyncio.run(call(ada, V2026_07_28, answer))


@pytest.mark.parametrize("version", [V2025_06_18, V2025_11_25, V2026_07_28])
def test_client_that_opens_no_pages_gets_the_address(crm: Upstream, ada: Any, version: str) -> None:
    assert page_of(crm) in asyncio.run(call(ada, version))


def test_page_without_https_is_named_in_the_text(crm: Upstream, ada: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": "http://127.0.0.1:8000"}
    told = asyncio.run(call(ada, V2025_11_25, "decline"))
    assert f"http://127.0.0.1:8000/connections/?server={crm.pk}" in told


def test_text_has_no_address_without_a_public_one(crm: Upstream, ada: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": ""}
    assert "My connections" in asyncio.run(call(ada, V2026_07_28, "decline"))
