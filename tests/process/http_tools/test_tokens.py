"""Web processes and a worker that need a token at the same time make one request for it."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import redis

from mcp_app.credentials.tokens import LEASE_SECONDS
from tests.clients.modern import Modern
from tests.process.http_tools.conftest import made
from tests.servers.live import LiveServer, eventually
from tests.servers.redis_monitor import monitored
from tests.servers.web_api import WebApi
from tests.unit.egress.sites import Heard, response

pytestmark = pytest.mark.process


class Upstream:
    """The API and its token server, which answers after ``open``."""

    def __init__(self, api: WebApi) -> None:
        self.api = api
        self.asked = threading.Semaphore(0)
        self.open = threading.Event()
        self.number = 0
        # Tokens that the API does not accept any more.
        self.expired: set[str] = set()
        api.answer = self.answer

    async def answer(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        if "/token" in heard.line:
            self.number += 1
            data = {"access_token": f"token-number-{self.number}", "expires_in": 3_600}
            self.asked.release()
            await asyncio.to_thread(self.open.wait, 60)
            writer.write(response(json.dumps(data).encode()))
            return
        used = (heard.header("authorization") or "").removeprefix("Bearer ")
        status = "401 Unauthorized" if used in self.expired else "200 OK"
        number = used.rpartition("-")[2]
        writer.write(response(json.dumps({"used": number}).encode(), status=status))


@pytest.fixture
def upstream(live: LiveServer, token: str, api: WebApi) -> Iterator[Upstream]:
    found = Upstream(api)
    # Each process keeps a credential for seconds under its name.
    name = f"machine-{api.site.port}"
    row = {
        "name": name, "kind": "client_credentials", "origins": [api.origin],
        "token_url": f"{api.origin}/token",
        "secret": {"client_id": "shop", "client_secret": "s3cret-0000-value"},
    }  # fmt: skip
    request = {"origin": api.origin, "method": "GET", "path": "/", "credential": name}
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = [
        {"name": name, "request": request, "input_schema": schema, "background": name == "later"}
        for name in ("now", "later")
    ]
    made(live, token, [row], tools)
    yield found
    found.open.set()


@contextmanager
def calls(live: LiveServer, token: str) -> Iterator[Any]:
    """Yield a function that starts a call at a web process. Its future has the number of the used token."""

    def used(number: int, tool: str) -> Any:
        with closing(Modern.at(live.ports[number], token=token)) as client:
            answer = client.post("tools/call", {"name": tool, "arguments": {}}).json()
        assert not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]["used"]

    with ThreadPoolExecutor(8) as pool:
        yield lambda number, tool="now": pool.submit(used, number, tool)


@contextmanager
def holders(live: LiveServer) -> Iterator[set[str]]:
    """Record the processes that try to take the lease on the request for a token."""
    seen: set[str] = set()

    def take(command: dict[str, Any]) -> None:
        words = command["command"].split(" ")
        if words[0].upper() in ("EVAL", "EVALSHA") and "credential-token" in command["command"]:
            seen.add(words[-3])

    with monitored(live.redis.url, take):
        yield seen


def results(started: list[Future[Any]]) -> set[Any]:
    return {each.result(60) for each in started}


@pytest.mark.requirement("INT-05")
def test_processes_that_need_a_token_at_once_make_one_request(
    live: LiveServer, token: str, upstream: Upstream
) -> None:
    def all_at_once(used: str) -> None:
        upstream.open.clear()
        with holders(live) as waiting, calls(live, token) as call:
            started = [call(0), call(0), call(1), call(1), call(0, "later")]
            eventually(lambda: len(waiting) == 3, 30, "three processes want the token")
            upstream.open.set()
            assert results(started) == {used}

    all_at_once("1")
    upstream.expired.add("token-number-1")
    # Each process has the refused token.
    all_at_once("2")
    assert upstream.number == 2


@pytest.mark.requirement("INT-05")
def test_killed_process_blocks_others_until_its_lease_ends(
    live: LiveServer, token: str, upstream: Upstream
) -> None:
    with holders(live) as waiting, calls(live, token) as call:
        lost = call(0)
        assert upstream.asked.acquire(timeout=120)
        with live.without(0, signal.SIGKILL):
            assert lost.exception(30) is not None
            started = call(1)
            eventually(lambda: len(waiting) == 2, 30, "another process wants the token")
            with redis.Redis.from_url(live.redis.url) as client:
                [key] = client.keys("*places:credential-token*")
                [(_, until)] = client.zrange(key, 0, -1, withscores=True)
                assert until / 1000 <= time.time() + LEASE_SECONDS
                assert upstream.number == 1
                # The end of the lease.
                client.zadd(key, dict.fromkeys(client.zrange(key, 0, -1), 0))
            upstream.open.set()
            assert started.result(30) == "2"
    assert upstream.number == 2
