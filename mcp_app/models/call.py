"""Background calls. The row of a call is authoritative, and its event stream is only a fast copy."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.models.session import Session
from mcp_app.protocol.call_state import State
from mcp_app.protocol.principal_key import person_of

# The session under which the log has a call. A request of 2026-07-28 and a core task have streams of another
# id, and store this one in their fields: see ``MADE_IN`` of sessions.
LOGGED_SESSION = Coalesce(KT("session_fields__session"), "session_id", output_field=models.CharField())


def calls_of_session(session_id: str) -> models.Q:
    """Return the condition that finds the calls which the log has under a session.

    The session's row names the person, because only a person's calls have an index.
    """
    owner = Session.objects.filter(pk=session_id).values_list("principal", flat=True).first()
    same = models.Q(session_id=session_id)
    if owner is None:
        return same
    return same | models.Q(person=person_of(owner), session_fields__session=session_id)


class Call(models.Model):
    """A background call. It counts as accepted once its row is committed, not earlier (R1).

    ``attempt`` is the number of times the call was started. It fences every write. After ``lease_until``
    the running attempt is considered dead. ``answer`` is the encoded response, and ``published`` is True
    once the answer is in the event stream. ``approval_until`` is set for a call that needs approval and is
    never cleared. ``decision`` is the result of the approval. ``task_until`` is set for a call that was
    answered as a task: its client may query the task until then.
    """

    class Decision(models.TextChoices):
        """The result of an approval. It is empty while the call waits and if the call was cancelled."""

        APPROVED = "approved", "approved"
        REFUSED = "refused", "refused"
        EXPIRED = "expired", "expired"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session_id = models.CharField(max_length=64)
    # JSON as text, because PostgreSQL's JSON type rejects the NUL character, which a hostile client may put
    # into a string.
    request_id = models.TextField(help_text="The JSON-RPC id as JSON, so that 1 is not '1'.")
    request_key = models.CharField(max_length=64, help_text="Digest of the JSON-RPC id.")
    principal = models.CharField(max_length=120)
    person = models.CharField(
        max_length=120, db_default="", editable=False, help_text="For whom it counts: person_of(principal)."
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="mcp_calls",
        db_index=False,
    )
    api_key_id = models.BigIntegerField(null=True)
    # The OAuth connection that made the call. When the connection ends, the call ends too. It is not a
    # foreign key, because the OAuth app depends on this app.
    connection_id = models.BigIntegerField(null=True, editable=False)
    # The value of an OAuth scope. It is "" for credentials that are not limited by scopes.
    scopes = models.CharField(max_length=255, blank=True, db_default="", editable=False)
    tool = models.CharField(max_length=128, db_index=True)
    arguments = models.TextField(default="{}")
    digest = models.CharField(max_length=64)
    meta = models.TextField(default="{}")
    session_fields = models.JSONField(default=dict, help_text="The session when the call was accepted.")
    stream = models.CharField(max_length=40)

    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value.replace("_", " ")) for state in State],
        default=State.ACCEPTED,
    )
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=1)
    timeout = models.FloatField(help_text="Seconds one attempt may run.")
    queue = models.CharField(max_length=100, default="celery")
    priority = models.PositiveSmallIntegerField(default=0)
    # Database defaults are needed: processes of the previous version insert rows without these columns.
    lane = models.CharField(
        max_length=128,
        blank=True,
        db_default="",
        help_text="The tool, if only so many of its calls may run at once: they wait for each other.",
    )
    start_tag = models.FloatField(
        db_default=0.0, help_text="Place in the fair order of waiting calls: the lowest is begun next."
    )
    accepted_at = AwareDateTimeField(db_index=True)
    enqueued_at = AwareDateTimeField(null=True)
    started_at = AwareDateTimeField(null=True)
    finished_at = AwareDateTimeField(null=True)
    lease_until = AwareDateTimeField(null=True)
    worker = models.CharField(max_length=120, blank=True)
    cancel_reason = models.CharField(max_length=200, blank=True)
    cancel_requested_at = AwareDateTimeField(null=True)
    progress = models.FloatField(null=True)
    total = models.FloatField(null=True)
    message = models.TextField(blank=True)

    outcome = models.CharField(max_length=12, blank=True)
    answer = models.TextField(blank=True)
    published = models.BooleanField(default=False)
    retry_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="retries", db_index=False
    )
    # An index would slow down every new call, and only the deletion of a user would use it.
    retried_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    # The column is nullable, because processes of the previous version insert rows without it.
    retried_before = models.TextField(  # noqa: DJ001
        null=True, help_text="Users who had the calls that this one repeats made again, as JSON."
    )

    approval_until = AwareDateTimeField(null=True, help_text="Until when it may be approved.")
    four_eyes = models.BooleanField(default=False, help_text="Users cannot approve their own calls.")
    # For calls that need approval. For all other calls the text is empty and the number null.
    work = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        editable=False,
        help_text="Digest of the code and the arguments that an approval holds for.",
    )
    catalogue_revision = models.BigIntegerField(
        null=True, editable=False, help_text="The catalogue in which its caller found the tool."
    )
    reminded_at = AwareDateTimeField(null=True, help_text="When its client was last told that it waits.")
    decision = models.CharField(max_length=10, choices=Decision.choices, blank=True)
    decided_at = AwareDateTimeField(null=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    decision_reason = models.TextField(blank=True)
    # The column is nullable, because processes of the previous version insert rows without it.
    inputs = models.TextField(  # noqa: DJ001
        null=True, help_text="What is known of earlier rounds of questions, as JSON."
    )

    task_until = AwareDateTimeField(
        null=True, help_text="For a task: until when its client can ask for it. Otherwise null."
    )
    progress_at = AwareDateTimeField(null=True, help_text="When a task last told its client of progress.")

    # The database's time when the row was read, if the query selected it.
    read_at: datetime | None = None

    class Meta:
        verbose_name = "background call"
        ordering: ClassVar[Any] = ["-accepted_at"]
        permissions: ClassVar[Any] = [("decide_call", "Can approve and refuse calls that wait for approval")]
        constraints: ClassVar[Any] = [
            # R7: a repeated POST finds the original call from any process. The key is replaced once the
            # client has received the answer.
            models.UniqueConstraint(fields=["session_id", "request_key"], name="one_call_per_request"),
        ]
        indexes: ClassVar[Any] = [
            models.Index(fields=["state", "lease_until"]),
            # Every index slows down every call, so rare values get partial indexes.
            models.Index(
                fields=["finished_at"],
                name="call_unpublished",
                condition=models.Q(published=False, finished_at__isnull=False),
            ),
            models.Index(fields=["user"], name="call_of_user", condition=models.Q(user__isnull=False)),
            models.Index(
                fields=["retry_of"], name="call_retry_of", condition=models.Q(retry_of__isnull=False)
            ),
            # The indexes of the fair order: the last tag of a person, the next call to start, and the last
            # started tag.
            models.Index(fields=["person", "queue", "lane", "priority", "start_tag"], name="call_of_person"),
            models.Index(
                fields=["queue", "lane", "-priority", "start_tag", "accepted_at"],
                name="call_next",
                condition=models.Q(state=State.ACCEPTED.value),
            ),
            models.Index(
                fields=["queue", "lane", "priority", "start_tag"],
                name="call_begun",
                condition=models.Q(started_at__isnull=False),
            ),
            # Partial indexes, because few calls wait for their client and few are tasks.
            models.Index(
                fields=["person", "lease_until"],
                name="call_asked",
                condition=models.Q(state=State.INPUT_REQUIRED.value),
            ),
            models.Index(
                fields=["task_until"], name="call_task_until", condition=models.Q(task_until__isnull=False)
            ),
            # For lists of decisions, and for earlier approvals of calls of the same tool.
            models.Index(
                fields=["decision", "accepted_at"],
                name="call_decided",
                condition=models.Q(approval_until__isnull=False),
            ),
            models.Index(
                fields=["tool", "decision", "user"],
                name="call_decided_of_tool",
                condition=models.Q(approval_until__isnull=False),
            ),
            # For the list of unsuccessful calls.
            models.Index(
                fields=["outcome", "accepted_at"],
                name="call_not_ok",
                condition=~models.Q(outcome__in=["", "ok"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.id}"


class TaskWait(models.Model):
    """A ``tasks/result`` request that waits for its task to end, with the stream that carries its response.

    The wait is stored as long as its call, so that a lost stream can be recreated.
    """

    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="waits")
    session_id = models.CharField(max_length=64)
    request_id = models.TextField(help_text="The JSON-RPC id as JSON, so that 1 is not '1'.")
    stream = models.CharField(max_length=40)

    class Meta:
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["session_id", "stream"], name="one_wait_per_stream"),
        ]

    def __str__(self) -> str:
        return f"{self.stream} for {self.call_id}"


class Approval(Call):
    """A call that needs or needed approval. The proxy gives these calls their own list."""

    class Meta:
        proxy = True
        ordering: ClassVar[Any] = ["-accepted_at"]
        # There are no separate permissions: the permissions to view and to decide calls apply.
        default_permissions = ()


class KeyedCall(models.Model):
    """A call with an idempotency key. ``principal`` is the caller's whole key, ``key`` a digest.

    ``digest`` is of the server, the tool and the given arguments. A background call is named by ``call_id``
    and keeps its own answer. A call that runs in a web process has a ``result`` when it has finished. After
    ``runs_until`` a call with neither counts as lost.
    """

    principal = models.CharField(max_length=120)
    key = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    # Without a foreign key, because the row is written before the call.
    call_id = models.UUIDField(null=True)
    # Binary, because PostgreSQL's text type rejects the NUL character.
    result = models.BinaryField(null=True)
    runs_until = AwareDateTimeField()
    created_at = AwareDateTimeField()
    expires_at = AwareDateTimeField(db_index=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(fields=["principal", "key"], name="one_call_per_idempotency_key")
        ]

    def __str__(self) -> str:
        return f"{self.principal} {self.key[:8]}"
