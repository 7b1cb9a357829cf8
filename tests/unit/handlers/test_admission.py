"""The admission gate over MCP: one order of refusals with codes, on every call path."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from mcp_app.catalogue.definitions.decorators import tool
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import entry_builder
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.execution.calls.reply import StreamReference
from mcp_app.limits import rules
from mcp_app.limits.current import buckets_of
from mcp_app.metrics import tally
from mcp_app.models import Call, StoredSource, Tool
from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.refusals import META, Code
from mcp_app.protocol.versions import V2025_03_26
from mcp_app.sessions.session import HTTP_SSE
from mcp_app.streams.base import QuotaExceeded
from mcp_app.streams.gateway import Streams
from mcp_app.transports.http_sse.endpoint import HttpSse
from mcp_app.transports.streamable_http.endpoint import Endpoint
from tests.unit.handlers.desk import Desk, offer
from tests.unit.transports.streamable_http.asgi import POST, Exchange

ROOT = Path(__file__).resolve().parents[3]
REDIS = "redis://nowhere.invalid"
RATED = {"calls_per_minute": 1}
GUARDED = {"needs_approval": True, "four_eyes": True}
# In gate order: each code, with a call that all later checks would refuse as well.
QUEUED = (
    *(Code.UNKNOWN_TOOL, Code.INVALID_ARGUMENTS, Code.BACKLOG_FULL, Code.QUOTA_EXCEEDED),
    *(Code.CALLER_UNKNOWN, Code.RATE_LIMITED),
)
INLINE = (
    *(Code.UNKNOWN_TOOL, Code.INVALID_ARGUMENTS, Code.TOO_MANY_RUNNING, Code.APPROVAL_IMPOSSIBLE),
    Code.RATE_LIMITED,
)


async def work(text: str = "") -> str:
    """Do some work."""
    return text


async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


def entry_of(function: Any, **options: Any) -> ToolEntry:
    with registry.isolated() as alone:
        tool(**options)(function)
        (definition,) = alone.tools.values()
    return entry_builder.tool(Tool(pk=1, name=function.__name__, source=StoredSource.CODE), definition)


def code_of(answer: dict[str, Any]) -> str:
    """Return the code of a refusal, from its error or from its result."""
    if "error" in answer:
        return str(answer["error"]["data"]["refusal"])
    assert answer["result"]["isError"]
    return str(answer["result"]["_meta"][META])


async def full_desk(streams: Streams, later: tuple[Code, ...], **settings: Any) -> Desk:
    """Return a desk whose gate refuses calls of ``work`` for each of some reasons."""
    if Code.BACKLOG_FULL in later:
        settings["max_open_background_calls_per_principal"] = 0
    desk = Desk(streams, **settings)
    await desk.open()
    if Code.QUOTA_EXCEEDED in later:
        streams.log.limits = replace(streams.log.limits, kept_bytes=1)
        await streams.log.append(desk.session.id, "kept", b"x")
    if Code.RATE_LIMITED in later:
        (bucket,) = buckets_of(desk.principal.key, entry_of(work, **RATED), "/mcp")
        await desk.process.background.gate.limiter.leases.take(bucket)
    return desk


def asked(later: tuple[Code, ...]) -> dict[str, Any]:
    arguments = {"text": 3} if Code.INVALID_ARGUMENTS in later else {}
    return {"name": "nobody" if Code.UNKNOWN_TOOL in later else "work", "arguments": arguments}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", range(len(QUEUED)), ids=QUEUED)
async def test_gate_refuses_queued_calls_in_one_order(place: int, streams: Streams) -> None:
    later = QUEUED[place:]
    options = {**RATED, **GUARDED} if Code.CALLER_UNKNOWN in later else {**RATED, "background": True}
    offer(tools=[entry_of(work, **options)])
    desk = await full_desk(streams, later, redis_url=REDIS)
    assert code_of(await desk.request("tools/call", asked(later))) == QUEUED[place]
    assert not await Call.objects.aexists()


@pytest.mark.parametrize("place", range(len(INLINE)), ids=INLINE)
async def test_gate_refuses_inline_calls_in_one_order(place: int, streams: Streams) -> None:
    later = INLINE[place:]
    options = {**RATED, **GUARDED} if Code.APPROVAL_IMPOSSIBLE in later else RATED
    offer(tools=[entry_of(work, **options), entry_of(hang)])
    most = 1 if Code.TOO_MANY_RUNNING in later else 2
    desk = await full_desk(streams, later, max_running_calls_per_principal=most)
    hangs = asyncio.create_task(desk.request("tools/call", {"name": "hang"}, 1))
    while not desk.process.calls.running:
        await asyncio.sleep(0)
    assert code_of(await desk.request("tools/call", asked(later), 2)) == INLINE[place]
    desk.process.calls.cancel(desk.session.id, 1, "the test ends")
    await hangs


async def test_refusal_code_is_logged_and_counted(streams: Streams) -> None:
    """Log lines keep the fields that a worker of an older version reads; codes are separate."""
    tally.take()
    offer(tools=[entry_of(work, **RATED)])
    desk = await full_desk(streams, (), message_log=True)
    for number, name in enumerate(["work", "work", "nobody"]):
        await desk.request("tools/call", {"name": name}, number)
    await desk.process.log.flush()
    (batch,) = [orjson.loads(encoded) for _, encoded in await streams.messages.read("0", 10)]
    assert batch["refusals"] == [[1, "rate_limited"], [2, "unknown_tool"]]
    assert {len(line) for line in batch["lines"]} == {12}
    assert sorted(tally.take()) == [
        ("limited ", "", "tool:work", 1),
        ("refusal ", "", "rate_limited", 1),
        ("refusal ", "", "unknown_tool", 1),
    ]


async def status_over_http_sse(desk: Desk, body: bytes) -> int:
    headers = [(name.encode(), value.encode()) for name, value in POST.items()]
    endpoint = HttpSse(desk.process, Endpoint(desk.process))
    posted = Exchange(endpoint, "POST", headers, body, "127.0.0.1", "/messages/")
    posted.scope["query_string"] = f"session_id={desk.session.id}".encode()
    return (await posted.done()).status


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("transport", ["streamable HTTP", "HTTP+SSE", "batch", "batch over HTTP+SSE"])
async def test_full_quota_refusal_is_logged_and_counted_over_every_transport(
    transport: str, streams: Streams
) -> None:
    """Where each answer needs a stored stream, the quota is checked before the tool is looked up.

    The other transports answer unknown tools as such.
    """
    offer(tools=[entry_of(work, background=True)])
    settings = {"message_log": True, "redis_url": REDIS, "auth": "loopback", "loopback": True}
    desk = await full_desk(streams, (Code.QUOTA_EXCEEDED,), **settings)
    if "batch" in transport:
        desk.session.version = V2025_03_26
        with suppress(QuotaExceeded):  # From now on, this process knows that the quota is full.
            await streams.quota.admit(desk.principal.key)
    tally.take()
    calls = [jsonrpc.Request(name, "tools/call", {"name": name}) for name in ("work", "none")]
    if "HTTP+SSE" in transport:
        desk.session.transport = HTTP_SSE
        encoded = [jsonrpc.encode_member(call) for call in calls]
        for body in [b"[%b]" % b",".join(encoded)] if "batch" in transport else encoded:
            assert await status_over_http_sse(desk, body) == 429
    elif transport == "batch":
        with pytest.raises(TooManyRequests):
            await desk.batch(*calls)
    else:
        for call in calls:
            await desk.request(call.method, call.params, call.id)
    await desk.process.log.flush()
    batches = [orjson.loads(encoded) for _, encoded in await streams.messages.read("0", 10)]
    codes = [code for batch in batches for _, code in batch["refusals"]]
    second = Code.UNKNOWN_TOOL if transport == "streamable HTTP" else Code.QUOTA_EXCEEDED
    assert codes == [Code.QUOTA_EXCEEDED, second]
    assert sum(count for kind, _, _, count in tally.take() if kind == "refusal ") == 2


def test_documented_limit_is_a_rule_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line in "Add a limit" is sufficient for the engine."""
    chapter = (ROOT / "docs/extending.md").read_text().partition("## Add a limit")[2]
    known = dict(vars(rules))
    exec(chapter.partition("```python")[2].partition("```")[0], known)
    monkeypatch.setattr(rules, "OF_TOOLS", known["OF_TOOLS"])
    rule = rules.Rule.of_tool(
        SimpleNamespace(name="work", order=(0, 0, 3), calls_per_day=7, calls_per_minute=None)
    )
    assert rule is not None
    assert (rule.budget, rule.budget_period, rule.budget_unit, rule.rate) == (7, "day", "calls", 0)
    assert rule.measures() == (rules.BUDGET,)


@pytest.mark.django_db(transaction=True)
async def test_repeated_request_attaches_despite_rate_limit(streams: Streams) -> None:
    """A repeated request adds no call, so no limit applies to it (R7)."""
    offer(tools=[entry_of(work, background=True, **RATED)])
    desk = await full_desk(streams, (), redis_url=REDIS)
    message = jsonrpc.Request(1, "tools/call", {"name": "work"})
    for _ in range(2):
        answer = await desk.process.dispatcher.request(desk.asked(), message, b"{}")
        assert isinstance(answer, StreamReference)
    assert await Call.objects.acount() == 1
    assert code_of(await desk.request("tools/call", {"name": "work"}, 2)) == Code.RATE_LIMITED
