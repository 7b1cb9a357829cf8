from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.pagination import MAX_CURSOR, CursorCodec

CODEC = CursorCodec(b"secret")
TEXT = st.text(max_size=40)


@pytest.mark.requirement("PAGE-01", "PAGE-03")
@given(TEXT, TEXT, TEXT, st.integers(0, 2**63))
def test_cursor_round_trips_across_processes_and_is_not_empty(
    kind: str, after: str, scope: str, number: int
) -> None:
    cursor = CODEC.encode(kind, after, scope, number)
    assert cursor
    assert cursor.isascii()
    assert CursorCodec(b"secret").decode(kind, scope, cursor) == (after, number)


@pytest.mark.requirement("PAGE-02")
@given(TEXT, st.data())
def test_cursor_with_flipped_bit_is_rejected(after: str, data: st.DataObject) -> None:
    raw = bytearray(base64.urlsafe_b64decode(_padded(CODEC.encode("tools", after, "s", 3))))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidParams):
        CODEC.decode("tools", "s", base64.urlsafe_b64encode(raw).rstrip(b"=").decode())


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


@pytest.mark.requirement("PAGE-02")
@pytest.mark.parametrize(
    ("kind", "scope"), [("prompts", "s"), ("tools", "t"), ("tool", "ss"), ("", "toolss")]
)
def test_cursor_of_other_list_or_scope_is_rejected(kind: str, scope: str) -> None:
    with pytest.raises(InvalidParams):
        CODEC.decode(kind, scope, CODEC.encode("tools", "a", "s", 1))


def test_cursor_of_other_server_is_rejected() -> None:
    with pytest.raises(InvalidParams):
        CursorCodec(b"other").decode("tools", "s", CODEC.encode("tools", "a", "s", 1))


@pytest.mark.requirement("PAGE-02")
@pytest.mark.parametrize(
    "cursor",
    ["", "x", "garbage", "====", "a b", "ä", "A" * 50, "A" * (MAX_CURSOR + 1), "AAAA\n", None, 1, ["a"], {}],
)
def test_garbage_cursor_is_rejected_with_remedy(cursor: object) -> None:
    with pytest.raises(InvalidParams, match="cursor") as caught:
        CODEC.decode("tools", "s", cursor)
    assert caught.value.code == -32602


@pytest.mark.requirement("PAGE-02")
def test_cursor_has_one_spelling() -> None:
    cursor = CODEC.encode("tools", "ab", "s", 1)
    last = cursor[-1]
    others = [cursor[:-1] + chr(ord(last) + step) for step in (-1, 1)]
    for other in [*others, cursor + "=", cursor + "A", cursor[:-1], " " + cursor]:
        with pytest.raises(InvalidParams):
            CODEC.decode("tools", "s", other)


def test_empty_secret_raises_value_error() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        CursorCodec(b"")
