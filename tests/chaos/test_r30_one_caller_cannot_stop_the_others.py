"""R30: what one principal has queued delays another's call by no more than the calls that run already."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session

QUEUED = 500
# One call of the other may have just begun at each place, each of a second; then comes the own one.
TURN_SECONDS = 1.0
AIR_SECONDS = 5.0

FLOOD = """
from django.contrib.auth import get_user_model
from mcp_app.auth.principal import Principal
from mcp_app.execution.services import start_call
user = get_user_model().objects.create_user("flooder")
principal = Principal("user:%d" % user.pk, "flooder", frozenset(), user.pk)
for number in range({queued}):
    start_call(principal=principal, actor=None, tool="work_once",
               arguments={{"nonce": "flood", "steps": 1, "delay": 1.0}})
"""


@pytest.mark.quick
def test_a_call_of_another_principal_is_not_behind_five_hundred_that_wait(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(web_processes=1, concurrency=2)
    session = open_session(cluster)
    cluster.shell(FLOOD.format(queued=QUEUED))
    cluster.wait_for("flood", "start")
    asked_at = time.monotonic()
    caller = call(cluster, session, "one", "work_once", steps=1, delay=TURN_SECONDS)
    ended = cluster.wait_for("one", "end", seconds=60).at
    caller.join()
    assert ended - asked_at < 2 * TURN_SECONDS + AIR_SECONDS
    assert len(cluster.lines("flood", "end")) < QUEUED / 2
