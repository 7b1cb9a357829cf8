"""Cuts and pages of long texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app.execution.long_results.bounds import Size, size_of
from mcp_app.execution.long_results.cutting import cut, head
from mcp_app.execution.long_results.pages import pages_of
from mcp_app.execution.long_results.shortening import META, shorten

ROWS = [{"id": number, "name": f"Ünïcode {number}"} for number in range(1000)]
FAMILY = "👨\u200d👩\u200d👧"
LINES = "".join(f"line {number}\n" for number in range(1000))


def written(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (written(ROWS), "rows 1 to 31 of 1,000"),
        (written(ROWS, indent=2), "rows 1 to 31 of 1,000"),
        (written({"total": 1000, "items": ROWS}), "rows 1 to 31 of 1,000 in 'items'"),
        (written({"data": {"items": ROWS}, "next": None}), "rows 1 to 30 of 1,000 in 'items'"),
        (written({f"key {number}": number for number in range(500)}), "members 1 to 84 of 500"),
        (written(["a" * 5000, "b"]), "part of row 1 of 2 (characters 1 to 996 of 5,000)"),
        (written({"log": LINES, "ok": True}), "lines 1 to 109 of 1,000 in 'log'"),
        (written({"log": "é\n" * 5000}), "lines 1 to 247 of 5,000 in 'log'"),
        (LINES, "lines 1 to 123 of 1,000"),
        ("word " * 1000, "characters 1 to 1,000 of 5,000"),
        ("x" * 5_000_000, "characters 1 to 1,000 of 5,000,000"),
        ("[" + "x" * 5000, "characters 1 to 1,000 of 5,001"),
        ("[" * 50_000, "characters 1 to 1,000 of 50,000"),
        (written({"log": "\x01" * 5000}), "characters 1 to 165 of 5,000 in 'log'"),
        (written({"log": '\n"' * 5000}), "lines 1 to 248 of 5,001 in 'log'"),
        (written([{"id": 10**30, "at": 1e300}] * 100), "rows 1 to 19 of 100"),
        ('[NaN, "' + "x" * 5000 + '"]', None),
        ("👍" * 1000, "characters 1 to 250 of 1,000"),
    ],
)
def test_text_is_cut_at_its_structure(text: str, shown: str | None) -> None:
    found = cut(text, 1000)
    assert shown is None or found.shown == shown
    assert len(found.text.encode()) <= 1000
    assert len(found.text.encode()) > 400
    if found.value is not None:
        assert json.loads(found.text) == found.value


def test_unpaired_surrogates_in_json_become_question_marks() -> None:
    found = cut(json.dumps(["\ud83d" * 9] * 1000), 1000)
    assert found.shown == "rows 1 to 83 of 1,000"
    assert json.loads(found.text) == ["?" * 9] * 83


@pytest.mark.parametrize(
    "character", [FAMILY, "e\u0301", "🇩🇪", "👍🏽", "❤\ufe0f", "क\u094d\u200dष"], ids=ascii
)
@pytest.mark.parametrize("room", range(500, 530))
def test_cut_does_not_divide_a_visible_character(character: str, room: int) -> None:
    part = head(character * 200, room)
    assert len(part.encode()) <= room
    assert part
    assert part == character * (len(part) // len(character))


@pytest.mark.parametrize(
    "text",
    [
        LINES * 20,
        written(ROWS),
        written(ROWS, indent=1),
        "x" * 50_000,
        FAMILY * 500,
        "\0\r\n" * 5000,
        " " * 9000,
    ],
    ids=lambda text: ascii(text[:5]),
)
def test_pages_joined_are_the_whole(text: str) -> None:
    pages = pages_of({"content": [{"type": "text", "text": text}]}, 520)
    assert "".join(page.content for page in pages) == text
    assert max(len(page.content.encode()) for page in pages) <= 520
    assert len(pages) <= len(text.encode()) / 520 * 2.2 + 1


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def image(length: int) -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", "data": "a" * length}


def resource(text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/css", "text": text}}


def kinds(blocks: list[dict[str, Any]]) -> list[str]:
    return [each["type"] for each in blocks]


@pytest.mark.parametrize(
    ("blocks", "bound", "kept", "sentence"),
    [
        ([block(LINES)], Size(1000, 9**9), ["text"], "Shown: lines 1 to 66 of 1,000."),
        # Base64 data does not count as tokens.
        (
            [block("a"), image(90_000), block(LINES)],
            Size(1000, 9**9),
            ["text", "image", "text"],
            "Shown: lines",
        ),
        (
            [block("a"), image(90_000), image(9), image(90_000), block("b")],
            Size(1000, 9000),
            ["text", "image", "text"],
            "This result is incomplete. Left out: 2 images.",
        ),
        (
            [block(LINES), resource("x" * 2000), block("b")],
            Size(1000, 9000),
            ["text", "text"],
            "Shown: lines 1 to 66 of 1,000. Left out: 1 embedded resource.",
        ),
    ],
)
def test_blocks_that_do_not_fit_are_cut_or_left_out(
    blocks: list[dict[str, Any]], bound: Size, kept: list[str], sentence: str
) -> None:
    found = shorten({"content": blocks}, bound)
    assert kinds(found.result["content"]) == kept
    assert found.shown.startswith(sentence)
    for result in (found.linked("result://" + "0" * 32, 3600), found.unlinked()):
        texts = [each for each in result["content"] if each["type"] != "resource_link"]
        assert size_of(texts).fits(bound)
    assert sum(len(page.content) for page in found.pages) == sum(size_of([each]).total for each in blocks)


def test_structured_content_is_cut_like_its_text() -> None:
    value = {"items": ROWS}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    found = shorten({"content": [block(text)], "structuredContent": value}, Size(2000, 9**9))
    assert json.loads(found.result["content"][0]["text"]) == found.result["structuredContent"]
    assert found.result["structuredContent"]["items"] == ROWS[:47]
    assert "".join(page.content for page in found.pages) == text


def test_structured_content_beside_other_text_is_cut_on_its_own() -> None:
    value = {"items": ROWS}
    found = shorten({"content": [block("summary")], "structuredContent": value}, Size(2000, 9**9))
    assert found.result["content"] == [block("summary")]
    assert 20 < len(found.result["structuredContent"]["items"]) < 60
    assert json.loads("".join(page.content for page in found.pages[1:])) == value
    assert "rows 1 to" in found.shown


def test_cut_result_states_sizes_and_address() -> None:
    result = shorten({"content": [block(LINES)], "_meta": {"a": 1}}, Size(1000, 9**9)).linked(
        "result://0", 3600
    )
    *_, words, link = result["content"]
    assert "Read result://0 for the whole" in words["text"]
    assert (link["uri"], link["size"]) == ("result://0", len(LINES))
    assert result["_meta"]["a"] == 1
    assert result["_meta"][META]["bytes"] == len(LINES)
    assert result["_meta"][META]["pages"] > 10
