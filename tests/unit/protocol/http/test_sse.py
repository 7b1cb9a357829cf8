from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.http.sse import (
    KEEP_ALIVE,
    encode_event,
    encode_priming,
    encode_retry,
)
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.lines import escape_separators
from tests.clients.event_parser import Parser
from tests.clients.event_parser import ServerSentEvent as Event


@pytest.mark.requirement("T-SSE-01")
@pytest.mark.parametrize(
    ("encoded", "wire"),
    [
        (encode_event(b"{}"), b"data: {}\n\n"),
        (encode_event(b"{}", "a.1.2"), b"id: a.1.2\ndata: {}\n\n"),
        (encode_event(b"{}", "a", 5), b"id: a\nretry: 5\ndata: {}\n\n"),
        (encode_event(b"a\nb\r\nc\rd"), b"data: a\ndata: b\ndata: c\ndata: d\n\n"),
        (encode_priming("a.1.0"), b"id: a.1.0\ndata: \n\n"),
        (encode_retry(1000), b"retry: 1000\n\n"),
        (KEEP_ALIVE, b": ping\n\n"),
    ],
)
def test_events_are_encoded_for_the_wire(encoded: bytes, wire: bytes) -> None:
    assert encoded == wire


# `str.splitlines`, and therefore httpx-sse before 0.4.2, ends a line here.
LINE_ENDS = [mark for mark in map(chr, range(0x2100)) if len(f"a{mark}b".splitlines()) == 2]


@pytest.mark.parametrize("field", ["id", "event"])
@pytest.mark.parametrize("mark", [*LINE_ENDS, "\0"])
def test_id_and_event_name_reject_line_ends(mark: str, field: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        encode_event(b"{}", **{field: f"a{mark}b"})  # type: ignore[arg-type]


@pytest.mark.requirement("T-SSE-01", "T-SSE-08")
@pytest.mark.parametrize("text", [*LINE_ENDS, "\\\u2028", "\u2028\x85\u2029", "“\u2027\u202a”", "\xc5\x84 É"])
def test_line_ends_in_text_are_escaped_to_one_data_line(text: str) -> None:
    encoded = encode_event(jsonrpc.encode({text: text}), "a.1.1")
    assert encoded.decode().splitlines() == encoded.decode().removesuffix("\n").split("\n")
    (event,) = Parser().feed(encoded)
    assert orjson.loads(event.data or b"") == {text: text}


def test_parser_rejects_line_separators_of_older_clients() -> None:
    for mark in set(LINE_ENDS) - {"\r", "\n"}:
        with pytest.raises(ValueError, match="Older clients"):
            Parser().feed(f"data: a{mark}b\n\n".encode())


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        (b"data: {}\n\n", [Event(data=b"{}")]),
        (b"data:{}\r\n\r\n", [Event(data=b"{}")]),
        (b"data: {}\r\r", [Event(data=b"{}")]),
        (b"data\n\n", [Event(data=b"")]),
        (b"data: a\ndata:  b\n\n", [Event(data=b"a\n b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event(data=b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event(data=b"a")]),
        (b": comment\n\n", []),
        (b"\n\n\n", []),
        (b"x: y\n\n", []),
        (b"event: endpoint\ndata: /m\n\n", [Event(event="endpoint", data=b"/m")]),
        (b"id: 7\ndata: \n\n", [Event(id="7", data=b"")]),
        (b"id\ndata: a\n\n", [Event(id="", data=b"a")]),
        (b"id: a\x00b\ndata: a\n\n", [Event(data=b"a")]),
        (b"retry: 20\n\n", [Event(retry=20)]),
        (b"retry: x\nretry: -1\nretry: 1.5\n\n", []),
        (b"retry: %s\n\n" % (b"9" * 5000), []),
        (b"data: a\n\ndata: b\n", [Event(data=b"a")]),
        (b"data: a: b\n\n", [Event(data=b"a: b")]),
    ],
)
def test_parser_follows_standard(wire: bytes, events: list[Event]) -> None:
    assert Parser().feed(wire) == events


@pytest.mark.requirement("T-POLL-01", "T-POLL-04")
def test_priming_and_retry_differ_from_messages() -> None:
    wire = encode_priming("s.1.0") + KEEP_ALIVE + encode_event(b"{}", "s.1.1") + encode_retry(50)
    assert Parser().feed(wire) == [Event("s.1.0", None, b""), Event("s.1.1", None, b"{}"), Event(retry=50)]


WIRE = (
    b"\xef\xbb\xbfid: 1\r\ndata: a\r\n\r\n: ping\n\ndata: b\rdata: c\r\r"
    b"\nevent: x\ndata: \xe4\xb8\x96\n\nretry: 1\r\n\r\ndata: end\n\n"
)


@given(st.lists(st.integers(0, len(WIRE)), max_size=12))
def test_events_survive_arbitrary_chunking(cuts: list[int]) -> None:
    whole = Parser().feed(WIRE)
    edges = sorted({0, len(WIRE), *cuts})
    parser = Parser()
    pieces = [WIRE[start:end] for start, end in pairwise(edges)]
    assert [event for piece in pieces for event in parser.feed(piece)] == whole
    assert len(whole) == 5


def test_events_survive_byte_by_byte_feeding() -> None:
    parser = Parser()
    found = [event for byte in WIRE for event in parser.feed(bytes([byte])) + parser.feed(b"")]
    assert found == Parser().feed(WIRE)


@given(st.binary(max_size=60), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_data_without_carriage_returns_round_trips(data: bytes, end: bytes) -> None:
    data = escape_separators(data.replace(b"\r", b""))
    wire = encode_event(data, "a.1.1").replace(b"\n", end)
    assert Parser(older=False).feed(wire) == [Event("a.1.1", None, data)]


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_arbitrary_bytes_do_not_break_parser(chunks: list[bytes]) -> None:
    parser = Parser(older=False)
    for chunk in chunks:
        parser.feed(chunk)


@pytest.mark.parametrize("chunk", [b"x" * 40, b"data: x\n" * 6])
def test_oversized_event_is_rejected(chunk: bytes) -> None:
    parser = Parser(max_bytes=100)
    with pytest.raises(ValueError, match="larger than 100 bytes"):
        list(map(parser.feed, [chunk] * 10))


def test_size_limit_applies_per_event() -> None:
    parser = Parser(max_bytes=100)
    assert sum(len(parser.feed(b"data: %s\n\n" % (b"x" * 80))) for _ in range(10)) == 10
