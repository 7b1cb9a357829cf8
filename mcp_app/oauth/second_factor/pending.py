"""Logins between the password and the second step.

The user's id is stored in the session. The user is not logged in yet.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings as django_settings
from django.contrib.auth import REDIRECT_FIELD_NAME, get_user_model, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import url_has_allowed_host_and_scheme

from mcp_app import conf
from mcp_app.auth.own_addresses import home_address, second_factor_lacks
from mcp_app.auth.public_paths import former_names
from mcp_app.oauth.consent import page
from mcp_app.oauth.second_factor.gate import PASSED, SecondFactorRequired, has_factor, is_half, stops

WAITING: Final = "mcp_second_factor"
WAIT_SECONDS: Final = 600

log = logging.getLogger("mcp.auth")


@dataclass(frozen=True, slots=True)
class Pending:
    """A user who entered the right password. ``following`` is the address to open after the login."""

    user: Any
    backend: str
    following: str


class PendingMiddleware(MiddlewareMixin):
    """Middleware that redirects to the second step if FactorGate stopped a login.

    It works for every login page of the project.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Log out sessions that lack a second factor required by the settings."""
        if conf.get().second_factor == "optional":
            return
        if is_half(request.user, request.session):
            logout(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Redirect to the second step on SecondFactorRequired."""
        if not isinstance(exception, SecondFactorRequired):
            return None
        return hold(request, exception.user, exception.backend, _following(request))


def enter(request: HttpRequest, user: Any, backend: str, following: str) -> HttpResponse:
    """Log in a user who was verified by another means than a password.

    A user who needs a second factor is redirected to the second step instead.
    """
    if stops(user):
        return hold(request, user, backend, following)
    login(request, user, backend)
    return HttpResponseRedirect(following)


def hold(request: HttpRequest, user: Any, backend: str, following: str) -> HttpResponse:
    """Store the user in the session and redirect to the second step. An existing login is logged out."""
    if lacks := second_factor_lacks():
        log.error("Users with a second factor cannot log in: %s", lacks)
        reason = "Your second factor cannot be checked now. Contact an administrator."
        return page(request, "mcp_oauth/not_logged_in.html", {"reason": reason}, status=503)
    if request.user.is_authenticated:
        logout(request)
    # A new session key prevents session fixation.
    request.session.cycle_key()
    request.session[WAITING] = {
        "user": str(user.pk),
        "password": user.get_session_auth_hash(),
        "backend": backend,
        "following": following,
        "until": int(time.time()) + WAIT_SECONDS,
    }
    step = "second_factor_code" if has_factor(user) else "second_factor_set_up"
    return HttpResponseRedirect(reverse(f"mcp_oauth:{step}"))


def pending(request: HttpRequest) -> Pending | None:
    """Return the user in the second step of a login, or None.

    Returns None after WAIT_SECONDS, after a password change and for a deactivated user.
    """
    stored = request.session.get(WAITING)
    if not isinstance(stored, dict) or stored["until"] < time.time():
        return None
    model: Any = get_user_model()
    user = model._default_manager.filter(pk=stored["user"], is_active=True).first()
    if user is None or not constant_time_compare(user.get_session_auth_hash(), stored["password"]):
        return None
    return Pending(user, stored["backend"], stored["following"])


def finish(request: HttpRequest, held: Pending) -> None:
    """Log in a user who passed both steps."""
    request.session.pop(WAITING, None)
    login(request, held.user, held.backend)
    request.session[PASSED] = True


def _following(request: HttpRequest) -> str:
    wanted = request.POST.get(REDIRECT_FIELD_NAME, request.GET.get(REDIRECT_FIELD_NAME, ""))
    if wanted and url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()):
        return wanted
    if request.path == reverse("mcp_oauth:login"):
        return home_address()
    return resolve_url(django_settings.LOGIN_REDIRECT_URL)


__getattr__ = former_names(__name__)
