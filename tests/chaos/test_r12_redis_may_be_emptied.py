"""R12: Redis emptied or set back: every accepted call, running or waiting, is still answered."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.servers.live import eventually

RUNNING = 2
CALLS = 8


def test_running_and_waiting_calls_survive_loss_of_every_key(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster()
    session = open_session(cluster)
    # The session record, soon the only copy, is written within a second or two.
    found = "from mcp_app.models import Session; print(Session.objects.count())"
    eventually(lambda: cluster.shell(found).strip() == "1", 20, "the session's record")
    callers = [
        call(cluster, session, f"r12-{number}", "work_once", steps=20, patience=90) for number in range(CALLS)
    ]
    eventually(lambda: cluster.history.count("accepted") == CALLS, 20, "acceptance")
    cluster.wait_for("r12-0", number=3) if cluster.lines("r12-0") else time.sleep(1)
    before = {each.event_id for each in cluster.history.seen if each.event_id}
    waiting = CALLS - len(cluster.lines(what="start"))
    assert cluster.empty_redis() > 5
    struck = time.monotonic()
    assert waiting >= 2, "nothing waited in the broker that could be lost"
    for caller in callers:
        caller.join()
        assert caller.answered, caller.nonce
    cluster.check(Promise(most_starts=1, complete=False))
    assert cluster.history.count("answer") == CALLS
    # Old event ids never match new events.
    after = {each.event_id for each in cluster.history.seen if each.event_id and each.at > struck + 1}
    assert not before & after


def test_call_answered_before_loss_is_answered_again(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster()
    session = open_session(cluster)
    found = "from mcp_app.models import Session; print(Session.objects.count())"
    eventually(lambda: cluster.shell(found).strip() == "1", 20, "the session's record")
    caller = call(cluster, session, "r12", "work_once", steps=2).join()
    cluster.empty_redis()
    with session.via(cluster.ports[1]).get_stream(caller.last_id) as stream:
        answer = stream.messages()[-1]
    assert answer["id"] == "r12"
    assert answer["result"]["content"][0]["text"].startswith("r12 ")
    assert len(cluster.lines("r12", "start")) == 1


def test_call_with_forgotten_answer_is_answered_again(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = start_cluster(web_processes=1)
    session = open_session(cluster)
    caller = call(cluster, session, "r12", "work_once", steps=40)
    cluster.wait_for("r12", number=10)
    eventually(lambda: caller.last_id, 10, "an event id")
    early = caller.last_id
    time.sleep(1.2)  # Redis writes its data to disk within a second.
    cluster.kill_redis()
    (kept,) = [path for path in cluster.redis.directory.iterdir() if path.name.startswith("appendonly")]
    _copy(kept, tmp_path / "kept")
    cluster.revive_redis()
    caller.join()
    assert caller.answered
    eventually(lambda: "True" in cluster.shell(PUBLISHED), 20, "the note that the answer is in its stream")
    cluster.kill_redis()
    _copy(tmp_path / "kept", kept)
    cluster.strike("set redis back")
    cluster.revive_redis()
    eventually(lambda: _serves(cluster), 20, "service")
    for position in (caller.last_id, early):
        with session.via(cluster.ports[0]).get_stream(position) as stream:
            answer = stream.messages()[-1]
        assert answer["id"] == "r12"
        assert answer["result"]["content"][0]["text"].startswith("r12 ")
    # The answer was delivered, so repeating the request would start a new call (R7).
    assert len(cluster.lines("r12", "start")) == 1


PUBLISHED = "from mcp_app.models import Call; print(Call.objects.get().published)"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def _serves(cluster: Cluster) -> bool:
    try:
        open_session(cluster)
    except (OSError, AssertionError):
        return False
    return True
