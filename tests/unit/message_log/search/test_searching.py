"""The search language: each term selects the same incoming and stored lines."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.contrib.auth import get_user_model

from mcp_app.message_log.search.language import KEYS, LONGEST, MOST_TERMS, parse, term_of
from mcp_app.message_log.writer import _write
from mcp_app.models import Message
from tests.unit.console.lines import batch, fields, line
from tests.unit.sessions.queues import opened

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("", {}, True),
    ("tool:echo", {}, True),
    ("tool:ech", {}, False),
    ("tool:ech*", {}, True),
    ("tool:echo", {"method": "prompts/get"}, False),
    ("tool:echo", {"method": "notifications/progress"}, True),
    ("target:echo", {"method": "prompts/get"}, True),
    ("TOOL:echo", {}, True),
    ("-tool:echo", {}, False),
    ("-tool:add", {}, True),
    ("status:error", {"outcome": "error"}, True),
    ("status:error", {"outcome": "tool_error"}, True),
    ("status:ERROR", {"outcome": "tool_error"}, True),
    ("status:tool_error", {"outcome": "error"}, False),
    ("status:protocol_error", {"outcome": "error"}, True),
    ("status:failed", {"outcome": "tool_error"}, True),
    ("status:failed", {"outcome": "refused"}, False),
    ("status:refused", {"outcome": "refused"}, True),
    ("status:succeeded", {}, True),
    ("status:ok", {}, True),
    ("status:cancelled", {}, False),
    ("user:ada", {"principal": "user:7/key:1"}, True),
    ("user:ada", {"principal": "user:7"}, True),
    ("user:ada", {"principal": "user:77/key:1"}, False),
    ("user:7", {"principal": "user:7/key:1"}, True),
    ("user:loopback", {"principal": "loopback"}, True),
    ("user:nobody", {}, False),
    ("method:tools/*", {}, True),
    ("method:tools/call", {}, True),
    ("method:ping", {}, False),
    ("dir:in", {}, True),
    ("dir:out", {}, False),
    ("dir:OUT", {"direction": "out"}, True),
    ("id:1", {}, True),
    ('id:"a b"', {"request_id": "a b"}, True),
    ("session:s", {}, True),
    ("session:other", {}, False),
    ("session:s*", {}, True),
    ("-session:s", {"session": None}, True),
    ("session:s*", {"session": None}, False),
    ("-ms:>1", {"ms": None}, True),
    ("kind:running", {"kind": "running"}, True),
    ("process:host:1", {}, True),
    ("ms:>12", {}, True),
    ("ms:>13", {}, False),
    ("ms:<13", {}, True),
    ("ms:>2s", {"ms": 2500.0}, True),
    ("ms:>1", {"ms": None}, False),
    ("since:2026-09-21", {}, True),
    ("since:2026-09-21T14:13:20Z", {}, True),
    ("since:2026-09-21T14:13:21Z", {}, False),
    ("since:2026-09-21T16:13:20+02:00", {}, True),
    ("since:2026-09-22", {}, False),
    ("since:2h", {}, False),
    ("since:520w", {}, True),
    ("until:2026-09-21", {}, True),
    ("until:2026-09-21T14:13", {}, True),
    ("until:2026-09-21T14:12", {}, False),
    ("until:2026-09-20", {}, False),
    ("since:today until:yesterday", {}, False),
    ("-until:2026-09-20", {}, True),
    ("client:nobody", {}, False),
    ("-client:nobody", {"session": None}, True),
    ("hi", {}, True),
    ("HI", {}, True),
    ("absent", {}, False),
    ("-absent", {}, True),
    ('"text\\":"', {}, False),
    ("arguments hi tool:echo", {}, True),
    ("arguments absent", {}, False),
    ("100%", {"answer": "100 of 200"}, False),
    ("a_b", {"answer": "axb"}, False),
]


@pytest.fixture
def ada(db: None) -> None:
    get_user_model().objects.create_user("ada", pk=7)


@pytest.mark.parametrize(("text", "changes", "found"), CASES)
def test_term_selects_same_incoming_and_stored_line(
    text: str, changes: dict[str, Any], found: bool, ada: None
) -> None:
    search = parse(text)
    assert search.problems == ()
    assert search.holds(line(**changes)) is found
    _write("1-0", orjson.loads(orjson.dumps(batch(fields(**changes)))))
    assert search.narrow(Message.objects.all()).exists() is found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tol:echo", "Unknown search term “tol:”. Known: tool, target"),
        ("http://example.com", "put it in quotes"),
        ("status:bad", "status must be one of succeeded, failed"),
        ("dir:up", "dir must be one of in, out"),
        ("ms:fast", "ms must be a number"),
        ("since:soon", "since must be a time"),
        ("until:2026-02-30", "until must be a time"),
        ("since:25:00", "since must be a time"),
        ("since:999999w", "since must be a time"),
        ('user:""', "needs a value"),
        ("\u202ex:1 tool:echo", ""),
        ("x\u202e:1", ""),
        ("x" * (LONGEST + 1), "at most 300 characters"),
        ("a " * (MOST_TERMS + 1), "at most 12 terms"),
    ],
)
def test_invalid_term_is_explained_and_matches_nothing(text: str, words: str) -> None:
    search = parse(text)
    if words:
        assert words in " ".join(search.problems)
        assert not search.holds(line())
        assert not search.narrow(Message.objects.all()).exists()
    assert "\u202e" not in " ".join(search.problems)


def test_every_search_key_is_documented_and_parsed() -> None:
    for key, meaning in KEYS.items():
        value = {"status": "ok", "dir": "in", "ms": "1", "since": "1h", "until": "14:05"}.get(key, "x")
        assert parse(f"{key}:{value}").problems == ()
        assert meaning


@pytest.mark.parametrize(
    ("text", "reads"),
    [("", False), ("method:ping", False), ("status:ok", False), ("hi", True), ("-status:ok", True)],
)
def test_reads_rows_is_true_for_unindexed_terms(text: str, reads: bool) -> None:
    assert parse(text).reads_rows is reads


@pytest.mark.parametrize(
    ("text", "found"),
    [("client:cursor", True), ("client:Cursor", True), ("client:cur*", True), ("client:curs", False),
     ("-client:cursor", False)],
)  # fmt: skip
def test_client_term_matches_announced_client_name(text: str, found: bool) -> None:
    search, coming = parse(text), line()
    coming.client = "Cursor"
    assert search.holds(coming) is found
    assert search.asks_for_client
    facts = [opened("s", client_name="Cursor")]
    _write("1-0", orjson.loads(orjson.dumps(batch(fields(), facts=facts))))
    assert search.narrow(Message.objects.all()).exists() is found


@pytest.mark.parametrize(
    ("key", "value", "term"),
    [
        ("tool", "echo", "tool:echo"),
        ("target", "notes://a b", 'target:"notes://a b"'),
        ("status", "error", "status:protocol_error"),
        ("status", "nonsense", ""),
        ("tool", 'a"b', ""),
        ("tool", "all*", ""),
    ],
)
def test_term_of_value_matches_it_exactly(key: str, value: str, term: str) -> None:
    assert term_of(key, value) == term
