"""The standalone stream of a session (GET):

its messages, its recipients, and messages stored without a reader.
"""

from __future__ import annotations

import secrets
from contextlib import closing

import pytest

from tests.clients.raw_http import Answer, EventStream, Mcp
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

WATCHED = "test://watched-resource"
LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")


def refused(found: EventStream | Answer) -> Answer:
    assert isinstance(found, Answer)
    return found


@pytest.mark.requirement("T-GET-01")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/event-stream", 200),
        ("*/*", 200),
        ("text/*", 200),
        ("application/json", 406),
        ("text/html", 406),
    ],
)
def test_get_requires_accepting_event_streams(client: Mcp, accept: str, status: int) -> None:
    headers = {**client.headers(), "Accept": accept}
    opened = client.client.open_stream("GET", "/mcp", headers)
    assert opened.status == status
    if isinstance(opened, EventStream):
        opened.cut()


@pytest.mark.requirement("T-GET-02", "SES-04", "SES-05")
@pytest.mark.parametrize(
    ("session", "status"),
    [(None, 400), ("no-such-session-0123456789", 404), ("x", 404), ("ended", 404)],
)
def test_get_requires_a_live_session(client: Mcp, session: str | None, status: int) -> None:
    if session == "ended":
        client.delete()
    else:
        client.session = session
    answer = refused(client.try_get_stream())
    assert answer.status == status
    assert answer.json()["error"]["code"] == -32600


@pytest.mark.requirement("T-GET-03", "T-GET-05", "T-GET-04")
@pytest.mark.parametrize("version", LEGACY)
def test_notifications_without_a_call_use_the_standalone_stream(
    open_session: OpenSession, admin: OtherProcess, version: str
) -> None:
    client = open_session(version)
    client.call("resources/subscribe", {"uri": WATCHED})
    with client.get_stream() as standalone:
        call = client.open_call("tools/call", {"name": "chatter", "arguments": {"name": "c", "seconds": 1.0}})
        admin.switch("spare", on=False)
        client.tool("touch", uri=WATCHED)
        admin.switch("spare", on=True)
        with call:
            on_call = [message.get("method", "response") for message in call.messages()]
        found = [standalone.message()["method"] for _ in range(2)]
        while not standalone.quiet(0.3):
            found.append("more")
    assert set(on_call) == {"notifications/message", "response"}
    # Both switches may cause one notification (a state) or two; an update is an event and is sent once.
    assert found.count("notifications/resources/updated") == 1
    assert "notifications/tools/list_changed" in found


@pytest.mark.requirement("T-GET-05")
def test_update_is_delivered_to_each_subscriber_once(open_session: OpenSession) -> None:
    first, second, stranger = (open_session(process=number) for number in (0, 1, 0))
    streams = []
    for client in (first, second, stranger):
        streams.append(client.get_stream())
        streams[-1].next()
    for client in (first, second):
        client.call("resources/subscribe", {"uri": WATCHED})
    stranger.tool("touch", uri=WATCHED)
    for stream in streams[:2]:
        notice = stream.message()
        assert notice["method"] == "notifications/resources/updated"
        assert notice["params"] == {"uri": WATCHED}
    assert all(stream.quiet(0.2) for stream in streams)
    for stream in streams:
        stream.close()


@pytest.mark.requirement("T-GET-04")
def test_responses_stay_off_the_standalone_stream(client: Mcp) -> None:
    with client.get_stream() as standalone:
        standalone.next()
        assert client.tool("steps", count=3)["result"]["content"][0]["text"] == "done"
        assert client.call("ping")["result"] == {}
        assert standalone.quiet(0.3)


@pytest.mark.requirement("T-GET-06")
@pytest.mark.parametrize("process", [0, 1])
def test_second_standalone_reader_is_refused(live: LiveServer, client: Mcp, process: int) -> None:
    with client.get_stream() as stream:
        stream.next()
        answer = refused(client.via(live.ports[process]).try_get_stream())
        assert answer.status == 409
        assert "Last-Event-ID" in answer.json()["error"]["message"]
        assert stream.quiet(0.1)


