"""The write rate of queued messages, and the share of grouping errors.

Short turns with and without grouping alternate (A B B A), so that a busy machine affects both alike.
The ratio is of processor time, of this process and of the database: the median of the ratios of
neighbouring turns.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

TURNS = 40
# The size of one transaction when the queue is long.
MESSAGES = 2_000
BATCH = 500
MOST_OF_THROUGHPUT = 0.05
# Failed messages per hundred, and the number of their distinct texts; None: all differ.
KINDS: dict[str, tuple[int, int | None]] = {
    "no errors": (0, None),
    "2 % errors": (2, None),
    "20 % errors": (20, None),
    "20 % errors of 50 texts": (20, 50),
}

Seconds = Callable[[], float]


def measure(processor_seconds: Seconds, turns: int = TURNS) -> list[dict[str, Any]]:
    """Return rates, processor time, function calls and the share of grouping for each kind of traffic."""
    return [_compared(name, *kind, processor_seconds, turns) for name, kind in KINDS.items()]


def _compared(name: str, share: int, texts: int | None, processor: Seconds, turns: int) -> dict[str, Any]:
    taken: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    _turn(share, texts, True, processor)  # once unmeasured: caches, prepared statements
    for turn in range(turns):
        for grouped in (True, False) if turn % 2 else (False, True):
            taken[grouped].append(_turn(share, texts, grouped, processor))
    clock, cpu = ({each: _quickest([turn[place] for turn in taken[each]]) for each in taken}
                  for place in (0, 1))  # fmt: skip
    pairs = zip(taken[True], taken[False], strict=True)
    ratio = statistics.median(grouped[1] / ungrouped[1] for grouped, ungrouped in pairs)
    calls = {each: _calls(share, texts, each) for each in taken}
    return {
        "drain": name,
        "per_second": round(1 / clock[True]),
        "cpu_us_each": round(cpu[True] * 1e6, 1),
        "ungrouped_cpu_us_each": round(cpu[False] * 1e6, 1),
        "grouping_costs": round(ratio - 1, 3),
        "grouping_costs_calls": round(calls[True] / calls[False] - 1, 3),
        "met": ratio - 1 <= MOST_OF_THROUGHPUT,
    }


def _quickest(seconds: list[float]) -> float:
    """Return the mean of the fastest quarter, to exclude other load and the clock's resolution."""
    return statistics.mean(sorted(seconds)[: max(len(seconds) // 4, 1)])


def _turn(share: int, texts: int | None, grouped: bool, processor: Seconds) -> tuple[float, float]:
    """Return the elapsed and the processor seconds per message."""
    queue = _queue(share, texts)
    with _grouping(grouped):
        begun, before = time.perf_counter(), processor()
        _drain(queue)
        return (time.perf_counter() - begun) / MESSAGES, (processor() - before) / MESSAGES


def _calls(share: int, texts: int | None, grouped: bool) -> int:
    """Return the function calls of one turn, which are the same on every machine."""
    queue, profile = _queue(share, texts), cProfile.Profile()
    with _grouping(grouped):
        profile.runcall(_drain, queue)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined,no-any-return]


def _drain(queue: Any) -> None:
    from mcp_app.message_log.writer import drain_once

    while queue.batches:
        drain_once(queue)


def _queue(share: int, texts: int | None) -> Any:
    from mcp_app.models import LogCursor
    from tests.unit.sessions.queues import ListQueue, batch, line

    LogCursor.objects.all().delete()
    first = time.time_ns() // 1000  # no two turns have the same texts, unless they are to

    def message(at: int) -> list[Any]:
        number = first + at if texts is None else at % texts
        whose = f"of 'customer {at % 7}' by rule {at % 13} " if texts is None else ""
        said = f"Order {number} {whose}cannot be shipped, it says. " + "b" * 200
        answer = json.dumps({"result": {"content": [{"type": "text", "text": said}], "isError": True}})
        failed = at % 100 < share
        return line(str(at), target=f"tool_{at % 40}", principal=f"user:{at % 500}/key:1", payload="p" * 200,
                    answer=answer if failed else "a" * 400, ms=float(at % 900),
                    outcome="tool_error" if failed else "ok")  # fmt: skip

    return ListQueue(*[batch(*map(message, range(at, at + BATCH))) for at in range(0, MESSAGES, BATCH)])


@contextmanager
def _grouping(on: bool) -> Any:
    """Switch grouping on or off inside the block. A turn is one transaction, however slow the machine."""
    from mcp_app.message_log import writer
    from mcp_app.message_log.counts.error_groups import Errors

    group, seconds = Errors.add, writer.WRITE_SECONDS
    writer.WRITE_SECONDS = 60.0
    if not on:
        Errors.add = lambda errors, message: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Errors.add, writer.WRITE_SECONDS = group, seconds  # type: ignore[method-assign]
