"""Catalogue files round-trip in both notations; hostile files are rejected early."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.catalogue.transfer import notation as notations
from mcp_app.catalogue.transfer.problems import TransferRefused
from mcp_app.interface.text import has_hidden

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["1", "1e5", "true",
     "null", "~", "yes", "=", "2025-01-01", "a\nb\n", " a\nb", "a \n\n", "a\rb", "\n", "---",
     "- a", "# a", "a: b", "\ufeff", "\t", "x\x9by\u202e", "😀", "'\"\\", "\\U0000202E", "9" * 5000]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("notation", notations.NOTATIONS)
@given(value=VALUES)
def test_value_round_trips_without_hidden_characters(notation: str, value: Any) -> None:
    text = notations.write(value, notation)
    assert json.dumps(notations.read(text.encode(), notation)) == json.dumps(value)
    assert not has_hidden(text)


@pytest.mark.parametrize(
    ("notation", "text", "says"),
    [
        ("json", '{"a" 1}', "line 1, column 6"),
        ("json", '{"a": 1, "a": 2}', "'a' occurs twice"),
        ("json", "[" * 200_000, "levels deep"),
        ("json", '{"a": NaN}', "NaN is not valid JSON"),
        ("json", "9" * 5000, "too long"),
        ("json", "\xff", "not UTF-8"),
        ("yaml", "a: &x [1]\nb: *x", "line 1, column 4: anchors and aliases"),
        ("yaml", "a: *x", "anchors and aliases"),
        ("yaml", "*x : 1", "anchors and aliases"),
        ("yaml", "a: !!python/object/apply:os.system [x]", "tags (!)"),
        ("yaml", "!!str a: 1", "tags (!)"),
        ("yaml", "%TAG ! tag:x,2000:\n---\na: !b c", "tags (!)"),
        ("yaml", "a: 1\na: 2", "line 2, column 1: the name 'a' occurs twice"),
        ("yaml", "a: 1\n---\nb: 2", "second document"),
        ("yaml", "? [a]\n: 1", "name must be text"),
        ("yaml", "[" * 200_000, "levels deep"),
        ("yaml", "- " * 200_000, "levels deep"),
        ("yaml", "a: " + "9" * 5000, "too long"),
        ("yaml", "a: \x1b", "control characters are not allowed"),
        ("yaml", "a: b: c", "line 1, column 5"),
        ("yaml", "a: [", "Not valid YAML"),
        ("yaml", "\xff", "not UTF-8"),
    ],
)
def test_hostile_or_broken_file_is_rejected_with_reason(notation: str, text: str, says: str) -> None:
    with pytest.raises(TransferRefused) as refused:
        notations.read(text.encode("latin-1"), notation)
    assert says in str(refused.value)


@pytest.mark.parametrize("notation", notations.NOTATIONS)
def test_oversized_file_is_neither_read_nor_written(notation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notations, "MAX_BYTES", 20)
    with pytest.raises(TransferRefused, match="more than 20 bytes"):
        notations.read(b'"' + b"x" * 20 + b'"', notation)
    with pytest.raises(TransferRefused, match="more than 20 bytes"):
        notations.write("x" * 20, notation)


@pytest.mark.parametrize("notation", notations.NOTATIONS)
def test_value_count_limit_ignores_brackets_in_strings(
    notation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notations, "MAX_VALUES", 3)
    assert notations.read(rb'["[,{\"[,{", 2]', notation) == ['[,{"[,{', 2]
    for text in (b"[1, 2, 3, 4]", b"[[], [[]]]", b'{"a": [1, 2], "b": {}}'):
        with pytest.raises(TransferRefused, match="more than 3 values"):
            notations.read(text, notation)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}),
        ("[true, false, yes, 'true']", [True, False, "yes", "true"]),
        (
            "[1, -2, 1.5, 1e5, 010, '1', 2025-01-01, .inf]",
            [1, -2, 1.5, 1e5, "010", "1", "2025-01-01", ".inf"],
        ),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ('{"a": ["json", 1.5e3]}', {"a": ["json", 1500.0]}),
    ],
)
def test_yaml_scalars_follow_json_types(text: str, value: Any) -> None:
    assert notations.read(text.encode(), "yaml") == value


@pytest.mark.parametrize(
    ("name", "notation"),
    [("a.yaml", "yaml"), ("A.YML", "yaml"), ("a.json", "json"), ("-", "json"), ("yaml", "json")],
)
def test_file_suffix_selects_notation(name: str, notation: str) -> None:
    assert notations.notation_of(name) == notation
