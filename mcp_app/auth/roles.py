"""The three roles that `prepare` makes as groups: which permission each of them has (S22)."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.models import Group, Permission
from django.db import transaction

_CATALOGUE = ("tool", "prompt", "resource", "resourcetemplate")
_LOOKED_AT = (
    *_CATALOGUE,
    "cataloguechange",
    "session",
    "message",
    "call",
    "apikey",
    "externalidentity",
    "auditevent",
    "client",
    "connection",
)

_AUDITOR = frozenset(f"view_{model}" for model in _LOOKED_AT)
_OPERATOR = _AUDITOR | {
    "change_session",
    "change_call",
    "decide_call",
    "try_entries",
    "change_connection",
    "run_doctor",
    "view_metrics",
}
_ADMINISTRATOR = _OPERATOR | {
    *(f"{action}_{model}" for model in _CATALOGUE for action in ("add", "change", "delete")),
    "publish_entries",
    "try_as_others",
    "share_searches",
    "add_apikey",
    "change_apikey",
    "add_client",
    "add_machine_client",
    "change_client",
}

# Not users and groups: the permission to change users lets one become anybody, so only superusers have it.
ROLES: Final = {
    "MCP auditor": _AUDITOR,
    "MCP operator": _OPERATOR,
    "MCP administrator": _ADMINISTRATOR,
}


def make_roles() -> list[str]:
    """Make the groups that are missing; returns their names. A group that is there is never altered."""
    made = []
    with transaction.atomic():
        for name, codenames in ROLES.items():
            group, created = Group.objects.get_or_create(name=name)
            if created:
                permissions = Permission.objects.filter(
                    content_type__app_label__in=("mcp_app", "mcp_oauth"), codename__in=codenames
                )
                group.permissions.set(permissions)
                made.append(name)
    return made
