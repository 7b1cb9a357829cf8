"""Text of unknown origin: escaped, with hidden characters marked; JSON indented without parsing."""

from __future__ import annotations

import json
import re
import time

import pytest

from mcp_app.interface.text import (
    indented_json,
    json_text,
    marked,
    visible,
    visible_block,
)
from mcp_app.templatetags.mcp_text import grouped, with_code


@pytest.mark.parametrize(
    "character",
    [
        *("\x00\x07\x08\x0b\x0c\r\x1b\x7f\x80\x9b\xad"),
        *("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069"),
        *("\ufeff\ufff9\U000e0001\U000e0041\U000e01ef\ud800\udfff"),
    ],
)
def test_hidden_character_is_marked_in_lines_and_blocks(character: str) -> None:
    name = f"U+{ord(character):04X}"
    assert marked(f"a{character}b") == f"a⟦{name}⟧b"
    for html in (visible(f"a{character}b"), visible_block(f"a{character}b")):
        assert f'a<b class="mcp-mark">{name}</b>b' in html
        assert character not in html


@pytest.mark.parametrize("character", ["\n", "\t"])
def test_line_feeds_and_tabs_are_marked_in_line_and_kept_in_block(character: str) -> None:
    assert character not in visible(f"a{character}b")
    assert visible_block(f"a{character}b") == f"a{character}b"


@pytest.mark.parametrize("text", ["plain", "é 中文 עברית", "😀", "a \u200bb".replace("\u200b", "")])
def test_ordinary_text_of_any_language_is_unchanged(text: str) -> None:
    assert visible_block(text) == text


@pytest.mark.parametrize("text", ["<b>", "\"'&", "</pre><script>", "<\u202escript>"])
def test_markup_is_escaped_with_and_without_marks(text: str) -> None:
    html = visible_block(text)
    assert "<" not in html.replace('<b class="mcp-mark">', "").replace("</b>", "")
    assert '"' not in html.replace('class="mcp-mark"', "")


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": []}, {"a": [1, {"b": None}], "c": "x, y: {z} [\\"}, [[1, 2], [3]], {"a": '"quoted"'}],
)
def test_indentation_equals_standard_library(value: object) -> None:
    assert indented_json(json.dumps(value), 10_000) == json.dumps(value, indent=2)


@pytest.mark.parametrize(
    "text", ['{"a":1e400}', '{"a":12345678901234567890}', '{"a":1,"a":2}', '{"a":"\\u202e"}']
)
def test_indentation_keeps_numbers_escapes_and_duplicates(text: str) -> None:
    assert "".join(indented_json(text, 1_000).split()) == text


def test_truncated_json_is_indented() -> None:
    assert indented_json('{"a":[1,"unfinis', 1_000) == '{\n  "a": [\n    1,\n    "unfinis'


def test_invalid_json_is_only_truncated() -> None:
    assert indented_json("no json, {a: b}", 4) == "no j"


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 50_000, '"' * 200_000, "[" + '"\\' * 100_000, "[" + "]" * 200_000]
)
def test_hostile_text_is_indented_quickly_and_bounded(text: str) -> None:
    started = time.perf_counter()
    assert len(indented_json(text, 50_000)) <= 50_000
    assert time.perf_counter() - started < 2


def test_json_text_is_independent_of_member_order() -> None:
    assert json_text({"b": 1, "a": "é"}) == json_text({"a": "é", "b": 1}) == '{\n  "a": "é",\n  "b": 1\n}'


def test_whole_number_has_thousands_separators() -> None:
    assert [grouped(number) for number in (0, 999, 1030, 1_234_567)] == ["0", "999", "1,030", "1,234,567"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Run `ls`.", "Run |<code>ls</code>|."),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("a ` b", "a ` b"),
        ("plain", "plain"),
    ],
)
def test_backticks_mark_code(said: str, shown: str) -> None:
    text = re.sub(r"</?bdi[^>]*>", "", with_code(said))
    assert text == shown.replace("|", "")
