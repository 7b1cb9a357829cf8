"""R30: the queue of one principal delays a call of another by at most the calls already running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.clients.raw_http import Mcp
from tests.servers.live import eventually

QUEUED = 500
# A call of one second may have just started in each slot; the measured call is next.
TURN_SECONDS = 1.0
AIR_SECONDS = 5.0

QUEUE_FOR_ANOTHER = """
from django.contrib.auth import get_user_model
from mcp_app.auth.principal import Principal
from mcp_app.execution.services import start_call
user = get_user_model().objects.create_user("other")
principal = Principal("user:%d" % user.pk, "other", frozenset(), user.pk)
for number in range({queued}):
    start_call(principal=principal, actor=None, tool="work_once",
               arguments={{"nonce": "{nonce}", "steps": 1, "delay": 1.0}})
"""


@pytest.mark.quick
def test_call_of_another_principal_overtakes_five_hundred_queued_calls(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(web_processes=1, concurrency=2)
    session = open_session(cluster)
    cluster.shell(QUEUE_FOR_ANOTHER.format(queued=QUEUED, nonce="flood"))
    cluster.wait_for("flood", "start")
    asked_at = time.monotonic()
    caller = call(cluster, session, "one", "work_once", steps=1, delay=TURN_SECONDS)
    ended = cluster.wait_for("one", "end", seconds=60).at
    caller.join()
    assert ended - asked_at < 2 * TURN_SECONDS + AIR_SECONDS
    assert len(cluster.lines("flood", "end")) < QUEUED / 2


@pytest.mark.quick
def test_unanswered_questions_hold_no_slot_and_accept_late_answers(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(web_processes=2, concurrency=2)
    session = open_session(cluster)
    asked: dict[str, dict[str, Any]] = {}
    both_asked = threading.Event()

    def question(_: Mcp, message: dict[str, Any]) -> None:
        asked[message["id"]] = message
        if len(asked) == 2:
            both_asked.set()

    callers = [
        call(cluster, session, tool, tool, ports=[cluster.ports[0]], on_question=question, patience=55)
        for tool in ("ask", "ask_in_thread")
    ]
    assert both_asked.wait(20)
    cluster.shell(QUEUE_FOR_ANOTHER.format(queued=1, nonce="another"))
    # Both tools would time out after 60 seconds and free their slots only then.
    cluster.wait_for("another", "end", seconds=TURN_SECONDS + 4 * AIR_SECONDS)
    assert set(_states(cluster, "ask", "ask_in_thread")) == {"input_required"}
    with closing(session.via(cluster.ports[1])) as elsewhere:
        for request_id in asked:
            answer = {"action": "accept", "content": {"value": "Ada"}}
            assert elsewhere.respond(request_id, answer).status == 202
    for caller in callers:
        assert caller.join().answered
    cluster.check()
    eventually(lambda: len(cluster.worker_processes[0].children) == 2, 60, "the end of the spare children")
    assert not cluster.trouble()


def _states(cluster: Cluster, *tools: str) -> list[str]:
    shown = cluster.shell(
        "from mcp_app.models import Call;"
        f"print(*Call.objects.filter(tool__in={tools!r}).values_list('state', flat=True))"
    )
    return shown.split()
