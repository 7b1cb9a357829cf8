"""Display names of principals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import IntegerField

from mcp_app.auth.principal import LOOPBACK
from mcp_app.models import ApiKey
from mcp_app.protocol.principal_key import BENCH, CallerIds, caller_ids

# From this number of primary keys on, a range is queried instead of a list.
MANY: Final = 50
BETWEEN: Final = " · "


class CallerName(NamedTuple):
    """The display names in a principal.

    ``user`` is the principal itself if there is no such user. ``credential`` is the name of the API key or of
    the OAuth client, and ``actor`` that of the person who acts as the user. Both may be "".
    """

    user: str
    credential: str = ""
    actor: str = ""
    is_known: bool = True
    is_bench: bool = False

    @property
    def without_credential(self) -> str:
        """The name without that of the credential."""
        return str(self._replace(credential="")) if self.credential else str(self)

    def __str__(self) -> str:
        name = f"{self.actor} as {self.user}" if self.actor else self.user
        name += f"{BETWEEN}{self.credential}" if self.credential else ""
        return f"{name} (test bench)" if self.is_bench else name


def principal_names(principals: Iterable[str]) -> dict[str, str]:
    """Map principals to display names such as ``ada · laptop``, in at most three queries."""
    return {principal: str(name) for principal, name in caller_names(principals).items()}


def caller_names(principals: Iterable[str]) -> dict[str, CallerName]:
    """Map principals to the display names of their parts, in at most three queries."""
    ids = {principal: caller_ids(principal) for principal in principals}
    people = _usernames({each for found in ids.values() for each in (found.user, found.actor)} - {""})
    keys = _names(ApiKey, {found.api_key for found in ids.values()} - {""})
    # A machine has the name of its user, so its client has none.
    asked = {found.client for found in ids.values() if not people.get(found.user, _NOBODY).is_service}
    clients = _names(apps.get_model("mcp_oauth", "Client"), asked - {""}) if _has_clients() else {}
    return {principal: _named(principal, found, people, keys, clients) for principal, found in ids.items()}


class _Person(NamedTuple):
    username: str
    is_service: bool

    def __str__(self) -> str:
        return _name(self.username, self.is_service)


_NOBODY: Final = _Person("", is_service=False)


def _named(
    principal: str,
    found: CallerIds,
    people: Mapping[str, _Person],
    keys: Mapping[str, str],
    clients: Mapping[str, str],
) -> CallerName:
    actor = str(people.get(found.actor, "a deleted user")) if found.actor else ""
    user = people.get(found.user)
    if principal == LOOPBACK.key:
        return CallerName(LOOPBACK.name, is_known=False)
    if user is None:
        return CallerName(principal, actor=actor, is_known=False)
    credential = keys.get(found.api_key, found.api_key) or clients.get(found.client, "")
    return CallerName(str(user), credential, actor, is_bench=BENCH in principal)


def _has_clients() -> bool:
    return apps.is_installed("mcp_app.oauth")


def _names(model: Any, keys: set[str]) -> dict[str, str]:
    if not keys:
        return {}
    rows = model._default_manager.filter(pk__in=keys).order_by().values_list("pk", "name")
    return {str(pk): name for pk, name in rows}


def _usernames(keys: set[str]) -> dict[str, _Person]:
    if not keys:
        return {}
    model = get_user_model()
    known = model._default_manager.filter(**_among(model, [key for key in keys if _is_key(model, key)]))
    # Columns are read instead of model instances, because a search reads a thousand rows per keystroke.
    rows = known.values_list("pk", model.USERNAME_FIELD, "mcp_service_user__pk")
    return {str(pk): _Person(username, service is not None) for pk, username, service in rows}


def _among(model: type[Any], keys: list[str]) -> dict[str, Any]:
    """Return the query condition for primary keys.

    Many numbers that are close together become a range: a list of hundreds takes longer to write, send and
    plan than the additional rows take to read.
    """
    if len(keys) >= MANY and isinstance(model._meta.pk, IntegerField):
        numbers = [int(key) for key in keys]
        if (last := max(numbers)) - (first := min(numbers)) < 2 * len(numbers):
            return {"pk__range": (first, last)}
    return {"pk__in": keys}


def name_of(user: Any) -> str:
    """Return the display name of a user. The caller should select ``mcp_service_user`` with the user."""
    return _name(user.get_username(), hasattr(user, "mcp_service_user"))


def _name(username: object, is_service: bool) -> str:
    return f"{username}{' (service user)' if is_service else ''}"


def _is_key(model: type[Any], text: str) -> bool:
    """Return True if ``text`` can be a primary key. An impossible key would make the whole query fail."""
    try:
        model._meta.pk.run_validators(model._meta.pk.to_python(text))  # The validators refuse huge numbers.
    except ValidationError:
        return False
    return True
