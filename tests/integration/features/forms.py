"""Elicitation forms of the tests, and a response that fits them."""

from __future__ import annotations

from typing import Any

CHOICES = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]

R3_FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 40},
        "mail": {"type": "string", "format": "email"},
        "page": {"type": "string", "format": "uri"},
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "height": {"type": "number", "minimum": 0.5},
        "sure": {"type": "boolean", "default": True},
        "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    },
    "required": ["name"],
}
EVERY_FIELD: dict[str, Any] = {
    "type": "object",
    "properties": {
        **R3_FIELDS["properties"],
        "town": {"type": "string", "default": "Bern"},
        "count": {"type": "integer", "default": 3},
        "share": {"type": "number", "default": 0.5},
        "plain": {"type": "string", "enum": ["x", "y"], "default": "x"},
        "size": {"type": "string", "oneOf": CHOICES, "default": "s"},
        "some": {
            "type": "array",
            "items": {"type": "string", "enum": ["p", "q"]},
            "minItems": 1,
            "maxItems": 2,
        },
        "sizes": {"type": "array", "items": {"anyOf": CHOICES}, "default": ["s"]},
    },
    "required": ["name"],
}
CONTENT: dict[str, Any] = {
    "name": "Ada",
    "mail": "ada@example.com",
    "page": "https://example.com/",
    "day": "2025-11-25",
    "moment": "2025-11-25T12:00:00Z",
    "age": 36,
    "height": 1.7,
    "sure": False,
    "colour": "g",
}
ANSWER: dict[str, Any] = {"action": "accept", "content": CONTENT}
