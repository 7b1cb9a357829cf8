"""JSON typed by a user: strict parsing, errors with their location, and only values that databases store."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from mcp_app.admin.widgets import JsonField
from mcp_app.catalogue.schemas.strict_json import MAX_JSON_CHARACTERS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a" 1}', "line 1, column 6"),
        ('{\n  "a": tru\n}', "line 2, column 8"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": NaN}', "NaN is not valid JSON."),
        ('{"a": -Infinity}', "-Infinity is not valid JSON."),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": "\\u0000"}', "may not contain NUL"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ('{"\\udfff": 1}', "lone surrogate"),
        ('{"a": ' + "9" * 5000 + "}", "too long"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "[" * 70 + "]" * 70 + "}", "levels deep"),
        ('{"a": ' + "[" * 90_000, "levels deep"),
        ("[]", "Must be an object"),
        ('"text"', "Must be an object"),
        ('{"a": "' + "x" * MAX_JSON_CHARACTERS + '"}', "Too long"),
    ],
)
def test_invalid_json_error_names_the_fault(text: str, says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        JsonField(shape=dict).clean(text)
    assert says in refused.value.messages[0]


@pytest.mark.parametrize(("shape", "text", "value"), [(dict, "", {}), (list, "  ", []), (None, "", None)])
def test_empty_field_returns_the_empty_value(shape: type | None, text: str, value: object) -> None:
    assert JsonField(shape=shape, required=False).clean(text) == value


@pytest.mark.parametrize("text", ['{"a": [1, null, "\\ud83d\\ude00 é"]}', '{"a": {"b": {}}}', "{}"])
def test_valid_json_round_trips(text: str) -> None:
    field = JsonField(shape=dict, required=False)
    value = field.clean(text)
    assert field.clean(field.prepare_value(value)) == value


def test_invalid_text_is_shown_as_typed() -> None:
    field = JsonField()
    assert field.prepare_value(field.bound_data("{oops", None)) == "{oops"
