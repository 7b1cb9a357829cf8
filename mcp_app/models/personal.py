"""What people keep for themselves."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class SavedSearch(models.Model):
    """A search of the log under a name; ``shared``: everybody who may read the log sees it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_searches")
    name = models.CharField(max_length=80)
    text = models.CharField(max_length=300)
    shared = models.BooleanField(default=False)
    created_at = AwareDateTimeField(auto_now_add=True)

    class Meta:
        # Users who may view messages have searches of their own.
        default_permissions = ()
        permissions: ClassVar[Any] = [("share_searches", "Can share saved searches of the log")]
        verbose_name_plural = "saved searches"
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["user", "name"], name="mcp_app_search_has_one_name")
        ]

    def __str__(self) -> str:
        return self.name


class TimeZoneChoice(models.Model):
    """The zone, by its IANA name, in which somebody reads times; without one it is the project's."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="mcp_time_zone"
    )
    zone = models.CharField(max_length=64)

    class Meta:
        # Everybody has a choice of their own.
        default_permissions = ()

    def __str__(self) -> str:
        return self.zone
