"""The effective values of an entry's fields, for users who may view the entry but not change it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.entries.callers import rule_of
from mcp_app.admin.entries.differences import label
from mcp_app.admin.markup import badge, block, json_block
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.precedence import UNSET
from mcp_app.interface.text import visible

Entry = Any


def in_force(entry: Entry, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Replace field names by functions that display the effective value, where necessary.

    A field without an override shows the value from the source. The permission is always described in words.
    """
    stated = source_of(entry).in_force(entry)
    silent = {name for name in names if stated.get(name) and getattr(entry, name) in UNSET}
    return tuple(_shown(name) if name in silent or name == "permission" else name for name in names)


@cache
def definition_columns(origin: str) -> tuple[Callable[[Entry], SafeString], ...]:
    """Return columns for the definition and its description.

    Their labels contain ``origin``, the name of the place where the entry is defined.
    """

    @admin.display(description=f"definition in {origin}")
    def shown_definition(entry: Entry) -> SafeString:
        where = format_html('<p class="mcp-dim">{}</p>', visible(entry.code_path)) if entry.code_path else ""
        return format_html("{}{}", where, json_block(entry.definition))

    @admin.display(description=f"description in {origin}")
    def code_description(entry: Entry) -> SafeString:
        return block(source_of(entry).in_force(entry).get("description") or "–")

    return shown_definition, code_description


@cache
def _shown(name: str) -> Callable[[Entry], SafeString]:
    def show(entry: Entry) -> SafeString:
        if name == "permission":
            return visible(rule_of(entry))
        source = source_of(entry)
        stated = source.in_force(entry).get(name)
        if name == "description":
            value = block(str(stated))
        elif name == "tags":
            value = visible(", ".join(stated or ()))
        else:
            value = json_block(stated) if isinstance(stated, list | dict) else visible(stated)
        return format_html("<div>{} {}</div>", value, badge(f"from {source.origin}"))

    # The admin looks up a field's help text by the name of the function.
    show.__name__ = name
    return admin.display(description=label(name))(show)
