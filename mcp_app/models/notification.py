"""Users' notification channels: delivery method, topics, and delivery state."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class NotificationChannel(models.Model):
    """A user's notification channel. ``kinds`` are its topics, an empty list if the channel is disabled.

    ``told`` holds the keys of the topics already delivered. ``due_at`` is the earliest time for the next
    notification. ``tries`` counts the failed attempts to deliver the newest notification.
    """

    class Way(models.TextChoices):
        """The delivery method."""

        BROWSER = "browser", "browser"
        EMAIL = "email", "email"
        WEBHOOK = "webhook", "webhook"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    way = models.CharField(max_length=10, choices=Way.choices)
    kinds = models.JSONField(default=list)
    address = models.CharField(max_length=500, blank=True)
    secret = models.TextField(blank=True, help_text="Sealed; signs what is sent to the address.")
    told = models.JSONField(default=list)
    tries = models.PositiveSmallIntegerField(default=0)
    due_at = AwareDateTimeField(db_index=True)
    sent_at = AwareDateTimeField(null=True)
    error = models.CharField(max_length=300, blank=True)
    error_at = AwareDateTimeField(null=True)

    class Meta:
        # No model permissions: users manage only their own channels.
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["user", "way"], name="one_channel_of_a_way")
        ]

    def __str__(self) -> str:
        return f"{self.way} of {self.user_id}"
