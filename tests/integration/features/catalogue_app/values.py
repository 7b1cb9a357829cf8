"""Values that both the catalogue and the tests of it need; importing them registers nothing."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from mcp_app import Annotations
from tests.conformance.fixture.samples import PIXEL

SECRET = "hunter2"  # Must never be seen in an answer.
WORDS = [f"word{number:03}" for number in range(150)]
PERMISSION = "auth.view_group"
ICON = f"data:image/png;base64,{b64encode(PIXEL).decode()}"
MARKED = Annotations(audience=["user", "assistant"], priority=0.5, last_modified="2025-11-25T12:00:00Z")

EVERY_KEYWORD: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "place": {"$anchor": "placeHere", "type": "object", "properties": {"city": {"type": "string"}}}
    },
    "properties": {
        "place": {"$ref": "#placeHere"},
        "way": {"enum": ["phone", "post"]},
        "phone": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["place"]}]}],
    "if": {"properties": {"way": {"const": "phone"}}, "required": ["way"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["place"]},
    "additionalProperties": False,
    "x-vendor": {"kept": True},
}
SEVENTH_DRAFT: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "definitions": {"count": {"type": "integer", "minimum": 1}},
    # A list under "items" is a tuple in draft 7 and not allowed in 2020-12.
    "properties": {"pair": {"type": "array", "items": [{"$ref": "#/definitions/count"}, {"type": "string"}]}},
    "required": ["pair"],
}
