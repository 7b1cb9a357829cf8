"""The only module that writes users' notification choices: the channels and the kinds of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from mcp_app.database import clock
from mcp_app.models import NotificationChannel, audit
from mcp_app.notices import webhook
from mcp_app.notices.attention import for_person, present


def channels_of(user: Any) -> dict[str, NotificationChannel]:
    """Map names of channels to a user's stored channels."""
    return {channel.way: channel for channel in NotificationChannel.objects.filter(user=user)}


def waiting_for(user: Any) -> list[dict[str, str]]:
    """Return the open tasks of a user, of those kinds for which the user chose browser notifications."""
    way = NotificationChannel.Way.BROWSER
    kinds = NotificationChannel.objects.filter(user=user, way=way).values_list("kinds", flat=True).first()
    needs = for_person(user, present(kinds)) if kinds else []
    return [{"key": need.key, "text": need.text, "url": need.url} for need in needs]


def choose(*, user: Any, way: str, kinds: Sequence[str], address: str = "", new_secret: bool = False) -> str:
    """Store a user's choice for a channel.

    The first notification lists the tasks that are open now. A changed webhook address gets a new secret, and
    any recorded error is deleted. Returns the webhook's secret if it is new, or "".
    """
    with transaction.atomic():
        channel = NotificationChannel.objects.select_for_update().filter(user=user, way=way).first()
        before = ([], "") if channel is None else (channel.kinds, channel.address)
        if not new_secret and before == (list(kinds), address):
            return ""
        channel = channel or NotificationChannel(user=user, way=way)
        secret = ""
        if way == NotificationChannel.Way.WEBHOOK and address and (new_secret or before[1] != address):
            secret = webhook.new_secret()
            channel.secret = webhook.sealed(secret)
        channel.kinds, channel.address = list(kinds), address
        channel.tries, channel.error, channel.error_at = 0, "", None
        channel.due_at = clock.now()
        channel.save()
        detail = {"kinds": list(kinds), "address": address}
        audit(
            actor=user,
            action="notification.choose",
            object_kind="notification",
            object_key=way,
            detail=detail,
        )
    return secret
