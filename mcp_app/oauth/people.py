"""Notifies every process of a changed user: deactivation ends the user's tokens at once (S5)."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from mcp_app.streams.blocking.announce import announce


@receiver([post_save, post_delete], sender=get_user_model(), dispatch_uid="mcp_oauth.people")
def user_changed(sender: Any, instance: Any, **more: Any) -> None:
    """Have the credentials of a user looked up again, except after a login, which only notes its time."""
    fields = more.get("update_fields")
    if more.get("created") or (fields is not None and set(fields) == {"last_login"}):
        return
    user = instance.pk
    transaction.on_commit(lambda: announce("credentials", {"user": user}))
