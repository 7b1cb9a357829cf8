"""Personal settings of users."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class SavedSearch(models.Model):
    """A named search of the log. If ``shared`` is set, every user who may read the log sees it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mcp_searches")
    name = models.CharField(max_length=80)
    text = models.CharField(max_length=300)
    shared = models.BooleanField(default=False)
    created_at = AwareDateTimeField(auto_now_add=True)

    class Meta:
        # There are no separate permissions: users who may view messages can save searches.
        default_permissions = ()
        permissions: ClassVar[Any] = [("share_searches", "Can share saved searches of the log")]
        verbose_name_plural = "saved searches"
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["user", "name"], name="mcp_app_search_has_one_name")
        ]

    def __str__(self) -> str:
        return self.name


class TimeZoneChoice(models.Model):
    """A user's time zone, as an IANA name. The project's zone applies to users without a row."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="mcp_time_zone"
    )
    zone = models.CharField(max_length=64)

    class Meta:
        # No model permissions: users change only their own time zone.
        default_permissions = ()

    def __str__(self) -> str:
        return self.zone
