"""Redaction of messages before storage: removed secrets and unchanged content."""

from __future__ import annotations

import re
from time import process_time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.conf import Settings
from mcp_app.observability.redaction import CREDENTIALS, MARK, Redactor

KEY = "mcp_" + "Ab3-_9xY" * 5
NAMES = Settings().redacted_names
SECRET = "planted-secret-value"


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(NAMES)


def kept(redactor: Redactor, value: Any, limit: int = 10_000) -> str:
    """Return the stored form of a message."""
    return redactor.message(orjson.dumps(value), limit)


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize(
    "name",
    [
        *NAMES,
        *(name.upper() for name in NAMES),
        *(name.replace("_", "-") for name in NAMES),
        *(name.replace("_", "") for name in NAMES),
        "accessToken",
        "refresh_token",
        "X-Api-Key",
        "clientSecret",
        "db_password",
        "AWS_SECRET_ACCESS_KEY",
        "Set-Cookie",
        "userCredential",
        "privateKey",
        "sessionKey",
    ],
)
def test_value_of_secret_name_is_redacted(name: str, redactor: Redactor) -> None:
    message = {"params": {"arguments": {name: SECRET, "beside": "kept"}}}
    assert redactor.is_secret(name)
    assert redactor.is_suspect(orjson.dumps(message))
    found = kept(redactor, message)
    assert SECRET not in found
    assert orjson.loads(found)["params"]["arguments"] == {name: MARK, "beside": "kept"}


@pytest.mark.parametrize(
    "name",
    [
        "progressToken",
        "nextCursor",
        "maxTokens",
        "name",
        "key",
        "monkey",
        "keyboard",
        "tokens_used",
        "author",
        "passage",
        "secretary",
        "cookies_eaten",
        "",
    ],
)
def test_harmless_name_is_unchanged(name: str, redactor: Redactor) -> None:
    assert not redactor.is_secret(name)
    message = {"params": {name: "value"}}
    assert orjson.loads(kept(redactor, message)) == message


@pytest.mark.parametrize(
    "secret", [SECRET, 12345, 1.5, True, {"inner": SECRET}, [SECRET, {"deep": SECRET}], {"password": SECRET}]
)
@pytest.mark.parametrize("depth", [0, 1, 30])
def test_secret_of_any_type_is_redacted_at_any_depth(secret: Any, depth: int, redactor: Redactor) -> None:
    message: Any = {"api_key": secret, "n": 1}
    for _ in range(depth):
        message = {"list": [message, "other"]}
    found = kept(redactor, message)
    assert f'"api_key":"{MARK}"' in found
    assert SECRET not in found
    assert "12345" not in found


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_secret_stays_empty(empty: str | None, redactor: Redactor) -> None:
    assert orjson.loads(kept(redactor, {"password": empty})) == {"password": empty}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdefgh12345678", f"Authorization: {MARK}"),
        ("bearer ABCDEFGHIJKL and more", f"{MARK} and more"),
        ("Basic dXNlcjpwYXNzd29yZA==", MARK),
        (f"the key {KEY} works", f"the key {MARK} works"),
        ("postgres://bob:hunter2@db:5432/x", f"postgres://bob:{MARK}@db:5432/x"),
        ("redis://:hunter2@cache/0", f"redis://:{MARK}@cache/0"),
        ("amqp://bob:hun@ter:2@mq//", f"amqp://bob:{MARK}@mq//"),
        (
            "from https://a:b@one/ to https://c:d@two/",
            f"from https://a:{MARK}@one/ to https://c:{MARK}@two/",
        ),
        ("https://h/p?access_token=abc&page=2#frag", f"https://h/p?access_token={MARK}&page=2#frag"),
        ("password=hunter2 user=bob", f"password={MARK} user=bob"),
        ("X-API-KEY=abc;x=1", f"X-API-KEY={MARK};x=1"),
    ],
)
def test_credentials_in_text_are_redacted(text: str, expected: str, redactor: Redactor) -> None:
    assert redactor.text(text) == expected
    assert redactor.is_suspect(orjson.dumps({"note": text}))
    assert orjson.loads(kept(redactor, {"note": text})) == {"note": expected}
    assert orjson.loads(kept(redactor, {"list": [{"note": text}]})) == {"list": [{"note": expected}]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the bearer of this letter",
        "a basic need",
        "mail bob@example.org at 10:30",
        "https://example.org:8080/path@2",
        "http://[::1]:8000/a",
        "x=1&y=2",
        "mcp_short",
        "Bearer short",
        "50% off = cheap",
    ],
)
def test_harmless_text_is_unchanged(text: str, redactor: Redactor) -> None:
    assert redactor.text(text) == text


