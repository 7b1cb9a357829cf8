"""The ASGI entry point: routing between library and project, and their shared lifespan."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from mcp_app import asgi, servers, tool
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import EMPTY
from mcp_app.models import Tool
from mcp_app.protocol.messages.server import Server
from mcp_app.transports.application import mcp

Message = dict[str, Any]


class Project:
    """A wrapped application that records its input, optionally with its own lifespan."""

    def __init__(self, *, lifespan: str = "", fails: bool = False) -> None:
        self.seen: list[Message] = []
        self.told: list[str] = []
        self._lifespan, self._fails = lifespan, fails

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(dict(scope))
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "http.response.start", "status": 299, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async def _live(self, receive: Any, send: Any) -> None:
        if not self._lifespan:
            raise ValueError("no lifespan here")
        for event in ("lifespan.startup", "lifespan.shutdown"):
            assert (await receive())["type"] == event
            self.told.append(event)
            await send({"type": f"{event}.{'failed' if self._fails else 'complete'}"})


async def asked(application: asgi.Routes, path: str, root: str = "") -> Message:
    """Return the start of the response to a GET."""
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(dict(message))

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "root_path": root,
        "headers": [],
        "query_string": b"",
    }
    await application(scope, receive, send)
    return said[0]


class Lifespan:
    """The server side of lifespan events."""

    def __init__(self, application: asgi.Routes) -> None:
        self._told: asyncio.Queue[Message] = asyncio.Queue()
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        scope = {"type": "lifespan"}
        self.task = asyncio.ensure_future(application(scope, self._told.get, self._said.put))

    async def says(self, event: str) -> str:
        self._told.put_nowait({"type": f"lifespan.{event}"})
        answer = await asyncio.wait_for(self._said.get(), 60)
        return str(answer["type"])


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in asgi.STOPS}
    yield
    mcp.announced = False
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("prefix", "root", "path", "is_ours"),
    [
        ("", "", "/healthz", True),
        ("", "", "/api/orders/", False),
        ("", "", "/healthz/", False),
        ("", "", "/mcp//", False),
        ("", "", "/.well-known/oauth-protected-resource/mcp//", False),
        ("", "/shop", "/shop/healthz", True),
        ("", "/shop", "/healthz", True),  # A server that omits the root from the path.
        ("", "/shop", "/shop/api/", False),
        ("/ai", "", "/ai/healthz", True),
        ("/ai", "", "/healthz", False),
        ("/ai", "/shop", "/shop/ai/healthz", True),
        ("/ai", "", "/aihealthz", False),
    ],
)
async def test_foreign_path_is_passed_to_project_unchanged(
    prefix: str, root: str, path: str, is_ours: bool
) -> None:
    project = Project()
    application = asgi.get_application(project, prefix=prefix)
    assert (await asked(application, path, root))["status"] == (200 if is_ours else 299)
    assert [scope["path"] for scope in project.seen] == ([] if is_ours else [path])


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/.well-known/oauth-protected-resource/mcp"])
@pytest.mark.parametrize(("prefix", "root"), [("", ""), ("/ai", ""), ("/ai", "/shop")])
async def test_trailing_slash_is_accepted(prefix: str, root: str, path: str) -> None:
    project = Project()
    application = asgi.get_application(project, prefix=prefix)
    seen: list[str] = []

    async def route(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    application.routes[path] = route
    await application({"type": "http", "path": f"{root}{prefix}{path}/", "root_path": root}, None, None)
    assert seen == [path]
    assert not project.seen


@pytest.mark.parametrize("prefix", ["ai", "/ai/", "/"])
def test_invalid_prefix_is_rejected(prefix: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="prefix"):
        asgi.get_application(Project(), prefix=prefix)


@pytest.mark.django_db(transaction=True)
async def test_project_lifespan_starts_and_ends_with_library() -> None:
    project = Project(lifespan="own")
    server = Lifespan(asgi.get_application(project))
    assert await server.says("startup") == "lifespan.startup.complete"
    assert project.told == ["lifespan.startup"]
    assert await server.says("shutdown") == "lifespan.shutdown.complete"
    assert project.told == ["lifespan.startup", "lifespan.shutdown"]
    await server.task


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a class of Linux")
@pytest.mark.django_db(transaction=True)
async def test_thread_of_awaited_queries_runs_as_batch() -> None:
    server = Lifespan(asgi.get_application(Project()))
    await server.says("startup")
    assert await sync_to_async(os.sched_getscheduler)(0) == os.SCHED_BATCH
    await server.says("shutdown")
    await server.task


@pytest.mark.django_db(transaction=True)
async def test_project_without_lifespan_is_served() -> None:
    server = Lifespan(asgi.get_application(Project()))
    assert await server.says("startup") == "lifespan.startup.complete"
    assert await server.says("shutdown") == "lifespan.shutdown.complete"
    await server.task


async def test_failing_project_startup_fails_server_startup() -> None:
    server = Lifespan(asgi.get_application(Project(lifespan="own", fails=True)))
    assert await server.says("startup") == "lifespan.startup.failed"
    await server.task


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", asgi.STOPS)
async def test_stop_signal_drains_streams_immediately(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_before: list[int] = []
    signal.signal(number, lambda number, _: asked_before.append(number))
    application = asgi.get_application(Project())
    drained = asyncio.Event()
    monkeypatch.setattr(application, "drain", drained.set)
    server = Lifespan(application)
    assert await server.says("startup") == "lifespan.startup.complete"
    os.kill(os.getpid(), number)
    await asyncio.wait_for(drained.wait(), 30)
    assert asked_before == [number]  # The server's own handler ran as well.
    await server.says("shutdown")
    await server.task


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_developing", [True, False])
async def test_startup_mirrors_missing_tool_in_development_and_warns_otherwise(
    is_developing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with registry.isolated(), override_settings(DEBUG=is_developing):

        @tool
        def forgotten() -> str:
            """A tool."""
            return ""

        server = Lifespan(asgi.get_application(Project()))
        assert await server.says("startup") == "lifespan.startup.complete"
        await server.says("shutdown")
        await server.task
        assert await Tool.objects.filter(name="forgotten").aexists() is is_developing
    assert ("forgotten. Run `manage.py migrate`" in caplog.text) is not is_developing


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "is_ours"),
    [
        ("/mcp/toy", True),
        ("/mcp/toy/", True),
        ("/sse/toy", True),
        ("/mcp/other", False),
        ("/sse/other", False),
    ],
)
async def test_first_request_to_further_server_waits_for_catalogue(
    path: str, is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without lifespan events, the further servers are known only after the first load."""
    toys = {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}
    monkeypatch.setattr(servers, "_providers", [])
    servers.register(lambda: {} if current_snapshot.current() is EMPTY else toys)
    before = current_snapshot.replace(EMPTY)
    project = Project()
    try:
        answer = await asked(asgi.get_application(project), path)
    finally:
        await mcp.close()
        current_snapshot.replace(before)
    assert (answer["status"] != 299, not project.seen) == (is_ours, is_ours)


async def test_health_reports_missing_lifespan() -> None:
    said: list[Message] = []

    async def send(message: Any) -> None:
        said.append(dict(message))

    await asgi.get_application(Project()).routes["/healthz"]({"path": "/healthz"}, None, send)  # type: ignore[arg-type]
    assert b'"lifespan": false' in said[1]["body"]
