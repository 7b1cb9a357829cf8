"""Requests of known clients, sent to two web processes in turn: neither needs the other's memory."""

from __future__ import annotations

import asyncio
import html
import itertools
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from tests.integration.oauth.person import CALLBACK, NAME, PASSWORD, PEOPLE
from tests.integration.oauth.test_python_client import metadata
from tests.servers.live import LiveServer
from tests.unit.oauth.clients import KNOWN, PUBLISHED
from tests.unit.oauth.flow import challenge

pytestmark = [pytest.mark.process]
DOCUMENTS = f"""
import orjson
from mcp_app.egress.client import Fetched
from mcp_app.oauth.documents import find_or_fetch
for name, address, uris, wanted in {PUBLISHED!r}:
    said = {{"client_id": address, "client_name": name, "redirect_uris": uris,
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": "none"}}
    async def fetch(url, policy):
        headers = {{"cache-control": "max-age=86400"}}
        return Fetched(url, 200, "application/json", "", orjson.dumps(said), headers)
    find_or_fetch(address, fetch)
"""
NOTED = """
import json
from mcp_app.models import AuditEvent
from mcp_app.oauth.models import Client, Connection
found = {}
for client in Client.objects.all():
    keys = [str(pk) for pk in client.connections.values_list("pk", flat=True)]
    rows = AuditEvent.objects.filter(object_key__in=[client.client_id, *keys]).order_by("pk")
    found[client.client_id] = [
        client.registration_source,
        [*rows.values_list("action", flat=True)],
        [each.live for each in client.connections.all()],
    ]
print(json.dumps(found))
"""
_FIELD = re.compile(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


@dataclass(frozen=True)
class Row:
    """A row of the table; clients with a metadata document use its URL as id and do not register."""

    name: str
    redirect_uri: str
    scope: str | None
    said: dict[str, Any] | None = None
    client_id: str = ""


TABLE = [
    *(Row(known.name, known.redirect_uri, known.scope, said=known.said) for known in KNOWN),
    *(Row(name, wanted, "mcp mcp:tools", client_id=address) for name, address, _, wanted in PUBLISHED),
]


class Replay:
    """A user's browser and a client, whose requests alternate between the processes."""

    def __init__(self, server: LiveServer, browser: httpx2.AsyncClient, wire: httpx2.AsyncClient) -> None:
        self.server, self.resource, self.browser, self.wire = server, server.url, browser, wire
        self._places: Iterator[str] = itertools.cycle(f"http://127.0.0.1:{port}" for port in server.ports)

    def at(self, path: str) -> str:
        """Return an address at the next process."""
        return next(self._places) + path

    async def known(self, row: Row) -> dict[str, Any]:
        """Return the client's registration, after discovery."""
        protected = (await self.wire.get(self.at("/.well-known/oauth-protected-resource/mcp"))).json()
        told = (await self.wire.get(self.at("/.well-known/oauth-authorization-server"))).json()
        assert protected["authorization_servers"] == [told["issuer"]]
        if row.said is None:
            return {"client_id": row.client_id, "token_endpoint_auth_method": "none"}
        answer = await self.wire.post(self.at("/oauth/register"), json=row.said)
        assert answer.status_code == 201, (row.name, answer.text)
        return dict(answer.json())

    async def code(self, row: Row, known: dict[str, Any], verifier: str) -> str:
        """Return the authorization code; the user logs in if asked."""
        asked = {
            "response_type": "code",
            "client_id": known["client_id"],
            "redirect_uri": row.redirect_uri,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
            "state": "as sent",
            "resource": self.resource,
            **({"scope": row.scope} if row.scope else {}),
        }
        page = await self.browser.get(self.at(f"/oauth/authorize?{urlencode(asked)}"))
        if page.status_code == 302:
            login = page.headers["location"]
            form = await self.browser.get(self.at(login))
            page = await self._send(form, login, username=NAME, password=PASSWORD)
            page = await self.browser.get(self.at(page.headers["location"]))
        answer = await self._send(page, "/oauth/authorize", decision="allow")
        assert answer.status_code == 302, (row.name, answer.text[-2000:])
        assert answer.headers["location"].startswith(row.redirect_uri)
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))["code"]

    async def tokens(self, row: Row, known: dict[str, Any], **form: str) -> dict[str, Any]:
        """Return the response of the token endpoint to the authenticated client."""
        method, way = known["token_endpoint_auth_method"], None
        if method == "client_secret_basic":
            way = (known["client_id"], known["client_secret"])
        else:
            form["client_id"] = known["client_id"]
        if method == "client_secret_post":
            form["client_secret"] = known["client_secret"]
        answer = await self.wire.post(self.at("/oauth/token"), data=form, auth=way)
        assert answer.status_code == 200, (row.name, answer.text)
        return dict(answer.json())

    async def _send(self, page: httpx2.Response, path: str, **form: str) -> httpx2.Response:
        hidden = {name: html.unescape(value) for name, value in _FIELD.findall(page.text.split("</form>")[0])}
        return await self.browser.post(self.at(path), data={**hidden, **form})


