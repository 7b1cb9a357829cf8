"""The time zone of pages: the project's, or a zone that the user chose and the account stores."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode

from mcp_app.auth.public_paths import TIME_ZONE_MIDDLEWARE, former_names, names
from mcp_app.models import TimeZoneChoice

# The folders "right" and "posix" are excluded, because they repeat all zones.
_NAME: Final = re.compile(r"(?!(?:right|posix)/)[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")

# Request attribute that marks a zone set by this middleware and not by another one of the project.
_ACTIVE: Final = "_mcp_time_zone"


class ChosenZoneMiddleware(MiddlewareMixin):
    """The middleware that activates the user's time zone for pages, forms and searches."""

    def process_view(self, request: HttpRequest, view: Any, _args: Any, _named: Any) -> None:
        """Activate the user's time zone. Public pages and anonymous requests cost no query."""
        may_be_known = settings.SESSION_COOKIE_NAME in request.COOKIES
        public = not getattr(view, "login_required", True)
        if may_be_known and not public and (zone := zone_of(request.user)):
            timezone.activate(zone)
            vars(request)[_ACTIVE] = True

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Deactivate the time zone, because the thread serves other users afterwards."""
        if _ACTIVE in vars(request):
            timezone.deactivate()
        return response


def zone_of(user: Any) -> tzinfo | None:
    """Return the time zone that a user chose, or None if the project's zone applies."""
    if user is None or not user.is_authenticated:
        return None
    name = TimeZoneChoice.objects.filter(user_id=user.pk).values_list("zone", flat=True).first()
    return _zone(name) if name else None


def choose_zone(*, user: Any, name: str) -> None:
    """Store the time zone that a user chose. The name of the project's zone deletes the choice instead.

    Raises ValidationError for an unknown zone.
    """
    if _zone(name) is None:
        raise ValidationError("Unknown time zone.")
    if name == own_zone():
        TimeZoneChoice.objects.filter(user_id=user.pk).delete()
    else:
        TimeZoneChoice.objects.update_or_create(user_id=user.pk, defaults={"zone": name})


def own_zone() -> str:
    """Return the name of the project's time zone."""
    return str(timezone.get_default_timezone_name())


def shown_zone() -> str:
    """Return the name of the time zone that applies to the current page."""
    return str(timezone.get_current_timezone_name())


def zone_script() -> str:
    """Return the address of the script that shows and changes the time zone.

    The script's parameters are in the fragment.
    """
    facts = {"zone": shown_zone(), "own": own_zone(), "address": ""}
    if names(settings.MIDDLEWARE, TIME_ZONE_MIDDLEWARE):
        # Without an address, the script shows the zone but cannot change it.
        with suppress(NoReverseMatch):
            facts["address"] = reverse("mcp_zone")
    return f"{static('mcp_app/zone.js')}#{urlencode(facts)}"


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if len(name) <= 64 and _NAME.fullmatch(name) else None
    except (LookupError, OSError, ValueError):
        return None


__getattr__ = former_names(__name__)
