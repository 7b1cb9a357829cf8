"""Bytes are decoded to text regardless of the declared encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.contrib.web_tools.decoding import decode


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("café".encode(), "", "café"),
        ("café".encode(), "UTF-8", "café"),
        ("café".encode("latin-1"), "", "café"),
        ("café".encode("latin-1"), "ISO-8859-1", "café"),
        ("€ “q”".encode("cp1252"), "iso-8859-1", "€ “q”"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("日本".encode("euc_jp"), "euc-jp", "日本"),
        ("привет".encode("koi8_r"), "koi8-r", "привет"),
        ("\ufeffcafé".encode(), "latin-1", "café"),
        ("\ufeffcafé".encode("utf-16-le"), "utf-8", "café"),
        ("\ufeffcafé".encode("utf-16-be"), "", "café"),
        ("<meta charset=windows-1251>привет".encode("cp1251"), "", "<meta charset=windows-1251>привет"),
        (
            "<meta content='text/html; charset=gbk'>中".encode("gbk"),
            "",
            "<meta content='text/html; charset=gbk'>中",
        ),
        (b"caf\xff", "utf-8", "caf\ufffd"),
        (b"x", "no-such-charset", "x"),
        (b"x", "a\x00b", "x"),
        (b"", "utf-8", ""),
    ],
)
def test_page_is_decoded_by_bom_header_meta_or_guess(body: bytes, charset: str, text: str) -> None:
    assert decode(body, charset) == text


@pytest.mark.parametrize(
    "charset",
    [
        "zip",
        "zlib_codec",
        "hex",
        "base64",
        "bz2",
        "idna",
        "punycode",
        "utf-7",
        "rot13",
        "unicode_escape",
        "undefined",
        "raw_unicode_escape",
        "mbcs",
        "quopri",
        "uu",
        "x" * 10_000,
    ],
)
def test_non_page_codec_is_ignored(charset: str) -> None:
    assert decode(b"xn--p1ai \\x41 +AGE-", charset) == "xn--p1ai \\x41 +AGE-"


@given(st.binary(max_size=200), st.text(max_size=12))
def test_arbitrary_bytes_decode_to_text(body: bytes, charset: str) -> None:
    assert isinstance(decode(body, charset), str)
