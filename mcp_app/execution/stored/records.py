"""The only writers of Call rows: accept, claim, renew, finish, cancel. Each is one short transaction.

Every change is a compare-and-set on the row's state and attempt, so of any two racing writers one wins and
the other learns it (R5, R9). Times come from the database's clock and are judged by it alone: those of two
processes may be hours apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from django.db import IntegrityError
from django.db.models import Case, DurationField, ExpressionWrapper, F, Q, QuerySet, When
from django.db.models.functions import Coalesce

from mcp_app import conf
from mcp_app.database import clock as database_clock
from mcp_app.execution.stored import fair_order, statements
from mcp_app.execution.stored.call_record import (
    CallRecord,
    NewCall,
    digest,
    id_of,
    record,
    request_key,
)
from mcp_app.execution.stored.request_ids import find_request
from mcp_app.models import Call
from mcp_app.protocol import call_state
from mcp_app.protocol.call_state import ACTIVE, TERMINAL, UNSTARTED, State, Transition
from mcp_app.protocol.principal_key import person_of

LEASE_SECONDS = 15.0
# Twice that: a lease that reaches further was written before that clock was set back.
LONGEST_LEASE = 30.0
DAY_SECONDS = 86_400
PURGE_SLICE = 1_000
OPEN = Q(state__in=call_state.OPEN)


def move(calls: QuerySet[Call], transition: Transition, **values: Any) -> int:
    """Move those of the calls that are in a state for it, and set the ``values``; returns how many were."""
    return calls.filter(state__in=transition.before).update(state=transition.after, **values)


def accept(new: NewCall) -> tuple[CallRecord, bool]:
    """Store a call; returns it and whether it is new. A repeated request gives the call it repeats (R7).

    The row says that its job is queued, which is to be done next: one write less for nearly every call. Not
    so for a call that waits for approval.
    """
    key, waits = request_key(new.request_id), new.approval_minutes is not None
    row = Call(
        id=id_of(new.stream) or uuid4(),
        session_id=new.session_id,
        request_id=orjson.dumps(new.request_id).decode(),
        request_key=key,
        principal=new.principal,
        person=person_of(new.principal),
        user_id=new.user_id,
        api_key_id=new.api_key_id,
        connection_id=new.connection_id,
        scopes=new.scopes,
        tool=new.tool,
        arguments=orjson.dumps(new.arguments).decode(),
        digest=digest(new.tool, new.arguments),
        meta=orjson.dumps(new.meta).decode(),
        session_fields=new.session_fields,
        stream=new.stream,
        timeout=new.timeout,
        max_attempts=new.max_attempts,
        queue=new.queue,
        priority=new.priority,
        lane=new.lane,
        start_tag=0.0,
        retry_of_id=new.retry_of,
        retried_by_id=new.retried_by,
        retried_before=orjson.dumps(new.retried_before).decode() if new.retried_before else None,
        state=State.APPROVAL_NEEDED if waits else State.ACCEPTED,
        work=new.work,
        catalogue_revision=new.catalogue_revision,
        four_eyes=new.four_eyes,
        decision=Call.Decision.APPROVED if new.approved else "",
        inputs=None if new.inputs is None else orjson.dumps(new.inputs).decode(),
    )
    moments = {
        "accepted_at": 0.0,
        "enqueued_at": None if waits else 0.0,
        "approval_until": None if new.approval_minutes is None else 60.0 * new.approval_minutes,
        "reminded_at": 0.0 if waits else None,
        "task_until": new.task_seconds,
    }
    step = 0.0 if waits else fair_order.step(new.user_id)
    while True:
        try:
            return record(statements.insert(row, moments, step)), True
        except IntegrityError:
            # Absent if its answer was delivered meanwhile: the id is free again.
            if present := find_request(new.session_id, new.request_id):
                return present, False


def find(call_id: UUID | str) -> CallRecord | None:
    """The call with this id."""
    row = statements.find(call_id)
    return record(row) if row else None


def new_start_tag(call_id: UUID | str) -> float:
    """The place in the fair order of a stored call that starts to wait for a worker now."""
    row = statements.find(call_id)
    if row is None:
        return 0.0
    return fair_order.start_tag(
        person=person_of(row.principal),
        queue=row.queue,
        lane=row.lane,
        priority=row.priority,
        step=fair_order.step(row.user_id),
    )


def find_by_stream(session_id: str, stream: str) -> CallRecord | None:
    """The call whose answer travels on a stream of a session."""
    calls, call_id = Call.objects.filter(session_id=session_id, stream=stream), id_of(stream)
    row = (calls if call_id is None else calls.filter(pk=call_id)).first()
    return record(row) if row else None


def note_enqueued(call_id: UUID, *, is_queued: bool = True) -> None:
    """The broker has the job, or did not take it."""
    Call.objects.filter(pk=call_id).update(enqueued_at=database_clock.now() if is_queued else None)


def claim(
    call_id: UUID | str, worker: str, *, statement: str = statements.CLAIM, **values: int
) -> CallRecord | None:
    """Start an attempt under a lease; None when the call is over, or another attempt holds it.

    A job delivered twice therefore starts once (R6); the attempt number fences everything it writes. With
    CLAIM_NEXT as the ``statement`` it is one of the fairest call of the queue in which this one waits, or
    waited; people with ``unanswered`` calls that wait for their clients are passed by.
    """
    after, name = Transition.START.after, worker[:120]
    with statements.revocable():
        row = statements.one(statement, lease=LEASE_SECONDS, state=after, worker=name, id=call_id, **values)
    return record(row) if row else None


@dataclass(frozen=True, slots=True)
class Renewal:
    """Whether the attempt still holds its lease, and whether it was asked to stop."""

    held: bool
    cancel_reason: str = ""


def renew(
    call_id: UUID,
    attempt: int,
    progress: tuple[float, float | None, str | None] | None,
    *,
    is_news: bool = False,
) -> Renewal:
    """Keep the lease of a running attempt; notes its newest progress for operators.

    ``is_news`` if the client of a task is notified of it.
    """
    values: dict[str, Any] = {"lease_until": database_clock.lease(LEASE_SECONDS)}
    if is_news:
        values["progress_at"] = database_clock.now()
    if progress is not None:
        values |= {"progress": progress[0], "total": progress[1], "message": storable(progress[2], 500)}
    # Not that of an attempt which just ended with a question: a lease would be the end of that task.
    mine = Call.objects.filter(pk=call_id, attempt=attempt, state__in=ACTIVE, lease_until__isnull=False)
    if not mine.update(**values):
        return Renewal(held=False)
    return Renewal(True, mine.values_list("cancel_reason", flat=True).first() or "")


def look(call_id: UUID, attempt: int) -> Renewal:
    """As ``renew``, without renewing."""
    mine = Call.objects.filter(pk=call_id, attempt=attempt, state__in=ACTIVE)
    reason = mine.values_list("cancel_reason", flat=True).first()
    return Renewal(held=reason is not None, cancel_reason=reason or "")


def note_waiting(call_id: UUID, attempt: int, *, waiting: bool) -> None:
    """The running attempt asked the client something, or got its answer."""
    mine = Call.objects.filter(pk=call_id, attempt=attempt)
    move(mine, Transition.ASK if waiting else Transition.ANSWER)


def finish(
    call_id: UUID,
    attempt: int,
    state: State,
    outcome: str,
    answer: bytes,
    *,
    statement: str = statements.FINISH,
) -> bool:
    """Store the one outcome of a running call; False when it has one, or its attempt lost it (R5, R9).

    ``statement`` says of which call: FINISH_UNSTARTED of one that waits for a worker, FINISH_LOST of one
    whose lease is still out, for it may have been renewed since it was looked at.
    """
    return bool(
        statements.execute(
            statement,
            lease=LONGEST_LEASE,
            state=state,
            outcome=outcome,
            answer=answer.decode(),
            published=False,
            id=call_id,
            attempt=attempt,
        )
    )


def cancel_idle(call: CallRecord, answer: bytes) -> bool:
    """End a call as cancelled if no worker runs it: it has not begun, or waits for its client's answer."""
    if call.state in UNSTARTED:
        statement = statements.FINISH_UNSTARTED
    elif call.is_suspended:
        statement = statements.FINISH
    else:
        return False
    return finish(call.id, call.attempt, Transition.CANCEL.after, "cancelled", answer, statement=statement)


