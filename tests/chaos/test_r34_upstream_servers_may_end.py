"""R34: an upstream server, our worker, or both end during a call: the call ends, and the next ones work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import Caller, call, open_session
from tests.clients.raw_http import Mcp
from tests.servers.asking_server import Asker, asking_server
from tests.servers.live import eventually

ADD = """
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.models import Tool
row = storing.save_upstream(actor=None, name="asker", url={url!r}, era="legacy")
refreshing.refresh(upstream=row, actor=None)
row.refresh_from_db()
done = importing.import_items(upstream=row, keys=["ask"], actor=None, publish=True)
assert not done.skipped, done.skipped
services.update_entry(entry=Tool.objects.get(name="asker_ask"), actor=None, background=True)
"""
PATIENCE_SECONDS = 60.0


def asked(cluster: Cluster, session: Mcp, nonce: str) -> Caller:
    """Start a call whose server asks a question, and wait for the question at the client."""
    arrived = threading.Event()
    caller = call(
        cluster, session, nonce, "asker_ask", on_question=lambda *_: arrived.set(), patience=PATIENCE_SECONDS
    )
    assert arrived.wait(30), cluster.logs()[-3000:]
    return caller


@pytest.mark.parametrize("lost", [("server",), ("worker",), ("server", "worker")], ids=" and ".join)
def test_call_ends_if_its_upstream_server_or_worker_is_lost(
    start_cluster: Callable[..., Cluster], lost: tuple[str, ...]
) -> None:
    asker = Asker()
    with asking_server(asker):
        cluster = start_cluster(concurrency=2, env={"EGRESS_ALLOW": "127.0.0.0/8"})
        cluster.shell(ADD.format(url=asker.url))
        session = open_session(cluster)
        with closing(session.via(cluster.ports[0])) as client:
            eventually(lambda: "asker_ask" in str(client.call("tools/list")), 20, "the tool")
        caller = asked(cluster, session, "lost")
        if "worker" in lost:
            cluster.kill_group()
        if "server" in lost:
            asker.cut()
            cluster.strike("the server ends its answer")
        if "worker" in lost:
            cluster.revive_worker()
        caller.join()
        ends = cluster.history.of("lost", "error")
        assert len(ends) == 1, cluster.logs()[-3000:]
        assert "worker" in lost or "The server asker" in ends[0].text
        after = asked(cluster, session, "after")
        asker.withdraw("Hello")
        after.join()
        assert [each.text for each in cluster.history.of("after", "answer")] == ["Hello"]
