"""Tools that fail, each in its way."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError

from mcp_app import ToolError, tool
from tests.integration.features.catalogue_app.values import SECRET


@tool
def fails_politely() -> str:
    """Fails with words for the model."""
    raise ToolError("The printer is out of paper.")


@tool
def fails_unexpectedly() -> str:
    """Fails with words that must not leave the server."""
    raise RuntimeError(f"connection to db.internal with password {SECRET} failed")


@tool
async def fails_unexpectedly_async() -> str:
    """Fails in a coroutine with words that must not leave the server."""
    raise RuntimeError(f"connection to db.internal with password {SECRET} failed")


@tool
def fails_permission() -> str:
    """Fails as Django code does when the user may not."""
    raise PermissionDenied("You may not print.")


@tool
def fails_validation() -> str:
    """Fails as Django code does for wrong values."""
    raise ValidationError("The size is wrong.")


@tool
def fails_missing() -> str:
    """Fails as Django code does for a missing row."""
    return str(Group.objects.get(name="nobody has this name"))


@tool
def fails_to_encode() -> Any:
    """Answers something that has no JSON form."""
    return object()


@tool
def broken_text() -> str:
    """Answers half of a character."""
    return "half \ud83d"
