"""Notifies by e-mail, by the mail settings of the Django project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.mail import EmailMessage, get_connection

from mcp_app import conf
from mcp_app.notices.needs import Attention, arguments_of, whole_url
from mcp_app.notices.outcome import Undelivered

# For each step of the conversation; all of it is bounded by the job's time limit.
SECONDS: Final = 10.0
MOST_NAMED: Final = 20


def is_configured() -> bool:
    """Whether the project names a way for mail; Django's defaults name a server on this machine."""
    settings: Any = django_settings
    return any(settings.is_overridden(name) for name in ("EMAIL_HOST", "EMAIL_BACKEND", "MAILERS"))


def send(to: str, needs: Sequence[Attention]) -> None:
    """One mail for all of them; raises Undelivered, and whatever a project's own way for mail raises."""
    if not to:
        raise Undelivered("The account has no e-mail address.")
    if not is_configured():
        raise Undelivered("No mail server is configured (EMAIL_URL, or EMAIL_HOST of a project).")
    message = EmailMessage(_subject(needs), _body(needs), to=[to], connection=get_connection(timeout=SECONDS))
    message.extra_headers["Auto-Submitted"] = "auto-generated"
    message.send()


def _subject(needs: Sequence[Attention]) -> str:
    server = conf.get().server.label
    what = needs[0].text if len(needs) == 1 else f"{len(needs)} things wait for you"
    # A line break in a subject would begin another header, which Django refuses.
    return " ".join(f"[{server}] {what}".split())


def _body(needs: Sequence[Attention]) -> str:
    lines = []
    for need in needs[:MOST_NAMED]:
        lines += [need.text, *filter(None, (arguments_of(need),)), whole_url(need.url), ""]
    if len(needs) > MOST_NAMED:
        lines += [f"and {len(needs) - MOST_NAMED} more.", ""]
    return "\n".join([*lines, "You chose to hear of this on the page Notifications of the admin."])
