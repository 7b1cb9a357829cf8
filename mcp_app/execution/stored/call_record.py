"""A stored call as other layers see it, and what a new one is made of; reads and writes no rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from mcp_app.catalogue.definitions.tool_limits import NO_LIMITS, ToolLimits
from mcp_app.models import Call
from mcp_app.protocol.call_state import TERMINAL, State
from mcp_app.protocol.versions import is_modern

DEFAULT_QUEUE = "celery"
# Of the names of the streams of calls.
PREFIX = "call-"
# Begins the request key of a call whose request id is free again; its own id follows.
ANSWERED = "answered-"
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """What a client asked for, and where it hears of it: the same before a call is stored and after.

    ``scopes`` are the ceiling of its token, ``connection_id`` the OAuth connection that has it; "" and None
    where there is none.
    """

    session_id: str
    request_id: str | int
    principal: str
    user_id: int | None
    api_key_id: int | None
    connection_id: int | None = None
    scopes: str = ""
    tool: str
    arguments: dict[str, Any]
    meta: dict[str, Any]
    session_fields: dict[str, str]
    stream: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall(StoredRequest):
    """The values a call is accepted with. With ``approval_minutes`` it waits that long for approval.

    ``approved``: it was approved before. ``work`` is what an approval holds for, ``catalogue_revision`` the
    catalogue that the caller saw; both only of calls that need one. With ``task_seconds`` it is a task, for
    which its client may ask so long. ``inputs`` are those of a call of 2026-07-28, as ``Inputs.stored`` has
    them. ``lane`` is the tool if only so many of its calls may run at once. ``limits`` are for the gate and
    not stored.
    """

    timeout: float
    max_attempts: int = 1
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    lane: str = ""
    retry_of: UUID | None = None
    retried_by: int | None = None
    retried_before: tuple[str, ...] = ()
    limits: ToolLimits = NO_LIMITS
    approval_minutes: int | None = None
    work: str = ""
    catalogue_revision: int | None = None
    four_eyes: bool = False
    task_seconds: float | None = None
    approved: bool = False
    inputs: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord(StoredRequest):
    """A call as other layers see it. ``read_at`` is when, by the database's clock, if that was asked.

    A call that ``waits_for_approval`` has no job; one that is ``approved`` is so for all of its attempts. The
    client of a task (``is_task``) asks for the outcome, and nothing is sent to it on the way; a core task was
    made by a session of 2025-11-25, whose tasks have other rules. Once a call ``is_answered``, its request id
    is free for another.
    """

    id: UUID
    state: str
    attempt: int
    max_attempts: int
    timeout: float
    queue: str
    priority: int
    lane: str
    digest: str
    answer: bytes
    cancel_reason: str
    accepted_at: datetime
    approval_until: datetime | None
    work: str
    four_eyes: bool
    retried_before: str | None
    retried_by_id: int | None
    waits_for_approval: bool
    approved: bool
    task_until: datetime | None
    is_task: bool
    is_core_task: bool
    is_answered: bool
    inputs: dict[str, Any] | None
    leased: bool
    reminded: bool
    read_at: datetime | None = field(compare=False)

    @property
    def is_over(self) -> bool:
        """The call has its one outcome."""
        return self.state in TERMINAL

    @property
    def is_suspended(self) -> bool:
        """Its client was asked, and no attempt waits for the answer."""
        return self.state == State.INPUT_REQUIRED and not self.leased


def stream_of(call_id: UUID) -> str:
    """The name of the stream of a call, by which its row is found, too."""
    return PREFIX + call_id.hex


def id_of(stream: str) -> UUID | None:
    """The call that ``stream_of`` named a stream after; the versions before named them in another way."""
    name = stream.removeprefix(PREFIX)
    return UUID(name) if len(name) == 32 and stream.startswith(PREFIX) and set(name) <= HEX else None


def request_key(request_id: str | int) -> str:
    """What stands for a JSON-RPC id of any length; 1 and "1" are different requests (RPC-02)."""
    return hashlib.sha256(orjson.dumps(request_id)).hexdigest()


def digest(tool: str, arguments: dict[str, Any]) -> str:
    """What makes two requests the same work."""
    return hashlib.sha256(orjson.dumps([tool, arguments], option=orjson.OPT_SORT_KEYS)).hexdigest()


def cancel_news(call: CallRecord, reason: str) -> dict[str, Any]:
    """Return the broadcast that stops a call, and no other call with the same request id."""
    return {
        "session": call.session_id,
        "request_id": call.request_id,
        "call": str(call.id),
        "reason": reason,
    }


def retriers_of(call: CallRecord | Call) -> tuple[str, ...]:
    """Users who retried this call or one that it repeats: primary keys, the first one first."""
    before = () if call.retried_before is None else orjson.loads(call.retried_before)
    return (*before, *([] if call.retried_by_id is None else [str(call.retried_by_id)]))


def record(row: Call) -> CallRecord:
    """A row as a frozen record."""
    is_task = row.task_until is not None
    return CallRecord(
        id=row.pk,
        session_id=row.session_id,
        request_id=orjson.loads(row.request_id),
        principal=row.principal,
        user_id=row.user_id,
        api_key_id=row.api_key_id,
        connection_id=row.connection_id,
        scopes=row.scopes,
        tool=row.tool,
        arguments=orjson.loads(row.arguments),
        meta=orjson.loads(row.meta),
        session_fields=row.session_fields,
        stream=row.stream,
        state=row.state,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        timeout=row.timeout,
        queue=row.queue,
        priority=row.priority,
        lane=row.lane,
        digest=row.digest,
        answer=row.answer.encode(),
        cancel_reason=row.cancel_reason,
        accepted_at=row.accepted_at,
        approval_until=row.approval_until,
        work=row.work,
        four_eyes=row.four_eyes,
        retried_before=row.retried_before,
        retried_by_id=row.retried_by_id,
        waits_for_approval=row.state == State.APPROVAL_NEEDED,
        approved=row.decision == Call.Decision.APPROVED,
        task_until=row.task_until,
        is_task=is_task,
        is_core_task=is_task and not is_modern(row.session_fields["version"]),
        is_answered=row.request_key.startswith(ANSWERED),
        inputs=None if row.inputs is None else orjson.loads(row.inputs),
        leased=row.lease_until is not None,
        reminded=row.reminded_at is not None,
        read_at=row.read_at,
    )
