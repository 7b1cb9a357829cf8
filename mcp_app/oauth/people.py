"""Notifies every process of a changed user: deactivation ends the user's tokens at once (S5).

Turns away whoever logs in as the user of a machine.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from mcp_app.models import ServiceUser, audit
from mcp_app.streams.blocking.announce import announce


@receiver([post_save, post_delete], sender=get_user_model(), dispatch_uid="mcp_oauth.people")
def user_changed(sender: Any, instance: Any, **more: Any) -> None:
    """Have the credentials of a user looked up again, except after a login, which only notes its time."""
    fields = more.get("update_fields")
    if more.get("created") or (fields is not None and set(fields) == {"last_login"}):
        return
    user = instance.pk
    transaction.on_commit(lambda: announce("credentials", {"user": user}))


@receiver(user_logged_in, dispatch_uid="mcp_oauth.service_users")
def service_user_logged_in(sender: Any, request: Any, user: Any, **more: Any) -> None:
    """Refuse: a service user has no password, and if somebody gives it one, that opens nothing.

    Raises PermissionDenied, after the login's session is gone.
    """
    if not ServiceUser.objects.filter(user_id=user.pk).exists():
        return
    request.session.flush()
    audit(
        actor=None,
        action="service_user.login_refused",
        object_kind="user",
        object_key=user.get_username(),
        detail={},
    )
    raise PermissionDenied("A service user cannot log in.")
