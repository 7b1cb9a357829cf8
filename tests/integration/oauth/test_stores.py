"""After a client's whole life, no store of the installation contains its credentials."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
import redis

from tests.integration.oauth.person import PEOPLE
from tests.integration.oauth.test_doors import asked
from tests.integration.oauth.test_known_clients_at_two_processes import TABLE, Replay
from tests.servers.live import LiveServer, eventually

pytestmark = [pytest.mark.process]


@pytest.fixture(scope="module")
def with_worker() -> Iterator[LiveServer]:
    """Start two web processes and a worker."""
    env = {"MCP_AUTH": "required", "MCP_APPS": "tests.integration.oauth.app"}
    with LiveServer(web_processes=2, worker=True, env=env) as running:
        running.shell(PEOPLE)
        yield running


def in_redis(stores: Any) -> dict[str, str]:
    """Return every value, read by its type: a dump would be compressed."""
    read: dict[bytes, Callable[[Any], Any]] = {
        b"string": stores.get,
        b"hash": stores.hgetall,
        b"list": lambda name: stores.lrange(name, 0, -1),
        b"set": stores.smembers,
        b"zset": lambda name: stores.zrange(name, 0, -1),
        b"stream": stores.xrange,
    }
    return {
        str(name): repr(read[kind](name)) for name in stores.keys("*") if (kind := stores.type(name)) in read
    }


def everything(server: LiveServer) -> dict[str, str]:
    """Return the contents of the database, Redis, the logs and all other files by location."""
    files = (path for path in server.folder.rglob("*") if path.is_file())
    found = {str(path): path.read_bytes().decode("latin-1") for path in files}
    with redis.Redis.from_url(server.redis.url, protocol=2) as stores:
        return {**found, **in_redis(stores)}


def places(server: LiveServer, hidden: list[str]) -> list[str]:
    """Return the locations of any of the values."""
    stored = everything(server)
    return [where for where, text in stored.items() if any(each in text for each in hidden)]


@pytest.mark.requirement("AUTH-08", "AUTH-46")
async def test_no_store_contains_tokens_codes_verifiers_or_secrets(with_worker: LiveServer) -> None:
    row = next(each for each in TABLE if each.said and "secret" in each.said["token_endpoint_auth_method"])
    verifier, place = secrets.token_urlsafe(48), with_worker.url.removesuffix("/mcp")
    async with httpx2.AsyncClient(timeout=60) as browser, httpx2.AsyncClient(timeout=60) as wire:
        replay = Replay(with_worker, browser, wire)
        known = await replay.known(row)
        code = await replay.code(row, known, verifier)
        shown = {"code": code, "redirect_uri": row.redirect_uri, "code_verifier": verifier}
        first = await replay.tokens(row, known, grant_type="authorization_code", **shown)
        again = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
        second = await replay.tokens(row, known, **again)
        # In parameters where they do not belong, and have no effect.
        for misplaced in ({"access_token": second["access_token"]}, {**shown, **again}):
            for path in ("/mcp", "/oauth/token", "/oauth/authorize", "/nowhere"):
                assert (await wire.get(place + path, params=misplaced)).status_code >= 400
    names = ("access_token", "refresh_token")
    tokens = [given[name] for given in (first, second) for name in names]
    hidden = [code, verifier, known["client_secret"], *tokens]
    worker = with_worker.worker_processes[0]
    worker.stop()
    token = second["access_token"]
    calling = asyncio.create_task(
        asyncio.to_thread(asked, with_worker, "tools/call", token, name="held_in_worker", arguments={})
    )
    await asyncio.to_thread(eventually, lambda: "run_call" in str(everything(with_worker)), 30.0, "the job")
    assert places(with_worker, hidden) == []
    assert places(with_worker, [known["client_id"]]), "what is no secret is found"
    worker.start(with_worker.environment)
    assert (await calling).status_code == 200
    assert places(with_worker, hidden) == []
