"""Users as rows and as clients, and digests of the database that reveal changes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from http.cookies import SimpleCookie
from itertools import chain
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.test.client import ClientHandler

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.auth.principal import EVERYTHING
from tests.integration.roles.table import COLUMNS, Person, person_of
from tests.samples.admin_seed import PASSWORD

PEOPLE: Final = {
    **{role: person_of(role) for role in COLUMNS},
    "superuser": Person("superuser", EVERYTHING, is_superuser=True),
    # With an administrator's permissions and without staff status; and a deactivated user.
    "member": Person("member", person_of("administrator").permissions, is_staff=False),
    "inactive": Person("inactive", is_known=False),
}
MODEL_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
# A handler loads all middleware on its first request, which takes longer than the request.
HANDLERS: Final = {strict: ClientHandler(strict) for strict in (False, True)}
# Columns that a request may update for its user.
NOTED: Final = {"last_login", "last_used_at"}


class Asking:
    """A user, with clients that authenticate by the login's cookie or by an API key."""

    def __init__(self, person: Person, user: Any = None) -> None:
        self.person = person
        self.user = user
        self._cookies: dict[str, str] = {}
        self._secret = ""
        if user is not None:
            client = Client()
            client.force_login(user, MODEL_BACKEND)
            self._cookies = {settings.SESSION_COOKIE_NAME: client.session.session_key or ""}
            _, self._secret = issue_api_key(user=user, name="asks")
            if person.name == "inactive":
                type(user).objects.filter(pk=user.pk).update(is_active=False)

    def client(self, *, with_key: bool = False, strict: bool = False) -> Client:
        """Return a new client: cookies of one request do not reach the next."""
        has_key = with_key and self._secret
        client = Client(headers={"authorization": f"Bearer {self._secret}"} if has_key else {})
        client.handler = HANDLERS[strict]
        client.cookies = SimpleCookie({} if with_key else self._cookies)
        return client


def asking(name: str) -> Asking:
    """Return one of PEOPLE; the groups of the roles must exist."""
    person = PEOPLE[name]
    if name == "anonymous":
        return Asking(person)
    user = get_user_model().objects.create_user(
        f"the-{name}",
        password=PASSWORD,
        is_staff=person.is_staff,
        is_superuser=name in ("superuser", "inactive"),
    )
    role = "administrator" if name == "member" else name
    user.groups.set(Group.objects.filter(name=f"MCP {role}"))
    return Asking(person, user)


def every_permission() -> frozenset[str]:
    """Return every permission."""
    named = Permission.objects.values_list("content_type__app_label", "codename")
    return frozenset(f"{app}.{codename}" for app, codename in named)


def holding(permissions: Iterable[str]) -> Asking:
    """Return a staff user with exactly these permissions."""
    names = frozenset(permissions)
    user = get_user_model().objects.create_user(
        f"holds-{hashlib.sha256(' '.join(sorted(names)).encode()).hexdigest()[:40]}",
        password=PASSWORD,
        is_staff=True,
    )
    rows = Permission.objects.select_related("content_type")
    user.user_permissions.set(
        [row for row in rows if f"{row.content_type.app_label}.{row.codename}" in names]
    )
    return Asking(Person(", ".join(sorted(names))[:120], names), user)


@lru_cache(maxsize=1)
def _tables() -> tuple[Any, ...]:
    shown = [*apps.get_app_config("mcp_app").get_models(include_auto_created=True)]
    shown += chain.from_iterable(
        apps.get_app_config(label).get_models(include_auto_created=True)
        for label in ("auth", "admin", "mcp_oauth", "mfa")
    )
    return tuple(model for model in shown if not model._meta.proxy and model is not Permission)


def stored(among: Collection[str] | None = None) -> dict[str, str]:
    """Return a digest of each table, or of some, without login sessions and columns that a request may
    update.
    """
    found = {}
    for model in _tables():
        if among is None or model._meta.db_table in among:
            fields = [each.attname for each in model._meta.concrete_fields if each.attname not in NOTED]
            rows = list(model._default_manager.order_by("pk").values_list(*fields))
            found[model._meta.db_table] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return found


class Writes:
    """A recorder of the tables that statements write to; cheaper than comparing all stored rows."""

    TABLE = re.compile(r'\s*(?:INSERT|UPDATE|DELETE|REPLACE)\b[^"]*"(\w+)"', re.IGNORECASE)

    def __init__(self) -> None:
        self.tables: set[str] = set()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Implement Django's hook around each statement."""
        if found := self.TABLE.match(sql):
            self.tables.add(found[1])
        return execute(sql, params, many, context)
