"""Undo of the user's last action.

A signed note beside the message describes the action. It is valid only for the user who acted.
"""

from __future__ import annotations

from typing import Any, Final

from django.core import signing
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.html import format_html
from django.utils.safestring import SafeString

SALT: Final = "mcp_app.admin.undo"
FIELD: Final = "undo"
# Seconds for which an undo is offered. For older changes there is the history with its rollback.
SECONDS: Final = 3600


def signed_action(request: HttpRequest, subject: str, what: Any) -> str:
    """Return a signed note about an action. It is valid only for this user and this ``subject``."""
    return signing.dumps([str(request.user.pk), what], salt=f"{SALT}.{subject}", compress=True)


def read(request: HttpRequest, subject: str) -> Any:
    """Return the content of the submitted note.

    Returns None if the note is invalid, expired, or of another user.
    """
    try:
        who, what = signing.loads(request.POST.get(FIELD, ""), salt=f"{SALT}.{subject}", max_age=SECONDS)
    except signing.BadSignature:
        return None
    return what if who == str(request.user.pk) else None


def with_undo(request: HttpRequest, text: str, address: str, note: str) -> SafeString:
    """Return a message followed by an undo button."""
    return format_html(
        '{} <form method="post" action="{}" class="mcp-undo">'
        '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'
        '<button class="mcp-button" type="submit" name="{}" value="{}">Undo</button></form>',
        text,
        address,
        get_token(request),
        FIELD,
        note,
    )
