"""Changes to the rows of calls: accept, claim, renew, finish, cancel.

Each change is one short transaction: a compare-and-set on the row's state and attempt. If two writers race,
one of them wins and the other writer notices (R5, R9). Times are set and compared only by the database's
clock, because the clocks of processes may differ by hours.
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
from mcp_app.auth.identity_provider import caller_tokens
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
# Twice the lease. A lease that ends later than that was written before the database's clock was set back.
LONGEST_LEASE = 30.0
DAY_SECONDS = 86_400
PURGE_SLICE = 1_000
OPEN = Q(state__in=call_state.OPEN)


def move(calls: QuerySet[Call], transition: Transition, **values: Any) -> int:
    """Apply a transition and set ``values`` on the calls whose state allows it. Return how many changed."""
    return calls.filter(state__in=transition.before).update(state=transition.after, **values)


def accept(new: NewCall) -> tuple[CallRecord, bool]:
    """Store a call. Return it and True, or the call that the request repeats and False (R7).

    Unless it waits for approval, it is stored as queued already, which saves a write: the job comes next.
    If the answer of the repeated call was delivered meanwhile, no call is found, and the request id is free.
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
    if new.caller_token:
        caller_tokens.store(row.id, new.caller_token, new.principal)
    while True:
        try:
            return record(statements.insert(row, moments, step)), True
        except IntegrityError:
            if present := find_request(new.session_id, new.request_id):
                return present, False


def find(call_id: UUID | str) -> CallRecord | None:
    """Return the call with this id, or None."""
    row = statements.find(call_id)
    return record(row) if row else None


def new_start_tag(call_id: UUID | str) -> float:
    """Return a new start tag for a stored call that now starts to wait for a worker."""
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
    """Return the call whose answer is sent on this stream of a session, or None."""
    calls, call_id = Call.objects.filter(session_id=session_id, stream=stream), id_of(stream)
    row = (calls if call_id is None else calls.filter(pk=call_id)).first()
    return record(row) if row else None


def record_enqueued(call_id: UUID, *, is_queued: bool = True) -> None:
    """Record that the broker has accepted the job, or that it has not."""
    Call.objects.filter(pk=call_id).update(enqueued_at=database_clock.now() if is_queued else None)


def claim(
    call_id: UUID | str, worker: str, *, statement: str = statements.CLAIM, **values: int
) -> CallRecord | None:
    """Start an attempt under a lease. Return None if the call has finished or another attempt has the lease.

    Therefore a job that is delivered twice starts only one attempt (R6). The attempt number fences
    everything that the attempt writes. With CLAIM_NEXT as the ``statement``, claim the next call in the
    queue of ``call_id``, in the fair order. Skip people with ``unanswered`` calls that wait for their
    clients.
    """
    after, name = Transition.START.after, worker[:120]
    with statements.revocable():
        row = statements.one(statement, lease=LEASE_SECONDS, state=after, worker=name, id=call_id, **values)
    return record(row) if row else None


@dataclass(frozen=True, slots=True)
class Renewal:
    """The state of an attempt. ``held`` is True while the attempt has the lease.

    ``cancel_reason`` is the reason if the call is to be stopped, else "".
    """

    held: bool
    cancel_reason: str = ""


def renew(
    call_id: UUID,
    attempt: int,
    progress: tuple[float, float | None, str | None] | None,
    *,
    is_news: bool = False,
) -> Renewal:
    """Renew the lease of a running attempt, and store its latest progress for operators.

    ``is_news`` is True if the client of the task is notified of this progress.
    """
    values: dict[str, Any] = {"lease_until": database_clock.lease(LEASE_SECONDS)}
    if is_news:
        values["progress_at"] = database_clock.now()
    if progress is not None:
        values |= {"progress": progress[0], "total": progress[1], "message": storable(progress[2], 500)}
    # Exclude an attempt that has just ended with a question: if it got a lease, the reaper would end its
    # task.
    mine = Call.objects.filter(pk=call_id, attempt=attempt, state__in=ACTIVE, lease_until__isnull=False)
    if not mine.update(**values):
        return Renewal(held=False)
    return Renewal(True, mine.values_list("cancel_reason", flat=True).first() or "")


def check_attempt(call_id: UUID, attempt: int) -> Renewal:
    """Return the state of an attempt as ``renew`` does, but without renewing the lease."""
    mine = Call.objects.filter(pk=call_id, attempt=attempt, state__in=ACTIVE)
    reason = mine.values_list("cancel_reason", flat=True).first()
    return Renewal(held=reason is not None, cancel_reason=reason or "")