def note_published(*call_ids: UUID) -> None:
    """The answers of these calls reached their event streams."""
    Call.objects.filter(pk__in=call_ids, state__in=TERMINAL).update(published=True)


def request_cancel(session_id: str, request_id: str | int, reason: str) -> CallRecord | None:
    """Mark an open call as to be stopped; returns it, None when there is none (CAN-03)."""
    key = request_key(request_id)
    return _request_cancel(statements.CANCEL_REQUEST, reason, session_id=session_id, request_key=key)


def request_cancel_of(call_id: UUID, reason: str) -> CallRecord | None:
    """As ``request_cancel``, for an operator."""
    return _request_cancel(statements.CANCEL_CALL, reason, id=call_id)


def _request_cancel(statement: str, reason: str, **values: Any) -> CallRecord | None:
    row = statements.one(statement, cancel_reason=storable(reason, 200) or "cancelled", **values)
    return record(row) if row else None


def end_cancelled(call_id: UUID, answer: bytes, reason: str) -> bool:
    """End an open call as cancelled, also while it runs: its attempt has lost it, and stops (TASK4-07)."""
    now = database_clock.now()
    return bool(
        move(
            Call.objects.filter(pk=call_id),
            Transition.CANCEL,
            **cancelled(answer.decode()),
            cancel_requested_at=now,
            cancel_reason=storable(reason, 200),
        )
    )


