"""How people want to hear of what waits for them: by which way, of what; and what became of it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class NotificationChannel(models.Model):
    """One way by which one person is notified; ``kinds`` are of what, none when it is switched off.

    ``told`` are the keys of what they heard of already. ``due_at`` is when the next notification may leave,
    ``tries`` how often the newest failed.
    """

    class Way(models.TextChoices):
        """By which way."""

        BROWSER = "browser", "browser"
        EMAIL = "email", "e-mail"
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
        # Everybody has their own.
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["user", "way"], name="one_channel_of_a_way")
        ]

    def __str__(self) -> str:
        return f"{self.way} of {self.user_id}"