def record_waiting(call_id: UUID, attempt: int, *, waiting: bool) -> None:
    """Record that the running attempt waits for its client's answer, or that it has got the answer."""
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
    """Store the outcome of a running call.

    Return False if the call already has an outcome, or if the attempt has lost the call (R5, R9).
    ``statement`` is FINISH_UNSTARTED for a call that waits for a worker. For a lost call it is FINISH_LOST,
    which also requires that the lease is still expired.
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
    """End a call as cancelled if no worker runs it. Return False if a worker does.

    No worker runs a call that has not started or that waits for its client without a lease.
    """
    if call.state in UNSTARTED:
        statement = statements.FINISH_UNSTARTED
    elif call.is_suspended:
        statement = statements.FINISH
    else:
        return False
    return finish(call.id, call.attempt, Transition.CANCEL.after, "cancelled", answer, statement=statement)


def record_published(*call_ids: UUID) -> None:
    """Record that the answers of these calls have reached their event streams."""
    Call.objects.filter(pk__in=call_ids, state__in=TERMINAL).update(published=True)


def request_cancel(session_id: str, request_id: str | int, reason: str) -> CallRecord | None:
    """Mark an open call to be stopped. Return the call, or None if there is no open call (CAN-03)."""
    key = request_key(request_id)
    return _request_cancel(statements.CANCEL_REQUEST, reason, session_id=session_id, request_key=key)


def request_cancel_of(call_id: UUID, reason: str) -> CallRecord | None:
    """Mark an open call to be stopped, given its id. Return the call, or None if there is no open call."""
    return _request_cancel(statements.CANCEL_CALL, reason, id=call_id)


def _request_cancel(statement: str, reason: str, **values: Any) -> CallRecord | None:
    row = statements.one(statement, cancel_reason=storable(reason, 200) or "cancelled", **values)
    return record(row) if row else None


def end_cancelled(call_id: UUID, answer: bytes, reason: str) -> bool:
    """End an open call as cancelled, even while it runs.

    Its attempt then loses the call and stops (TASK4-07).
    """
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
    """Return the values that a cancelled call ends with, the same as in FINISH_UNSTARTED."""
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
    """Return the unfinished calls of a session."""
    return [record(row) for row in Call.objects.filter(OPEN, session_id=session_id)]


def release(call_id: UUID, attempt: int) -> bool:
    """Take a call away from a lost attempt, so that another attempt can start.

    Return False if the call may not start again, or if the attempt turns out to be alive.
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
    """Return the condition that a lease has expired, the same as in FINISH_LOST."""
    past = Q(lease_until__lt=database_clock.lease())
    return past | Q(lease_until__gt=database_clock.lease(LONGEST_LEASE))


def expired(limit: int = 100) -> list[CallRecord]:
    """Return running calls whose lease has expired because their worker is dead or frozen."""
    rows = Call.objects.filter(_lease_is_out(), state__in=ACTIVE)[:limit]
    return [record(row) for row in rows]


def not_enqueued(older_than: float, limit: int = 100) -> list[CallRecord]:
    """Return accepted calls that may have no job in the broker, oldest first.

    The job did not reach the broker or was lost there. The longer a call waits, the less often it gets
    another job. If many calls wait for long, their jobs are usually not lost. A further job for each of
    these calls every minute would fill the queue.
    """
    since = database_clock.now(-older_than)
    # A call that was approved or whose client has answered waits in the queue from that time on.
    begun = Coalesce("progress_at", "decided_at", "accepted_at")
    waited = ExpressionWrapper(F("enqueued_at") - begun, DurationField())
    since_then = ExpressionWrapper(database_clock.now() - F("enqueued_at"), DurationField())
    rows = Call.objects.filter(state=State.ACCEPTED).annotate(waited=waited, since_then=since_then)
    again = Q(enqueued_at__lt=database_clock.now(-older_than - 60), since_then__gt=F("waited"))
    lost = rows.filter(Q(enqueued_at=None, accepted_at__lt=since) | again)
    return [record(row) for row in lost.order_by("accepted_at")[:limit]]


def waiting(older_than: float, limit: int = 100) -> list[CallRecord]:
    """Return accepted calls whose job was queued more than ``older_than`` seconds ago, oldest first."""
    since = database_clock.now(-older_than)
    rows = Call.objects.filter(state=State.ACCEPTED, enqueued_at__lt=since)
    return [record(row) for row in rows.order_by("accepted_at")[:limit]]


def probe() -> datetime:
    """Run a writing statement that changes no row, and return the database's time.

    Raise DatabaseError if the database accepts no writes.
    """
    Call.objects.filter(pk=UUID(int=0)).update(published=True)
    return database_clock.read()


def unpublished(older_than: float, limit: int = 100) -> list[CallRecord]:
    """Return finished calls whose answers have not reached their event streams."""
    since = database_clock.now(-older_than)
    # Add no condition on the state: the index of states contains every finished call.
    rows = Call.objects.filter(published=False, finished_at__lt=since)[:limit]
    return [record(row) for row in rows]


def storable(text: str | None, length: int) -> str:
    """Return text without characters that databases reject: NUL (PostgreSQL) and lone surrogates.

    The text is cut to ``length`` characters.
    """
    return (text or "")[:length].replace("\0", "").encode(errors="replace").decode()


def purge() -> int:
    """Delete calls that finished more than ``call_days`` ago, and return how many were deleted.

    Open calls are not deleted, nor tasks that their clients may still query (TASKX-19).
    """
    kept_for = Q(task_until=None) | Q(task_until__lt=database_clock.now())
    since = database_clock.now(-DAY_SECONDS * conf.get().call_days)
    # Calls finish after they were accepted, and only the time of acceptance has an index.
    old = Call.objects.filter(kept_for, accepted_at__lt=since, finished_at__lt=since)
    removed = 0
    while ids := list(old.values_list("pk", flat=True)[:PURGE_SLICE]):
        removed += len(ids)
        Call.objects.filter(pk__in=ids).delete()
    return removed
