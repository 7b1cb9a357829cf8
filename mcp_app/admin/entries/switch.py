"""Owns the switch of an entry in its list: the button, what is said of it, and what its script is told."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.markup import written
from mcp_app.text import marked


def switch_button(entry: Any, address: str) -> SafeString:
    """The button."""
    # A submit button of the list's own form: it carries that form's CSRF token and needs no script.
    return format_html(
        '<button type="submit" class="mcp-switch" role="switch" formnovalidate name="mcp-enabled"'
        ' aria-checked="{}" formaction="{}" value="{}" title="{}">'
        '<span class="mcp-hidden">{}</span></button>',
        "true" if entry.enabled else "false",
        address,
        "0" if entry.enabled else "1",
        _does(entry),
        "on" if entry.enabled else "off",
    )


def switched(what: str, enabled: bool, *, told: bool) -> str:
    """What was done, and whether clients hear of it."""
    heard = "Clients are notified now." if told else "Nothing was changed."
    return f"{'Enabled' if enabled else 'Disabled'}: {what}. {heard}"


def as_switched(entry: Any, text: str) -> dict[str, Any]:
    """What the script shows, so that no row moves under the pointer."""
    at = entry.updated_at
    return {
        "enabled": entry.enabled,
        "title": _does(entry),
        "at": timezone.localtime(at).isoformat(),
        "written": written(at),
        "text": text,
    }


def _does(entry: Any) -> str:
    return f"{'Disable' if entry.enabled else 'Enable'} {marked(entry)}"
