"""Calls that limits refuse: their answers, and that every path counts a call once."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from django.db.models.signals import post_save

from mcp_app import Context
from mcp_app.auth.principal import Principal
from mcp_app.execution.calls.reply import Answered
from mcp_app.execution.questions.inputs import FREE_ROUNDS
from mcp_app.limits import current, usage
from mcp_app.limits.rules import BUDGET, CONCURRENT, RATE, Bucket, Rule
from mcp_app.models import Call
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.idempotency import MEMBER
from mcp_app.protocol.refusals import LIMIT_META, META, Code
from mcp_app.protocol.versions import V2025_03_26
from mcp_app.sessions.exchange import Exchange as ModernExchange
from mcp_app.sessions.session import HTTP_SSE
from mcp_app.streams.gateway import Streams
from mcp_app.transports.http_sse.endpoint import HttpSse
from mcp_app.transports.streamable_http.endpoint import Endpoint
from tests.clients.envelopes import envelope_of
from tests.unit.catalogue.entries import tool_entry
from tests.unit.handlers.desk import Desk, offer
from tests.unit.handlers.rounds import accept, call
from tests.unit.limits.rules import rule
from tests.unit.transports.streamable_http.asgi import POST, Exchange, Server, request
from tests.views import SERVER

REDIS = "redis://nowhere.invalid"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "work"}
EACH = {"who": "user", "who_value": "*"}


async def work() -> str:
    """Do some work."""
    return "done"


async def hang(ctx: Context) -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


async def greet(ctx: Context) -> str:
    """Greet."""
    answer = await ctx.aelicit("What is your name?", NAME, key="user_name")
    return f"Hello, {answer.content['name']}!"


def limit(*rules: Rule) -> None:
    offer(tools=[tool_entry(each) for each in (work, hang, greet)])
    current.replace(rules)


async def units(streams: Streams, bucket: Bucket) -> int:
    """Return the units that are counted of a budget."""
    (found,) = [spent for key, (_, spent) in streams.rules._spent.items() if key.startswith(bucket.key)]  # type: ignore[attr-defined]
    return int(found)


@pytest.mark.parametrize("is_modern", [False, True], ids=["2025-11-25", "2026-07-28"])
async def test_short_wait_is_answered_with_429_and_its_data(is_modern: bool, streams: Streams) -> None:
    limit(rule("calm", **EACH, rate=2, rate_period="minute"))
    server = Server(streams)
    headers: dict[str, str | None] = MODERN if is_modern else await server.initialize()
    params = {"name": "work", "arguments": {}, **({"_meta": MODERN_META} if is_modern else {})}
    sent = [
        await server.send(message=request("tools/call", params, number), headers=headers).done()
        for number in (1, 2, 3)
    ]
    assert [each.status for each in sent] == [200, 200, 429]
    refused = sent[2]
    assert refused.headers[b"retry-after"] == b"30"
    assert refused.headers[b"ratelimit"] == b'"calm";r=0;t=30'
    assert refused.headers[b"ratelimit-policy"] == b'"calm";q=2;w=60'
    data = refused.json["error"]["data"]
    assert 29_000 < data.pop("retryAfterMs") <= 30_000
    assert data == {
        "limit": "calm", "measure": "rate", "scope": "user", "retryAfter": 30, "refusal": Code.LIMIT_REACHED,
    }  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_long_wait_is_told_to_the_model(version: str, streams: Streams) -> None:
    limit(rule("scarce", **EACH, what="tool", what_value="work", budget=1, budget_period="month"))
    desk = Desk(streams)
    rounds = call(desk, "work", version=version)
    assert await rounds.text() == "done"
    refused = await rounds.go()
    assert refused["isError"]
    assert "Do not call the tool again before" in refused["content"][0]["text"]
    assert refused["_meta"][META] == Code.LIMIT_USED_UP
    told = refused["_meta"][LIMIT_META]
    assert (told["limit"], told["scope"]) == ("scarce", "user tool:work")
    assert told["retryAfter"] > 60


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("own", [None, 1], ids=["rule", "calls per minute of the tool"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_limited_call_with_a_key_writes_nothing(
    version: str, own: int | None, streams: Streams
) -> None:
    limit(*([] if own else [rule("scarce", **EACH, budget=1)]))
    offer(tools=[tool_entry(work, calls_per_minute=own), tool_entry(hang)])
    written: list[str] = []

    def note(sender: type[Any], **_: Any) -> None:
        written.append(sender.__name__)

    rounds = call(Desk(streams), "work", version=version)
    post_save.connect(note)
    try:
        for key, stored in (("first", True), ("first", True), ("second", False), ("first", True)):
            answer = await rounds.go(_meta={MEMBER: key})
            assert (bool(answer.get("isError")) or "data" in answer) is not stored, key
    finally:
        post_save.disconnect(note)
    assert written == ["KeyedCall"]


OWN = {"calls_per_minute": 2}
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
# By path: the version, further options of the tool, members of the request, and the client's capabilities.
PATHS: dict[str, tuple[str, Any, Any, Any]] = {
    "2025-03-26": ("2025-03-26", {}, {}, {}),
    "2025-11-25": ("2025-11-25", {}, {}, {}),
    "2026-07-28": ("2026-07-28", {}, {}, {}),
    "background call": ("2025-11-25", {"background": True}, {}, {}),
    "background call of 2026-07-28": ("2026-07-28", {"background": True}, {}, {}),
    "task of 2025-11-25": ("2025-11-25", {"background": True}, {"task": {}}, {}),
    "task of 2026-07-28": ("2026-07-28", {"background": True}, {}, TASKS),
    "idempotency key": ("2026-07-28", {}, {"_meta": {MEMBER: "{}"}}, {}),
    "call that needs approval": ("2025-11-25", {"needs_approval": True}, {}, {}),
}


async def outcome_of(desk: Desk, path: str, number: int) -> Any:
    """Return the error of a call by a path, or None if it was admitted. No worker runs it."""
    version, _, members, capabilities = PATHS[path]
    params = {"name": "work", **members}
    if MEMBER in members.get("_meta", {}):
        params["_meta"] = {MEMBER: str(number)}
    message = jsonrpc.Request(number, "tools/call", params)
    if version == "2026-07-28":
        exchange = ModernExchange(envelope_of(capabilities), desk.principal.key, SERVER)
        outcome = await desk.process.dispatcher.exchange(desk.asked(exchange), message, b"{}")
        answer = outcome.answered
    else:
        outcome = await desk.process.dispatcher.request(desk.asked(), message, b"{}")
        answer = outcome.body if isinstance(outcome, Answered) else b""
    found = orjson.loads(answer) if answer else {}
    assert not found.get("result", {}).get("isError"), found
    return found.get("error")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", PATHS)
async def test_calls_per_minute_of_a_tool_are_a_rate_on_every_path(path: str, streams: Streams) -> None:
    version, options, _, _ = PATHS[path]
    offer(tools=[tool_entry(work, **OWN, **options)])
    desk = Desk(streams, redis_url=REDIS, grace_seconds=0.01)
    await desk.open(version if version != "2026-07-28" else "2025-11-25")
    outcomes = [await outcome_of(desk, path, number) for number in range(4)]
    assert [each is None for each in outcomes] == [True, True, False, False]
    data = outcomes[-1]["data"]
    assert 29_000 < data.pop("retryAfterMs") <= 30_000
    assert data == {
        "limit": "tool:work", "measure": "rate", "scope": "user tool:work", "retryAfter": 30,
        "refusal": Code.RATE_LIMITED,
    }  # fmt: skip
    assert [*usage._notes.refused.values()] == [2]


@pytest.mark.parametrize("role", ["another credential", "another user"])
async def test_calls_per_minute_of_a_tool_count_users(role: str, streams: Streams) -> None:
    offer(tools=[tool_entry(work, calls_per_minute=1)])
    desk, key = Desk(streams), {"another credential": "user:7/client:3", "another user": "user:8/key:3"}[role]
    statuses = []
    for caller in ("user:7/key:1", key):
        desk.principal = Principal(caller, caller, frozenset())
        await desk.open()
        statuses.append("error" in await desk.request("tools/call", {"name": "work"}))
    assert statuses == [False, role == "another credential"]


@pytest.mark.parametrize(
    ("values", "admitted"),
    [
        ({"who": "user", "who_value": "ada", "users": frozenset({"loopback"}), "rate": 3}, 3),
        ({"who": "member", "who_value": "team", "users": frozenset({"loopback"}), "rate": 3}, 3),
        ({"who": "user", "who_value": "bob", "users": frozenset({"user:9"}), "rate": 3}, 2),
        ({**EACH, "rate": 1}, 1),
        ({**EACH, "rate": 3}, 2),
        ({**EACH, "rate": 1, "observe": True}, 2),
        ({"who": "installation", "rate": 1}, 1),
    ],
)
async def test_more_specific_rule_replaces_the_calls_per_minute_of_a_tool(
    values: Any, admitted: int, streams: Streams
) -> None:
    current.replace([rule("special", **values, what="tool", what_value="work")])
    offer(tools=[tool_entry(work, **OWN)])
    desk = Desk(streams)
    await desk.open()
    answers = [await desk.request("tools/call", {"name": "work"}, number) for number in range(5)]
    assert sum("result" in each for each in answers) == admitted


async def test_each_call_of_a_batch_is_counted(streams: Streams) -> None:
    limit(rule("calm", rate=2))
    desk = Desk(streams)
    await desk.open(V2025_03_26)
    members = [jsonrpc.Request(number, "tools/call", {"name": "work"}) for number in range(4)]
    answers = {each["id"]: each for each in await desk.batch(*members)}
    assert [("error" in answers[number]) for number in range(4)] == [False, False, True, True]
    assert answers[3]["error"]["data"]["refusal"] == Code.LIMIT_REACHED


async def test_limit_is_reached_over_http_sse(streams: Streams) -> None:
    limit(rule("calm", rate=1))
    desk = Desk(streams, auth="loopback", loopback=True)
    await desk.open()
    desk.session.transport = HTTP_SSE
    endpoint = HttpSse(desk.process, Endpoint(desk.process))
    for number in (1, 2):
        body = jsonrpc.encode_member(jsonrpc.Request(number, "tools/call", {"name": "work"}))
        pairs = [(name.encode(), value.encode()) for name, value in POST.items()]
        path = f"/messages/?session_id={desk.session.id}"
        posted = Exchange(endpoint, "POST", pairs, body, "127.0.0.1", path)
        assert (await posted.done()).status == 202
    assert list(usage._notes.refused.values()) == [1]


@pytest.mark.django_db(transaction=True)
async def test_observing_rule_counts_and_admits(streams: Streams) -> None:
    limit(rule("watch", rate=1, budget=1, concurrent=1, observe=True))
    desk = Desk(streams)
    await desk.open()
    for number in range(3):
        assert "result" in await desk.request("tools/call", {"name": "work"}, number)
    measures = {place[2]: count for place, count in usage._notes.refused.items()}
    assert measures == {RATE: 2, BUDGET: 2}


@pytest.mark.django_db(transaction=True)
async def test_call_is_counted_in_all_its_limits_or_in_none(streams: Streams) -> None:
    shared, each = rule("shared", budget=5), rule("each", **EACH, budget=2)
    limit(shared, each)
    desk = Desk(streams)
    await desk.open()
    for number in range(5):
        await desk.request("tools/call", {"name": "work"}, number)
    assert await units(streams, Bucket(each, BUDGET, "loopback")) == 2
    assert await units(streams, Bucket(shared, BUDGET, "all")) == 2


@pytest.mark.django_db(transaction=True)
async def test_budget_spends_the_cost_of_a_tool(streams: Streams) -> None:
    costly = rule("costly", budget=7, budget_unit="cost")
    offer(tools=[tool_entry(work, cost=3)])
    current.replace([costly])
    desk = Desk(streams)
    await desk.open()
    answers = [await desk.request("tools/call", {"name": "work"}, number) for number in range(3)]
    assert [each["result"].get("isError", False) for each in answers] == [False, False, True]
    assert await units(streams, Bucket(costly, BUDGET, "all")) == 6


async def test_running_call_holds_a_place_until_it_ends(streams: Streams) -> None:
    limit(rule("few", **EACH, concurrent=1))
    desk = Desk(streams)
    await desk.open()
    hangs = asyncio.create_task(desk.request("tools/call", {"name": "hang"}, 1))
    while not desk.process.calls.running:
        await asyncio.sleep(0)
    refused = await desk.request("tools/call", {"name": "work"}, 2)
    assert refused["error"]["data"]["measure"] == CONCURRENT
    desk.process.calls.cancel(desk.session.id, 1, "the test ends")
    await hangs
    assert "result" in await desk.request("tools/call", {"name": "work"}, 3)


@pytest.mark.django_db(transaction=True)
async def test_background_call_holds_a_place_until_its_row_is_finished(streams: Streams) -> None:
    limit(rule("few", **EACH, concurrent=1))
    offer(tools=[tool_entry(work, background=True)])
    desk = Desk(streams, redis_url=REDIS)
    await desk.open()
    message = [jsonrpc.Request(number, "tools/call", {"name": "work"}) for number in range(3)]
    await desk.process.dispatcher.request(desk.asked(), message[0], b"{}")
    refused = await desk.request("tools/call", {"name": "work"}, 1)
    assert refused["error"]["data"]["measure"] == CONCURRENT
    await Call.objects.aupdate(state="completed")
    await desk.process.dispatcher.request(desk.asked(), message[2], b"{}")
    assert await Call.objects.acount() == 2


@pytest.mark.django_db(transaction=True)
async def test_repeated_request_is_counted_once(streams: Streams) -> None:
    budget = rule("budget", budget=9)
    current.replace([budget])
    offer(tools=[tool_entry(work, background=True)])
    desk = Desk(streams, redis_url=REDIS)
    await desk.open()
    message = jsonrpc.Request(1, "tools/call", {"name": "work"})
    for _ in range(3):
        await desk.process.dispatcher.request(desk.asked(), message, b"{}")
    assert await Call.objects.acount() == 1
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 1


@pytest.mark.django_db(transaction=True)
async def test_answered_question_continues_a_call_without_counting_it_again(streams: Streams) -> None:
    budget = rule("budget", budget=9)
    limit(budget)
    desk = Desk(streams)
    rounds = call(desk, "greet")
    await rounds.go()
    assert await rounds.text({"user_name": accept(name="Ada")}) == "Hello, Ada!"
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 1
    # The same state once more is another call.
    assert await rounds.text({"user_name": accept(name="Ada")}) == "Hello, Ada!"
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 2


@pytest.mark.django_db(transaction=True)
async def test_client_that_never_answers_is_counted_after_some_rounds(streams: Streams) -> None:
    budget = rule("budget", budget=9)
    limit(budget)
    rounds = call(Desk(streams), "greet")
    for _ in range(FREE_ROUNDS + 4):
        assert (await rounds.go())["resultType"] == "input_required"
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 4


async def test_address_of_the_sender_is_limited(streams: Streams) -> None:
    limit(rule("network", who="address", who_value="192.0.2.0/24", rate=1))
    server = Server(streams, auth="loopback", loopback=True)
    headers = await server.initialize()
    for address, status in (("127.0.0.1", 200), ("127.0.0.1", 200)):
        sent = server.send(message=request("tools/call", {"name": "work"}), headers=headers, address=address)
        assert (await sent.done()).status == status
    current.replace([rule("network", who="address", who_value="127.0.0.0/8", rate=1)])
    for status in (200, 429):
        sent = server.send(message=request("tools/call", {"name": "work"}), headers=headers)
        assert (await sent.done()).status == status


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("background", [False, True], ids=["in the web process", "in a worker"])
async def test_repeated_idempotency_key_is_counted_once(background: bool, streams: Streams) -> None:
    budget = rule("budget", budget=9)
    current.replace([budget])
    offer(tools=[tool_entry(work, background=background)])
    desk = Desk(streams, redis_url=REDIS if background else "")
    await desk.open()
    params = {"name": "work", "_meta": {"django-mcp/idempotencyKey": "again"}}
    for number in range(3):
        message = jsonrpc.Request(number, "tools/call", params)
        await desk.process.dispatcher.request(desk.asked(), message, b"{}")
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 1


async def test_leased_calls_are_answered_at_once_and_counted(streams: Streams) -> None:
    limit(rule("fast", rate=1_000, rate_period="second", burst=8))
    server = Server(streams)
    headers = await server.initialize()
    statuses = []
    for number in range(1, 12):
        sent = server.send(message=request("tools/call", {"name": "work"}, number), headers=headers)
        statuses.append((await sent.done()).status)
    leases = server.process.background.gate.limiter.leases
    assert statuses[:8] == [200] * 8
    assert leases.trips < len(statuses)


@pytest.mark.django_db(transaction=True)
async def test_call_that_is_refused_when_it_is_stored_is_not_counted(streams: Streams) -> None:
    budget = rule("budget", budget=9, budget_unit="calls")
    current.replace([budget])
    offer(tools=[tool_entry(work, needs_approval=True)])
    desk = Desk(streams, redis_url=REDIS, max_waiting_approvals_per_principal=0)
    await desk.open()
    refused = await desk.request("tools/call", {"name": "work"})
    assert refused["error"]["data"]["refusal"] == Code.APPROVALS_FULL
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 0


@pytest.mark.django_db(transaction=True)
async def test_call_whose_stream_cannot_be_opened_is_not_counted(streams: Streams) -> None:
    budget = rule("budget", budget=9)
    current.replace([budget])
    offer(tools=[tool_entry(work, background=True)])
    desk = Desk(streams, redis_url=REDIS)
    await desk.open()
    await streams.sessions.end(desk.session.id, 60)
    await desk.request("tools/call", {"name": "work"})
    assert await units(streams, Bucket(budget, BUDGET, "all")) == 0
