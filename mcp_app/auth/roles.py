"""The three groups that ``mcp_prepare`` creates, and their permissions (S22)."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.models import Group, Permission
from django.db import transaction

from mcp_app.models import CATALOGUE_MODELS, OfferedPermission

# The roles contain permissions of these apps only.
APPS: Final = ("mcp_app", "mcp_oauth")
_CATALOGUE = tuple(model._meta.model_name for model in CATALOGUE_MODELS)
_LOOKED_AT = (
    *_CATALOGUE,
    "cataloguechange",
    "apidocument",
    "upstream",
    "userconnection",
    "limitrule",
    "session",
    "message",
    "call",
    "apikey",
    "credential",
    "externalidentity",
    "auditevent",
    "client",
    "connection",
)

_AUDITOR = frozenset(f"view_{model}" for model in _LOOKED_AT)
_OPERATOR = _AUDITOR | {
    "change_session",
    "change_call",
    "triage_errors",
    "decide_call",
    "try_entries",
    "change_connection",
    "change_userconnection",
    "run_doctor",
    "reset_limit",
    "view_metrics",
}
_ADMINISTRATOR = _OPERATOR | {
    *(f"{action}_{model}" for model in _CATALOGUE for action in ("add", "change", "delete")),
    *(f"{action}_apidocument" for action in ("add", "change", "delete")),
    *(f"{action}_upstream" for action in ("add", "change", "delete")),
    *(f"{action}_limitrule" for action in ("add", "change", "delete")),
    "publish_entries",
    "try_as_others",
    "share_searches",
    "add_apikey",
    "change_apikey",
    "add_credential",
    "change_credential",
    "delete_credential",
    "add_client",
    "add_machine_client",
    "change_client",
}

# No role may change users or groups, because a user who may do that can take over any account.
ROLES: Final = {
    "MCP auditor": _AUDITOR,
    "MCP operator": _OPERATOR,
    "MCP administrator": _ADMINISTRATOR,
}


def make_roles() -> list[str]:
    """Create missing groups and grant each group its new permissions. Return the names of the changed groups.

    Every granted permission is recorded. A permission that an administrator removed is therefore not granted
    again.
    """
    changed = []
    with transaction.atomic():
        for name, codenames in ROLES.items():
            group, created = Group.objects.get_or_create(name=name)
            if created:
                # A group that was deleted and created again gets all its permissions.
                OfferedPermission.objects.filter(role=name).delete()
            new = _new_for(name, codenames)
            group.permissions.add(*new.values())
            offered = [OfferedPermission(role=name, permission=each) for each in new]
            OfferedPermission.objects.bulk_create(offered, ignore_conflicts=True)
            if created or new:
                changed.append(name)
    return changed


def _new_for(role: str, codenames: frozenset[str]) -> dict[str, Permission]:
    """Map names to existing permissions that have never been granted to the role."""
    there = Permission.objects.filter(content_type__app_label__in=APPS, codename__in=codenames)
    found = {
        f"{each.content_type.app_label}.{each.codename}": each
        for each in there.select_related("content_type")
    }
    given = OfferedPermission.objects.filter(role=role).values_list("permission", flat=True)
    return {name: found[name] for name in found.keys() - set(given)}
