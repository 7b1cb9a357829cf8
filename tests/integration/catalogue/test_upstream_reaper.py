"""Tasks at other servers whose background calls end without a worker: the reaper cancels them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.utils import timezone

from mcp_app.catalogue.upstreams import storing
from mcp_app.execution.background import reaper
from mcp_app.execution.stored import records
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.sessions.session import MADE_IN
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams.tasks import Left
from tests.servers.task_server import TaskServer, task_server
from tests.servers.upstream_state import forget_upstreams
from tests.unit.execution.attempts import FIELDS, SESSION, claimed, new_call

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def fresh(clean_redis: str, settings: Any) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "REDIS_URL": clean_redis}
    yield
    forget_upstreams()


def lost(**changed: Any) -> Call:
    """Return a call whose attempt died 30 seconds ago."""
    call = claimed(**changed)
    Call.objects.filter(pk=call.id).update(lease_until=timezone.now() - LONG_AGO)
    return Call.objects.get(pk=call.id)


def lost_in_its_last_attempt() -> Call:
    return lost(max_attempts=1)


def cancelled_and_lost() -> Call:
    call = lost()
    records.request_cancel_of(call.pk, "enough")
    return call


def outlived() -> Call:
    stored, _ = records.accept(new_call(task_seconds=20.0, session_fields={**FIELDS, MADE_IN: SESSION}))
    Call.objects.filter(pk=stored.id).update(task_until=timezone.now() - LONG_AGO)
    return Call.objects.get(pk=stored.id)


@pytest.mark.requirement("INT-63")
@pytest.mark.parametrize("end", [lost_in_its_last_attempt, cancelled_and_lost, outlived])
def test_reaper_cancels_the_task_of_a_call_that_it_ends(end: Callable[[], Call]) -> None:
    server = TaskServer()
    with task_server(server):
        storing.save_upstream(actor=None, name="other", url=server.url)
        call = end()
        assert sweep_with_task(call) in (State.FAILED, State.CANCELLED)
        assert server.cancelled.wait(20)


def test_reaper_leaves_the_task_of_a_call_that_it_restarts() -> None:
    server = TaskServer()
    with task_server(server):
        storing.save_upstream(actor=None, name="other", url=server.url)
        assert sweep_with_task(lost()) == State.ACCEPTED
        assert server.methods == []


def sweep_with_task(call: Call) -> str:
    """Let a call have a task at the server, run one sweep, and return the state of the call."""
    left = Left(task="t-1", modern=False, holder="a worker", server="other", caller="one")
    shared_values.put(f"upstream-task/{call.pk}", orjson.dumps(asdict(left)), 60)
    reaper.sweep()
    call.refresh_from_db()
    return call.state
