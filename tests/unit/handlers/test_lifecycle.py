"""initialize: required members, the answer, and the stored part of the client's request."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.handlers.desk import CLIENT, Desk

HELLO: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


@pytest.mark.requirement("LIFE-01")
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"protocolVersion": None}, "protocolVersion"),
        ({"protocolVersion": 1}, "protocolVersion"),
        ({"capabilities": None}, "capabilities"),
        ({"capabilities": []}, "capabilities"),
        ({"clientInfo": None}, "clientInfo"),
        ({"clientInfo": "x"}, "clientInfo"),
        ({"clientInfo": {"name": "x"}}, "clientInfo"),
        ({"clientInfo": {"name": 1, "version": "1"}}, "clientInfo"),
    ],
)
async def test_invalid_initialize_is_rejected_and_opens_no_session(
    changes: dict[str, Any], word: str, desk: Desk
) -> None:
    answer = await desk.initialize({**HELLO, **changes})
    assert answer["error"]["code"] == -32602
    assert word in answer["error"]["message"]
    assert desk.opened is None


@pytest.mark.requirement("VER-02")
@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ],
)
async def test_protocol_version_is_negotiated(asked: str, given: str, desk: Desk) -> None:
    answer = await desk.initialize({**HELLO, "protocolVersion": asked})
    assert answer["result"]["protocolVersion"] == given
    assert desk.opened is not None
    assert (await desk.process.sessions.load(desk.opened, "loopback")).version == given


async def test_server_info_has_members_of_revision(streams: Streams) -> None:
    desk = Desk(streams, server_title="T", public_url="https://a.example", instructions="Be kind.")
    newest = (await desk.initialize(HELLO))["result"]
    oldest = (await desk.initialize({**HELLO, "protocolVersion": "2025-03-26"}))["result"]
    assert newest["serverInfo"].keys() == {"name", "version", "title", "websiteUrl"}
    assert oldest["serverInfo"].keys() == {"name", "version"}
    assert newest["instructions"] == oldest["instructions"] == "Be kind."


async def test_unbounded_client_data_is_not_stored_in_session(desk: Desk) -> None:
    large = {"x": "y" * 100_000}
    capabilities = {
        "roots": {"listChanged": True, **large},
        "sampling": {"tools": large, "context": 7, "other": large},
        "elicitation": large,
        "experimental": large,
        "own": large,
    }
    info = {"name": "n" * 5000, "version": "v" * 5000, "title": "t" * 5000, "icons": [large], "more": large}
    await desk.initialize({**HELLO, "capabilities": capabilities, "clientInfo": info})
    stored = await desk.streams.sessions.load(desk.opened or "")
    assert stored is not None
    assert sum(map(len, stored.values())) < 1500
    assert orjson.loads(stored["capabilities"]) == {"roots": {}, "sampling": {"tools": {}}, "elicitation": {}}
    session = await desk.process.sessions.load(desk.opened or "", "loopback")
    assert session.capabilities.roots
    assert session.capabilities.sampling_tools
    assert not session.capabilities.sampling_context
    assert session.capabilities.elicitation_form


async def test_initialize_without_redis_returns_503(desk: Desk) -> None:
    async def away(*args: Any) -> None:
        raise StreamsUnavailable("away")

    desk.streams.sessions.create = away  # type: ignore[method-assign]
    answer = await desk.initialize(HELLO)
    assert (desk.status, answer["error"]["code"], desk.opened) == (503, -32603, None)


@pytest.mark.requirement("SES-10")
async def test_too_many_sessions_return_429(streams: Streams) -> None:
    desk = Desk(streams, max_sessions_per_principal=1)
    await desk.initialize(HELLO)
    answer = await desk.initialize(HELLO)
    assert (desk.status, answer["id"], desk.opened) == (429, 1, None)


@pytest.mark.requirement("PING-01")
async def test_ping_returns_empty_result(desk: Desk) -> None:
    assert (await desk.request("ping"))["result"] == {}


@pytest.mark.requirement("LIFE-03")
async def test_initialized_notification_is_idempotent(desk: Desk) -> None:
    assert not desk.session.initialized
    await desk.notify("notifications/initialized")
    await desk.notify("notifications/initialized")
    assert desk.session.initialized
    assert (await desk.streams.sessions.load(desk.session.id) or {})["initialized"] == "1"