@pytest.fixture(scope="module")
def two() -> Iterator[LiveServer]:
    """Start two separate web processes, because registrations per network and hour are limited."""
    with LiveServer(2, env={"MCP_AUTH": "required"}) as running:
        running.shell(PEOPLE + DOCUMENTS)
        yield running
        assert not running.trouble(), running.logs()[-4000:]


async def replayed(replay: Replay, row: Row) -> str:
    """Send all requests of a connection's life; return the client id."""
    known, verifier = await replay.known(row), secrets.token_urlsafe(48)
    given = await replay.code(row, known, verifier)
    first = await replay.tokens(
        row, known, grant_type="authorization_code", code=given, redirect_uri=row.redirect_uri,
        code_verifier=verifier, resource=replay.resource,
    )  # fmt: skip
    again = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = await replay.tokens(row, known, **again)
    repeated = await replay.tokens(row, known, **again)
    again = {"grant_type": "refresh_token", "refresh_token": second["refresh_token"]}
    five = await asyncio.gather(*(replay.tokens(row, known, **again) for _ in range(5)))
    assert repeated["access_token"] == second["access_token"], row.name
    assert len({(each["access_token"], each["refresh_token"]) for each in five}) == 1, row.name
    for tokens in (first, second, five[0]):
        for process in (0, 1):
            answer = await metadata(replay.wire, replay.server, tokens["access_token"], process)
            assert answer.status_code == 200, row.name
    return str(known["client_id"])


@pytest.mark.requirement("AUTH-31")
async def test_concurrent_use_of_one_code_succeeds_once(two: LiveServer) -> None:
    said = {"client_name": "One code", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    row = Row("One code", CALLBACK, "mcp", said=said)
    async with httpx2.AsyncClient(timeout=60) as browser, httpx2.AsyncClient(timeout=60) as wire:
        replay = Replay(two, browser, wire)
        known, verifier = await replay.known(row), secrets.token_urlsafe(48)
        form = {
            "grant_type": "authorization_code",
            "code": await replay.code(row, known, verifier),
            "redirect_uri": row.redirect_uri,
            "code_verifier": verifier,
            "client_id": known["client_id"],
        }
        answers = await asyncio.gather(
            *(wire.post(replay.at("/oauth/token"), data=form) for _ in range(6)),
        )
        assert sorted(answer.status_code for answer in answers) == [200, *[400] * 5]
        (token,) = [each.json()["access_token"] for each in answers if each.status_code == 200]
        for process in (0, 1):
            assert (await metadata(wire, two, token, process)).status_code == 401


@pytest.mark.requirement("AUTH-31", "AUTH-32", "AUTH-36", "AUTH-41", "AUTH-44")
async def test_known_clients_connect_and_refresh_at_alternating_processes(two: LiveServer) -> None:
    ids = {}
    async with httpx2.AsyncClient(timeout=60) as browser, httpx2.AsyncClient(timeout=60) as wire:
        replay = Replay(two, browser, wire)
        for row in TABLE:
            ids[row.name, row.said is None] = await replayed(replay, row)
    noted = json.loads((await asyncio.to_thread(two.shell, NOTED)).strip().splitlines()[-1])
    assert len(ids) == len(TABLE)
    for (name, published), client_id in ids.items():
        kind = "cimd" if published else "dcr"
        assert noted[client_id] == [kind, ["oauth.client_register", "oauth.allow"], [True]], name
