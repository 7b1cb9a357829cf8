"""What an error says is found in any answer, and what differs from one time to the next is left out of it."""

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
    said_in,
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
def test_the_words_of_an_error_are_found_also_when_the_answer_was_cut(answer: str, words: str) -> None:
    assert said_in(answer).startswith(words)
    assert bool(said_in(answer)) == bool(words)


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
def test_errors_that_differ_in_what_varies_say_the_same(one: str, other: str) -> None:
    assert without_what_varies(one) == without_what_varies(other)


@pytest.mark.parametrize(
    ("one", "other"), [("No such shelf", "No such book"), ("can't open it", "can't close it")]
)
def test_errors_that_say_something_else_do_not(one: str, other: str) -> None:
    assert without_what_varies(one) != without_what_varies(other)


@given(st.text(max_size=2_000), st.integers(0, 2_000))
def test_any_text_whole_or_cut_gives_few_words_that_can_be_stored(text: str, cut: int) -> None:
    for answer in (text, failed(text)[:cut], orjson.dumps({"error": {"message": text}}).decode()[:cut]):
        said = said_in(answer)
        assert len(said) <= LONGEST_WORDS
        assert "\0" not in said
        assert len(without_what_varies(said)) <= LONGEST


def test_hostile_text_takes_no_longer_than_its_length() -> None:
    # Each of these takes quadratic time, or worse, in a search that goes back.
    for piece in ("a", "'", '"', "`", "1", "a-", "a1", "http://", '\\"', "\\"):
        without_what_varies(piece * 100_000)
        said_in('{"text":"' + piece * 100_000)
        said_in('"text":' * LONGEST_READ)
