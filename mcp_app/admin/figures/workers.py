"""The table of workers by machine, with their current calls and the calls started in a period."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count
from django.urls import reverse
from django.utils.http import urlencode

from mcp_app.admin.calls.queues import box
from mcp_app.admin.markup import seconds_text
from mcp_app.execution.stored.waiting_times import StartedCall, share
from mcp_app.models import Call
from mcp_app.protocol.call_state import ACTIVE


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """The workers of a machine.

    ``running`` is the number of calls that run now. The other numbers are about the calls started in a
    period.
    """

    machine: str
    alive: list[str]
    running: int
    begun: int
    failed: int
    took: str
    waited: str
    url: str


def workers(begun: Iterable[StartedCall]) -> list[WorkerRow]:
    """Return the machines that have live workers or have started calls.

    Machines with live workers come first.
    """
    alive: dict[str, list[str]] = defaultdict(list)
    for worker in box().workers:
        queues = f" ({', '.join(worker.queues)})" if worker.queues else ""
        alive[_machine_of_worker(worker.name)].append(worker.name + queues)
    mine: dict[str, list[StartedCall]] = defaultdict(list)
    for call in begun:
        mine[_machine_of_process(call.worker)].append(call)
    running = _running()
    names = sorted({*alive, *mine, *running} - {""}, key=lambda name: (name not in alive, name))
    return [_row(name, alive.get(name, []), running[name], mine.get(name, [])) for name in names]


def _machine_of_worker(name: str) -> str:
    """Return the machine in ``celery@machine``, truncated like the worker column of a call."""
    return (name.partition("@")[2] or name)[:60]


def _machine_of_process(name: str) -> str:
    """Return the machine in ``machine:123``, the name of the process that started a call."""
    return name.rpartition(":")[0] or name


def _running() -> Counter[str]:
    rows = Call.objects.filter(state__in=ACTIVE).order_by().values_list("worker").annotate(Count("pk"))
    found: Counter[str] = Counter()
    for name, number in rows:
        found[_machine_of_process(name)] += number
    return found


def _row(name: str, alive: list[str], running: int, begun: list[StartedCall]) -> WorkerRow:
    query = urlencode({"state": "open", "q": name})
    return WorkerRow(
        name,
        alive,
        running,
        len(begun),
        sum(call.failed for call in begun),
        seconds_text(share([call.took for call in begun if call.took is not None], 0.5)),
        seconds_text(share([call.waited for call in begun], 0.95)),
        f"{reverse('admin:mcp_app_call_changelist')}?{query}",
    )
