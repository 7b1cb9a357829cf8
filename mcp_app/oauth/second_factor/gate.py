"""The authentication backend that stops logins with a password alone.

The module does not import the second-factor library. If the library is missing, users with a second factor
therefore cannot log in. The backend guards every login page of a project, because Django's ``authenticate``
raises its exception instead of returning a user.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any, Final

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_user, get_user_model, load_backend
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest

from mcp_app import conf
from mcp_app.auth.public_paths import former_names

TABLE = "mfa_authenticator"
# Session key that is set once both steps have been passed.
PASSED: Final = "mcp_second_factor_passed"


class SecondFactorRequired(Exception):
    """Raised if the password is right and a second factor is needed.

    ``backend`` is the path of the backend that accepted the password.
    """

    def __init__(self, user: Any, backend: str) -> None:
        super().__init__("a second factor is asked for")
        self.user, self.backend = user, backend


class FactorGate:
    """An authentication backend that precedes those that check passwords. It never returns a user."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None
    ) -> None:
        """Raise SecondFactorRequired for a right password and PermissionDenied for a wrong password.

        Returns None for users without a second factor, so that the next backend checks the password. The
        password is checked exactly once in either case, so that the response time does not reveal who has a
        second factor.
        """
        person = _named(username)
        if person is None or not stops(person):
            return
        for path in django_settings.AUTHENTICATION_BACKENDS:
            user = _passed_by(load_backend(path), request, username, password)
            if user is not None:
                raise SecondFactorRequired(user, path)
        raise PermissionDenied


def stops(user: Any) -> bool:
    """Return True if the user needs more than a password to log in."""
    return is_required_of(user) or has_factor(user)


def is_required_of(user: Any) -> bool:
    """Return True if the settings require a second factor for this user."""
    required = conf.get().second_factor
    return required == "everybody" or (required == "staff" and bool(getattr(user, "is_staff", False)))


def is_half(user: Any, session: Any) -> bool:
    """Return True if the settings require a second factor that the session has not passed."""
    return bool(user.is_authenticated) and is_required_of(user) and not session.get(PASSED)


def user_of_session(key: str) -> Any | None:
    """Return the logged-in user of a session, or None. Serves endpoints that run without middleware.

    The session and the user are read from the database at each call, so changes after the connection opened
    take effect.
    """
    if not key:
        return None
    request = HttpRequest()
    request.session = import_module(django_settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return user if user.is_authenticated and not is_half(user, request.session) else None


def has_factor(user: Any) -> bool:
    """Return True if the user has set up a second factor, even if the library is no longer installed."""
    if apps.is_installed("allauth.mfa"):
        return bool(apps.get_model("mfa", "Authenticator").objects.filter(user_id=user.pk).exists())
    with connection.cursor() as cursor:
        if TABLE not in connection.introspection.table_names(cursor):
            return False
        key = user._meta.pk.get_db_prep_value(user.pk, connection)
        cursor.execute(f"SELECT 1 FROM {TABLE} WHERE user_id = %s", [key])  # noqa: S608 - a constant
        return cursor.fetchone() is not None


def _named(username: str | None) -> Any:
    model: Any = get_user_model()
    try:
        return model._default_manager.get_by_natural_key(username)
    except model.DoesNotExist:
        return None


def _passed_by(backend: Any, request: Any, username: Any, password: Any) -> Any:
    if isinstance(backend, FactorGate) or not hasattr(backend, "get_user"):
        return None
    try:
        signature(backend.authenticate).bind(request, username=username, password=password)
    except TypeError:
        return None
    return backend.authenticate(request, username=username, password=password)


__getattr__ = former_names(__name__)
