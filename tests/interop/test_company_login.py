"""Users log in by an external identity provider, then allow the official Python client to connect."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
import pytest

from tests.clients import node
from tests.integration.oauth.person import Memory, Person
from tests.integration.oauth.test_python_client import added, connected
from tests.interop import npm
from tests.servers.live import LiveServer

pytest.importorskip("allauth", reason="requirements-sso.txt is not installed")
pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
CLIENT, SECRET = "mcp-server", "the-secret-of-the-server-at-its-provider"
WHO = """
from django.contrib.auth import get_user_model
for user in get_user_model().objects.filter(mcp_identities__isnull=False):
    print("user", user.get_username(), sorted(group.name for group in user.groups.all()))
"""


@dataclass
class Company:
    """A server whose users log in by a provider."""

    server: LiveServer
    issuer: str


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def company() -> Iterator[Company]:
    """Start two web processes, and the provider in a third."""
    script, port = npm.beside_packages("provider.mjs", "provider"), _free_port()
    issuer = f"http://127.0.0.1:{port}"
    env = {
        "MCP_AUTH": "required",
        "LOGIN_ISSUER": issuer,
        "LOGIN_CLIENT_ID": CLIENT,
        "LOGIN_CLIENT_SECRET": SECRET,
        "LOGIN_NAME": "Example Inc.",
        "LOGIN_SCOPES": "openid,profile,groups",
        "OAUTH_GROUPS": '{"ops": "MCP operator"}',
        "EGRESS_ALLOW": "127.0.0.0/8",
    }
    with LiveServer(2, env=env) as server:
        callback = server.url.removesuffix("/mcp") + "/accounts/company/callback/"
        command = [node.executable(), str(script), str(port), callback, CLIENT, SECRET]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as provider:
            assert provider.stdin is not None
            assert provider.stdout is not None
            assert provider.stdout.readline() == "listening\n"
            yield Company(server, issuer)
            provider.stdin.close()
        assert not server.trouble(), server.logs()[-4000:]


class Employee(Person):
    """A user who follows the client's address and logs in at the company."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def open(self, url: str) -> None:
        """Press the button, log in and consent at the provider, decide here, and store the redirect."""
        self.opened += 1
        async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
            page = await self.log_in(browser, url)
            assert "Connect" in page.text, page.text[:2000]
            browser.follow_redirects = False
            answer = await self._send(browser, page, decision=self.decision)
            self.way_back = dict(parse_qsl(urlsplit(answer.headers["location"]).query))

    async def log_in(self, browser: httpx2.AsyncClient, url: str) -> httpx2.Response:
        """Return the page after the provider's redirect."""
        page = await browser.get(url)
        button = re.search(r'href="([^"]+)"><span>Log in with', page.text)
        assert button, page.text[:2000]
        page = await browser.get(urljoin(str(page.url), button[1].replace("&amp;", "&")))
        page = await self._send(browser, page, login=self.name, password="any")
        return await self._send(browser, page)


async def test_employee_logs_in_by_the_company_and_connects_a_client(company: Company) -> None:
    memory, employee = Memory(), Employee("ops@grace")
    async with connected(company.server, memory, employee) as client:
        assert await added(client) == {"result": 5}
    assert employee.opened == 1
    assert memory.tokens is not None
    assert memory.tokens.access_token.startswith("mcpat_")
    assert "user grace ['MCP operator']" in company.server.shell(WHO)
    assert SECRET not in company.server.logs()


async def test_employees_with_the_same_name_are_two_users(company: Company) -> None:
    for name in ("ada", "ops@ada"):
        async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
            page = await Employee(name).log_in(browser, company.server.url.removesuffix("mcp") + "oauth/apps")
            assert "Connected apps" in page.text, page.text[:2000]
    told = await asyncio.to_thread(company.server.shell, WHO)
    assert "user ada []" in told
    assert re.search(r"user ada-[0-9a-f]{16} \['MCP operator'\]", told)
