"""Checks of settings that suit development but are unsafe or lose jobs in production."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings as django_settings

from mcp_app import conf
from mcp_app.auth.public_paths import BROKER_TRANSPORT, names
from mcp_app.doctor.finding import Finding, error, ok
from mcp_app.doctor.installation import Installation
from mcp_app.protocol.http.transport_security import names_loopback

SECRET_LENGTH = 32
BROKER_SCHEMES = ("redis:", "rediss:", "redis+socket:")


def debug(installation: Installation) -> Iterator[Finding]:
    """Check DEBUG, which reveals source and settings to any visitor who causes an error."""
    public = _public_hosts(installation)
    if django_settings.DEBUG and public:
        text = f"DEBUG is on, and the server answers to {', '.join(public)}"
        yield error("settings.debug", text, "Switch DEBUG off.")
    else:
        yield ok("settings.debug", "DEBUG is on for this machine only" if django_settings.DEBUG else "off")


def loopback(_: Installation) -> Iterator[Finding]:
    """Check that only this machine can connect without credentials."""
    settings = conf.get()
    if settings.auth == "loopback" and not settings.loopback:
        text = "no credential is asked for (AUTH is loopback), and other machines can connect"
        yield error(
            "settings.loopback",
            text,
            "Set AUTH (MCP_AUTH) to required, or serve this machine only, which LOOPBACK says.",
        )
    else:
        yield ok("settings.loopback", f"AUTH is {settings.auth}")


def secret_key(_: Installation) -> Iterator[Finding]:
    """Check that the key that signs sessions and cursors is neither known nor guessable."""
    secret = str(django_settings.SECRET_KEY)
    why = ""
    if secret.startswith("django-insecure-"):
        why = "is the one that startproject wrote"
    elif len(secret) < SECRET_LENGTH:
        why = f"has only {len(secret)} characters"
    if why:
        remedy = f"Set SECRET_KEY to at least {SECRET_LENGTH} random characters."
        yield error("settings.secret_key", f"SECRET_KEY {why}", remedy)
    else:
        yield ok("settings.secret_key", "SECRET_KEY is long enough")


def broker(_: Installation) -> Iterator[Finding]:
    """Check that workers survive a full Redis if it is the broker."""
    url = str(getattr(django_settings, "CELERY_BROKER_URL", "") or "")
    if not url.startswith(BROKER_SCHEMES):
        return
    if names(getattr(django_settings, "CELERY_BROKER_TRANSPORT", ""), BROKER_TRANSPORT):
        yield ok("settings.broker", "CELERY_BROKER_TRANSPORT sits out a full Redis")
    else:
        text = "CELERY_BROKER_TRANSPORT is not ours: workers end when Redis is full"
        yield error("settings.broker", text, f'Set CELERY_BROKER_TRANSPORT = "{BROKER_TRANSPORT}".')


def _public_hosts(installation: Installation) -> list[str]:
    public = urlsplit(installation.url).netloc
    hosts = [*django_settings.ALLOWED_HOSTS, *conf.get().allowed_hosts, *([public] if public else [])]
    return sorted({host for host in hosts if not names_loopback(host.encode())})


CHECKS = (debug, loopback, secret_key, broker)
