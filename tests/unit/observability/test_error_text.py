"""Extraction of error text from answers, and its normalization without variable parts."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.observability.error_text import (
    LONGEST,
    LONGEST_READ,
    LONGEST_WORDS,
    message_in,
    without_what_varies,
)


def failed(text: str, **more: Any) -> str:
    return json.dumps({"result": {"content": [{"type": "text", "text": text}], "isError": True, **more}})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failed("No such shelf"), "No such shelf"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: x"}}', "Unknown tool: x"),
        ('{"result":{"content":[{"type":"image","data":"x"},{"type":"text","text":"second"}]}}', "second"),
        (failed("long " * 2_000), ("long " * 2_000)[:LONGEST_WORDS]),
        (failed("Cut \"here\" " + "x" * 5_000)[:300], 'Cut "here" ' + "x"),
        ('{"result":{"content":[{"type":"text","text":"cut within \\u00', "cut within "),
        (failed("nul \0"), "nul ␀"),
        ("", ""), ("[]", ""), ("not JSON", ""), ('{"error":7}', ""), ('{"result":{"content":[3]}}', ""),
    ],
)  # fmt: skip
def test_error_text_is_extracted_from_whole_or_truncated_answer(answer: str, words: str) -> None:
    assert message_in(answer).startswith(words)
    assert bool(message_in(answer)) == bool(words)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Order 17 not found", "Order 4711 not found"),
        ("No file 'a b.txt' in /srv", "No file 'c.txt' in /srv"),
        ('Key "x" is wrong', 'Key "another one" is wrong'),
        ("Job 1f2e3d4c-0000-4000-8000-1f2e3d4c5b6a died", "Job abcdefab-0000-4000-8000-1f2e3d4c5b6a died"),
        ("Incident 1f2e3d4c: tool failed", "Incident 99aa00bb: tool failed"),
        ("GET https://a.example/x?y=1 said no", "GET https://b.example/ said no"),
        ("after 3.5 s at 12:00:01", "after 12 s at 13:59"),
        ("two\n  lines", "two lines"),
    ],
)
def test_errors_differing_in_variable_parts_normalize_equally(one: str, other: str) -> None:
    assert without_what_varies(one) == without_what_varies(other)


@pytest.mark.parametrize(
    ("one", "other"), [("No such shelf", "No such book"), ("can't open it", "can't close it")]
)
def test_different_errors_normalize_differently(one: str, other: str) -> None:
    assert without_what_varies(one) != without_what_varies(other)


@given(st.text(max_size=2_000), st.integers(0, 2_000))
def test_arbitrary_text_yields_short_storable_error_text(text: str, cut: int) -> None:
    for answer in (text, failed(text)[:cut], orjson.dumps({"error": {"message": text}}).decode()[:cut]):
        said = message_in(answer)
        assert len(said) <= LONGEST_WORDS
        assert "\0" not in said
        assert len(without_what_varies(said)) <= LONGEST


# Each of these takes at least quadratic time in a backtracking search.
@pytest.mark.parametrize("piece", ["a", "'", '"', "`", "1", "a-", "a1", "http://", '\\"', "\\", '"text":'])
def test_hostile_text_is_read_only_up_to_its_bound(piece: str) -> None:
    for answer in (piece * 100_000, '{"text":"' + piece * 100_000):
        assert message_in(answer) == message_in(answer[: LONGEST_READ + 1])
        assert without_what_varies(answer) == without_what_varies(answer[: LONGEST * 2])
