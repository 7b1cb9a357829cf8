"""R32: programs started by a tool end with it, when it is cancelled and when its process is killed."""

from __future__ import annotations

import sys
from collections.abc import Callable

import psutil
import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of descendants")

# A tool that stops on request, one that never checks, one whose process is killed; and slack for a busy
# machine.
BOUNDS = {"forget_programs": 2.0, "run_programs": 7.0, "killed": 7.0}
AIR_SECONDS = 15.0


def alive(pid: int) -> bool:
    """Return True if a program runs or is an uncollected zombie."""
    return psutil.pid_exists(pid)


def test_programs_of_cancelled_and_killed_tools_end_and_others_continue(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster(concurrency=len(BOUNDS) + 1)
    session = open_session(cluster)
    tools = {"killed": "run_programs", "neighbour": "forget_programs"}
    nonces = (*BOUNDS, "neighbour")
    callers = {nonce: call(cluster, session, nonce, tools.get(nonce, nonce)) for nonce in nonces}
    places = {nonce: cluster.wait_for(nonce).number for nonce in nonces}
    programs = {nonce: [line.number for line in cluster.lines(nonce, "program")] for nonce in nonces}
    assert all(len(found) == 3 and all(map(alive, found)) for found in programs.values())
    for nonce in ("forget_programs", "run_programs"):
        callers[nonce].cancel()
    cluster.kill(places["killed"], "worker child")
    for nonce, seconds in BOUNDS.items():
        eventually(
            lambda nonce=nonce: not any(map(alive, programs[nonce])),  # type: ignore[misc]
            seconds + AIR_SECONDS,
            f"the end of all programs of {nonce}",
        )
        callers[nonce].join()
    assert all(map(alive, programs["neighbour"]))
    callers["neighbour"].cancel()
    callers["neighbour"].join()
    eventually(
        lambda: not any(map(alive, programs["neighbour"])), AIR_SECONDS, "the end of the last programs"
    )
