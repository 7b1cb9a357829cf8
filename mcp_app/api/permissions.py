"""Required permissions of each action. They are the same as in the admin (docs/roles.md).

Actions without declared permissions are denied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request


@dataclass(frozen=True, slots=True)
class RequiredPermissions:
    """The permissions of ``mcp_app`` that an action requires.

    With ``every``, all of them are required, otherwise one of them is enough. If ``names`` is empty, any
    login or credential is enough.
    """

    names: tuple[str, ...] = ()
    every: bool = False

    def met_by(self, user: Any) -> bool:
        """Return True if a user is active and has the required permissions."""
        if not self.names:
            return bool(user.is_active)
        asked = (user.has_perm(f"mcp_app.{name}") for name in self.names)
        return all(asked) if self.every else any(asked)

    def __str__(self) -> str:
        if not self.names:
            return "Requires no permission."
        between = " and " if self.every else " or "
        return f"Requires {between.join(f'`mcp_app.{name}`' for name in self.names)}."


PUBLIC = RequiredPermissions()


def seeing(model: str) -> RequiredPermissions:
    """Return the permissions to view rows.

    The permission to change rows is enough, as in the admin.
    """
    return RequiredPermissions((f"view_{model}", f"change_{model}"))


def to(*permissions: str) -> RequiredPermissions:
    """Return a requirement for all of these permissions."""
    return RequiredPermissions(permissions, every=True)


class HasNeeded(BasePermission):
    """A check that the user has the permissions required by the view's action.

    Unauthenticated requests are denied.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True if the request is permitted.

        Raises PermissionDenied with the names of the required permissions if the user lacks them.
        """
        if request.auth is None or not request.user.is_authenticated:
            return False
        if request.method not in view.allowed_methods:
            return True  # The view responds with 405.
        need: RequiredPermissions | None = view.needs.get(view.called)
        if need is None:
            return False
        if not need.met_by(request.user):
            raise PermissionDenied(str(need))
        return True
