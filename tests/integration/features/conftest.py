"""One installation with two web processes for all feature tests, and clients for it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.features.another_process import AnotherProcess
from tests.integration.features.conversation import VERSIONS, Client, Reply
from tests.servers.live import TROUBLE, LiveServer, eventually

SETTINGS = "tests.integration.features.settings"
TIGHT = {
    "PAGE_SIZE": 2,
    "CLIENT_REQUEST_SECONDS": 1.0,
    "MAX_SUBSCRIPTIONS": 3,
    "LOG_MESSAGES_PER_CALL": 20,
    "ANSWER_CANCELLED": False,
}
KEYS = """
    from django.contrib.auth.models import Permission, User
    from mcp_app.auth.api_keys import issue_api_key

    result = {}
    for name in ("reader", "stranger"):
        user = User.objects.create_user(name)
        if name == "reader":
            user.user_permissions.add(Permission.objects.get(codename="view_group"))
        result[name] = issue_api_key(user=user, name="features")[1]
"""
Connect = Callable[..., Client]


def unexplained(server: LiveServer) -> list[str]:
    """Return unexpected lines of the logs; failures of the test tools are logged as incidents."""
    lines = server.logs().splitlines()
    return [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if any(mark in line for mark in TROUBLE) and "Incident" not in before
    ]


def connector(server: LiveServer) -> Iterator[Connect]:
    """Yield a factory of clients with open sessions, and close them at the end."""
    opened: list[Client] = []

    def connect(
        version: str = VERSIONS[-1],
        capabilities: dict[str, Any] | None = None,
        *,
        process: int = 0,
        token: str | None = None,
        replies: dict[str, Reply] | None = None,
        confirm: bool = True,
    ) -> Client:
        client = Client.at(server.ports[process], token=token, replies=replies or {})
        assert isinstance(client, Client)
        opened.append(client)
        return client.open(version, capabilities, confirm=confirm)

    yield connect
    for client in opened:
        client.delete()
        client.close()


@pytest.fixture(scope="package")
def server() -> Iterator[LiveServer]:
    """Start web processes A and B with ordinary limits."""
    with LiveServer(2, settings=SETTINGS) as running:
        yield running
        assert not unexplained(running)


@pytest.fixture(scope="package")
def tight() -> Iterator[LiveServer]:
    """Start web processes A and B with small pages and short timeouts."""
    with LiveServer(2, settings=SETTINGS, env={"FEATURES_MCP": json.dumps(TIGHT)}) as running:
        yield running
        assert not unexplained(running)


@pytest.fixture(scope="package")
def operator(server: LiveServer) -> Iterator[AnotherProcess]:
    """Start a third process of the same installation."""
    made = AnotherProcess(server)
    yield made
    made.close()


@pytest.fixture(scope="package")
def keys(operator: AnotherProcess) -> dict[str, str]:
    """Issue API keys: ``reader`` has the permission of the restricted entries, ``stranger`` does not."""
    found: dict[str, str] = operator.run(KEYS)
    return found


@pytest.fixture(scope="package")
def tight_keys(tight: LiveServer) -> dict[str, str]:
    """Return ``keys`` for the installation with small limits."""
    made = AnotherProcess(tight)
    found: dict[str, str] = made.run(KEYS)
    made.close()
    return found


def settle(operator: AnotherProcess, connect: Connect) -> None:
    """Wait until every process serves the newest catalogue, by adding and deleting a last entry."""
    mark = f"mark-{secrets.token_hex(4)}"
    sides = [connect(process=process) for process in (0, 1)]

    def seen() -> list[bool]:
        return [mark in [entry["name"] for entry in side.listed("prompts/list")] for side in sides]

    operator.run("services.save_prompt(actor=None, name=name, template='Hi')", name=mark)
    eventually(lambda: all(seen()), what="the mark's arrival")
    operator.run("services.delete_entry(entry=Prompt.objects.get(name=name), actor=None)", name=mark)
    eventually(lambda: not any(seen()), what="the mark's departure")


@pytest.fixture
def connect(server: LiveServer) -> Iterator[Connect]:
    """``connect(version, capabilities)`` opens a session at process A (or ``process=1``)."""
    yield from connector(server)


@pytest.fixture
def connect_tight(tight: LiveServer) -> Iterator[Connect]:
    """Return ``connect`` for the installation with small limits."""
    yield from connector(tight)


@pytest.fixture(params=VERSIONS)
def client(request: pytest.FixtureRequest, connect: Connect) -> Client:
    """Open a session of each supported revision."""
    return connect(request.param)
