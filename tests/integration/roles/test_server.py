"""Addresses that are served before Django, on a real server that requires authentication."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mcpsite.asgi import application
from tests.clients.raw_http import EventStream, RawClient
from tests.integration.roles.people import PEOPLE
from tests.integration.roles.table import Way, ways
from tests.integration.roles.ways_there_are import served
from tests.servers.live import LiveServer

pytestmark = pytest.mark.process
ROUTES = application.routes
WAYS = [way for way in ways() if way.path in ROUTES]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
# One key for each user except anonymous; the last line is a test bench token.
KEYS = """
from django.contrib.auth.models import Group, User
from mcp_app.auth.bench import issue_bench_token
from mcp_app.auth.api_keys import issue_api_key
for name, staff, root, group in {people!r}:
    user = User.objects.create(username=name, is_staff=staff, is_superuser=root)
    user.groups.set(Group.objects.filter(name=group))
    print(name, issue_api_key(user=user, name="asks")[1])
    User.objects.filter(pk=user.pk).update(is_active=name != "inactive")
print("bench", issue_bench_token(actor=User.objects.get(username="superuser"))[0])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    env = {"MCP_AUTH": "required", "WRONG_KEYS_PER_MINUTE": "0"}
    with LiveServer(1, env=env) as live:
        yield live
        assert not live.trouble(), live.logs()[-4000:]


@pytest.fixture(scope="module")
def keys(server: LiveServer) -> dict[str, str]:
    """Return the key of each user."""
    told = [
        (name, person.is_staff, person.is_superuser, f"MCP {'administrator' if name == 'member' else name}")
        for name, person in PEOPLE.items()
        if name != "anonymous"
    ]
    lines = server.shell(KEYS.format(people=told)).split("\n")
    return dict(line.split(" ") for line in lines if line)  # type: ignore[misc]  # Two words a line.


def _status(server: LiveServer, method: str, path: str, key: str = "") -> int:
    headers = ACCEPT | ({"Authorization": f"Bearer {key}"} if key else {})
    body = json.dumps(INITIALIZE).encode() if method in ("POST", "PUT", "PATCH") else None
    with RawClient("127.0.0.1", server.ports[0]) as raw:
        answer = raw.open_stream(method, path, headers, body)
        if isinstance(answer, EventStream):
            answer.close()
        return answer.status


def _is_let_in(status: int) -> bool:
    # An accepted request without a session gets another error.
    return status not in (401, 403)


@pytest.mark.parametrize("name", PEOPLE)
def test_responses_match_the_table(name: str, server: LiveServer, keys: dict[str, str]) -> None:
    for way in WAYS:
        status = _status(server, way.method, way.path, keys.get(name, ""))
        assert _is_let_in(status) == way.is_open_to(PEOPLE[name]), (str(way), status)


def test_every_accepted_method_has_a_row(server: LiveServer, keys: dict[str, str]) -> None:
    told = {(way.method, way.path) for way in WAYS if way.level != "anybody"}
    open_to_all = {way.path for way in WAYS if way.level == "anybody"}
    taken = {
        (method, path)
        for path in served() - open_to_all
        for method in METHODS
        if _status(server, method, path, keys["superuser"]) != 405
    }
    assert taken == told


def _is_for_mcp(way: Way) -> bool:
    return way.path == "/mcp" or way.level == "anybody"


def test_bench_token_opens_only_mcp(server: LiveServer, keys: dict[str, str]) -> None:
    for way in WAYS:
        assert _is_let_in(_status(server, way.method, way.path, keys["bench"])) == _is_for_mcp(way), str(way)
    for path in ("/api/", "/api/tools/", "/api/keys/"):
        assert _status(server, "GET", path, keys["bench"]) == 401
    assert _status(server, "GET", "/admin/", keys["bench"]) == 302
