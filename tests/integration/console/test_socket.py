"""The console's WebSocket: permissions, closing and frames (S22)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.test import Client

from mcp_app.console import consumer
from mcp_app.oauth.second_factor import gate
from mcp_app.streams import Streams
from tests.integration.console.conftest import OpenPage, Page
from tests.unit.console.lines import encoded, fields

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("name", "sessions", "messages"),
    [
        ("root", True, True),
        ("viewer", True, True),
        ("reader", False, True),
        ("outsider", False, False),
        ("visitor", False, False),
        ("", False, False),
    ],
)
async def test_watching_requires_staff_and_permission(
    name: str, sessions: bool, messages: bool, page: OpenPage
) -> None:
    for said, allowed in (
        ({"watch": "sessions"}, sessions),
        ({"watch": "messages", "search": "", "session": ""}, messages),
    ):
        opened = page(name)
        assert await opened.open() is (sessions or messages)
        if sessions or messages:
            await opened.say(said)
            heard = await opened.until(lambda frame: "watching" in frame)
            assert ("watching" in heard) is allowed
            assert allowed or heard == {"closed": 4403}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"origin": "http://testserver:9999"},
        {"origin": "http://testserver.elsewhere.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://[::1"},
        {"origin": "http://evil.example", "host": "evil.example"},
        {"origin": "file://testserver"},
    ],
    ids=str,
)
async def test_foreign_origin_is_rejected(headers: dict[str, str], page: OpenPage) -> None:
    assert not await page("root", **headers).open()


async def test_other_websocket_paths_are_rejected(page: OpenPage) -> None:
    assert not await page("root", path="/console/ws/").open()
    assert not await page("root", path="/mcp").open()


async def test_trusted_origin_is_accepted(page: OpenPage, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://mcp.example.com"]
    assert await page("root", origin="https://mcp.example.com").open()


async def _log_out(client: Client, _: Any) -> None:
    await sync_to_async(client.logout)()


async def _lose_the_right(_: Client, user: Any) -> None:
    await user.user_permissions.aclear()


async def _be_deactivated(_: Client, user: Any) -> None:
    user.is_active = False
    await user.asave()


async def _leave_the_staff(_: Client, user: Any) -> None:
    user.is_staff = False
    await user.asave()


async def _change_the_password(_: Client, user: Any) -> None:
    user.set_password("another one altogether")
    await user.asave()


@pytest.mark.parametrize(
    "how", [_log_out, _lose_the_right, _be_deactivated, _leave_the_staff, _change_the_password]
)
async def test_connection_closes_when_its_user_loses_access(
    how: Any,
    page: OpenPage,
    clients: dict[str, Client],
    users: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.05)
    opened = page("viewer")
    assert await opened.open()
    assert "watching" in await opened.watch()
    await how(clients["viewer"], users["viewer"])
    assert await opened.until(lambda frame: False) == {"closed": 4403}


@pytest.mark.parametrize(("name", "required"), [("viewer", "staff"), ("root", "everybody")])
async def test_required_second_factor_closes_password_logins(
    name: str,
    required: str,
    page: OpenPage,
    clients: dict[str, Client],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.05)
    before = page(name)
    assert await before.open()
    assert "watching" in await before.watch()
    settings.MCP = {**settings.MCP, "SECOND_FACTOR": required}
    assert await before.until(lambda frame: False) == {"closed": 4403}
    assert not await page(name).open()
    session = await sync_to_async(lambda: clients[name].session)()
    await session.aset(gate.PASSED, True)
    await session.asave()
    assert await page(name).open()


MESSAGES = {"watch": "messages", "search": "", "session": ""}
# By subject: the request to watch it, and the frame members that show it.
SUBJECTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "messages": (MESSAGES, {"rows"}),
    "one session": ({**MESSAGES, "session": "t"}, {"rows", "live", "ended"}),
    "sessions": ({"watch": "sessions"}, {"seen", "opened", "live", "ended"}),
    "needs": ({"watch": "needs"}, {"needs"}),
}


async def _watch(opened: Page, subject: str) -> list[dict[str, Any]]:
    """Watch a subject; return all frames up to its confirmation."""
    await opened.say(SUBJECTS[subject][0])
    frames = [await opened.heard()]
    while "watching" not in frames[-1] and "closed" not in frames[-1]:
        frames.append(await opened.heard())
    return frames


def _shown(frames: list[dict[str, Any]]) -> set[str]:
    return {name for frame in frames for name, value in frame.items() if value}


@pytest.mark.parametrize(("before", "after"), list(permutations(SUBJECTS, 2)))
async def test_page_receives_nothing_of_its_previous_subject(
    before: str, after: str, page: OpenPage, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its permission is no longer checked: messages had continued after the permission was removed."""
    monkeypatch.setattr(consumer, "NEEDS_SECONDS", 0.02)
    moved, witness = page("root"), page("root")
    assert await moved.open()
    assert await witness.open()
    await witness.watch()
    await _watch(moved, before)
    await _watch(moved, after)
    await streams.messages.push(encoded(fields(request_id="1", session="t")))
    assert (await witness.until(lambda frame: frame.get("rows")))["rows"]
    shown = _shown(await _watch(moved, after))
    assert not shown & (SUBJECTS[before][1] - SUBJECTS[after][1])


