"""Groups of errors with the same text: the first and last time each occurred, and how often."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField


class ErrorGroup(models.Model):
    """Errors of one method, tool and outcome whose texts differ only in their variable parts.

    ``words`` is empty for errors without a text. It is also empty for the group that collects further
    errors of a tool once the tool has the maximum number of groups. ``example`` is the newest text,
    redacted like the log. ``count`` includes messages that retention has removed.
    """

    digest = models.CharField(primary_key=True, max_length=32)
    method = models.CharField(max_length=120)
    tool = models.CharField(max_length=128)
    outcome = models.CharField(max_length=12)
    words = models.CharField(max_length=200)
    example = models.TextField()
    first_at = AwareDateTimeField(db_index=True)
    last_at = AwareDateTimeField(db_index=True)
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    count = models.BigIntegerField()

    class Meta:
        # There are no separate permissions: users who may view messages may view error groups.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.tool or self.method}: {self.words}"


class ErrorHour(models.Model):
    """The number of a group's errors within one hour."""

    group = models.ForeignKey(
        ErrorGroup, on_delete=models.CASCADE, related_name="hours", db_constraint=False, db_index=False
    )
    at = AwareDateTimeField(db_index=True)
    count = models.IntegerField()

    class Meta:
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["group", "at"], name="one_error_hour_per_group")
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.group_id}"
