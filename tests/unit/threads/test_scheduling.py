"""Threads yield to the event loop: none of them takes the processor from it because it was woken."""

from __future__ import annotations

import os

import pytest

from mcp_app import database
from mcp_app.execution.running.threads import Threads
from mcp_app.threads.scheduling import yield_to_event_loop

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a class of Linux")


async def test_a_thread_of_tools_yields_to_the_event_loop_which_stays_as_it_was() -> None:
    before = os.sched_getscheduler(0)
    threads = Threads(1)
    assert await threads.run(os.sched_getscheduler, 0) == os.SCHED_BATCH
    await threads.close()
    assert os.sched_getscheduler(0) == before


def test_the_threads_of_the_servers_own_queries_yield_to_it() -> None:
    assert database.query(os.sched_getscheduler, 0) == os.SCHED_BATCH


def test_a_system_that_refuses_it_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("a sandbox")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    yield_to_event_loop()
