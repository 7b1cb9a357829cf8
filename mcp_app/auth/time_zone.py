"""Owns in which time zone somebody reads times: the project's, or one they chose; kept with their account."""

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

# The data of zones has folders of the same zones with leap seconds, which no clock shows.
_NAME: Final = re.compile(r"(?!(?:right|posix)/)[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")

# Of a request: this middleware set the zone, and none of the project's own.
_ACTIVE: Final = "_mcp_time_zone"


class ChosenZoneMiddleware(MiddlewareMixin):
    """Has a request's pages, forms and searches use the zone that its user chose."""

    def process_view(self, request: HttpRequest, view: Any, _args: Any, _named: Any) -> None:
        """Only for who may be logged in, and not on public pages: others ask the database for nothing."""
        may_be_known = settings.SESSION_COOKIE_NAME in request.COOKIES
        public = not getattr(view, "login_required", True)
        if may_be_known and not public and (zone := zone_of(request.user)):
            timezone.activate(zone)
            vars(request)[_ACTIVE] = True

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """What comes next in this thread is for somebody else."""
        if _ACTIVE in vars(request):
            timezone.deactivate()
        return response


def zone_of(user: Any) -> tzinfo | None:
    """The zone that somebody chose; None for the project's."""
    if user is None or not user.is_authenticated:
        return None
    name = TimeZoneChoice.objects.filter(user_id=user.pk).values_list("zone", flat=True).first()
    return _zone(name) if name else None


def choose_zone(*, user: Any, name: str) -> None:
    """From now on show times in this zone; the project's own is no choice. Raises ValidationError."""
    if _zone(name) is None:
        raise ValidationError("This server knows no such time zone.")
    if name == own_zone():
        TimeZoneChoice.objects.filter(user_id=user.pk).delete()
    else:
        TimeZoneChoice.objects.update_or_create(user_id=user.pk, defaults={"zone": name})


def own_zone() -> str:
    """The project's zone, by its name."""
    return str(timezone.get_default_timezone_name())


def shown_zone() -> str:
    """The zone of the page that is being made, by its name."""
    return str(timezone.get_current_timezone_name())


def zone_script() -> str:
    """The script that names the zone on a page, with what it needs to know."""
    facts = {"zone": shown_zone(), "own": own_zone(), "address": ""}
    if names(settings.MIDDLEWARE, TIME_ZONE_MIDDLEWARE):
        # Nobody can choose where it is not served.
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
