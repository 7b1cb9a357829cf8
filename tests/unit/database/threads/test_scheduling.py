"""Threads yield to the event loop: none of them takes the processor from it because it was woken."""

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
async def test_threads_yield_to_an_event_loop_that_serves_clients_which_stays_as_it_was(yields: bool) -> None:
    before = os.sched_getscheduler(0)
    threads = Threads(1, yields=yields)
    assert await threads.run(os.sched_getscheduler, 0) == (os.SCHED_BATCH if yields else before)
    await threads.close()
    assert os.sched_getscheduler(0) == before


async def test_synchronous_tools_of_a_web_process_yield_to_its_event_loop() -> None:
    settings = conf.get()
    runner = Process(Streams.in_memory(settings), settings).calls.runner
    assert await runner._threads.run(os.sched_getscheduler, 0) == os.SCHED_BATCH
    await runner.close()


def test_a_system_that_refuses_it_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("a sandbox")

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    yield_to_event_loop()
    assert os.sched_getscheduler(0) == before
