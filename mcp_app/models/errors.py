"""Groups of errors with the same text: the first and last time each occurred, and how often."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.observability.incidents import StoredException


class Triage(models.TextChoices):
    """The state of an error, as users set it. ``REGRESSED`` is a resolved error that happened again."""

    OPEN = "open", "open"
    MUTED = "muted", "muted"
    RESOLVED = "resolved", "resolved"
    REGRESSED = "regressed", "regressed"


class ErrorGroup(models.Model):
    """Errors of one method, tool and outcome with the same cause.

    The cause of an unexpected exception is its class, in ``words``, and its ``place`` in the code. The cause
    of other errors is their text without its variable parts, in ``words``, and ``place`` is empty.

    ``words`` is empty for errors without a text. It is also empty for the group that collects further
    errors of a tool once the tool has the maximum number of groups. ``example`` is the newest text and
    ``exception`` the newest exception, both redacted like the log. ``is_fault`` is False for mistakes of
    callers, such as invalid arguments. ``count`` includes messages that retention has removed.
    """

    digest = models.CharField(primary_key=True, max_length=32)
    method = models.CharField(max_length=120)
    tool = models.CharField(max_length=128)
    outcome = models.CharField(max_length=12)
    words = models.CharField(max_length=200)
    # The columns have defaults, because processes of the previous version insert rows without them.
    place = models.CharField(max_length=300, blank=True, db_default="")
    is_fault = models.BooleanField(db_default=False)
    exception = models.TextField(null=True)  # noqa: DJ001
    example = models.TextField()
    first_at = AwareDateTimeField(db_index=True)
    last_at = AwareDateTimeField(db_index=True)
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    count = models.BigIntegerField()
    triage = models.CharField(max_length=10, choices=Triage.choices, db_default=Triage.OPEN)
    triaged_at = AwareDateTimeField(null=True)
    # The mute ends if the error happens after this time, or reaches this count. Without either it never ends.
    muted_until = AwareDateTimeField(null=True)
    muted_count = models.BigIntegerField(null=True)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )

    class Meta:
        # Users who may view messages may view error groups.
        default_permissions = ()
        permissions: ClassVar[Any] = [("triage_errors", "Can mute, resolve and assign errors")]

    def __str__(self) -> str:
        return f"{self.tool or self.method}: {self.words}"

    @property
    def raised(self) -> StoredException | None:
        """The newest exception of a group of unexpected exceptions, or None."""
        return StoredException.read(self.exception)


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
