"""Help texts of form fields that the source also defines. They show the source's value and its override."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.entries.differences import IN_CODE
from mcp_app.admin.markup import badge
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.precedence import UNSAID
from mcp_app.interface.text import marked, marked_block

Entry = Any


def mark_fields(fields: Mapping[str, Any], entry: Entry, values: Mapping[str, Any]) -> None:
    """Add to each field's help text the value from the source, and state if the form overrides it.

    Titles and descriptions from the source also become placeholders.
    """
    source = source_of(entry)
    for name, stated in source.in_force(entry).items():
        field = fields.get(name)
        if field is None or not stated:
            continue
        if name in IN_CODE:
            has_lines = isinstance(field.widget, forms.Textarea)
            field.widget.attrs["placeholder"] = marked_block(stated) if has_lines else marked(stated)
        said = _said(name, stated, source.origin, values.get(name))
        field.help_text = format_html("{} {}", field.help_text, said)


def _said(name: str, stated: Any, origin: str, value: Any) -> SafeString:
    if stated is True:
        return _marked(f"from {origin}", f"Switched on in {origin}, and cannot be switched off here.")
    overrides = value not in UNSAID
    if name in IN_CODE:
        if overrides:
            return _marked(
                "override", f"Overrides the text from {origin}, which is in force when this is empty."
            )
        return _marked(f"from {origin}", f"In force is the text from {origin}, as shown.")
    shown = "what it says" if isinstance(stated, list | dict) else marked(stated)
    if overrides:
        return _marked("override", f"Overrides {shown} from {origin}, in force when this is empty.")
    return _marked(f"from {origin}", f"In force from {origin}: {shown}.")


def _marked(word: str, sentence: str) -> SafeString:
    return format_html("{} {}", badge(word, "warn" if word == "override" else "plain"), sentence)
