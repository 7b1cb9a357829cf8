"""The servers of the HTTP tests, each started once, and sessions on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.http.app.mcp import DELIBERATE
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer

CAPABILITIES: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}
OpenSession = Callable[..., Mcp]


def check_logs(server: LiveServer) -> None:
    """Assert that the server logged no error except those that tests provoke."""
    logs = server.logs()
    unforeseen = [line for line in server.trouble() if "Traceback" not in line]
    assert not unforeseen
    assert logs.count("Traceback (most recent call last)") == logs.count(f"RuntimeError: {DELIBERATE}"), logs


def opener(server: LiveServer, stack: ExitStack) -> OpenSession:
    """Return a factory of sessions: ``open_session(version=…, process=0, token=None, capabilities=…)``."""

    def open_session(
        version: str = "2025-11-25",
        process: int = 0,
        token: str | None = None,
        capabilities: dict[str, Any] | None = None,
        *,
        confirm: bool = True,
    ) -> Mcp:
        client = stack.enter_context(closing(server.mcp(process, token)))
        client.initialize(version, CAPABILITIES if capabilities is None else capabilities, confirm=confirm)
        return client

    return open_session


@pytest.fixture(scope="package")
def live() -> Iterator[LiveServer]:
    """Start two web processes without authentication."""
    with LiveServer(2, settings="tests.integration.http.settings") as server:
        yield server
        check_logs(server)


@pytest.fixture(scope="package")
def strict() -> Iterator[LiveServer]:
    """Start two web processes that require authentication, with low limits and short timeouts."""
    with LiveServer(2, settings="tests.integration.http.strict_settings") as server:
        yield server
        check_logs(server)


@pytest.fixture(scope="package")
def admin(live: LiveServer) -> Iterator[OtherProcess]:
    """Start a third process of the ``live`` installation."""
    with OtherProcess(live) as process:
        yield process


@pytest.fixture(scope="package")
def keys(strict: LiveServer) -> Iterator[OtherProcess]:
    """Start a third process of the ``strict`` installation."""
    with OtherProcess(strict) as process:
        yield process


@pytest.fixture
def open_session(live: LiveServer) -> Iterator[OpenSession]:
    with ExitStack() as stack:
        yield opener(live, stack)


@pytest.fixture
def open_strict(strict: LiveServer) -> Iterator[OpenSession]:
    with ExitStack() as stack:
        yield opener(strict, stack)


@pytest.fixture
def client(open_session: OpenSession) -> Mcp:
    """Open a session of the newest legacy revision at the first process."""
    return open_session()


@pytest.fixture
def key(keys: OtherProcess, request: pytest.FixtureRequest) -> str:
    """Issue an API key for one test, so that other tests do not count against its limits."""
    return keys.issue_key(request.node.nodeid[-100:])
