from __future__ import annotations

import pytest

from mcp_app.protocol.http import header_values

# A text and the header value that a client writes for it (requirements, B64-04).
WRITTEN = [
    ("us-west1", b"us-west1"),
    ("a b", b"a b"),
    ("", b""),
    ("Hello, 世界", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", b"=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", b"=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("\ttab", b"=?base64?CXRhYg==?="),
    ("\x7f", b"=?base64?fw==?="),
]


@pytest.mark.requirement("B64-04")
@pytest.mark.parametrize(("text", "value"), WRITTEN)
def test_encoded_text_round_trips(text: str, value: bytes) -> None:
    assert header_values.encode(text) == value
    assert header_values.decode(value) == text


@pytest.mark.requirement("B64-01", "B64-03")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"=?base64?SGVsbG8=?=", "Hello"),
        (b"=?base64??=", ""),
        (b"SGVsbG8=", "SGVsbG8="),
        (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (b"SGVsbG8=?=", "SGVsbG8=?="),
        (b"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        (b"=?base64?=", "=?base64?="),
        (b"say =?base64?SGVsbG8=?=", "say =?base64?SGVsbG8=?="),
    ],
)
def test_only_complete_sentinel_is_decoded(value: bytes, text: str) -> None:
    assert header_values.decode(value) == text


@pytest.mark.requirement("B64-02")
@pytest.mark.parametrize(
    "value",
    [
        b"=?base64?SGVsbG8?=",
        b"=?base64?SGVs!!!bG8=?=",
        b"=?base64?SGVsbG8 =?=",
        b"=?base64?SGVsbG9=?=",
        b"=?base64?SGVs-G8=?=",
        b"=?base64?/w==?=",
        b"=?base64?SGVsbG8==?=",
    ],
    ids=[
        "no padding",
        "invalid character",
        "space",
        "trailing bits",
        "url alphabet",
        "not UTF-8",
        "too much padding",
    ],
)
def test_invalid_base64_or_utf_8_decodes_to_none(value: bytes) -> None:
    assert header_values.decode(value) is None


@pytest.mark.requirement("HDR-07")
def test_surrounding_whitespace_is_ignored() -> None:
    assert header_values.decode(b" \t echo\t ") == "echo"
    assert header_values.decode(b" a  b ") == "a  b"
    assert header_values.decode(b"  =?base64?IA==?= ") == " "


@pytest.mark.requirement("HDR-10", "HDR-14")
@pytest.mark.parametrize("value", ["ä".encode(), "ä".encode("latin-1"), b"\x00", b"a\nb", b"\x7f", b"\xff, "])
def test_non_printable_ascii_value_is_rejected(value: bytes) -> None:
    assert header_values.decode(value) is None
    assert not header_values.is_plain(value)


@pytest.mark.requirement("HDR-13")
def test_shown_value_is_short_and_single_line() -> None:
    assert header_values.shown("a\r\nInjected: ü") == r"'a\r\nInjected: \xfc'"
    assert len(header_values.shown("x" * 10_000)) < 80
    assert header_values.shown(42) == "'42'"
