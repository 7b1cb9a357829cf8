"""Values of catalogue files are checked against the types of their fields."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.transfer.fields import read_value
from mcp_app.models import Prompt, Tool

SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        (Tool, "output_schema", SCHEMA, ""),
        (Tool, "output_schema", None, ""),
        (Tool, "output_schema", [], "Must be an object or null."),
        (Tool, "input_schema", SCHEMA, ""),
        (Tool, "input_schema", None, "Must be an object."),
        (Prompt, "arguments", [], ""),
        (Prompt, "arguments", {}, "Must be a list."),
    ],
)
def test_json_value_has_the_shape_of_its_field(kind: type[Any], name: str, value: Any, words: str) -> None:
    if words:
        with pytest.raises(ValueError, match=words):
            read_value(kind, name, value)
    else:
        assert read_value(kind, name, value) == value
