"""Sessions: creation, ownership, visibility across processes, and end."""

from __future__ import annotations

import base64
import time
from contextlib import closing

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import Answer, EventStream, Mcp
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")


def statuses(client: Mcp) -> dict[str, int]:
    """Return the status of each HTTP method for this session."""
    stream = client.try_get_stream()
    if isinstance(stream, EventStream):
        stream.cut()
    return {
        "GET": stream.status,
        "POST": client.post(client.request_message("ping")).status,
        "notification": client.notify("notifications/initialized").status,
        "response": client.respond("x", {}).status,
        "DELETE": client.delete().status,
    }


def ledger(live: LiveServer) -> list[str]:
    path = live.folder / "data" / "ledger"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.requirement("SES-01")
@pytest.mark.parametrize("version", LEGACY)
def test_only_the_initialize_response_sets_the_session_id(open_session: OpenSession, version: str) -> None:
    client = open_session(version)
    assert client.session
    for answer in (
        client.post(client.request_message("tools/list")),
        client.notify("notifications/initialized"),
        client.post(b"{"),
    ):
        assert "mcp-session-id" not in answer.headers


@pytest.mark.requirement("SES-02", "SES-03")
def test_session_ids_are_visible_ascii_unique_and_random(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session()
    found = []
    for _ in range(150):
        client.initialize(confirm=False)
        found.append(client.session or "")
        client.delete()
    assert len(set(found)) == 150
    assert all(0x21 <= ord(character) <= 0x7E for session in found for character in session)
    # 192 random bits each; over all ids every bit takes both values.
    raw = [base64.urlsafe_b64decode(session) for session in found]
    assert {len(value) for value in raw} == {24}
    for bit in range(192):
        ones = sum(value[bit // 8] >> bit % 8 & 1 for value in raw)
        assert 0 < ones < 150


@pytest.mark.requirement("SES-04", "LIFE-05")
@pytest.mark.parametrize("method", ["ping", "tools/list", "tools/call", "notifications/initialized"])
def test_requests_without_session_id_return_400(client: Mcp, method: str) -> None:
    client.session = None
    sent = client.notify(method) if "notif" in method else client.post(client.request_message(method))
    assert sent.status == 400
    assert sent.json()["error"]["code"] == -32600
    assert client.delete().status == 400


@pytest.mark.requirement("SES-05", "SES-06", "LIFE-10")
@pytest.mark.parametrize("process", [0, 1])
def test_ended_session_returns_404_for_every_method_and_process(
    live: LiveServer, client: Mcp, process: int
) -> None:
    assert client.delete().status == 200
    with closing(client.via(live.ports[process])) as elsewhere:
        assert set(statuses(elsewhere).values()) == {404}


@pytest.mark.requirement("SES-05")
@pytest.mark.parametrize(
    "session", ["A" * 32, "short", "A" * 300, "%00%00%00%00%00%00%00%00%00", "a b c d e f g h i j"]
)
def test_unknown_session_returns_404_for_every_method(client: Mcp, session: str) -> None:
    client.session = session
    assert set(statuses(client).values()) == {404}


@pytest.mark.requirement("SES-07")
def test_ending_a_session_ends_its_streams_and_calls_everywhere(live: LiveServer, client: Mcp) -> None:
    elsewhere = client.via(live.ports[1])
    call = {"name": "hold", "arguments": {"name": "ended-session", "seconds": 20}}
    with client.get_stream() as standalone, elsewhere.open_call("tools/call", call) as running:
        standalone.next()
        eventually(lambda: "start ended-session" in ledger(live), 2, "the tool starts")
        started = time.monotonic()
        assert client.delete().status == 200
        for stream in (standalone, running):
            while stream.next(1 + SLACK) is not None:
                pass
        assert time.monotonic() - started < 1 + SLACK
        assert set(statuses(elsewhere).values()) == {404}
    eventually(lambda: "cancelled ended-session" in ledger(live), 1, "the tool stops")
    elsewhere.close()


@pytest.mark.requirement("SES-07")
def test_ended_session_leaves_only_its_tombstone_in_redis(client: Mcp, admin: OtherProcess) -> None:
    client.call("resources/subscribe", {"uri": "test://watched-resource"})
    client.tool("steps", count=2)
    code = (
        "import redis\n"
        "from mcp_app import conf\n"
        "store = redis.Redis.from_url(conf.get().redis_url)\n"
        "result = {key.decode(): store.type(key).decode() for key in store.scan_iter(match=f'*{session}*')}\n"
        "ended = [key for key in result if result[key] == 'hash' and store.hexists(key, 'ended')]\n"
        "bounded = all(store.ttl(key) > 0 for key in result)\n"
        "result = {'keys': len(result), 'ended': len(ended), 'bounded': bounded}"
    )
    before = admin.run(code, session=client.session)
    assert before["keys"] > 1
    assert before["bounded"]
    client.delete()
    assert admin.run(code, session=client.session) == {"keys": 1, "ended": 1, "bounded": True}


@pytest.mark.requirement("SES-08", "AUTH-06")
def test_session_id_without_the_credential_returns_401(open_strict: OpenSession, key: str) -> None:
    client = open_strict(token=key)
    client.token = None
    assert set(statuses(client).values()) == {401}


@pytest.mark.requirement("SES-09", "SEC-06")
@pytest.mark.parametrize("process", [0, 1])
def test_session_of_another_principal_returns_404(
    strict: LiveServer, open_strict: OpenSession, keys: OtherProcess, key: str, process: int
) -> None:
    owner = open_strict(token=key)
    with owner.open_call("tools/call", {"name": "steps", "arguments": {"count": 2}}) as stream:
        stream.messages()
    stranger = owner.via(strict.ports[process])
    stranger.token = keys.issue_key("stranger")
    assert set(statuses(stranger).values()) == {404}
    resumed = stranger.try_get_stream(stream.last_event_id)
    assert isinstance(resumed, Answer)
    assert resumed.status == 404
    # The same response as for an id that never existed, so nothing is revealed.
    invented = owner.via(strict.ports[process])
    invented.token, invented.session = stranger.token, "A" * 32
    assert resumed.body == _body(invented.try_get_stream())
    assert owner.call("ping")["result"] == {}
    stranger.close()


def _body(found: EventStream | Answer) -> bytes:
    assert isinstance(found, Answer)
    return found.body


@pytest.mark.requirement("SES-09")
def test_two_keys_of_one_user_are_two_principals(
    open_strict: OpenSession, keys: OtherProcess, key: str
) -> None:
    mine, other = keys.issue_key("twice"), keys.issue_key("twice")
    client = open_strict(token=mine)
    client.token = other
    assert client.post(client.request_message("ping")).status == 404


@pytest.mark.requirement("SES-10")
def test_idle_session_expires_unless_a_stream_is_open(open_strict: OpenSession, key: str) -> None:
    idle, listening = open_strict("2025-06-18", token=key), open_strict("2025-06-18", token=key)
    begun = time.monotonic()
    with listening.get_stream() as stream:
        # Sessions expire after four seconds without use here.
        while time.monotonic() - begun < 5.2:
            assert stream.quiet(0.2)
        assert idle.post(idle.request_message("ping")).status == 404
        assert listening.call("ping")["result"] == {}


@pytest.mark.requirement("SES-10", "SEC-07")
def test_sessions_per_principal_are_limited(open_strict: OpenSession, key: str) -> None:
    sessions = [open_strict(token=key, process=number % 2) for number in range(4)]
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    client = sessions[0]
    refused = client.post(client.request_message("initialize", params))
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "DELETE" in refused.json()["error"]["message"]
    sessions[3].delete()
    assert client.post(client.request_message("initialize", params)).status == 200


@pytest.mark.requirement("SES-10", "SES-11")
def test_log_level_set_at_one_process_applies_at_the_other(
    live: LiveServer, open_session: OpenSession
) -> None:
    client = open_session()
    elsewhere = client.via(live.ports[1])
    assert elsewhere.tool("test_logging_tool")["result"]["content"][0]["text"] == "logged"
    assert [message["params"]["level"] for message in elsewhere.received] == ["info", "warning"]
    client.call("logging/setLevel", {"level": "debug"})
    elsewhere.received.clear()

    def at_every_level() -> bool:
        elsewhere.received.clear()
        elsewhere.tool("test_logging_tool")
        return [message["params"]["level"] for message in elsewhere.received] == ["debug", "info", "warning"]

    eventually(at_every_level, 1, "the level set at one process holds at the other")
    elsewhere.close()


@pytest.mark.requirement("SES-12", "LIFE-07")
@pytest.mark.parametrize("beside", ["a living session", "an ended session", "an unknown session"])
def test_initialize_with_a_session_id_opens_a_new_session(client: Mcp, beside: str) -> None:
    old = client.session
    if beside == "an ended session":
        client.delete()
    sent = old if "unknown" not in beside else "B" * 32
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    answer = client.post(client.request_message("initialize", params), Mcp_Session_Id=sent or "")
    assert answer.status == 200
    assert answer.headers["mcp-session-id"] not in (old, sent)
    if beside == "a living session":
        assert client.call("ping")["result"] == {}


def test_ended_session_returns_404_at_a_busy_other_process(
    live: LiveServer, open_session: OpenSession
) -> None:
    for _ in range(10):
        client = open_session()
        elsewhere = client.via(live.ports[1])
        assert elsewhere.call("ping")["result"] == {}
        client.delete()
        ended = time.monotonic()
        seen = []
        while (status := elsewhere.post(elsewhere.request_message("tools/list")).status) != 404:
            seen.append(status)
            assert time.monotonic() - ended < 1 + SLACK
        assert set(seen) <= {200}
        assert client.post(client.request_message("ping")).status == 404
        elsewhere.close()


def test_short_sessions_are_recorded_as_opened_confirmed_and_ended(
    live: LiveServer, admin: OtherProcess
) -> None:
    with closing(live.mcp()) as client:
        sessions = []
        for _ in range(20):
            client.initialize()
            sessions.append(client.session)
            assert client.delete().status == 200
        client.initialize()
        sessions.append(client.session)
    record = f"""
from mcp_app.models import Session
from mcp_app.message_log.writer import drain_once
from mcp_app.streams.stores.message_queue import SyncMessageQueue
queue = SyncMessageQueue.connect()
while drain_once(queue): pass
queue.close()
rows = Session.objects.in_bulk({sessions!r})
result = [[rows[each].fields["initialized"], rows[each].end_reason] for each in {sessions!r} if each in rows]
"""
    expected = [["1", "ended by the client"]] * 20 + [["1", ""]]
    eventually(lambda: admin.run(record) == expected, 10, "all of them are on record")
