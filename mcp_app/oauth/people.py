"""Signal handlers for users.

They announce changed credentials to all processes (S5) and prevent service users from logging in.
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
    """Announce to all processes that a user's credentials changed.

    New users and updates of only ``last_login`` are not announced.
    """
    fields = more.get("update_fields")
    if more.get("created") or (fields is not None and set(fields) == {"last_login"}):
        return
    user = instance.pk
    transaction.on_commit(lambda: announce("credentials", {"user": user}))


@receiver(user_logged_in, dispatch_uid="mcp_oauth.service_users")
def service_user_logged_in(sender: Any, request: Any, user: Any, **more: Any) -> None:
    """End the session of a service user who logged in, and raise PermissionDenied.

    A service user has no password, but an administrator could set one.
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
