"""Worker threads yield to the event loop: a woken thread never preempts it."""

from __future__ import annotations

import os

import pytest

from mcp_app import conf
from mcp_app.database.threads.scheduling import yield_to_event_loop
from mcp_app.execution.calls.threads import Threads
from mcp_app.process import Process
from mcp_app.streams.gateway import Streams

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a class of Linux")


@pytest.mark.parametrize("yields", [True, False])
async def test_threads_run_as_batch_only_if_yielding(yields: bool) -> None:
    before = os.sched_getscheduler(0)
    threads = Threads(1, yields=yields)
    assert await threads.run(os.sched_getscheduler, 0) == (os.SCHED_BATCH if yields else before)
    await threads.close()
    assert os.sched_getscheduler(0) == before


async def test_sync_tools_of_web_process_run_as_batch() -> None:
    settings = conf.get()
    runner = Process(Streams.in_memory(settings), settings).calls.runner
    assert await runner._threads.run(os.sched_getscheduler, 0) == os.SCHED_BATCH
    await runner.close()


def test_refused_scheduler_change_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("a sandbox")

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    yield_to_event_loop()
    assert os.sched_getscheduler(0) == before