async def test_removed_permission_stops_messages_of_a_previous_subject(
    page: OpenPage, users: dict[str, Any], streams: Streams
) -> None:
    """A page that watches a less restricted subject keeps its connection, and leaves the previous feed."""
    viewer = users["viewer"]
    decides = await Permission.objects.aget(codename="decide_call", content_type__app_label="mcp_app")
    await viewer.user_permissions.aadd(decides)
    moved, witness = page("viewer"), page("root")
    assert await moved.open()
    assert await witness.open()
    await witness.watch()
    await _watch(moved, "messages")
    await _watch(moved, "needs")
    await viewer.user_permissions.aset([decides])
    await streams.messages.push(encoded(fields(request_id="1")))
    await witness.until(lambda frame: frame.get("rows"))
    assert _shown(await _watch(moved, "needs")) & {"rows", "closed"} == set()
    assert (await _watch(moved, "messages"))[-1] == {"closed": 4403}


def test_access_is_rechecked_every_15_seconds_at_most() -> None:
    assert consumer.CHECK_SECONDS <= 15


async def test_messages_are_filtered_by_the_server(page: OpenPage, streams: Streams) -> None:
    everything, narrowed, one = page("root"), page("viewer"), page("root")
    for opened in (everything, narrowed, one):
        assert await opened.open()
    assert (await everything.watch())["watching"] == ""
    assert (await narrowed.watch("status:error"))["problems"] == []
    await one.watch("", "t")
    await streams.messages.push(
        encoded(
            fields(request_id="1"),
            fields(request_id="2", outcome="tool_error"),
            fields(request_id="3", session="t"),
        )
    )
    for opened, expected in ((everything, ["1", "2", "3"]), (narrowed, ["2"]), (one, ["3"])):
        frame = await opened.until(lambda frame: frame.get("rows"))
        assert [row["id"] for row in frame["rows"]] == expected


async def test_new_search_applies_on_the_same_connection(page: OpenPage, streams: Streams) -> None:
    opened = page("root")
    await opened.open()
    await opened.watch("id:1")
    await opened.watch("id:2")
    await streams.messages.push(encoded(fields(request_id="1"), fields(request_id="2")))
    frame = await opened.until(lambda frame: frame.get("rows"))
    assert [row["id"] for row in frame["rows"]] == ["2"]


async def test_invalid_search_is_explained_and_shows_no_messages(page: OpenPage, streams: Streams) -> None:
    opened, witness = page("root"), page("root")
    await opened.open()
    await witness.open()
    await witness.watch()
    assert "Unknown search term" in (await opened.watch("tol:echo"))["problems"][0]
    await streams.messages.push(encoded(fields()))
    await witness.until(lambda frame: frame.get("rows"))
    assert (await opened.watch("tool:echo"))["rows"] == []


async def test_skipped_messages_are_counted(page: OpenPage, streams: Streams) -> None:
    opened = page("root")
    await opened.open()
    await opened.watch()
    await streams.messages.push(encoded(fields(), before=0))
    await streams.messages.push(encoded(fields(), before=6))
    skipped = rows = 0
    while rows < 2:
        frame = await opened.heard()
        skipped, rows = skipped + frame["skipped"], rows + len(frame["rows"])
    assert skipped == 5


@pytest.mark.parametrize(
    "said",
    [
        "not json",
        "[]",
        "1",
        '{"watch": "everything"}',
        '{"watch": "messages", "search": 1, "session": ""}',
        '{"watch": "messages", "search": "", "session": "%s"}' % ("s" * 65),
        '{"watch": "messages", "search": "%s", "session": ""}' % ("s" * 301),
        '{"drawn": "1"}',
        "x" * 3_000,
        '{"a":' * 400,
    ],
    ids=lambda said: said[:30],
)
async def test_invalid_message_closes_the_connection(said: str, page: OpenPage) -> None:
    opened = page("root")
    assert await opened.open()
    await opened.say(said)
    assert await opened.heard() == {"closed": 4400}


async def test_too_many_messages_close_the_connection(page: OpenPage) -> None:
    opened = page("root")
    assert await opened.open()
    for _ in range(consumer.MESSAGES_PER_SECOND + 1):
        await opened.say({"drawn": 1})
    assert await opened.heard() == {"closed": 4429}
