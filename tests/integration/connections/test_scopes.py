"""Step-up: a server requires more scopes, and the next login of the user asks for all of them (AUTH-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mcp_app.catalogue.upstreams import refreshing
from mcp_app.credentials import services as credentials
from mcp_app.database.queries import aquery
from mcp_app.models import Upstream, UserConnection
from mcp_app.protocol.client.challenges import missing_scope
from mcp_app.protocol.client.faults import InsufficientScope
from mcp_app.protocol.versions import V2025_06_18, V2025_11_25, V2026_07_28
from mcp_app.testing import Client
from mcp_app.testing.answers import RequestError
from tests.integration.connections.steps import back, begin, browser_of, connect, publish, whoami
from tests.servers.login_server import LoginServer

HERE = "https://here.example"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def public(settings: Any, fresh: None) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": HERE}


@pytest.fixture
def tool(crm: Upstream, ada: Any, site: LoginServer) -> Upstream:
    """Publish a tool that requires a scope which the connection of the user does not have."""
    connect(ada, crm, site)
    publish(crm, ada)
    site.demanded = "write admin"
    return crm


def page_of(crm: Upstream) -> str:
    return f"{HERE}/connections/?server={crm.pk}"


def step_up(user: Any, crm: Upstream, site: LoginServer, granted: str | None = None) -> str:
    """Connect again, and return the scopes of the authorization request. All are granted by default."""
    browser = browser_of(user)
    asked = begin(browser, crm)
    code = f"{site.code(user.username)}/{asked['scope'] if granted is None else granted}"
    answer = back(browser, crm, state=asked["state"], code=code, iss=site.origin)
    assert answer.status_code == 302, answer.context["reason"]
    return asked["scope"]


async def call(user: Any, version: str, elicit: Any = None) -> Any:
    """Return the text of the result, or the error."""
    async with Client(stored=True, version=version, user=user, elicit=elicit) as ours:
        try:
            return (await ours.call_tool("crm_whoami"))["content"][0]["text"]
        except RequestError as error:
            return error


def test_next_login_asks_for_the_union_of_scopes(tool: Upstream, ada: Any, site: LoginServer) -> None:
    text = whoami(ada)
    assert "needs more permissions for your account: write, admin" in text
    assert page_of(tool) in text
    row = UserConnection.objects.get()
    assert (row.asked, row.needed) == ("read write", "admin")
    page = browser_of(ada).get("/connections/").content.decode()
    assert "Permissions to add" in page
    assert step_up(ada, tool, site) == "read write admin"
    assert whoami(ada) == "ada"
    row.refresh_from_db()
    assert (row.asked, row.needed, row.scope) == ("read write admin", "", "read write admin")
    assert "Permissions to add" not in browser_of(ada).get("/connections/").content.decode()
    # A later login keeps them.
    assert step_up(ada, tool, site) == "read write admin"


def test_call_of_2026_07_28_continues_after_the_login(tool: Upstream, ada: Any, site: LoginServer) -> None:
    asked = []

    async def follow(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["url"])
        await aquery(step_up, ada, tool, site)
        return {"action": "accept"}

    assert asyncio.run(call(ada, V2026_07_28, follow)) == "ada"
    assert asked == [page_of(tool)]


def test_client_of_2025_11_25_gets_the_error_with_the_page(tool: Upstream, ada: Any) -> None:
    error = asyncio.run(call(ada, V2025_11_25, "decline"))
    (asked,) = error.data["elicitations"]
    assert (error.code, asked["url"]) == (-32042, page_of(tool))


@pytest.mark.parametrize("version", [V2025_06_18, V2025_11_25, V2026_07_28])
def test_client_that_opens_no_pages_gets_the_address(tool: Upstream, ada: Any, version: str) -> None:
    assert page_of(tool) in asyncio.run(call(ada, version))


def test_user_is_not_asked_again_for_the_same_scopes(tool: Upstream, ada: Any, site: LoginServer) -> None:
    asked = []

    async def follow(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["url"])
        await aquery(step_up, ada, tool, site, "read")
        return {"action": "accept"}

    for _ in range(3):
        text = asyncio.run(call(ada, V2026_07_28, follow))
        assert "asked for them already" in text
        assert page_of(tool) in text
    assert asked == [page_of(tool)]
    assert UserConnection.objects.get().needed == ""


def test_server_that_always_wants_another_scope_asks_once_a_call(
    tool: Upstream, ada: Any, site: LoginServer
) -> None:
    asked = []

    async def follow(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["url"])
        await aquery(step_up, ada, tool, site)
        site.demanded = f"{site.demanded} more-{len(asked)}"
        return {"action": "accept"}

    for number in (1, 2):
        assert page_of(tool) in asyncio.run(call(ada, V2026_07_28, follow))
        assert len(asked) == number


@pytest.mark.parametrize(
    ("demanded", "expected"),
    [("", "further permissions"), ('"<b>', "permissions"), ("x " * 2_000, "permissions")],
)
def test_hostile_challenge_asks_for_nothing_it_does_not_name(
    tool: Upstream, ada: Any, site: LoginServer, demanded: str, expected: str
) -> None:
    more = f'WWW-Authenticate: Bearer error="insufficient_scope", scope="{demanded}"'
    usual: Callable[..., bytes] = site.answer
    site.api.answer = lambda heard: (
        usual(heard).replace(b"200 OK", f"403 Forbidden\r\n{more}".encode("latin-1"), 1)
        if b"tools/call" in heard.body
        else usual(heard)
    )
    site.demanded = ""
    assert expected in whoami(ada)
    assert len(UserConnection.objects.get().needed) < 2_000


def test_number_of_scopes_is_limited(tool: Upstream, ada: Any, site: LoginServer) -> None:
    for start in range(0, 300, 30):
        site.demanded = " ".join(f"s{start + number}" for number in range(30))
        whoami(ada)
    assert len(UserConnection.objects.get().needed.split()) <= 50


def test_credential_of_a_server_gets_no_login(tool: Upstream, ada: Any, site: LoginServer) -> None:
    site.accounts["s3cret-of-the-server"] = "service"
    secret = {"token": "s3cret-of-the-server"}
    credentials.save_credential(actor=None, name="key", kind="bearer", origins=[site.origin], secret=secret)
    Upstream.objects.update(user_connections=False, credential="key")
    refreshing.known.drop("crm")
    text = whoami(ada)
    assert "needs the permissions write, admin" in text
    assert "/connections/" not in text


@pytest.mark.parametrize(
    ("header", "scopes"),
    [
        ('Bearer error="insufficient_scope", scope="a b a"', ("a", "b")),
        ("bearer scope=a, error=insufficient_scope", ("a",)),
        ('Bearer error="insufficient_scope"', ()),
        ('Bearer error="invalid_token", scope="a"', None),
        ("", None),
    ],
)
def test_missing_scope_is_read_from_the_challenge(header: str, scopes: tuple[str, ...] | None) -> None:
    found = missing_scope(header)
    assert (None if found is None else found.scopes) == scopes
    assert found is None or isinstance(found, InsufficientScope)