def cancelled(answer: str | Case) -> dict[str, Any]:
    """What a call that no code answers is given at its end, as in FINISH_UNSTARTED."""
    return {
        "outcome": "cancelled",
        "answer": answer,
        "finished_at": database_clock.now(),
        "lease_until": None,
        "published": False,
        "inputs": None,
        "start_tag": Case(When(started_at=None, then=0.0), default=F("start_tag")),
    }


def open_calls(session_id: str) -> list[CallRecord]:
    """The calls of a session that are not over."""
    return [record(row) for row in Call.objects.filter(OPEN, session_id=session_id)]


def release(call_id: UUID, attempt: int) -> bool:
    """Take a call back from a lost attempt so that another can start.

    False when it may not start again, or the attempt turned out to live.
    """
    lost = Call.objects.filter(
        _lease_is_out(),
        pk=call_id,
        attempt=attempt,
        attempt__lt=F("max_attempts"),
        cancel_requested_at=None,
    )
    return bool(move(lost, Transition.RETRY, lease_until=None, enqueued_at=None))


def _lease_is_out() -> Q:
    """As in FINISH_LOST."""
    past = Q(lease_until__lt=database_clock.lease())
    return past | Q(lease_until__gt=database_clock.lease(LONGEST_LEASE))


def expired(limit: int = 100) -> list[CallRecord]:
    """Running calls whose lease ran out: their worker is dead or frozen."""
    rows = Call.objects.filter(_lease_is_out(), state__in=ACTIVE)[:limit]
    return [record(row) for row in rows]


def not_enqueued(older_than: float, limit: int = 100) -> list[CallRecord]:
    """Accepted calls whose job never reached the broker, or may have been lost by it; oldest first.

    The longer a call waits, the more seldom it is given another job: where many wait long, none of their jobs
    is lost, and one more for each every minute would be most of the queue.
    """
    since = database_clock.now(-older_than)
    # A call that waited for approval, or for its client, waits in the queue since that is over.
    begun = Coalesce("progress_at", "decided_at", "accepted_at")
    waited = ExpressionWrapper(F("enqueued_at") - begun, DurationField())
    since_then = ExpressionWrapper(database_clock.now() - F("enqueued_at"), DurationField())
    rows = Call.objects.filter(state=State.ACCEPTED).annotate(waited=waited, since_then=since_then)
    again = Q(enqueued_at__lt=database_clock.now(-older_than - 60), since_then__gt=F("waited"))
    lost = rows.filter(Q(enqueued_at=None, accepted_at__lt=since) | again)
    return [record(row) for row in lost.order_by("accepted_at")[:limit]]


def waiting(older_than: float, limit: int = 100) -> list[CallRecord]:
    """Accepted calls whose job the broker was given a while ago, oldest first."""
    since = database_clock.now(-older_than)
    rows = Call.objects.filter(state=State.ACCEPTED, enqueued_at__lt=since)
    return [record(row) for row in rows.order_by("accepted_at")[:limit]]


def probe() -> datetime:
    """Do what any writer does, to nothing; raises DatabaseError while the database takes no writes.

    Returns what its clock says.
    """
    Call.objects.filter(pk=UUID(int=0)).update(published=True)
    return database_clock.read()


def unpublished(older_than: float, limit: int = 100) -> list[CallRecord]:
    """Finished calls whose answer did not reach the event stream."""
    since = database_clock.now(-older_than)
    # Without a word on the state, whose index has every call that ever ended.
    rows = Call.objects.filter(published=False, finished_at__lt=since)[:limit]
    return [record(row) for row in rows]


def storable(text: str | None, length: int) -> str:
    """Text of clients and tools as every database takes it: no NUL (PostgreSQL), no lone surrogate."""
    return (text or "")[:length].replace("\0", "").encode(errors="replace").decode()


def purge() -> int:
    """Delete calls that were over longer ago than they are kept; returns how many.

    Open calls stay, and tasks that their clients may still ask for (TASKX-19).
    """
    kept_for = Q(task_until=None) | Q(task_until__lt=database_clock.now())
    since = database_clock.now(-DAY_SECONDS * conf.get().call_days)
    # What was over before was accepted before: that has an index.
    old = Call.objects.filter(kept_for, accepted_at__lt=since, finished_at__lt=since)
    removed = 0
    while ids := list(old.values_list("pk", flat=True)[:PURGE_SLICE]):
        removed += len(ids)
        Call.objects.filter(pk__in=ids).delete()
    return removed
