"""Streams dropped and resumed at the other process: every event once, in order, to its owner only."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app.protocol.http import event_id
from tests.clients.raw_http import Answer, Mcp, events_of
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

STEPS = 10
LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
EXPECTED = [*(f"{number} Größe 😀" for number in range(1, STEPS + 1)), "done"]
Event = tuple[str, str]


def call_of(count: int = STEPS, delay: float = 0.01, marker: str = "") -> dict[str, Any]:
    return {"name": "steps", "arguments": {"count": count, "delay_seconds": delay, "marker": marker}}


def told(raw: bytes) -> list[Event]:
    """Return id and content of each event with data in these bytes of a stream."""
    found = []
    for event in events_of(raw):
        if event.data:
            message = json.loads(event.data)
            text = (
                message["params"]["data"] if "params" in message else message["result"]["content"][0]["text"]
            )
            found.append((str(event.id), str(text)))
    return found


def last_id(raw: bytes) -> str | None:
    return next((event.id for event in reversed(events_of(raw)) if event.id), None)


def follow(client: Mcp, ports: Iterator[int], cuts: Iterator[int], call: dict[str, Any]) -> list[Event]:
    """Call, read this many bytes of each connection, cut it, resume at the next port; return all events
    with data.

    A connection that ends before its cut is the last one.
    """
    stream = client.open_call("tools/call", call)
    found: list[Event] = []
    position: str | None = None
    while True:
        size = next(cuts)
        with stream:
            got = stream.read_bytes(size)[:size] if size else b""
            ended = stream.ended and got == stream.raw
            stream.cut()
        found += told(got)
        if ended:
            return found
        position = last_id(got) or position
        stream = client.via(next(ports)).get_stream(position)


def alternating(live: LiveServer) -> Iterator[int]:
    while True:
        yield live.ports[1]
        yield live.ports[0]


@pytest.mark.requirement("T-RES-03", "T-RES-04", "T-RES-06", "SES-11")
@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("kept", range(STEPS + 2))
def test_stream_dropped_after_any_event_is_resumed_at_the_other_process(
    live: LiveServer, open_session: OpenSession, version: str, kept: int
) -> None:
    client = open_session(version)
    found: list[Event] = []
    with client.open_call("tools/call", call_of()) as stream:
        # Before 2025-11-25, a stream cannot be resumed until its first event has given an id.
        while len(found) < max(kept, version < "2025-11-25"):
            event = stream.next()
            assert event is not None
            found += told(b"id: %b\ndata: %b\n\n" % (str(event.id).encode(), event.data or b""))
        position = stream.last_event_id or str(stream.next().id)  # type: ignore[union-attr]
        stream.cut()
    with client.via(live.ports[1]).get_stream(position) as resumed:
        resumed.messages()
        found += told(resumed.raw)
    assert [text for _, text in found] == EXPECTED
    assert len({identifier for identifier, _ in found}) == len(EXPECTED)


@pytest.mark.requirement("T-RES-06", "T-RES-03")
@pytest.mark.parametrize("seed", range(8))
def test_stream_cut_at_random_bytes_loses_and_repeats_no_event(
    live: LiveServer, client: Mcp, seed: int
) -> None:
    # The first cut lies behind the priming event; others may fall inside ids, lines and characters.
    dice = random.Random(seed)
    cuts = iter([dice.randint(70, 400), *(dice.randint(0, 700) for _ in range(15)), 1_000_000])
    found = follow(client, alternating(live), cuts, call_of(delay=0.02))
    assert [text for _, text in found] == EXPECTED


def test_900_events_survive_60_cuts_in_order(live: LiveServer, client: Mcp) -> None:
    dice = random.Random(17)
    cuts = iter([dice.randint(100, 6_000) for _ in range(60)] + [10_000_000])
    found = follow(client, alternating(live), cuts, call_of(900, 0.0))
    assert [text for _, text in found] == [*(f"{number} Größe 😀" for number in range(1, 901)), "done"]
    assert len({identifier for identifier, _ in found}) == 901


@pytest.mark.requirement("T-RES-01", "T-RES-02")
def test_event_ids_are_unique_and_contain_stream_and_position(client: Mcp) -> None:
    streams = [client.open_call("tools/call", call_of(5, 0.02, f"{name} ")) for name in "abc"]
    seen: list[event_id.EventId] = []
    for stream in streams:
        with stream:
            seen += [event_id.parse(str(event.id)) for event in stream]
    assert len(seen) == len(set(seen)) == 3 * 7
    assert len({position.stream for position in seen}) == 3
    for start in range(0, 21, 7):
        assert [position.offset for position in seen[start : start + 7]] == list(range(7))


@pytest.mark.requirement("T-RES-03", "T-GET-05")
def test_resumed_stream_contains_only_its_own_events(live: LiveServer, client: Mcp) -> None:
    one, other = (client.open_call("tools/call", call_of(6, 0.03, f"{name} ")) for name in ("one", "other"))
    for stream in (one, other):
        stream.next()
    position = one.last_event_id
    one.cut()
    with client.via(live.ports[1]).get_stream(position) as resumed:
        resumed.messages()
    with other:
        other.messages()
    assert all(text.startswith("one ") for _, text in told(resumed.raw))
    assert len(told(resumed.raw)) == len(told(other.raw)) == 7


@pytest.mark.requirement("T-RES-05")
@pytest.mark.parametrize(
    "wrong",
    [
        "garbage",
        "0",
        "",
        "post-0123456789abcdef01.abcdef.1",
        "../standalone.1.1",
        "standalone.1.-1",
        "standalone.1.99999999999999999999",
        "post-x.1.1 ",
        "x" * 5_000,
        "standalone.1.1,standalone.1.2",
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_unknown_event_id_is_refused(client: Mcp, wrong: str) -> None:
    answer = client.try_get_stream(wrong)
    assert isinstance(answer, Answer)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == -32600


@pytest.mark.requirement("T-RES-05")
def test_modified_event_id_is_refused(client: Mcp) -> None:
    with client.open_call("tools/call", call_of(2, 0.0)) as stream:
        stream.messages()
    identifier = str(stream.last_event_id)
    last_dot = identifier.rindex(".")
    changed = {
        identifier[:at] + new + identifier[at + 1 :]
        for at in range(last_dot)
        for new in "0a.-Z"
        if identifier[at] != new
    }
    # The last event is the third: a position ahead of the stream was never issued.
    changed |= {f"{identifier[:last_dot]}.{offset}" for offset in ("4", "03", "33", "3.", "")}
    for wrong in sorted(changed):
        answer = client.try_get_stream(wrong)
        assert isinstance(answer, Answer), wrong
        assert answer.status == 400, wrong


@pytest.mark.requirement("T-RES-05", "SEC-06")
def test_sessions_cannot_resume_streams_of_other_sessions(open_session: OpenSession) -> None:
    owner = open_session()
    with owner.open_call("tools/call", call_of(3, 0.0)) as stream:
        events = [str(event.id) for event in stream]
    for number in range(4):
        stranger = open_session(LEGACY[number % 3], process=number % 2)
        for identifier in events:
            answer = stranger.try_get_stream(identifier)
            assert isinstance(answer, Answer)
            assert answer.status == 400


@pytest.mark.requirement("T-RES-05", "SEC-06")
def test_foreign_standalone_event_id_equals_an_unknown_one(open_session: OpenSession) -> None:
    owner, stranger = open_session(), open_session()
    with owner.get_stream() as standalone:
        standalone.next()
        foreign = str(standalone.last_event_id)
        found = []
        for identifier in (foreign, "standalone.123456.0", "standalone.123456.7"):
            with stranger.get_stream(identifier) as opened:
                found.append([opened.next().data, opened.message()["params"]["data"]])  # type: ignore[union-attr]
        assert found == 3 * [[b"", "Earlier messages of this stream are no longer kept."]]
        assert standalone.quiet(1.5)


@pytest.mark.requirement("T-RES-07", "T-POST-15")
@pytest.mark.parametrize("version", LEGACY)
def test_late_resume_of_a_finished_stream_ends(
    live: LiveServer, open_session: OpenSession, version: str
) -> None:
    client = open_session(version)
    with client.open_call("tools/call", call_of(3, 0.0)) as stream:
        identifiers = [str(event.id) for event in stream if event.data]
    for missing, identifier in enumerate(reversed(identifiers)):
        with client.via(live.ports[missing % 2]).get_stream(identifier) as resumed:
            assert len(resumed.messages(2)) == missing


@pytest.mark.requirement("T-RES-08", "SEC-07")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_resume_of_a_trimmed_stream_warns_of_the_gap(
    open_strict: OpenSession, key: str, version: str
) -> None:
    client = open_strict(version, token=key)
    with client.open_call("tools/call", call_of(100, 0.005)) as stream:
        assert stream.message()["method"] == "notifications/message"
        position = stream.last_event_id
        while "result" not in stream.message():
            pass
    with client.get_stream(position) as resumed:
        messages = resumed.messages()
    # The stream stores forty events, and always the response; the gap is reported.
    assert messages[0]["params"] == {
        "level": "warning",
        "logger": "mcp.stream",
        "data": "Earlier messages of this stream are no longer kept.",
    }
    assert len(messages) == 1 + 40
    assert messages[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-POLL-01", "T-POLL-02")
@pytest.mark.parametrize("version", LEGACY)
def test_only_2025_11_25_streams_begin_with_a_priming_event(
    open_session: OpenSession, version: str, admin: OtherProcess
) -> None:
    client = open_session(version)
    with client.open_call("tools/call", call_of(2, 0.0)) as call:
        events = list(call)
    with client.get_stream() as standalone:
        admin.switch("spare", on=False)
        admin.switch("spare", on=True)
        events.append(standalone.next())  # type: ignore[arg-type]
    primed = [event for event in events if event.data == b""]
    if version == "2025-11-25":
        assert primed == [events[0], events[-1]]
        assert all(event.id for event in primed)
    else:
        assert not primed


@pytest.mark.requirement("T-POLL-03", "T-POLL-04", "T-RES-04")
@pytest.mark.parametrize("times", [1, 3])
def test_polling_client_gets_a_retry_interval_and_its_response_later(
    live: LiveServer, client: Mcp, times: int
) -> None:
    with client.open_call("tools/call", {"name": "test_reconnection"}) as stream:
        events = list(stream)
    assert [event.retry for event in events if event.retry is not None] == [100]
    assert not any(event.data for event in events)
    # Resuming can be repeated, and is not closed early again.
    for number in range(times):
        with client.via(live.ports[1 - number % 2]).get_stream(stream.last_event_id) as resumed:
            answer = resumed.messages()[-1]
            assert answer["result"]["content"][0]["text"] == "Reconnection test completed successfully."
            assert b"retry:" not in resumed.raw


@pytest.mark.requirement("T-POLL-05", "T-POLL-04", "T-GET-07")
def test_long_connections_are_closed_only_if_resumable(open_strict: OpenSession, key: str) -> None:
    newest, older = open_strict(token=key), open_strict("2025-06-18", token=key)
    call = {"name": "hold", "arguments": {"name": "rotated", "seconds": 3.0}}
    with newest.open_call("tools/call", call) as polled, older.open_call("tools/call", call) as lasting:
        events = list(polled)
        assert events[-1].retry == 100
        assert not any(event.data for event in events)
        with newest.get_stream(polled.last_event_id) as resumed:
            assert resumed.messages()[-1]["result"]["content"][0]["text"] == "rotated"
        assert lasting.messages()[-1]["result"]["content"][0]["text"] == "rotated"
        assert b"retry:" not in lasting.raw


def test_stream_is_resumed_after_its_process_was_replaced(live: LiveServer, client: Mcp) -> None:
    through_b = client.via(live.ports[1])
    with through_b.open_call("tools/call", call_of(3, 0.0)) as stream:
        first = stream.next()
        stream.messages()
    live.restart(1)
    with client.via(live.ports[1]).get_stream(first.id if first else None) as resumed:
        resumed.messages()
        assert [text for _, text in told(resumed.raw)] == ["1 Größe 😀", "2 Größe 😀", "3 Größe 😀", "done"]
    eventually(lambda: client.call("ping")["result"] == {}, 2, "the session lives on")
