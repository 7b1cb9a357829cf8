"""Owns the names of those who call: a person and their key, where the log has numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from mcp_app.models import ApiKey
from mcp_app.protocol.principal_key import actor_of, person_of

_USER: Final = re.compile(r"user:([^/]+)")
_KEY: Final = re.compile(r"/key:(\d+)$")


def principal_names(principals: Iterable[str]) -> dict[str, str]:
    """What to show of each principal: ``ada, by the key "laptop"``; two queries, however many there are."""
    keys = {name: int(found[1]) for name in principals if (found := _KEY.search(name))}
    users = {name: found[1] for name in principals if (found := _USER.match(name))}
    actors = {name: person_of(name).partition(":")[2] for name in users if actor_of(name)}
    people = _usernames({*users.values(), *actors.values()})
    labels = dict(ApiKey.objects.filter(pk__in=keys.values()).values_list("pk", "name"))
    shown = {}
    for name in principals:
        said = people.get(users.get(name, ""), name)
        if name in keys and name in users:
            said += f', by the key "{labels.get(keys[name], keys[name])}"'
        if name in actors:
            said = f"{people.get(actors[name], 'a deleted user')} as {said}"
        shown[name] = said
    return shown


def _usernames(keys: set[str]) -> dict[str, str]:
    model = get_user_model()
    known = model._default_manager.filter(pk__in=[key for key in keys if _is_key(model, key)])
    return {str(user.pk): name_of(user) for user in known.select_related("mcp_service_user")}


def name_of(user: Any) -> str:
    """The name of a user, who may be that of a machine; select ``mcp_service_user`` with the user."""
    mark = " (service user)" if hasattr(user, "mcp_service_user") else ""
    return f"{user.get_username()}{mark}"


def _is_key(model: type[Any], text: str) -> bool:
    """Whether it can be a primary key: one that cannot must not hide the names of the others."""
    try:
        model._meta.pk.to_python(text)
    except ValidationError:
        return False
    return True
