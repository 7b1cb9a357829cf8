"""Answers of other servers are read within limits, and each failure has a kind."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.client.answers import (
    Answered,
    AnswerReader,
    Asked,
    Budget,
    InputRequired,
    LogLine,
    Notice,
    Progress,
)
from mcp_app.protocol.client.events import EventDecoder
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.pages import MAX_ITEMS, MAX_PAGES, Pages
from mcp_app.protocol.http.sse import KEEP_ALIVE, encode_event

SMALL = Budget(message_bytes=200, total_bytes=500, messages=5)


def message(**members: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **members})


def notice(method: str, **params: Any) -> bytes:
    return message(method=f"notifications/{method}", params=params)


RESULT = message(id="a-1", result={"content": []})


def read(*bodies: bytes, budget: Budget = SMALL) -> list[Any]:
    reader = AnswerReader("a-1", budget)
    found = [event for body in bodies for event in reader.feed(encode_event(body))]
    reader.end()
    return found


def kind_of(*bodies: bytes, budget: Budget = SMALL) -> Kind:
    with pytest.raises(UpstreamFault) as fault:
        read(*bodies, budget=budget)
    return fault.value.kind


def test_messages_before_the_answer_become_events() -> None:
    found = read(
        notice("progress", progressToken="a-1", progress=1, total=4, message="one of four"),
        notice("message", level="warning", logger="db", data={"slow": True}),
        notice("tools/list_changed"),
        message(id=7, method="roots/list"),
        RESULT,
    )
    assert found == [
        Progress(1.0, 4.0, "one of four"),
        LogLine("warning", "db", {"slow": True}),
        Notice("notifications/tools/list_changed", {}),
        Asked(7, "roots/list", {}),
        Answered({"content": []}),
    ]


@pytest.mark.parametrize(
    "body",
    [
        notice("progress", progressToken="a-2", progress=1),
        notice("progress", progress=1),
        notice("progress", progressToken="a-1", progress=True),
        notice("progress", progressToken="a-1", progress="1"),
    ],
)
def test_progress_without_our_token_or_a_number_is_dropped(body: bytes) -> None:
    assert read(body, RESULT) == [Answered({"content": []})]


def test_unknown_log_level_becomes_info() -> None:
    line, _ = read(notice("message", level="loud", data=1), RESULT)
    assert line == LogLine("info", "", 1)


def test_batch_is_read_up_to_the_answer() -> None:
    reader = AnswerReader("a-1", SMALL)
    progress = notice("progress", progressToken="a-1", progress=1)
    assert reader.whole(b"[" + progress + b"," + RESULT + b"]") == [
        Progress(1.0, None, None),
        Answered({"content": []}),
    ]


def test_messages_after_the_answer_are_ignored() -> None:
    assert read(RESULT, message(id="a-1", result={"content": [1]}), b"nonsense") == [
        Answered({"content": []})
    ]


def test_questions_of_a_modern_server_are_returned_with_its_state() -> None:
    asked = {"name": {"method": "elicitation/create", "params": {}}}
    result = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
    assert read(message(id="a-1", result=result)) == [InputRequired(asked, "s")]


@pytest.mark.parametrize(
    ("bodies", "kind"),
    [
        ([b"<html>"], Kind.INVALID),
        ([notice("progress", progress=1).replace(b":1}", b":1e999}")], Kind.INVALID),
        ([message(result={})], Kind.INVALID),
        ([message(id="a-1", result=[])], Kind.INVALID),
        ([message(id="a-2", result={})], Kind.INVALID),
        ([message(id="a-1", result={"resultType": "input_required", "inputRequests": [1]})], Kind.INVALID),
        ([message(id="a-1", result={"resultType": "input_required", "requestState": 1})], Kind.INVALID),
        ([notice("progress")], Kind.BROKEN_OFF),
        ([], Kind.BROKEN_OFF),
        ([notice("x")] * 6, Kind.TOO_LARGE),
        ([notice("message", data="x" * 200)], Kind.TOO_LARGE),
        ([notice("message", data="x" * 100)] * 4, Kind.TOO_LARGE),
    ],
)
def test_each_wrong_answer_ends_in_its_kind(bodies: list[bytes], kind: Kind) -> None:
    assert kind_of(*bodies) == kind


def test_number_is_not_taken_for_the_id_in_text() -> None:
    with pytest.raises(UpstreamFault):
        AnswerReader("1", SMALL).whole(message(id=1, result={}))


def test_error_keeps_code_and_data() -> None:
    with pytest.raises(UpstreamFault) as fault:
        read(message(id="a-1", error={"code": -32021, "message": "No.", "data": {"x": 1}}))
    assert (fault.value.kind, fault.value.code, fault.value.data) == (Kind.REFUSED, -32021, {"x": 1})


# The decoding of events.


@given(
    st.lists(st.binary(min_size=1, max_size=20).map(lambda data: data.hex().encode()), max_size=5),
    st.lists(st.integers(1, 30), min_size=1, max_size=40),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_events_are_the_same_however_the_bytes_arrive(
    messages: list[bytes], sizes: list[int], line_end: bytes
) -> None:
    stream = KEEP_ALIVE.join(encode_event(each, id="1", retry=5, event="message") for each in messages)
    stream = stream.replace(b"\n", line_end)
    decoder, found, position = EventDecoder(1_000), [], 0
    while position < len(stream):
        size = sizes[position % len(sizes)]
        found += decoder.feed(stream[position : position + size])
        position += size
    assert found == messages


def test_data_of_several_lines_is_joined_and_events_without_data_are_skipped() -> None:
    stream = b"\xef\xbb\xbfdata: a\ndata:b\n\nid: 5\n\ndata\n\n: comment\n\ndata: c\n\n"
    assert EventDecoder(100).feed(stream) == [b"a\nb", b"c"]


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 60, b"data: xxxx\n", b"x" * 60])
def test_endless_event_is_refused_at_its_limit(chunk: bytes) -> None:
    decoder = EventDecoder(100)
    with pytest.raises(UpstreamFault) as fault:
        [decoder.feed(chunk) for _ in range(30)]
    assert fault.value.kind == Kind.TOO_LARGE


def test_comments_keep_a_stream_open_without_a_limit() -> None:
    decoder = EventDecoder(100)
    assert [decoder.feed(b": still working\n") for _ in range(100)] == [[]] * 100


# Pages of lists.


def page(*names: str, cursor: Any = None) -> dict[str, Any]:
    return {"tools": [{"name": name} for name in names], **({"nextCursor": cursor} if cursor else {})}


def test_pages_are_collected_in_order() -> None:
    pages = Pages("tools")
    assert (pages.take(page("a", cursor="1")), pages.take(page("b"))) == ("1", None)
    assert [item["name"] for item in pages.items] == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({}, Kind.INVALID),
        ({"tools": {}}, Kind.INVALID),
        (page(cursor="first"), Kind.INVALID),
        (page(cursor="x" * 5_000), Kind.INVALID),
        (page(*["a"] * (MAX_ITEMS + 1)), Kind.TOO_LARGE),
    ],
)
def test_wrong_page_is_refused(result: dict[str, Any], kind: Kind) -> None:
    pages = Pages("tools")
    pages.take(page(cursor="first"))
    with pytest.raises(UpstreamFault) as fault:
        pages.take(result)
    assert fault.value.kind == kind


@pytest.mark.requirement("INT-71")
def test_endless_pages_are_refused() -> None:
    pages = Pages("tools")
    with pytest.raises(UpstreamFault) as fault:
        [pages.take(page(cursor=str(number))) for number in range(5_000)]
    assert (fault.value.kind, len(pages._cursors)) == (Kind.TOO_LARGE, MAX_PAGES)
