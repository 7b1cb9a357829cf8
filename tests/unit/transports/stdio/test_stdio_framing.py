"""Message framing on stdio for any split of the bytes."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.errors import ParseError, PayloadTooLarge
from mcp_app.protocol.messages import jsonrpc
from mcp_app.transports.stdio.framing import Framing

LIMIT = 64
BODIES = st.lists(st.binary(min_size=1, max_size=LIMIT), max_size=8)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Split the data into pieces."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.requirement("STDIO-01")
@given(BODIES, st.lists(st.integers(0, 10_000)))
def test_lines_survive_arbitrary_splits(bodies: list[bytes], places: list[int]) -> None:
    lines = [b"{" + body.replace(b"\n", b"").replace(b"\r", b"")[: LIMIT - 2] + b"}" for body in bodies]
    framing = Framing(LIMIT)
    found = [frame for piece in cut(b"\n".join([*lines, b""]), places) for frame in framing.feed(piece)]
    assert found == [line.strip() for line in lines]


@pytest.mark.requirement("STDIO-01", "T-SSE-08")
@pytest.mark.parametrize("mark", ["\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_line_ends_in_text_are_escaped_to_one_line(mark: str) -> None:
    # Node's `readline` ends a line at U+2028 and U+2029, Python's `str.splitlines` at all of these.
    encoded = Framing(LIMIT).encode(jsonrpc.encode({"text": mark}))
    assert encoded.endswith(b"\n")
    assert [orjson.loads(line) for line in encoded.decode().splitlines()] == [{"text": mark}]


@pytest.mark.requirement("DLG-000-06")
@given(BODIES, st.lists(st.integers(0, 10_000)))
def test_content_length_bodies_survive_arbitrary_splits(bodies: list[bytes], places: list[int]) -> None:
    framing = Framing(LIMIT)
    data = b"".join(b"Content-Length: %d\r\nX: y\r\n\r\n%b" % (len(body), body) for body in bodies)
    assert [frame for piece in cut(data, places) for frame in framing.feed(piece)] == bodies


@pytest.mark.requirement("STDIO-12")
@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT * 2, LIMIT * 100])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_oversized_message_is_skipped_with_bounded_memory(size: int, step: int) -> None:
    counted = b"content-length: %d\r\n\r\n%b" % (size, b"x" * size) + b"Content-Length: 2\r\n\r\n{}"
    for data, rest in ((b"{" + b"x" * (size - 1) + b"\n{}\n", b"{}"), (counted, b"{}")):
        framing = Framing(LIMIT)
        found = []
        for start in range(0, len(data), step):
            found += framing.feed(data[start : start + step])
            assert len(framing._buffer) <= LIMIT + step + 100
        assert isinstance(found[0], PayloadTooLarge)
        assert found[1:] == [rest]


@pytest.mark.requirement("STDIO-12")
@pytest.mark.parametrize(
    "head", [b"Content-Length: x", b"Content-Length:", b"Content-Length: 1\r\nX", b"X: 1"]
)
def test_invalid_headers_are_parse_error_and_reading_continues(head: bytes) -> None:
    framing = Framing(LIMIT)
    assert framing.feed(b"Content-Length: 2\r\n\r\n{}") == [b"{}"]
    found = framing.feed(head.replace(b"Length: 1", b"Longth: 1") + b"\r\n\r\nContent-Length: 2\r\n\r\n[]")
    assert isinstance(found[0], ParseError)
    assert found[1:] == [b"[]"]


def test_endless_headers_are_parse_error() -> None:
    framing = Framing(LIMIT)
    framing.feed(b"Content-Length: 2\r\n\r\n{}")
    assert [type(frame) for frame in framing.feed(b"X" * 5_000)] == [ParseError]
    assert not framing._buffer


def test_blank_lines_are_ignored() -> None:
    assert Framing(LIMIT).feed(b"\n \r\n{}\r\n\n") == [b"{}"]