@pytest.mark.requirement("T-GET-06", "SEC-06")
@pytest.mark.parametrize("process", [0, 1])
def test_resuming_reader_replaces_the_older(live: LiveServer, client: Mcp, process: int) -> None:
    client.call("resources/subscribe", {"uri": WATCHED})
    with client.get_stream() as older:
        older.next()
        with client.via(live.ports[process]).get_stream(older.last_event_id) as newer:
            while older.next(2) is not None:  # A retry event precedes the end.
                pass
            client.tool("touch", uri=WATCHED)
            assert newer.message(2)["method"] == "notifications/resources/updated"


@pytest.mark.requirement("T-GET-06")
def test_disconnected_client_may_reconnect_at_once(live: LiveServer, client: Mcp) -> None:
    stream = client.get_stream()
    stream.next()
    for number in range(6):
        # The old connection stays open: the server sees it as alive, as after a cut cable.
        again = client.via(live.ports[number % 2]).get_stream(stream.last_event_id)
        assert again.next() is not None
        stream.close()
        stream = again
    stream.close()


@pytest.mark.requirement("T-GET-07")
def test_stream_ended_by_the_server_has_a_retry_interval(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session()
    with client.get_stream() as stream:
        stream.next()
        with client.via(live.ports[1]).get_stream(stream.last_event_id):
            assert list(stream)[-1].retry is not None


@pytest.mark.requirement("T-GET-09", "SES-11")
@pytest.mark.parametrize("version", LEGACY)
def test_notifications_without_a_reader_wait_for_the_next_reader(
    live: LiveServer, open_session: OpenSession, admin: OtherProcess, version: str
) -> None:
    client = open_session(version)
    client.call("resources/subscribe", {"uri": WATCHED})
    client.tool("touch", uri=WATCHED)
    admin.switch("spare", on=False)
    with closing(client.via(live.ports[1])) as elsewhere:
        for half in (client, elsewhere):
            eventually(lambda at=half: "spare" not in offered(at), 2, "the change is known")  # type: ignore[misc]
        with elsewhere.get_stream() as stream:
            found = sorted(stream.message()["method"] for _ in range(2))
    assert found == ["notifications/resources/updated", "notifications/tools/list_changed"]
    # A later reader, again at the first process, receives nothing.
    with reopened(client) as stream, pytest.raises(TimeoutError):
        stream.message(0.4)
    admin.switch("spare", on=True)


def offered(client: Mcp) -> set[str]:
    return {tool["name"] for tool in client.call("tools/list")["result"]["tools"]}


def reopened(client: Mcp) -> EventStream:
    """Open the standalone stream as soon as the server has noticed that its last reader left."""
    found: list[EventStream | Answer] = []

    def opened() -> bool:
        found.append(client.try_get_stream())
        return isinstance(found[-1], EventStream)

    eventually(opened, 2, "the stream opens again")
    assert isinstance(found[-1], EventStream)
    return found[-1]


@pytest.mark.requirement("LIFE-04")
def test_no_notification_is_sent_before_initialized(
    live: LiveServer, open_session: OpenSession, admin: OtherProcess
) -> None:
    client = open_session(confirm=False)
    with client.via(live.ports[1]).get_stream() as stream:
        stream.next()
        admin.switch("spare", on=False)
        admin.switch("spare", on=True)
        assert stream.quiet(0.5)
        client.notify("notifications/initialized")
        assert stream.message(2)["method"] == "notifications/tools/list_changed"


@pytest.mark.requirement("T-GET-05")
def test_call_notifications_never_reach_another_session(open_session: OpenSession) -> None:
    mine, other = open_session(), open_session()
    marker = secrets.token_hex(4)
    with other.get_stream() as stream:
        stream.next()
        assert mine.tool("steps", count=2, marker=marker)["result"]["content"][0]["text"] == f"{marker}done"
        assert stream.quiet(0.3)
        assert marker.encode() not in stream.raw
