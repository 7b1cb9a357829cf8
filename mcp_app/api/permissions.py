"""What each action needs: the admin's own permissions (docs/roles.md); what names no need is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request


@dataclass(frozen=True, slots=True)
class RequiredPermissions:
    """Permissions of ``mcp_app`` of which one, or with ``every`` each, is needed; none: a login or key."""

    names: tuple[str, ...] = ()
    every: bool = False

    def met_by(self, user: Any) -> bool:
        """Whether an active user has them."""
        if not self.names:
            return bool(user.is_active)
        asked = (user.has_perm(f"mcp_app.{name}") for name in self.names)
        return all(asked) if self.every else any(asked)

    def __str__(self) -> str:
        if not self.names:
            return "Needs no permission."
        return (
            f"Needs {(' and ' if self.every else ' or ').join(f'`mcp_app.{name}`' for name in self.names)}."
        )


ANYBODY = RequiredPermissions()


def seeing(model: str) -> RequiredPermissions:
    """As in the admin, the permission to change rows includes viewing them."""
    return RequiredPermissions((f"view_{model}", f"change_{model}"))


def to(permission: str) -> RequiredPermissions:
    """One permission."""
    return RequiredPermissions((permission,))


class HasNeeded(BasePermission):
    """Checks the permissions that the view's action needs; without a login there are none."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Whether to go on; raises PermissionDenied naming what is missing."""
        if request.auth is None or not request.user.is_authenticated:
            return False
        if request.method not in view.allowed_methods:
            return True  # The answer is 405.
        need: RequiredPermissions | None = view.needs.get(view.called)
        if need is None:
            return False
        if not need.met_by(request.user):
            raise PermissionDenied(str(need))
        return True
