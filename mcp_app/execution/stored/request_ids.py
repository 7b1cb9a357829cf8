"""The request ids of sessions: which call uses an id, and when the id becomes free (R7)."""

from __future__ import annotations

from uuid import UUID

from django.db.models import CharField, QuerySet, Value
from django.db.models.functions import Cast, Concat

from mcp_app.database import clock
from mcp_app.execution.stored.call_record import ANSWERED, CallRecord, record, request_key
from mcp_app.models import Call


def find_request(session_id: str, request_id: str | int) -> CallRecord | None:
    """Return the call that uses a request id of a session, or None if the id is free."""
    row = Call.objects.filter(session_id=session_id, request_key=request_key(request_id)).first()
    return record(row) if row else None


def release_requests(*call_ids: UUID) -> None:
    """Free the request ids of calls whose clients have received their answers or no longer want them (R7)."""
    _release(Call.objects.filter(pk__in=call_ids))


def release_undelivered(call_id: UUID, seconds: float) -> bool:
    """Free the request id of a call that finished more than ``seconds`` ago.

    Return False for any other call.
    """
    return _release(Call.objects.filter(pk=call_id, finished_at__lt=clock.now(-seconds))) > 0


def _release(calls: QuerySet[Call]) -> int:
    return calls.update(request_key=Concat(Value(ANSWERED), Cast("pk", CharField(max_length=64))))
