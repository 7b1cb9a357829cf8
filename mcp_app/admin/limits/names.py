"""The names of callers that the form of a limit offers: users, groups, API keys and OAuth clients."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from mcp_app.auth.api_keys import key_states
from mcp_app.auth.permissions import may_view_people
from mcp_app.interface.links import may_view
from mcp_app.interface.text import marked
from mcp_app.limits.rules import Who
from mcp_app.models import ApiKey

# Maximum number of names of each kind. Other names can be typed.
MOST_NAMES: Final = 200
_CLIENTS: Final = "mcp_oauth.client"


class OfferedNames(NamedTuple):
    """The values for some kinds of callers. A value that is a number has a name as well, others have ""."""

    key: str
    kinds: tuple[str, ...]
    names: list[tuple[str, str]]


def offered_names(user: Any) -> list[OfferedNames]:
    """Return the names that a user may see, by kind."""
    found = []
    if may_view_people(user):
        model: Any = get_user_model()
        people = model._default_manager.filter(is_active=True).order_by(model.USERNAME_FIELD)[:MOST_NAMES]
        found.append(OfferedNames("user", (Who.USER,), [(each.get_username(), "") for each in people]))
    if may_view(user, "auth.group"):
        groups = Group.objects.order_by("name").values_list("name", flat=True)[:MOST_NAMES]
        found.append(OfferedNames("group", (Who.GROUP, Who.MEMBER), [(name, "") for name in groups]))
    if may_view(user, "mcp_app.apikey"):
        keys = ApiKey.objects.filter(key_states()["active"]).select_related("user")[:MOST_NAMES]
        named = [(str(key.pk), marked(f"{key.name} of {key.user}")) for key in keys]
        found.append(OfferedNames("key", (Who.KEY,), named))
    if apps.is_installed("mcp_app.oauth") and may_view(user, _CLIENTS):
        clients: Any = apps.get_model(_CLIENTS)._default_manager.order_by("name")[:MOST_NAMES]
        found.append(
            OfferedNames("client", (Who.CLIENT,), [(str(each.pk), marked(each)) for each in clients])
        )
    return found


def list_of(kind: str, offered: list[OfferedNames]) -> str:
    """Return the key of the names that are offered for a kind of callers, or ""."""
    return next((each.key for each in offered if kind in each.kinds), "")
