"""The embedded Redis: its program, its secrets, and its end."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from mcp_app.streams import Streams
from mcp_app.streams.base import StreamLimits
from mcp_app.streams.stores.storage_quota import admit_now
from mcpsite.redis_server import Program, RedisServer, RedisServerError, find_program

pytestmark = pytest.mark.process
PROGRAMS = [find_program(), Program("fakeredis", "")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.kind)
def test_redis_requires_the_password_and_hides_it(tmp_path: Path, program: Program) -> None:
    server = RedisServer(tmp_path / "with space", program=program)
    url = server.start()
    assert server.process is not None
    password = url.split(":")[2].split("@")[0]
    once = Retry(NoBackoff(), 0)
    for protocol in (2, 3):
        with redis.Redis.from_url(url, protocol=protocol) as client:
            assert client.ping()
        stranger = redis.Redis(port=server.port, protocol=protocol, retry=once)
        with stranger, pytest.raises(redis.RedisError):
            stranger.get("x")
    guesser = redis.Redis(port=server.port, password="wrong", protocol=2, retry=once)
    with guesser, pytest.raises(redis.AuthenticationError):
        guesser.get("x")
    assert password not in " ".join(server.command())
    assert password.encode() not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert password.encode() not in Path(f"/proc/{server.process.pid}/environ").read_bytes()
    config = server.directory / "redis.conf"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
    assert bool(server.banner) == (program.kind == "fakeredis")
    server.stop()


def test_redis_listens_on_loopback_and_never_evicts(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, protocol=2, decode_responses=True) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert int(client.config_get("maxmemory")["maxmemory"]) > 0


def test_restart_after_a_kill_keeps_address_and_data(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    url = server.start()
    with redis.Redis.from_url(url, protocol=2) as client:
        client.set("kept", "1")
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    assert server.start() == url
    with redis.Redis.from_url(url, protocol=2) as client:
        assert client.get("kept") == b"1"
    server.stop()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.kind)
def test_stop_leaves_no_process_and_is_repeatable(tmp_path: Path, program: Program) -> None:
    server = RedisServer(tmp_path, append_only=False, program=program)
    server.start()
    assert server.process is not None
    pid = server.process.pid
    server.stop()
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_failed_start_reports_the_reason(tmp_path: Path) -> None:
    first = RedisServer(tmp_path / "first")
    first.start()
    second = RedisServer(tmp_path / "second", port=first.port)
    with pytest.raises(RedisServerError, match=r"(?s)exited with status 1.*in use"):
        second.start()
    assert second.process is None
    first.stop()


def test_missing_redis_error_suggests_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("mcpsite.redis_server.find_spec", lambda _: None)
    with pytest.raises(RedisServerError, match=r"valkey-server.*REDIS_URL.*fakeredis"):
        find_program()


def test_recent_binary_on_the_path_is_used_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    valkey, old = tmp_path / "valkey-server", tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=5.0.7 sha=0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program().executable != str(old)
    valkey.write_text("#!/bin/sh\necho Valkey server v=8.0.1 sha=0\n")
    valkey.chmod(0o755)
    assert find_program() == Program("path", str(valkey))


async def test_streams_run_on_fakeredis(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, program=Program("fakeredis", ""))
    streams = Streams.connect(await asyncio.to_thread(server.start))
    await streams.start()
    epoch, _ = await streams.log.open("s", "a")
    reader = streams.reader("s", "a", epoch, 0)
    waiting = asyncio.create_task(reader.next(10))
    await streams.log.append("s", "a", b"1")
    async with asyncio.timeout(5):
        assert [event.data for event in await waiting] == [b"1"]
    assert await streams.log.finish("s", "a", b"end") is not None
    assert [event.kind for event in await reader.next(5)] == ["final"]
    await streams.sessions.create("s", {"a": "b"}, 60)
    assert await streams.sessions.load("s") == {"a": "b"}
    # It reports neither its memory nor that of a key: nothing is refused for that reason.
    await streams.quota.admit("user:1")
    await asyncio.to_thread(admit_now, server.url, StreamLimits(), "user:1")
    for _ in range(20):
        await streams.messages.push(b"x")
    await streams.close()
    server.stop()
