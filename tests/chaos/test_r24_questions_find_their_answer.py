"""R24: a question asked in a worker is answered through any process, even if the sending process dies."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.clients.raw_http import Mcp

ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"value": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "m",
        "content": {"type": "text", "text": "Hello, model!"},
    },
}
WITHIN_SECONDS = 2.0


@pytest.mark.quick
def test_answer_reaches_question_through_any_process_after_web_process_dies(
    start_cluster: Callable[..., Cluster], rng: random.Random
) -> None:
    cluster = start_cluster(concurrency=4)
    session = open_session(cluster)
    asked: dict[str, dict[str, Any]] = {}
    everyone_asked = threading.Event()

    def question(_: Mcp, message: dict[str, Any]) -> None:
        asked[message["id"]] = message
        if len(asked) == 4:
            everyone_asked.set()

    callers = [
        call(cluster, session, tool, tool, ports=[cluster.ports[0]], on_question=question, patience=40)
        for tool in ("ask", "ask_in_thread", "sample", "sample_in_thread")
    ]
    assert everyone_asked.wait(20)
    # Process A, which forwarded every question and holds every client, dies.
    cluster.kill_web(0)
    answered_at = time.monotonic()
    with closing(session.via(cluster.ports[1])) as other:
        for request_id, message in asked.items():
            assert other.respond(request_id, ANSWERS[message["method"]]).status == 202
    for tool in ("ask", "ask_in_thread", "sample", "sample_in_thread"):
        assert cluster.wait_for(tool, "end").at - answered_at < WITHIN_SECONDS
    cluster.revive_web(0)
    for caller in callers:
        caller.join()
    cluster.check()
    texts = [cluster.history.of(caller.nonce, "answer")[0].text for caller in callers]
    assert texts == ["Hello, Ada!", "Hello, Ada!", "Hello, model!", "Hello, model!"]
