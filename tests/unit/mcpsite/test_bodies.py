"""Request bodies on any ASGI server: limits on size, time and length, by credential."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.conf import Settings
from mcpsite.http import bodies

MIB = 1024 * 1024
UNKNOWN = Settings().max_unknown_body_bytes
Exchange = Callable[..., "Exchanged"]


class Exchanged:
    """A request to an application that reads the whole body: the body read and the answer."""

    def __init__(
        self, path: str, chunks: list[bytes], headers: dict[bytes, bytes], *, ends: bool = True
    ) -> None:
        self.scope = {"type": "http", "path": path, "http_version": "1.1", "headers": [*headers.items()]}
        self.chunks = chunks
        self.ends = ends
        self.asked = 0
        self.read = b""
        self.whole = False
        self.seen: dict[bytes, bytes] = {}
        self.status = 0
        self.headers: dict[bytes, bytes] = {}

    async def run(self) -> Exchanged:
        await bodies.bounded(self.application, self.scope, self.receive, self.send)
        return self

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self.read += message["body"]
            if not message["more_body"]:
                break
        self.whole = True
        self.seen = dict(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive(self) -> Any:
        self.asked += 1
        if not self.chunks:
            await asyncio.Event().wait()
        return {
            "type": "http.request",
            "body": self.chunks.pop(0),
            "more_body": bool(self.chunks) or not self.ends,
        }

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert not self.status
            self.status, self.headers = message["status"], dict(message["headers"])


@pytest.mark.parametrize(("size", "status"), [(UNKNOWN, 200), (UNKNOWN + 1, 413)])
async def test_anonymous_chunked_body_is_limited(size: int, status: int) -> None:
    chunks = [b"a" * 1_000] * (size // 1_000) + [b"a" * (size % 1_000)]
    found = await Exchanged("/nope", chunks, {b"transfer-encoding": b"chunked"}).run()
    assert found.status == status
    assert len(found.read) <= UNKNOWN
    assert found.headers.get(b"connection") == (None if status == 200 else b"close")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/calls/", b"application/problem+json"),
        ("/oauth/token", b"application/json"),
        ("/", b"text/plain; charset=utf-8"),
    ],
)
async def test_oversized_declared_length_is_refused_before_reading(path: str, kind: bytes) -> None:
    found = await Exchanged(path, [b""], {b"content-length": b"5000000"}).run()
    assert (found.status, found.asked) == (413, 0)
    assert found.headers[b"content-type"] == kind


async def test_incomplete_body_times_out(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "BODY_SECONDS": 0.05}
    found = await Exchanged("/nope", [b"a"], {b"content-length": b"10"}, ends=False).run()
    assert (found.status, found.read, found.whole) == (408, b"a", False)


async def test_chunked_body_gets_content_length_for_django() -> None:
    headers = {b"transfer-encoding": b"chunked", b"trailer": b"x", b"x-other": b"1"}
    found = await Exchanged("/api/calls/", [b"abc", b"de"], headers).run()
    assert found.seen == {b"x-other": b"1", b"content-length": b"5"}
    assert found.scope["headers"] == [*headers.items()]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("who", "path", "size", "status"),
    [
        ("anonymous", "/admin/login/", 1 * MIB, 413),
        ("session", "/admin/mcp_app/resource/add/", 32 * MIB, 200),
        ("session", "/console/", 4 * MIB, 200),
        ("session", "/console/", 4 * MIB + 1, 413),
        ("ended session", "/admin/mcp_app/resource/add/", 1 * MIB, 413),
        ("key", "/api/calls/", 4 * MIB, 200),
        ("key", "/api/calls/", 4 * MIB + 1, 413),
        ("key", "/api/catalogue/import/", 32 * MIB, 200),
        ("key", "/api/catalogue/import/", 34 * MIB, 413),
        ("key", "/api/documents/", 32 * MIB, 200),
        ("wrong key", "/api/catalogue/import/", 1 * MIB, 413),
    ],
)
async def test_authenticated_client_may_send_larger_body(who: str, path: str, size: int, status: int) -> None:
    headers = {b"content-length": b"%d" % size, **await sync_to_async(_credential)(who)}
    found = await Exchanged(path, [b" " * size], headers).run()
    assert found.status == status
    assert found.asked == (1 if status == 200 else 0)


@pytest.mark.django_db(transaction=True)
async def test_login_without_required_second_factor_gets_anonymous_limit(settings: Any) -> None:
    headers = {b"content-length": b"%d" % MIB, **await sync_to_async(_credential)("session")}
    settings.MCP = {**settings.MCP, "SECOND_FACTOR": "everybody"}
    found = await Exchanged("/admin/mcp_app/resource/add/", [b" " * MIB], headers).run()
    assert (found.status, found.asked) == (413, 0)


def _credential(who: str) -> dict[bytes, bytes]:
    if who == "anonymous":
        return {}
    user = get_user_model().objects.create_user("ada")
    if "key" in who:
        _, secret = issue_api_key(user=user, name="tests")
        return {b"authorization": f"Bearer {secret[::-1] if 'wrong' in who else secret}".encode()}
    client = Client()
    client.force_login(user)
    session = client.session.session_key
    if "ended" in who:
        client.logout()
    return {b"cookie": f"other=1; sessionid={session}".encode()}
