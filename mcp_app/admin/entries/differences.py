"""Differences between two states of an entry by field. Long values are compared line by line.

All values are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import Field
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.markup import DiffLine, diff_lines
from mcp_app.auth.membership import group_of
from mcp_app.catalogue.sources.precedence import texts_of
from mcp_app.interface.text import json_text, marked, visible
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool, Toolset

# Fields that are not shown: numbers and hashes whose readable form is in another field.
_UNSAID: Final = frozenset({"definition_hash", "preset_of_id"})
# Members of a request that have digests of the definition at its source.
_DIGESTS: Final = frozenset({"definition", "parts"})
# If these fields are empty, the values from the code apply.
IN_CODE: Final = ("title", "description")
_EMPTY: Final[tuple[Any, ...]] = ("", None, [], {}, 0)
MAX_INLINE: Final = 160
_LABELS: Final = {
    field.name: str(field.verbose_name)
    for model in (Toolset, Tool, Prompt, Resource, ResourceTemplate)
    for field in model._meta.get_fields()
    if isinstance(field, Field)
} | {"permission": "who can use it"}


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """The difference in one field.

    It consists either of ``lines``, or of ``old`` and ``new`` as one line each. If ``old`` or ``new`` is
    None, the entry did not exist in that state.
    """

    name: str
    old: SafeString | None = None
    new: SafeString | None = None
    lines: list[DiffLine] | None = None


def field_differences(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, in_code: Any = None
) -> list[ShownDifference]:
    """Return the fields in which two states of an entry differ.

    If one of the states is None, the fields of the other state that have a value are returned. A stored state
    may not contain the definition from the code. Then ``in_code``, the entry's current definition, replaces
    it: an empty text means the text from the code.
    """
    before, after = _as_served(before, in_code), _as_served(after, in_code)
    if before is None or after is None:
        state = after if after is not None else before or {}
        said = [name for name in state if name not in _UNSAID and _is_set(name, state[name])]
        return [_whole(name, state[name], came=before is None) for name in said]
    names = [*after, *(name for name in before if name not in after)]
    changed = [name for name in names if name not in _UNSAID and before.get(name) != after.get(name)]
    return [_changed(name, before.get(name), after.get(name)) for name in changed]


def _as_served(state: Mapping[str, Any] | None, in_code: Any) -> Mapping[str, Any] | None:
    if state is None:
        return None
    words = texts_of(state.get("definition") or in_code)
    filled: dict[str, Any] = {
        name: words[name] for name in IN_CODE if name in words and state.get(name) == ""
    }
    return {**state, **filled, **_without_digests(state.get("request"))}


def _without_digests(request: Any) -> dict[str, Any]:
    """Return the request of an entry without the digests that only updates at its source compare."""
    if not isinstance(request, dict):
        return {}
    if "upstream" in request:
        return {"request": {name: value for name, value in request.items() if name not in _DIGESTS}}
    document = request.get("document")
    if not isinstance(document, dict):
        return {}
    named = {name: value for name, value in document.items() if name not in _DIGESTS}
    return {"request": {**request, "document": named}}


def faults(error: ValidationError) -> list[str]:
    """Return the messages of a validation error, one per field. Hidden characters are marked."""
    if not hasattr(error, "error_dict"):
        return [marked(text) for text in error.messages]
    return [
        marked(" ".join(texts) if name == NON_FIELD_ERRORS else f"{label(name)}: {' '.join(texts)}")
        for name, texts in error.message_dict.items()
    ]


def label(name: str) -> str:
    """Return the readable name of a field."""
    return _LABELS.get(name) or name.replace("_", " ")


def _is_set(name: str, value: Any) -> bool:
    return name == "enabled" or (value is not False and value not in _EMPTY)


def _whole(name: str, value: Any, *, came: bool) -> ShownDifference:
    text = _text(name, value)
    if _is_long(value, text):
        lines = diff_lines("", text) if came else diff_lines(text, "")
        return ShownDifference(label(name), lines=lines)
    shown = visible(text)
    return ShownDifference(label(name), new=shown) if came else ShownDifference(label(name), old=shown)


def _changed(name: str, old: Any, new: Any) -> ShownDifference:
    before, after = _text(name, old), _text(name, new)
    if _is_long(old, before) or _is_long(new, after):
        return ShownDifference(label(name), lines=diff_lines(before, after))
    return ShownDifference(label(name), old=_inline(old, before), new=_inline(new, after))


def _inline(value: Any, text: str) -> SafeString:
    if value in ("", None, [], {}):
        return format_html('<span class="mcp-dim">{}</span>', "empty")
    return visible(text)


def _text(name: str, value: Any) -> str:
    if value in (None, {}, []):
        return ""
    if name == "file":
        return PurePath(str(value)).name
    if name == "permission" and (group := group_of(str(value))) is not None:
        return f"members of {group.name}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json_text(value)


def _is_long(value: Any, text: str) -> bool:
    return bool(isinstance(value, (dict, list)) and value) or "\n" in text or len(text) > MAX_INLINE
