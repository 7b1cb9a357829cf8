"""Owns the offer to undo what was just done: a signed note of it beside the message, for who did it alone."""

from __future__ import annotations

from typing import Any, Final

from django.core import signing
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.html import format_html
from django.utils.safestring import SafeString

SALT: Final = "mcp_app.admin.undo"
FIELD: Final = "undo"
# Later nobody undoes by a message; history and roll back are there for that.
SECONDS: Final = 3600


def noted(request: HttpRequest, subject: str, what: Any) -> str:
    """What was done, signed: it can be sent back by the same person, for the same subject only."""
    return signing.dumps([str(request.user.pk), what], salt=f"{SALT}.{subject}", compress=True)


def read(request: HttpRequest, subject: str) -> Any:
    """What the note says that came with this request; None for one that does not count."""
    try:
        who, what = signing.loads(request.POST.get(FIELD, ""), salt=f"{SALT}.{subject}", max_age=SECONDS)
    except signing.BadSignature:
        return None
    return what if who == str(request.user.pk) else None


def with_undo(request: HttpRequest, text: str, address: str, note: str) -> SafeString:
    """The words of a message, and one button."""
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
