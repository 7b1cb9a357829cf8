"""Required permissions of each action, the same as in the admin (docs/roles.md).

Undeclared actions are denied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request


@dataclass(frozen=True, slots=True)
class RequiredPermissions:
    """Permissions of ``mcp_app``: any of them is needed, or all with ``every``.

    Without names, any login or key is enough.
    """

    names: tuple[str, ...] = ()
    every: bool = False

    def met_by(self, user: Any) -> bool:
        """Return True if an active user has the permissions."""
        if not self.names:
            return bool(user.is_active)
        asked = (user.has_perm(f"mcp_app.{name}") for name in self.names)
        return all(asked) if self.every else any(asked)

    def __str__(self) -> str:
        if not self.names:
            return "Requires no permission."
        between = " and " if self.every else " or "
        return f"Requires {between.join(f'`mcp_app.{name}`' for name in self.names)}."


ANYBODY = RequiredPermissions()


def seeing(model: str) -> RequiredPermissions:
    """Return the permissions to view rows; as in the admin, the permission to change includes viewing."""
    return RequiredPermissions((f"view_{model}", f"change_{model}"))


def to(permission: str) -> RequiredPermissions:
    """Return a single permission."""
    return RequiredPermissions((permission,))


class HasNeeded(BasePermission):
    """A check of the permissions that the view's action requires; requests without a login have none."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True if permitted. Raises PermissionDenied naming the missing permission."""
        if request.auth is None or not request.user.is_authenticated:
            return False
        if request.method not in view.allowed_methods:
            return True  # The view answers 405.
        need: RequiredPermissions | None = view.needs.get(view.called)
        if need is None:
            return False
        if not need.met_by(request.user):
            raise PermissionDenied(str(need))
        return True
