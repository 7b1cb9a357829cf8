"""Undo of the last action: a signed note beside the message, valid only for the user who acted."""

from __future__ import annotations

from typing import Any, Final

from django.core import signing
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.html import format_html
from django.utils.safestring import SafeString

SALT: Final = "mcp_app.admin.undo"
FIELD: Final = "undo"
# An offer to undo is short-lived; history and rollback cover older changes.
SECONDS: Final = 3600


def noted(request: HttpRequest, subject: str, what: Any) -> str:
    """Return a signed note of an action, valid only for this user and ``subject``."""
    return signing.dumps([str(request.user.pk), what], salt=f"{SALT}.{subject}", compress=True)


def read(request: HttpRequest, subject: str) -> Any:
    """Return the content of the request's note; None if it is invalid, expired or another user's."""
    try:
        who, what = signing.loads(request.POST.get(FIELD, ""), salt=f"{SALT}.{subject}", max_age=SECONDS)
    except signing.BadSignature:
        return None
    return what if who == str(request.user.pk) else None


def with_undo(request: HttpRequest, text: str, address: str, note: str) -> SafeString:
    """Return a message with an undo button."""
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
