"""Calls of servers over stdio through the bridge, with real processes and a real socket."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_app import conf
from mcp_app.bridge.guard import VARIABLE
from mcp_app.bridge.service import Bridge, SocketInUse, _listening
from mcp_app.egress import Request, Secrets, exchange
from mcp_app.egress.policy import Policy
from mcp_app.protocol.client.answers import Answered, Event, LogLine, Notice, Progress
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.upstreams import bridge as seen
from mcp_app.upstreams import client, sessions
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import UpstreamServer
from tests.process.bridge.conftest import TOKEN, cancelled, is_running, server_of, until
from tests.servers import stdio_program

TOOLS = [("tools", "tools/list", "tools")]
FORM = {"elicitation": {"form": {}}}
pytestmark = pytest.mark.requirement("INT-76")


async def call(
    server: UpstreamServer, name: str, arguments: dict[str, Any] | None = None, key: str = "one", **more: Any
) -> str:
    caller = Caller(key, more.pop("capabilities", {}))
    params = {"name": name, "arguments": arguments or {}}
    answer = await client.requested(server, caller, "tools/call", params, hops=0, seconds=10.0, **more)
    assert isinstance(answer, Answered)
    return str(answer.result["content"][0]["text"])


async def fault_of(*given: Any, **more: Any) -> UpstreamFault:
    with pytest.raises(UpstreamFault) as raised:
        await call(*given, **more)
    return raised.value


async def shown(name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await seen.status())[name]
    return found


# Sessions.


@pytest.mark.parametrize("name", ["usual", "fragile", "late", "mute"])
async def test_tools_are_listed_whatever_a_server_does_with_the_first_request(
    bridge: Bridge, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.bridge.service.PROBE_SECONDS", 0.5)
    server = server_of(name, era="auto")
    found = await client.listing(server, TOOLS)
    assert [tool["name"] for tool in found.items["tools"]] == [*stdio_program.TOOLS]
    assert found.peer.version == "2025-06-18"
    # A silent server may be a modern one that starts slowly, so it is asked again earlier.
    asked_again = sessions._legacy_until[server.key] - time.monotonic()
    assert (asked_again <= sessions.SILENT_SECONDS) == (name in ("late", "mute"))


async def test_silent_server_of_the_modern_era_was_sent_no_call(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.bridge.service.PROBE_SECONDS", 0.5)
    fault = await fault_of(server_of("mute", era="modern"), "counter")
    assert (fault.kind, fault.sent) == (Kind.TIMEOUT, False)
    assert str(fault) == "cannot be used. The server did not answer server/discover in time."


@pytest.mark.requirement("INT-62")
async def test_callers_never_share_a_process(bridge: Bridge) -> None:
    server = server_of("usual")
    counted = await asyncio.gather(
        *(call(server, "counter", key=key) for key in ("one", "two") for _ in range(5))
    )
    assert sorted(counted) == sorted(["1", "2", "3", "4", "5"] * 2)
    assert await call(server, "pid", key="one") != await call(server, "pid", key="two")


async def test_probed_process_serves_the_first_session(bridge: Bridge) -> None:
    await call(server_of("usual", era="auto"), "counter")
    assert len((await shown("usual"))["processes"]) == 1


@pytest.mark.requirement("INT-62")
async def test_busy_process_for_all_callers_becomes_no_session(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = server_of("modern", era="auto")
    pid = await call(first, "pid")
    sleeping = asyncio.create_task(call(first, "sleep", {"seconds": 2}))
    await until(lambda: pools(bridge)[0].status()["processes"][0]["open_requests"])
    monkeypatch.setattr("mcp_app.bridge.service.PROBE_SECONDS", 0.2)
    # Another process of this installation probes the server.
    sessions._kept.clear()
    monkeypatch.setattr("mcp_app.upstreams.sessions._read", lambda name: None)
    fault = await fault_of(first, "counter", key="two")
    assert (fault.kind, fault.sent) == (Kind.UNREACHABLE, False)
    assert await call(server_of("modern"), "pid", key="two") != pid
    assert await sleeping == "done"


@pytest.mark.requirement("INT-75")
async def test_end_of_a_session_ends_its_process_and_children(bridge: Bridge) -> None:
    server = server_of("usual")
    pids = [int(await call(server, name)) for name in ("pid", "child")]
    assert all(map(is_running, pids))
    await sessions.end(server, Caller("one"))
    await until(lambda: not any(map(is_running, pids)))
    await until(lambda: not pools(bridge))


@pytest.mark.requirement("INT-75")
async def test_idle_process_is_stopped_and_its_session_opened_again(bridge: Bridge) -> None:
    server = server_of("idle")
    pid = int(await call(server, "pid"))
    await until(lambda: not is_running(pid))
    assert await call(server, "counter") == "1"


async def test_idle_session_gives_way_and_busy_ones_do_not(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of("small")
    await asyncio.gather(*(call(server, "counter", key=key) for key in ("one", "two")))
    refused = await fault_of(server, "counter", key="three")
    assert (refused.kind, refused.sent) == (Kind.UNREACHABLE, False)
    assert "All 2 processes" in str(refused)
    monkeypatch.setattr("mcp_app.bridge.pool.EVICTED_SECONDS", 0.0)
    assert await call(server, "counter", key="three") == "1"


# Messages.


async def test_progress_logs_and_changed_lists_reach_the_call(bridge: Bridge) -> None:
    server, events = server_of("usual"), list[Event]()

    async def record(event: Event) -> None:
        events.append(event)

    for name in ("steps", "log", "changed", "noise"):
        await call(server, name, on_event=record)
    progress, log, change = events[:3], events[3], events[4]
    assert [each.progress for each in progress if isinstance(each, Progress)] == [0, 1, 2]
    assert isinstance(log, LogLine)
    assert isinstance(change, Notice)
    assert len(events) == 5


# The official SDKs number their questions from 0.
@pytest.mark.requirement("INT-62")
@pytest.mark.parametrize("name", ["usual", "modern"])
async def test_late_log_message_reaches_no_other_caller(bridge: Bridge, name: str) -> None:
    server, events = server_of(name, era="auto"), list[Event]()

    async def record(event: Event) -> None:
        events.append(event)

    await call(server, "log_later")
    await call(server, "sleep", {"seconds": 1}, key="two", on_event=record)
    assert events == []


@pytest.mark.requirement("INT-64")
@pytest.mark.parametrize("number", ["q", 0, ""])
async def test_question_is_answered_by_its_caller(bridge: Bridge, number: str | int) -> None:
    def take(asking: Any) -> bool:
        answering.append(asyncio.ensure_future(asking.answer({"result": {"action": "decline"}})))
        return True

    answering: list[Any] = []
    told = {"capabilities": FORM, "on_question": take}
    found = await call(server_of("usual"), "form", {"number": number}, **told)
    assert json.loads(found) == {"action": "decline"}


async def test_question_without_a_caller_is_declined(bridge: Bridge) -> None:
    assert "-32601" in await call(server_of("usual"), "form")


@pytest.mark.requirement("INT-65")
async def test_answer_to_an_unknown_request_is_dropped(bridge: Bridge) -> None:
    assert await call(server_of("usual"), "forged") == "done"


async def test_cancelled_call_leaves_the_session_usable(bridge: Bridge) -> None:
    server = server_of("usual")
    pid = await call(server, "pid")
    sleeping = asyncio.create_task(call(server, "sleep", {"seconds": 0.5}))
    await until(lambda: any(pool.status()["processes"][0]["open_requests"] for pool in pools(bridge)))
    await cancelled(sleeping)
    assert await call(server, "pid") == pid


def pools(bridge: Bridge) -> list[Any]:
    return [pool for pool in bridge._pools.values() if pool.has_processes]


# Failures.


@pytest.mark.requirement("INT-69")
async def test_killed_process_fails_its_call_and_the_next_one_succeeds(bridge: Bridge) -> None:
    server = server_of("usual")
    fault = await fault_of(server, "die")
    assert fault.kind == Kind.BROKEN_OFF
    assert "status 3" in str(fault)
    assert await call(server, "counter") == "1"
    os.kill(int(await call(server, "pid")), signal.SIGKILL)
    await until(lambda: not pools(bridge))
    assert await call(server, "counter") == "1"


@pytest.mark.requirement("INT-71")
async def test_endless_line_kills_the_process(bridge: Bridge) -> None:
    fault = await fault_of(server_of("usual"), "endless")
    assert "8 MiB" in str(fault)
    assert (await shown("usual"))["processes"] == []


@pytest.mark.requirement("INT-71")
@pytest.mark.parametrize(
    ("file", "text"), [("stdout", "\n"), ("stdout", "x\n"), ("stderr", "x"), ("stderr", "\n")]
)
async def test_flood_is_read_slowly(
    bridge: Bridge, file: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = list[float]()

    async def sleep(seconds: float, usual: Any = asyncio.sleep) -> None:
        slept.append(seconds)
        await usual(seconds)

    monkeypatch.setattr("mcp_app.bridge.child.asyncio.sleep", sleep)
    # Less than a whole chunk is read at once.
    arguments = {"file": file, "text": text, "repeat": 60_000 // len(text)}
    flooding = asyncio.create_task(call(server_of("usual"), "flood", arguments))
    await until(lambda: any(each > 0.05 for each in slept))
    assert not flooding.done()
    await cancelled(flooding)


@pytest.mark.requirement("INT-75")
async def test_flooding_process_leaves_no_pipe(bridge: Bridge) -> None:
    def pipes() -> int:
        found = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
        return sum("/pipe:" in each for each in found)

    server = server_of("usual")
    gc.collect()
    # The collector would close a pipe that nothing refers to, some time later.
    gc.disable()
    try:
        before = pipes()
        arguments = {"file": "stderr", "text": "x", "repeat": 60_000}
        flooding = asyncio.create_task(call(server, "flood", arguments))
        await until(lambda: pools(bridge) and next(iter(pools(bridge)[0]._all))._process.stderr._paused)
        await cancelled(flooding)
        await sessions.end(server, Caller("one"))
        await until(lambda: not pools(bridge))
        await until(lambda: pipes() <= before)
        assert pipes() <= before
    finally:
        gc.enable()


@pytest.mark.requirement("INT-71")
async def test_process_above_its_limits_is_killed(bridge: Bridge) -> None:
    server = server_of("small")
    # Python has allocated little before, so the limit of the kernel or the count of the bridge ends it.
    fault = await fault_of(server, "memory", {"mb": 100})
    assert fault.kind == Kind.BROKEN_OFF
    pids = [int(await call(server, "child")) for _ in range(3)]
    fault = await fault_of(server, "sleep", {"seconds": 5})
    assert "more than 3 processes" in str(fault)
    await until(lambda: not any(map(is_running, pids)))


async def test_process_that_ignores_the_end_is_killed(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("END_SECONDS", "TERM_SECONDS"):
        monkeypatch.setattr(f"mcp_app.bridge.child.{name}", 0.1)
    server = server_of("usual")
    pid = int(await call(server, "pid"))
    await client.requested(server, Caller("one"), "tools/call", {"name": "ignore_end"}, hops=0, seconds=5.0)
    await sessions.end(server, Caller("one"))
    await until(lambda: not is_running(pid))


@pytest.mark.parametrize(
    ("name", "reason", "cause"),
    [("broken", "status 4", "configuration is missing"), ("absent", "status 127", "No such file")],
)
async def test_program_that_cannot_start_waits_longer_each_time(
    bridge: Bridge, name: str, reason: str, cause: str
) -> None:
    server = server_of(name)
    texts = [str(await fault_of(server, "counter")) for _ in range(3)]
    assert reason in texts[0]
    assert "2 times in a row" in texts[2]
    found = await shown(name)
    assert found["failures"] == 2
    assert cause in found["errors"][0]["text"]


async def test_unknown_folder_is_named(bridge: Bridge, settings: Any) -> None:
    pool = bridge._pools[conf.get().upstream_commands["absent"].path]
    command = conf.upstream_commands.read({"absent": {"command": ["true"], "cwd": "/no/folder"}})["absent"]
    pool.command = command
    assert "cannot be started" in str(await fault_of(server_of("absent"), "counter"))
    assert "/no/folder" in (await shown("absent"))["last_end"]["text"]


async def test_changed_command_line_needs_another_bridge(bridge: Bridge, settings: Any) -> None:
    changed = {**settings.MCP["UPSTREAM_COMMANDS"], "usual": {"command": ["other"]}}
    settings.MCP = {**settings.MCP, "UPSTREAM_COMMANDS": changed}
    assert "Restart the bridge" in str(await fault_of(server_of("usual"), "counter"))


# Secrets.


async def test_process_inherits_listed_variables_only(bridge: Bridge) -> None:
    found = json.loads((await call(server_of("usual"), "environment")).replace("[hidden]", "hidden"))
    assert found["PLAIN"] == "plain-0123456789"
    assert found["PATH"]
    unexpected = {*found} - {*conf.upstream_commands.INHERITED, "API_TOKEN", "PLAIN"}
    assert unexpected <= {"LC_CTYPE", VARIABLE}


async def test_secret_is_hidden_in_results_and_error_output(bridge: Bridge) -> None:
    server = server_of("usual")
    assert await call(server, "secret") == "[hidden]"
    await call(server, "stderr", {"lines": 3000})
    await until(lambda: any("last" in each["text"] for each in pools(bridge)[0].errors.shown()))
    found = await shown("usual")
    assert len(found["errors"]) == 200
    assert all(len(each["text"]) <= 500 for each in found["errors"])
    assert TOKEN not in json.dumps(found)


@pytest.mark.parametrize("key", ["", "Bearer no"])
async def test_bridge_refuses_other_tokens(bridge: Bridge, key: str) -> None:
    secrets = Secrets(headers=(("Authorization", key),)) if key else Secrets()
    request, path = Request("GET", conf.upstream_commands.STATUS_URL), conf.get().upstream_socket
    async with exchange(request, Policy(content_types=None), secrets, socket=path) as answer:
        assert answer.status == 401
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


async def test_second_bridge_is_refused(bridge: Bridge) -> None:
    with pytest.raises(SocketInUse):
        _listening(conf.get().upstream_socket)


async def test_absent_bridge_is_named() -> None:
    fault = await fault_of(server_of("usual"), "counter")
    assert (fault.kind, fault.sent) == (Kind.UNREACHABLE, False)
    assert "mcp_upstreams" in str(fault)
    with pytest.raises(UpstreamFault):
        await seen.status()
