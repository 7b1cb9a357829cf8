"""Cancellation of many calls in a few statements, as ``request_cancel_of`` and ``cancel_idle`` do for one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from uuid import UUID

from django.db.models import Case, Value, When

from mcp_app.database import clock
from mcp_app.execution.stored.call_record import CallRecord, record
from mcp_app.execution.stored.records import OPEN, cancelled, move, storable
from mcp_app.models import Call
from mcp_app.protocol.call_state import UNSTARTED, Transition


def open_ids_of(principal: str, connections: Collection[int] | None = None) -> list[UUID]:
    """Return the ids of a principal's unfinished calls, optionally only those of some ``connections``."""
    found = Call.objects.filter(OPEN, principal=principal)
    if connections is not None:
        found = found.filter(connection_id__in=connections)
    return list(found.values_list("pk", flat=True))


def with_open_calls(principals: Collection[str]) -> list[str]:
    """Return those principals that have unfinished calls."""
    found = Call.objects.filter(OPEN, principal__in=principals).order_by("principal")
    return list(found.values_list("principal", flat=True).distinct())


def cancel_all(
    call_ids: Sequence[UUID], reason: str, answer_to: Callable[[CallRecord], bytes]
) -> tuple[list[CallRecord], list[CallRecord]]:
    """Cancel the open calls among ``call_ids``. Call this in a transaction.

    Return two lists: the calls that have ended now, with their answers, and the calls that a worker has to
    stop. The records still have the state before the cancellation.
    """
    # Lock the rows in a fixed order, so that concurrent cancellations of the same calls do not deadlock.
    rows = Call.objects.select_for_update().filter(OPEN, pk__in=call_ids).order_by("pk")
    idle, running = list[CallRecord](), list[CallRecord]()
    for call in map(record, rows):
        if call.state in UNSTARTED or call.is_suspended:
            idle.append(replace(call, answer=answer_to(call)))
        else:
            running.append(call)
    found = Call.objects.filter(pk__in=[call.id for call in (*idle, *running)])
    found.filter(cancel_requested_at=None).update(
        cancel_requested_at=clock.now(), cancel_reason=storable(reason, 200) or "cancelled"
    )
    if idle:
        answers = Case(*(When(pk=call.id, then=Value(call.answer.decode())) for call in idle))
        ending = Call.objects.filter(pk__in=[call.id for call in idle])
        move(ending, Transition.CANCEL, **cancelled(answers))
    return idle, running
