"""A team's toolset from its form to its clients: an administrator, a member, a stranger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import opened_pages, sign_in
from tests.clients.raw_modern import Modern
from tests.integration.oauth.person import Memory, Person, provider
from tests.samples.admin_seed import PASSWORD
from tests.servers.live import LiveServer

TOOLS = {"add", "calculate", "count", "echo", "get_timestamp"}
PATH = "/mcp/analysts"
LOST_SECONDS = 10.0
CHANGES = {"toolsListChanged": True}
PEOPLE = """
from django.contrib.auth.models import Group, User
from tests.samples.admin_seed import PASSWORD, people
people()
member, _ = (User.objects.create_user(name, password=PASSWORD) for name in ("member", "stranger"))
member.groups.add(Group.objects.create(name="Analysts"))
"""


@pytest.fixture(scope="module")
def team() -> Iterator[LiveServer]:
    """Start two web processes that require authentication, with a group and its member."""
    with LiveServer(2, env={"MCP_AUTH": "required"}) as server:
        server.shell(PEOPLE)
        yield server
        assert server.trouble() == []


@pytest.fixture
def page(chromium: Browser, team: LiveServer) -> Iterator[Page]:
    """Open the list of toolsets as an administrator."""
    base = f"http://127.0.0.1:{team.port}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as visit:
        yield visit().goto("/admin/mcp_app/toolset/")


@pytest.mark.requirement("TSET-01", "TSET-03")
def test_member_uses_the_toolset_until_an_administrator_removes_the_group(
    team: LiveServer, page: Page
) -> None:
    add_toolset(page)
    with ThreadPoolExecutor(1) as threads:
        member, stranger = threads.map(lambda name: log_in(team, name), ("member", "stranger"))
    assert member.tools == TOOLS
    assert member.refusal == ""
    assert stranger.tools == set()
    assert "not a member of Analysts" in stranger.refusal
    assert_refused(team, stranger)
    check(page, "stranger", "no")
    check(page, "member", "yes")
    with ExitStack() as stack:
        streams = []
        for port in team.ports:
            streams.append(stack.enter_context(Modern(port, member.token, path=PATH).listen(CHANGES)))
            assert streams[-1].message()["method"] == "notifications/subscriptions/acknowledged"
        remove_member(page)
        removed = time.monotonic()
        for stream in streams:
            stream.messages(max(0.1, removed + LOST_SECONDS - time.monotonic()))
            assert stream.ended
    assert_refused(team, member)


class Login(NamedTuple):
    """The access token of a client, and the tools that it lists or the reason why it cannot."""

    token: str
    tools: set[str]
    refusal: str


def assert_refused(server: LiveServer, login: Login) -> None:
    """Assert that every process refuses the client with the reason."""
    for port in server.ports:
        answer = Modern(port, login.token, path=PATH).post("tools/list", {})
        assert answer.status == 403
        assert "not a member of Analysts" in answer.json()["error"]["message"]


def add_toolset(page: Page) -> None:
    """Add the toolset of a group with five tools in the form."""
    page.locator("#mcp-add-toolset").click()
    page.locator("#id_slug").fill("analysts")
    page.locator("a[href='#entries']").click()
    for name in TOOLS:
        page.locator(f"input[value='tool {name}']").check()
    page.locator("a[href='#access']").click()
    page.get_by_label("Analysts").check()
    page.locator("#mcp-toolset-form .mcp-primary").click()
    expect(page.locator("tr[data-entry]")).to_have_count(len(TOOLS))


def check(page: Page, user: str, decision: str) -> None:
    """Check on the page of the toolset whether a user can use it, and why."""
    page.locator("#mcp-toolset-user").fill(user)
    page.keyboard.press("Enter")
    shown = page.locator(f"[data-decision={decision}]")
    expect(shown).to_contain_text(user)
    expect(shown).to_contain_text("Analysts")


def remove_member(page: Page) -> None:
    """Remove the only member in the form of the group."""
    page.goto(page.url.partition("/admin/")[0] + "/admin/auth/group/")
    page.locator("#result_list").get_by_role("link", name="Analysts", exact=True).click()
    page.locator(".field-members .select2-selection__choice__remove").click()
    expect(page.locator(".field-members .select2-selection__choice")).to_have_count(0)
    page.locator("[name=_save]").click()
    expect(page.locator("#result_list")).to_be_visible()


def log_in(server: LiveServer, name: str) -> Login:
    """Log in with the official client, and list the tools."""

    async def listed() -> Login:
        memory, url = Memory(), server.url.removesuffix("/mcp") + PATH
        auth = provider(url, memory, Person(name=name, password=PASSWORD))
        tools: set[str] = set()
        error: BaseException | None = None
        try:
            async with (
                httpx2.AsyncClient(auth=auth, timeout=60) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                tools = {tool.name for tool in (await client.list_tools()).tools}
        except BaseExceptionGroup as group:
            error = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
        assert memory.tokens is not None
        return Login(memory.tokens.access_token, tools, str(error or ""))

    return asyncio.run(listed())