def test_configured_name_matches_every_spelling() -> None:
    redactor = Redactor(["accessCode"])
    for name in ("accessCode", "access_code", "ACCESS-CODE", "door_access_code"):
        assert kept(redactor, {name: SECRET}) == orjson.dumps({name: MARK}).decode()


def test_without_names_only_credentials_in_text_are_redacted() -> None:
    found = kept(Redactor([]), {"password": "x", "note": KEY})
    assert orjson.loads(found) == {"password": "x", "note": MARK}


def test_clean_message_is_kept_byte_for_byte(redactor: Redactor) -> None:
    raw = b'{"jsonrpc" : "2.0","id":1.0, "x":"\\u00e9"}'
    assert redactor.message(raw, 1000) == raw.decode()


def test_message_marked_clean_is_not_scanned(redactor: Redactor) -> None:
    raw = b'{"password":"x"}'
    assert redactor.message(raw, 1000, clean=True) == raw.decode()


def test_is_suspect_finds_one_suspect_in_joined_messages(redactor: Redactor) -> None:
    harmless = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
    assert not redactor.is_suspect(b"\n".join([harmless] * 100))
    assert redactor.is_suspect(b"\n".join([harmless] * 100 + [b'{"Pass_Word":1}']))


@pytest.mark.parametrize(
    "raw",
    [
        b"password=hunter2 trailing",
        b'{"broken": "Bearer abcdefgh1234567"',
        b"\xff\xfe Basic dXNlcjpwYXNz",
    ],
)
def test_invalid_json_is_redacted_as_text(raw: bytes, redactor: Redactor) -> None:
    found = redactor.message(raw, 1000)
    assert MARK in found
    assert not {"hunter2", "abcdefgh1234567", "dXNlcjpwYXNz"} & set(found.split())


@pytest.mark.parametrize(("size", "is_cut"), [(99, False), (100, False), (101, True), (5000, True)])
def test_long_message_is_truncated_with_note(size: int, is_cut: bool, redactor: Redactor) -> None:
    raw = b'"' + b"x" * (size - 2) + b'"'
    found = redactor.message(raw, 100)
    assert found.startswith(raw[:100].decode())
    assert found.endswith(f"… [{size} bytes, cut]") == is_cut


def test_secret_is_redacted_before_truncation(redactor: Redactor) -> None:
    message = {"password": SECRET * 100, "z": "end"}
    assert kept(redactor, message, 1000) == orjson.dumps({"password": MARK, "z": "end"}).decode()


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize(
    "raw",
    [
        rb'{"u":"http:/\/ada:hunter2@h/x"}',
        rb'{"u":"http:\//ada:hunter2@h/x"}',
        rb'{"u":"http:\u002f\u002Fada:hunter2@h/x"}',
        rb'{"u":"http\u003a//ada\u003ahunter2@h/x"}',
        rb'{"u":"http://ada:hunter2\u0040h"}',
        rb'{"u":"https://h/?t\u006fken=hunter2"}',
        rb'{"p\u0061ssword":"hunter2"}',
        rb'{"p\u0061ssword":"hunter2","pad":"' + b"x" * 100 + rb'","token":"abcdef"}',
        rb'{"text":"Bearer\nhunter2hunter2"}',
        rb'{"text":"Bearer\u0020hunter2hunter2"}',
        '{"text":"Bearer\u00a0hunter2hunter2"}'.encode(),
        b"Bearer\nhunter2hunter2",
        rb'{"text":"key \u006dcpat_hunter2hunter2hunter2"}',
        '{"to\u212aen":"hunter2"}'.encode(),
        rb'{"to\u212Aen":"hunter2"}',
    ],
)
def test_escaped_spelling_does_not_hide_secret(raw: bytes, redactor: Redactor) -> None:
    for message in (raw, raw.replace(b'{"', b'{"mail":"a@b.c","', 1)):
        for limit in (60, 10_000):
            assert "hunter2" not in redactor.message(message, limit)


@pytest.mark.requirement("SEC-09")
def test_key_at_truncation_point_is_redacted(redactor: Redactor) -> None:
    for length in range(4_080, 4_180):
        for begin in ("mcpat_", "Bearer "):
            text = f"Bearer {'a' * length} {begin}{'Ab3-_9xY' * 5}"
            for message in (orjson.dumps({"x": text}), text.encode()):
                assert "Ab3" not in redactor.message(message, 60)


