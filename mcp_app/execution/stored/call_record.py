"""Stored calls as immutable records, and the values of a new call. This module reads and writes no rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from mcp_app.limits.limiter import Ticket
from mcp_app.models import Call
from mcp_app.protocol.call_state import TERMINAL, State
from mcp_app.protocol.versions import is_modern

DEFAULT_QUEUE = "celery"
# The prefix of the stream names of calls.
PREFIX = "call-"
# The prefix of the request key of a call whose request id is free again. It is followed by the call's id.
ANSWERED = "answered-"
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A client's request and its stream. They do not change when the call is stored.

    ``scopes`` is the scope limit of the request's token, or "". ``connection_id`` is its OAuth connection,
    or None.
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
    """The values with which a call is accepted.

    A call with ``approval_minutes`` waits up to that long for approval. ``approved`` is True if the call
    was approved in an earlier run. Only calls that need approval have ``work``, the digest that an approval
    covers, and ``catalogue_revision``, the revision that the caller saw. A call with ``task_seconds`` is a
    task, and its client may query it for that long. ``inputs`` is the value of ``Inputs.stored`` for a call
    of 2026-07-28. ``lane`` is the name of the tool if its running calls are limited. ``ticket`` is for the
    gate and is not stored. ``place`` is the row of the request's idempotency key, which will name the call.
    ``caller_token`` is the sealed token of the caller, for tools that may need it. Only Redis stores it.
    """

    timeout: float
    max_attempts: int = 1
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    lane: str = ""
    retry_of: UUID | None = None
    retried_by: int | None = None
    retried_before: tuple[str, ...] = ()
    approval_minutes: int | None = None
    work: str = ""
    catalogue_revision: int | None = None
    four_eyes: bool = False
    task_seconds: float | None = None
    approved: bool = False
    inputs: dict[str, Any] | None = None
    ticket: Ticket | None = None
    place: int | None = None
    caller_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord(StoredRequest):
    """An immutable copy of a stored call.

    ``read_at`` is the time of reading by the database's clock, or None. A call that ``waits_for_approval``
    has no job. ``approved`` holds for all attempts. The client of a task (``is_task``) polls for the
    result, and nothing is sent to it meanwhile. A core task was created in a session of 2025-11-25, whose
    rules for tasks differ. The request id of a call is free once the call ``is_answered``.
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
    def is_finished(self) -> bool:
        """True once the call has finished."""
        return self.state in TERMINAL

    @property
    def is_suspended(self) -> bool:
        """True if the call has asked its client and no attempt waits for the answer."""
        return self.state == State.INPUT_REQUIRED and not self.leased


def stream_of(call_id: UUID) -> str:
    """Return the name of a call's stream, which also identifies its row."""
    return PREFIX + call_id.hex


def id_of(stream: str) -> UUID | None:
    """Return the id of the call whose stream has this name, or None.

    Older versions named streams differently.
    """
    name = stream.removeprefix(PREFIX)
    return UUID(name) if len(name) == 32 and stream.startswith(PREFIX) and set(name) <= HEX else None


def request_key(request_id: str | int) -> str:
    """Return a digest of a JSON-RPC id of any length. 1 and "1" are different requests (RPC-02)."""
    return hashlib.sha256(orjson.dumps(request_id)).hexdigest()


def digest(tool: str, arguments: dict[str, Any]) -> str:
    """Return a digest that is equal for calls of the same tool with the same arguments."""
    try:
        encoded = orjson.dumps([tool, arguments], option=orjson.OPT_SORT_KEYS)
    except TypeError:  # Integers beyond 64 bits.
        encoded = json.dumps([tool, arguments], sort_keys=True).encode()
    return hashlib.sha256(encoded).hexdigest()


def cancel_broadcast(call: CallRecord, reason: str) -> dict[str, Any]:
    """Return the broadcast that stops this call and no other call with the same request id."""
    return {
        "session": call.session_id,
        "request_id": call.request_id,
        "call": str(call.id),
        "reason": reason,
    }


def retriers_of(call: CallRecord | Call) -> tuple[str, ...]:
    """Return the primary keys of the users who retried this call or a call that it repeats, in order."""
    before = () if call.retried_before is None else orjson.loads(call.retried_before)
    return (*before, *([] if call.retried_by_id is None else [str(call.retried_by_id)]))


def record(row: Call) -> CallRecord:
    """Convert a row to an immutable record."""
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
