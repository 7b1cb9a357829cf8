"""R29: a database that stays silent without closing connections blocks no caller for long."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bounds import SLACK
from tests.chaos.checker import Promise
from tests.chaos.cluster import Cluster
from tests.chaos.generator import call
from tests.clients.raw_http import Answer, Mcp
from tests.servers import postgres
from tests.servers.live import eventually

SILENCE_SECONDS = 45.0  # Three times as long as a lease.
ROUND_SECONDS = 10.0
ANSWERED_SECONDS = 3.0
KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
user = get_user_model().objects.create_superuser("root", password="correct horse battery")
print(issue_api_key(user=user, name="chaos")[1])
"""


@dataclass(frozen=True)
class Asked:
    """One request and its outcome."""

    kind: str
    status: int
    retry_after: str | None
    body: bytes
    seconds: float


@pytest.fixture
def database() -> Iterator[postgres.PostgreSQL]:
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL binaries")
    folder = Path(tempfile.mkdtemp(prefix="mcp-pg-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        running = stack.enter_context(postgres.PostgreSQL(folder))
        running.create_tables()
        yield running


@pytest.fixture
def cluster(database: postgres.PostgreSQL, start_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    made = start_cluster(concurrency=3, env={"DATABASE_URL": database.url, "MCP_AUTH": "required"})
    yield made
    # Before the database, which does not wait for clients.
    made.stop()


def _tool(client: Mcp, name: str, nonce: str, **arguments: object) -> Answer:
    params = {"name": name, "arguments": {"nonce": nonce, **arguments}}
    message = {"jsonrpc": "2.0", "id": nonce, "method": "tools/call", "params": params}
    return client.client.request("POST", client.path, client.headers(), json.dumps(message).encode())


def _initialize(client: Mcp, nonce: str) -> Answer:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": nonce, "version": "1"},
    }
    client.session = client.version = None
    return client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})


def _get(client: Mcp, path: str) -> Answer:
    headers = {"Authorization": f"Bearer {client.token}", "Cookie": "sessionid=" + "x" * 32}
    return client.client.request("GET", path, headers)


# Each kind of request, with True if it needs the database.
KINDS: dict[str, tuple[Callable[[Mcp, str], Answer], bool]] = {
    "quick": (lambda client, nonce: _tool(client, "quick", nonce), False),
    "streamed": (lambda client, nonce: _tool(client, "stroll", nonce, steps=5), False),
    "initialize": (_initialize, False),
    "background": (lambda client, nonce: _tool(client, "work_once", nonce, steps=1), True),
    "api": (lambda client, _: _get(client, "/api/calls/"), True),
    "page": (lambda client, _: _get(client, "/admin/"), True),
}


def _ask_all(cluster: Cluster, session: Mcp, label: str) -> list[Asked]:
    """Send every kind of request concurrently, each on its own connection."""
    found: list[Asked] = []

    def ask(kind: str) -> None:
        with closing(session.via(cluster.ports[0])) as client:
            client.client.patience = SILENCE_SECONDS
            began = time.monotonic()
            answer = KINDS[kind][0](client, f"{label}-{kind}")
            after = answer.headers.get("retry-after")
            found.append(Asked(kind, answer.status, after, answer.body, time.monotonic() - began))

    threads = [threading.Thread(target=ask, args=(kind,)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(KINDS), "a request got no answer at all"
    return found


def _served(found: list[Asked]) -> bool:
    return all(each.status in (200, 302) for each in found)


def test_silent_database_blocks_no_request_and_harms_no_running_call(
    cluster: Cluster, database: postgres.PostgreSQL
) -> None:
    with closing(cluster.mcp(0, cluster.shell(KEY).strip())) as session:
        session.initialize()
    assert _served(_ask_all(cluster, session, "before"))
    short = call(cluster, session, "short", "work_once", steps=50, patience=120)
    long = call(cluster, session, "long", "work_once", steps=560, patience=120)
    cluster.wait_for("short", number=3)
    cluster.wait_for("long", number=3)
    rounds: list[list[Asked]] = []
    with database.frozen():
        cluster.strike("freeze postgresql")
        began = time.monotonic()
        while (passed := time.monotonic() - began) < SILENCE_SECONDS:
            rounds.append(_ask_all(cluster, session, f"frozen{len(rounds)}"))
            time.sleep(max(0.0, min(ROUND_SECONDS, SILENCE_SECONDS - passed)))
    cluster.strike("thaw postgresql")
    for asked in (each for found in rounds for each in found):
        assert asked.seconds < ANSWERED_SECONDS + SLACK, asked
        if KINDS[asked.kind][1]:
            assert asked.status == 503, asked
            assert asked.retry_after, asked
        else:
            assert asked.status == 200, asked
    eventually(
        lambda: _served(_ask_all(cluster, session, f"after{time.monotonic()}")), 10, "service as before"
    )
    for caller in (short, long):
        caller.join()
        assert cluster.history.of(caller.nonce, "answer"), cluster.history.of(caller.nonce)[-3:]
    # Refused work is not executed later, when its caller has already retried.
    refused = [line.nonce for line in cluster.lines() if line.nonce.endswith("background")]
    assert not [nonce for nonce in refused if nonce.startswith("frozen")]
    cluster.check(Promise(most_starts=1))