def test_email_and_home_page_are_not_suspect(redactor: Redactor) -> None:
    rows = [{"name": "Ada", "email": "ada@example.org", "page": "https://example.org/~ada"}] * 50
    assert not redactor.is_suspect(orjson.dumps({"rows": rows, "text": orjson.dumps(rows).decode()}))


SECRETS = st.sampled_from([f"Bearer {SECRET}", KEY, f"a://b:{SECRET}@c", f"x?token={SECRET}"])
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text() | SECRETS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["token", "password"]), inner)
    ),
)


@given(VALUES, st.integers(1, 300))
def test_truncated_message_is_prefix_of_whole_without_secrets(value: Any, limit: int) -> None:
    redactor, message = Redactor(NAMES), orjson.dumps(value)
    whole, cut = redactor.message(message, 1_000_000), redactor.message(message, limit)
    kept, mark, _ = cut.partition("… [")
    # Partially copied lists and objects are closed as well. If no secret starts before the
    # cut, the message stays unchanged.
    begin = kept.rstrip('"]}') if mark else kept
    assert whole.startswith(begin) or message.decode().startswith(begin)
    assert "planted" not in cut
    assert "9xY" not in cut
    assert bool(mark) or kept == whole


def test_redaction_inspects_only_stored_part_of_large_message() -> None:
    looked_at: list[str] = []

    class Noting(Redactor):
        def is_secret(self, name: str) -> bool:
            looked_at.append(name)
            return super().is_secret(name)

    found = kept(Noting(NAMES), [{"token": SECRET, "x": 1}] * 10_000, 1_000)
    assert SECRET not in found
    assert 50 < len(looked_at) < 200
    assert len(kept(Noting(NAMES), [{"token": SECRET}, *[""] * 10_000], 1_000)) < 1_100


def test_truncation_inside_character_yields_valid_text(redactor: Redactor) -> None:
    raw = '"ééééé"'.encode()
    for limit in range(1, len(raw)):
        kept, mark, note = redactor.message(raw, limit).partition("…")
        assert raw.startswith(kept.encode())
        assert limit - len(kept.encode()) in (0, 1)
        assert mark + note == f"… [{len(raw)} bytes, cut]"


@pytest.mark.parametrize(
    "hostile",
    [
        "a" * 1_000_000,
        "a" * 500_000 + "=1",
        "://a:" + "b" * 500_000,
        "://" * 200_000,
        "bearer " * 100_000,
        "mcp_" * 200_000,
        "a=b@" * 200_000,
        "=" * 500_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_is_redacted_in_linear_time(hostile: str, redactor: Redactor) -> None:
    half = hostile[: len(hostile) // 2]
    whole_time, half_time = _seconds(redactor, hostile), _seconds(redactor, half)
    assert whole_time < 1.0 + 8 * half_time


def _seconds(redactor: Redactor, text: str) -> float:
    begun = process_time()
    redactor.text(text)
    return process_time() - begun


# Parts of words, their spellings, and allowed separators.
WORDS = st.sampled_from(
    [
        *("token", "ToKen", "TO_KEN", "to-ken", "pass", "word", "Bearer ", "bearer", "MCP_", "mcp-", "@"),
        *("://", ":", "/", r":\/\/", "a@b"),
        *(
            "api",
            "Access-",
            "key",
            "KEY_",
            "mcpat_",
            "pin 2",
            "PIN2",
            "pin",
            "\u017f",
            "\u212a",
            "é",
            "É",
            r"\u0061",
            r"\u00e9",
            r"\u212A",
            " ",
            '"',
            "x",
        ),
    ]
)


@given(
    st.lists(WORDS, max_size=12).map("".join),
    st.sampled_from([NAMES, ("token", "pin2", "é"), ("pin 2",), ()]),
)
def test_is_suspect_matches_full_search_exactly(text: str, names: tuple[str, ...]) -> None:
    lower = text.encode().lower()
    plain = lower.replace(b"-", b"").replace(b"_", b"")
    wanted = [name.lower().replace("-", "").replace("_", "").encode() for name in names]
    suspect = any(word in lower for word in CREDENTIALS) or any(word in plain for word in wanted)
    plain_slashes = text.encode().replace(rb"\/", b"/")
    suspect = suspect or re.search(rb"://[^/@\s:]*:[^/\s]+@", plain_slashes) is not None
    suspect = suspect or "\u212a" in text or re.search(r"\\u(00[2-7]|212a)", text, re.IGNORECASE) is not None
    assert Redactor(names).is_suspect(text.encode()) is suspect
