"""R27: a call that needs approval survives the end of any process, and starts only once approved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import Caller, call, open_session
from tests.samples.approvals import decide, states
from tests.servers.live import eventually

PATIENCE = 150.0
RECORDED = "from mcp_app.models import Session; print(Session.objects.count())"


def waiting_calls(cluster: Cluster, *nonces: str) -> list[Caller]:
    """Start calls that wait for approval, followed by persistent clients."""
    session = open_session(cluster)
    # The session record, the only copy when Redis is emptied, is written within seconds.
    eventually(lambda: cluster.shell(RECORDED).strip() == "1", 20, "the session's record")
    callers = [
        call(cluster, session, nonce, "approved_work", steps=3, patience=PATIENCE, retry_refused=True)
        for nonce in nonces
    ]
    for nonce in nonces:
        eventually(lambda nonce=nonce: cluster.history.of(nonce, "progress"), 20, f"{nonce} is told to wait")
    return callers


def kill_both_web_processes(cluster: Cluster) -> None:
    for number in range(2):
        cluster.kill_web(number)
    for number in range(2):
        cluster.revive_web(number)


def restart_everything(cluster: Cluster) -> None:
    for number in range(2):
        cluster.kill_web(number)
    cluster.kill_group()
    cluster.kill_redis()
    cluster.revive_redis()
    cluster.revive_worker()
    for number in range(2):
        cluster.revive_web(number)


def empty_redis(cluster: Cluster) -> None:
    cluster.empty_redis()


@pytest.mark.parametrize("fault", [kill_both_web_processes, restart_everything, empty_redis])
def test_pending_approval_survives_and_is_answered_after_decision(
    fault: Callable[[Cluster], None], start_cluster: Callable[..., Cluster]
) -> None:
    cluster = start_cluster()
    allowed, refused = waiting_calls(cluster, "r27-yes", "r27-no")
    fault(cluster)
    assert states(cluster, "r27-yes", "r27-no") == ["approval_needed"] * 2
    assert cluster.lines() == []
    assert "approved" in decide(cluster, "approve", "r27-yes")
    assert "refused" in decide(cluster, "refuse", "r27-no")
    for caller in (allowed, refused):
        caller.join()
        assert caller.answered, caller.nonce
    assert cluster.history.of("r27-yes", "answer")
    assert "was refused by an administrator: because" in cluster.history.of("r27-no", "error")[0].text
    cluster.check(Promise(most_starts=1, complete=False))
    assert {line.nonce for line in cluster.lines()} == {"r27-yes"}


def test_approval_during_redis_outage_takes_effect_afterwards(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster()
    (caller,) = waiting_calls(cluster, "r27")
    cluster.kill_redis()
    assert "approved" in decide(cluster, "approve", "r27")
    assert cluster.lines() == []
    cluster.revive_redis()
    caller.join()
    assert cluster.history.of("r27", "answer")
    cluster.check(Promise(most_starts=1, complete=False))


def test_worker_killed_after_approval_leaves_approved_call_to_next_worker(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster()
    (caller,) = waiting_calls(cluster, "r27")
    cluster.arm("before-store")
    decide(cluster, "approve", "r27")
    cluster.kill(cluster.held_at("before-store"), "worker child")
    cluster.let_go("before-store")
    caller.join()
    assert cluster.history.of("r27", "answer")
    cluster.check(Promise(most_starts=2))
    assert len(cluster.lines("r27", "start")) == 2
