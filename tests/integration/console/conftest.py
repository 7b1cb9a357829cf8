"""A console on an in-memory twin of Redis, users of every kind, and a WebSocket without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import Permission
from django.test import Client

from mcp_app.console.routing import Console
from mcp_app.database import queries
from mcp_app.streams import Streams
from tests.samples.admin_seed import people
from tests.samples.seeded import seeded, seeded_anew, seeded_once

__all__ = ["OpenPage", "Page", "seeded", "seeded_anew", "seeded_once"]

ORIGIN = "http://testserver"


class Page:
    """A page of the console: its connection, the messages it sends and the frames it receives."""

    def __init__(self, console: Any, cookies: str, headers: dict[str, str], path: str) -> None:
        sent = {"host": "testserver", "origin": ORIGIN, "cookie": cookies} | headers
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value],
            "subprotocols": [],
        }
        self._wire = ApplicationCommunicator(console, scope)

    async def open(self) -> bool:
        """Return True if the server accepts the connection."""
        await self._wire.send_input({"type": "websocket.connect"})
        answer = await self._wire.receive_output(10)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, said: Any) -> None:
        text = said if isinstance(said, str) else orjson.dumps(said).decode()
        await self._wire.send_input({"type": "websocket.receive", "text": text})

    async def watch(self, search: str = "", session: str = "") -> dict[str, Any]:
        """Watch messages; return the frame that confirms it."""
        await self.say({"watch": "messages", "search": search, "session": session})
        return await self.until(lambda frame: "watching" in frame)

    async def heard(self) -> dict[str, Any]:
        """Return the next frame, acknowledged; ``{"closed": code}`` if the server closed the connection."""
        message = await self._wire.receive_output(15)
        if message["type"] == "websocket.close":
            return {"closed": message.get("code")}
        frame: dict[str, Any] = orjson.loads(message["text"])
        await self.say({"drawn": frame["frame"]})
        return frame

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first frame for which the condition is true."""
        while True:
            frame = await self.heard()
            if condition(frame) or "closed" in frame:
                return frame

    async def close(self) -> None:
        await self._wire.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._wire.wait(5)


OpenPage = Callable[..., Page]


@pytest.fixture
async def streams() -> Streams:
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
async def console(streams: Streams) -> AsyncIterator[Console]:
    async def connected() -> Streams:
        return streams

    yield Console(connected)
    await asyncio.to_thread(queries.close)


@pytest.fixture
def users(transactional_db: None) -> dict[str, Any]:
    """Create a superuser, staff with view permissions, with message permission only, without permissions,
    and others.
    """
    root, viewer, outsider = people()
    reader = type(root).objects.create_user("reader", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename="view_message"))
    visitor = type(root).objects.create_user("visitor")
    visitor.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    return {"root": root, "viewer": viewer, "outsider": outsider, "reader": reader, "visitor": visitor}


@pytest.fixture
def clients(users: dict[str, Any]) -> dict[str, Client]:
    """Return a logged-in client for each user."""
    found = {}
    for name, user in users.items():
        found[name] = Client()
        found[name].force_login(user, "django.contrib.auth.backends.ModelBackend")
    return found


@pytest.fixture
async def page(console: Console, clients: dict[str, Client]) -> AsyncIterator[OpenPage]:
    """Return a factory of pages: ``page("root", origin="http://elsewhere")``."""
    made: list[Page] = []

    def start(name: str = "root", path: str = "/console/ws", **headers: str) -> Page:
        cookies = clients[name].cookies.output(header="", sep=";").strip() if name else ""
        cookies = "; ".join(part.split(";")[0].strip() for part in cookies.split("\n"))
        made.append(Page(console, cookies, headers, path))
        return made[-1]

    yield start
    for each in made:
        await each.close()
