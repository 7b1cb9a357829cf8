"""The choice of the waiting call that a worker starts for a job.

A job contains the id of a call but allows one start in that call's queue. The worker claims the call with
the highest priority and the lowest start tag. Every waiting call has a job, so the number of starts equals
the number of calls, and no second queue has to be kept consistent. Calls are skipped if their tool or
person has reached its limit of running calls. If all waiting calls have to be skipped, the job is queued
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, F

from mcp_app.execution.stored import records, statements
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import Call
from mcp_app.protocol.call_state import ACTIVE

# Number of attempts to claim a call if other claims or cancellations are faster.
LOOKS = 5
MANY = 1_000_000_000


class TooManyRunning(Exception):
    """Raised if none of the waiting calls may start.

    ``waiting`` is their number, and ``call`` is one of them.
    """

    def __init__(self, call: CallRecord, waiting: int) -> None:
        super().__init__(f"{call.tool} runs as often as it may.")
        self.call = call
        self.waiting = waiting


@dataclass(frozen=True, slots=True)
class RunningLimits:
    """The maximum numbers of running calls in all workers: by tool, and per person (0: unlimited).

    If ``unanswered`` calls of a person wait for their clients, no further call of that person is started.
    """

    by_tool: Mapping[str, int] = field(default_factory=dict)
    of_person: int = 0
    unanswered: int = 0


def take(
    call_id: UUID | str, worker: str, limits: RunningLimits, *, further: bool = False
) -> CallRecord | None:
    """Start the next call in the queue of ``call_id``.

    Return None if no call waits in the queue. Raise TooManyRunning if none of the waiting calls may start.
    ``further`` means that the job has already started a call. In that case return None as well if none may
    start, because every call has its own job.
    """
    counted, most = bool(limits.by_tool) or limits.of_person > 0, limits.unanswered or MANY
    if not counted:
        begun = records.claim(call_id, worker, statement=statements.CLAIM_NEXT, unanswered=most)
        if begun is not None or further:
            return begun
    silent = _silent(limits.unanswered)
    queue = Call.objects.filter(pk=call_id).values_list("queue", flat=True).first()
    if queue is None:
        return None
    for _ in range(LOOKS):
        with transaction.atomic():
            if counted:
                _wait_for_other_claims()
            chosen = _choose(queue, limits, silent)
            if chosen is None:
                break
            if begun := records.claim(chosen, worker):
                return begun
    if further:
        return None
    # Choose the call whose job was queued longest ago. If a call's job were never queued again, the reaper
    # would treat it as lost.
    waiting = _waiting(queue).order_by(F("enqueued_at").asc(nulls_first=True)).values_list("pk", flat=True)
    longest = waiting.first()
    left = None if longest is None else records.find(longest)
    if left is not None:
        raise TooManyRunning(left, _waiting(queue).count())
    return None


def _wait_for_other_claims() -> None:
    """Let claims wait for each other, or two would count the same slot as free.

    SQLite allows one writer only.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(2, 0)")


def _waiting(queue: str) -> Any:
    return Call.objects.filter(queue=queue).extra(where=[statements.WAITING])  # noqa: S610


@dataclass(frozen=True, slots=True)
class Running:
    """The numbers of running calls by tool and by person."""

    by_tool: Counter[str]
    by_person: Counter[str]

    @classmethod
    def now(cls) -> Running:
        """Count the running calls in the database.

        A call without a lease is not counted, because it only waits for its client.
        """
        rows = Call.objects.filter(state__in=ACTIVE, lease_until__isnull=False)
        by_tool: Counter[str] = Counter()
        by_person: Counter[str] = Counter()
        for tool, person, number in rows.order_by().values_list("tool", "person").annotate(n=Count("pk")):
            by_tool[tool] += number
            by_person[person] += number
        return cls(by_tool, by_person)


def _silent(limit: int) -> set[str]:
    """Return the people with ``limit`` or more unanswered questions, each of which blocks a process."""
    if not limit:
        return set()
    return {person for person, number in statements.asking().items() if number >= limit}


def _choose(queue: str, limits: RunningLimits, silent: set[str]) -> UUID | None:
    """Return the id of the call to start.

    Of the first calls of all lanes, take the person with the fewest running. Tags of different lanes cannot
    be compared, and the number of running calls per person changes with each claim.
    """
    running = Running.now()
    full = {tool for tool, limit in limits.by_tool.items() if running.by_tool[tool] >= limit}
    share = limits.of_person
    busy = {person for person, number in running.by_person.items() if share and number >= share}
    busy |= silent
    free = _waiting(queue).exclude(tool__in=full).exclude(person__in=busy)
    lanes = ["", *(tool for tool in limits.by_tool if tool not in full)]
    heads = [head for lane in lanes if (head := _head(free.filter(lane=lane)))]
    # Lanes of tools that no longer have a limit.
    heads = heads or [head for head in [_head(free.exclude(lane__in=lanes))] if head]
    if not heads:
        return None
    best = min(heads, key=lambda head: (-head.priority, running.by_person[head.person], head.accepted_at))
    chosen: UUID = best.pk
    return chosen


def _head(calls: Any) -> Any:
    columns = ("pk", "priority", "person", "accepted_at")
    return calls.order_by("-priority", "start_tag", "accepted_at").only(*columns).first()
