"""The operators' record of sessions and messages."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar

import orjson
from django.conf import settings
from django.db import models
from django.db.models import Q

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.observability.incidents import StoredException


class Session(models.Model):
    """A legacy session. Redis holds the current copy, and this row is the permanent record and the fallback.

    Two other kinds of row exist for operators only: modern clients of a principal, and open subscriptions
    of 2026-07-28. These rows have no ``fields`` and cannot be resumed.
    """

    id = models.CharField(primary_key=True, max_length=64)
    principal = models.CharField(max_length=120, db_index=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="mcp_sessions"
    )
    protocol_version = models.CharField(max_length=16)
    client_name = models.CharField(max_length=200, blank=True)
    client_version = models.CharField(max_length=100, blank=True)
    fields = models.JSONField(default=dict, help_text="The session as the server keeps it.")
    address = models.CharField(max_length=64, blank=True)
    created_at = AwareDateTimeField(db_index=True)
    last_seen_at = AwareDateTimeField(db_index=True)
    ended_at = AwareDateTimeField(null=True, db_index=True)
    end_reason = models.CharField(max_length=60, blank=True)
    messages_logged = models.PositiveBigIntegerField(
        default=0, help_text="Also those that retention removed."
    )

    class Meta:
        ordering: ClassVar[Any] = ["-created_at"]

    def __str__(self) -> str:
        return self.id


class Message(models.Model):
    """A redacted message in either direction. The row of a request includes its answer."""

    class Direction(models.TextChoices):
        """The direction, from the server's point of view."""

        IN = "in", "client → server"
        OUT = "out", "server → client"

    class Outcome(models.TextChoices):
        """The result of a request, which may be a question to the client. Empty for notifications."""

        OK = "ok", "succeeded"
        TOOL_ERROR = "tool_error", "failed (tool error)"
        ERROR = "error", "failed (protocol error)"
        REFUSED = "refused", "refused"
        CANCELLED = "cancelled", "cancelled"
        ASKED = "asked", "asked for input"

    session = models.ForeignKey(
        Session,
        null=True,
        on_delete=models.CASCADE,
        related_name="messages",
        db_constraint=False,
        db_index=False,  # Covered by an index below.
    )
    at = AwareDateTimeField()
    direction = models.CharField(max_length=3, choices=Direction.choices)
    kind = models.CharField(max_length=12)
    method = models.CharField(max_length=120, blank=True)
    request_id = models.CharField(max_length=120, blank=True)
    target = models.CharField(max_length=200, blank=True, help_text="Tool, prompt or resource named.")
    payload = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, blank=True)
    code = models.IntegerField(null=True)
    # None in most rows, and in rows written by a version that did not know refusal codes.
    refusal = models.CharField(max_length=24, null=True, help_text="Why a call did not begin.")  # noqa: DJ001
    # None unless application code raised an unexpected exception: its number in the answer, and its details
    # as JSON (``observability.incidents``), redacted like the log.
    incident = models.CharField(max_length=8, null=True, help_text="Number of an exception.")  # noqa: DJ001
    exception = models.TextField(null=True, help_text="Class, message and frames of an exception.")  # noqa: DJ001
    # None unless the call sent requests to other servers (``credentials.outgoing``), redacted like the log.
    outgoing = models.TextField(null=True, help_text="Requests to other servers, as JSON.")  # noqa: DJ001
    # The kind of a mark whose request has no answer yet, and None in all other rows.
    pending = models.CharField(max_length=12, null=True)  # noqa: DJ001
    duration_ms = models.FloatField(null=True)
    # Bytes of message and answer as sent, even if the log stores less of them. Null in older rows.
    size = models.BigIntegerField(null=True)
    principal = models.CharField(max_length=120, blank=True)
    process = models.CharField(max_length=60, blank=True)
    skipped = models.PositiveIntegerField(
        default=0, help_text="The number of messages lost just before this one."
    )
    position = models.CharField(
        max_length=48, blank=True, help_text="Its batch in the queue, and its place in that."
    )

    class Meta:
        ordering: ClassVar[Any] = ["-id"]
        verbose_name_plural = "log"
        # One index for each filter of the log, in the order of the log's pages.
        indexes: ClassVar[Any] = [
            models.Index(fields=["session", "-id"]),
            models.Index(fields=["at"]),
            models.Index(fields=["method", "-id"]),
            models.Index(fields=["outcome", "-id"]),
            models.Index(fields=["target", "-id"]),
            models.Index(fields=["principal", "-id"]),
            models.Index(fields=["request_id", "-id"]),
            models.Index(
                fields=["refusal", "-id"], name="mcp_message_refusal", condition=Q(refusal__isnull=False)
            ),
            models.Index(
                fields=["incident"], name="mcp_message_incident", condition=Q(incident__isnull=False)
            ),
            # Also finds the marks of a session: few requests are pending at a time.
            models.Index(
                fields=["pending", "session"], name="mcp_message_pending", condition=Q(pending__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method or self.kind} {self.request_id}".strip()

    @property
    def received_at(self) -> datetime | None:
        """The time of a request, whose row has the time of its response. None in all other rows."""
        return None if self.duration_ms is None else self.at - timedelta(milliseconds=self.duration_ms)

    @property
    def raised(self) -> StoredException | None:
        """The unexpected exception of application code because of which the request failed, or None."""
        return StoredException.read(self.exception)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The call's requests to other servers, see ``credentials.outgoing``."""
        return orjson.loads(self.outgoing) if self.outgoing else []


class LogCursor(models.Model):
    """The only row (pk 1): the position up to which the message queue has been stored."""

    last_id = models.CharField(max_length=40, default="0-0")

    def __str__(self) -> str:
        return self.last_id


class Doctor(LogCursor):
    """The proxy through which every admin skin lists the doctor's page among the model pages.

    It has no rows. The page needs the permission ``mcp_app.run_doctor``.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = verbose_name_plural = "doctor"
