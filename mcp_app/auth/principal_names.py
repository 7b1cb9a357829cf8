"""Display names of principals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import IntegerField

from mcp_app.models import ApiKey
from mcp_app.protocol.principal_key import ACTOR, BENCH, actor_of, person_of

# From this number of primary keys on, a range is queried instead of a list.
MANY: Final = 50
_USER: Final = re.compile(r"user:([^/]+)")
_KEY: Final = re.compile(r"/key:(\d+)$")


def principal_names(principals: Iterable[str]) -> dict[str, str]:
    """Map principals to display names such as ``ada, by the key "laptop"``, in two queries."""
    keys = {name: int(found[1]) for name in principals if "/key:" in name and (found := _KEY.search(name))}
    users = {name: found[1] for name in principals if (found := _USER.match(name))}
    actors = {name: person_of(name).partition(":")[2] for name in users if ACTOR in name and actor_of(name)}
    people = _usernames({*users.values(), *actors.values()})
    labels = dict(ApiKey.objects.filter(pk__in=set(keys.values())).values_list("pk", "name"))
    shown = {}
    for name in principals:
        said = people.get(users.get(name, ""), name)
        if name in keys and name in users:
            said += f', by the key "{labels.get(keys[name], keys[name])}"'
        if name in actors:
            said = f"{people.get(actors[name], 'a deleted user')} as {said}"
        if name in users and BENCH in name:
            said += " (bench)"
        shown[name] = said
    return shown


def _usernames(keys: set[str]) -> dict[str, str]:
    model = get_user_model()
    known = model._default_manager.filter(**_among(model, [key for key in keys if _is_key(model, key)]))
    # Columns are read instead of model instances, because a search reads a thousand rows per keystroke.
    rows = known.values_list("pk", model.USERNAME_FIELD, "mcp_service_user__pk")
    return {str(pk): _name(username, service is not None) for pk, username, service in rows}


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
        model._meta.pk.to_python(text)
    except ValidationError:
        return False
    return True
