"""Tools that fail in different ways."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError

from mcp_app import ToolError, tool
from tests.integration.features.catalogue_app.values import SECRET


@tool
def fails_politely() -> str:
    """Fail with a message for the model."""
    raise ToolError("The printer is out of paper.")


@tool
def fails_unexpectedly() -> str:
    """Fail with a message that must not leave the server."""
    raise RuntimeError(f"connection to db.internal with password {SECRET} failed")


@tool
async def fails_unexpectedly_async() -> str:
    """Fail in a coroutine with a message that must not leave the server."""
    raise RuntimeError(f"connection to db.internal with password {SECRET} failed")


@tool
def fails_permission() -> str:
    """Fail as Django code does without permission."""
    raise PermissionDenied("You may not print.")


@tool
def fails_validation() -> str:
    """Fail as Django code does for invalid values."""
    raise ValidationError("The size is wrong.")


@tool
def fails_missing() -> str:
    """Fail as Django code does for a missing row."""
    return str(Group.objects.get(name="nobody has this name"))


@tool
def fails_to_encode() -> Any:
    """Return a value that JSON cannot represent."""
    return object()


@tool
def broken_text() -> str:
    """Return a lone surrogate."""
    return "half \ud83d"
