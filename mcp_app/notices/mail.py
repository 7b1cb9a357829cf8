"""Notifications by e-mail. They use the mail settings of the Django project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.mail import EmailMessage, get_connection

from mcp_app import conf
from mcp_app.notices.attention import Attention, absolute_url, arguments_of
from mcp_app.notices.outcome import Undelivered

# Timeout of each step of SMTP, in seconds. The time limit of the job applies to the whole delivery.
SECONDS: Final = 10.0
MOST_NAMED: Final = 20


def is_configured() -> bool:
    """Return True if the project has mail settings.

    Django's defaults are not enough, because they use a mail server on this machine.
    """
    settings: Any = django_settings
    return any(settings.is_overridden(name) for name in ("EMAIL_HOST", "EMAIL_BACKEND", "MAILERS"))


def send(to: str, needs: Sequence[Attention]) -> None:
    """Send one e-mail about all tasks.

    Raises Undelivered and any exception of the project's mail backend.
    """
    if not to:
        raise Undelivered("Your account has no e-mail address.")
    if not is_configured():
        raise Undelivered("No mail server is configured: set EMAIL_URL, or EMAIL_HOST in your settings.")
    message = EmailMessage(_subject(needs), _body(needs), to=[to], connection=get_connection(timeout=SECONDS))
    message.extra_headers["Auto-Submitted"] = "auto-generated"
    message.send()


def _subject(needs: Sequence[Attention]) -> str:
    server = conf.get().server.label
    what = needs[0].text if len(needs) == 1 else f"{len(needs)} items need your attention"
    # Django rejects a subject with a line break, which would start another header.
    return " ".join(f"[{server}] {what}".split())


def _body(needs: Sequence[Attention]) -> str:
    lines = []
    for need in needs[:MOST_NAMED]:
        lines += [need.text, *filter(None, (arguments_of(need),)), absolute_url(need.url), ""]
    if len(needs) > MOST_NAMED:
        lines += [f"and {len(needs) - MOST_NAMED} more.", ""]
    return "\n".join([*lines, "Change these notifications on the page Notifications of the admin."])
