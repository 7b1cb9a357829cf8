"""Questions of 2026-07-28: a request ends with questions, and its repetition carries the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from mcp_app import CannotAsk, Context, ToolError
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.handlers.desk import Desk, offer
from tests.unit.handlers.rounds import ROOT, Rounds, accept, call, said

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
Tool = Callable[..., Any]


async def greet(ctx: Context) -> str:
    """Greet."""
    answer = await ctx.aelicit("What is your name?", NAME, key="user_name")
    return f"Hello, {answer.content['name']}!"


def greet_sync(ctx: Context) -> str:
    """Greet from a thread."""
    answer = ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {answer.content['name']}!"


@pytest.fixture(params=[greet, greet_sync], ids=["async", "sync"])
def greeting(request: pytest.FixtureRequest) -> str:
    function: Tool = request.param
    offer(tools=[tool_entry(function)])
    return function.__name__


@pytest.mark.requirement("MRTR-02", "MRTR-03")
async def test_question_is_returned_and_answered_by_repeated_request(greeting: str, desk: Desk) -> None:
    rounds = call(desk, greeting)
    assert set(await rounds.go()) == {"resultType", "inputRequests", "requestState"}
    params = {"mode": "form", "message": "What is your name?", "requestedSchema": NAME}
    assert rounds.asked == [{"user_name": {"method": "elicitation/create", "params": params}}]
    assert await rounds.text({"user_name": accept(name="Ada")}) == "Hello, Ada!"


async def test_answer_is_accepted_before_question(greeting: str, desk: Desk) -> None:
    assert await call(desk, greeting).text({"user_name": accept(name="Ada")}) == "Hello, Ada!"


@pytest.mark.requirement("MRTR-06", "MRTR-07", "MRTR-08", "MRTR-14")
@pytest.mark.parametrize(
    "response",
    [
        {},
        {"other": accept(name="Ada")},
        {"user_name": {}},
        {"user_name": {"action": "perhaps"}},
        {"user_name": {"action": "accept"}},
        {"user_name": accept(name=7)},
        {"user_name": accept(nam="Ada")},
        {"user_name": said("Ada")},
        {"user_name": {"roots": []}},
    ],
)
async def test_invalid_answer_repeats_question(response: dict[str, Any], greeting: str, desk: Desk) -> None:
    rounds = call(desk, greeting)
    await rounds.go()
    await rounds.go(response)
    assert rounds.asked[0] == rounds.asked[1]
    assert await rounds.text({"user_name": accept(name="Ada"), "extra": {}}) == "Hello, Ada!"


@pytest.mark.requirement("MRTR-08")
@pytest.mark.parametrize("responses", [None, 7, [], {"user_name": 12345}, {"user_name": None}, {"x": "y"}])
async def test_malformed_input_responses_are_rejected(responses: Any, greeting: str, desk: Desk) -> None:
    assert (await call(desk, greeting).go(inputResponses=responses))["code"] == -32602


@pytest.mark.requirement("MRTR-09")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_or_cancelled_question_returns_action(action: str, desk: Desk) -> None:
    async def sure(ctx: Context) -> str:
        """Sure."""
        return f"{(await ctx.aelicit('Sure?', bool)).action}"

    offer(tools=[tool_entry(sure)])
    assert await call(desk, "sure").text({"elicitation-1": {"action": action}}) == action
    assert desk.process.calls.running == 0


@pytest.mark.requirement("MRTR-11", "MRTR-12")
async def test_rounds_replay_answers_and_effects(desk: Desk) -> None:
    effects: list[str] = []
    runs: list[int] = []

    async def several(ctx: Context) -> str:
        """Several."""
        runs.append(1)
        name = (await ctx.aelicit("Step 1", str)).value
        number = await ctx.aonce("order", lambda: order(name))
        colour = (await ctx.aelicit(f"Step 2 for {number}", str)).value
        return f"{name} {number['id']} {colour} {(await ctx.aroots())[0]['uri']}"

    async def order(name: str) -> dict[str, Any]:
        effects.append(name)
        return {"id": len(effects), "for": (name,)}

    offer(tools=[tool_entry(several)])
    rounds = call(desk, "several")
    await rounds.go()
    await rounds.go({"elicitation-1": accept(value="Ada")})
    assert "{'id': 1, 'for': ['Ada']}" in rounds.asked[-1]["elicitation-2"]["params"]["message"]
    await rounds.go({"elicitation-2": accept(value="red")})
    assert await rounds.text({"roots-1": {"roots": [ROOT]}}) == "Ada 1 red file:///test/root"
    assert effects == ["Ada"]
    assert len(runs) == 4
    assert len(set(rounds.states)) == 3


async def _three(ctx: Context) -> list[Any]:
    return await asyncio.gather(
        ctx.aelicit("Name?", NAME, key="user_name"),
        ctx.asample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.aroots(key="client_roots"),
    )


async def together(ctx: Context) -> str:
    """Three questions."""
    name, greeting, roots = await _three(ctx)
    return f"{name.content['name']} {greeting['content']['text']} {roots[0]['uri']}"


async def together_in_a_group(ctx: Context) -> str:
    """Three questions in a group of tasks."""
    async with asyncio.TaskGroup() as group:
        name = group.create_task(ctx.aelicit("Name?", NAME, key="user_name"))
        greeting = group.create_task(ctx.asample("Generate a greeting", max_tokens=50, key="greeting"))
        roots = group.create_task(ctx.aroots(key="client_roots"))
    return (
        f"{name.result().content['name']} {greeting.result()['content']['text']} {roots.result()[0]['uri']}"
    )


def together_in_a_thread(ctx: Context) -> str:
    """Three questions from a thread."""
    name, greeting, roots = ctx.gather(
        ctx.aelicit("Name?", NAME, key="user_name"),
        ctx.asample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.aroots(key="client_roots"),
    )
    return f"{name.content['name']} {greeting['content']['text']} {roots[0]['uri']}"


@pytest.mark.requirement("SAMP-06")
@pytest.mark.parametrize("function", [together, together_in_a_group, together_in_a_thread])
async def test_concurrent_questions_share_one_round(function: Tool, desk: Desk) -> None:
    offer(tools=[tool_entry(function)])
    rounds = call(desk, function.__name__)
    await rounds.go()
    assert set(rounds.asked[0]) == {"user_name", "greeting", "client_roots"}
    await rounds.go({"user_name": accept(name="Ada"), "client_roots": {}})
    assert set(rounds.asked[1]) == {"greeting", "client_roots"}
    done = await rounds.text({"greeting": said("hi"), "client_roots": {"roots": [ROOT]}})
    assert done == "Ada hi file:///test/root"


async def test_accepted_answer_is_not_replaced_by_later_one(desk: Desk) -> None:
    async def two(ctx: Context) -> str:
        """Two."""
        return f"{(await ctx.aelicit('1', str)).value}{(await ctx.aelicit('2', str)).value}"

    offer(tools=[tool_entry(two)])
    rounds = call(desk, "two")
    await rounds.go({"elicitation-1": accept(value="a")})
    assert await rounds.text({"elicitation-1": accept(value="x"), "elicitation-2": accept(value="b")}) == "ab"


async def test_changed_question_requires_new_answer(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    newest = ["letter"]

    async def delete(ctx: Context) -> str:
        """Delete."""
        await ctx.aelicit(f"Delete {newest[-1]}?", bool)
        return f"{newest[-1]} deleted"

    offer(tools=[tool_entry(delete)])
    rounds = call(desk, "delete")
    await rounds.go()
    newest.append("will")
    await rounds.go({"elicitation-1": accept(value=True)})
    assert rounds.asked[1]["elicitation-1"]["params"]["message"] == "Delete will?"
    assert await rounds.text({"elicitation-1": accept(value=True)}) == "will deleted"


SWALLOWING: dict[str, Tool] = {}


def swallowing(function: Tool) -> Tool:
    SWALLOWING[function.__name__] = function
    return function


@swallowing
async def any_exception(ctx: Context) -> str:
    """Handles every Exception."""
    try:
        return str((await ctx.aelicit("?", str)).value)
    except Exception:  # noqa: BLE001 - under test
        return "failed"


@swallowing
def any_exception_in_a_thread(ctx: Context) -> str:
    """Handles every Exception."""
    try:
        return str(ctx.elicit("?", str).value)
    except Exception:  # noqa: BLE001 - under test
        return "failed"


@swallowing
async def everything(ctx: Context) -> str:
    """Handles everything."""
    try:
        return str((await ctx.aelicit("?", str)).value)
    except BaseException:  # noqa: BLE001 - under test
        return "failed"


@swallowing
def everything_in_a_thread(ctx: Context) -> str:
    """Handles everything."""
    try:
        return str(ctx.elicit("?", str).value)
    except BaseException:  # noqa: BLE001 - under test
        raise ToolError("failed") from None


@swallowing
async def collected(ctx: Context) -> str:
    """Collects what is raised."""
    found = await asyncio.gather(ctx.aelicit("?", str), return_exceptions=True)
    return "failed" if isinstance(found[0], BaseException) else str(found[0].value)


@swallowing
async def in_time(ctx: Context) -> str:
    """Waits a while only."""
    try:
        async with asyncio.timeout(60):
            return str((await ctx.aelicit("?", str)).value)
    except TimeoutError:
        return "failed"


@swallowing
async def by_a_resource(ctx: Context) -> str:
    """Reads a resource that asks."""
    return str((await ctx.aread_resource("test://asks"))["contents"][0]["text"])


@swallowing
def by_a_resource_in_a_thread(ctx: Context) -> str:
    """Reads a resource that asks."""
    return str(ctx.read_resource("test://asks")["contents"][0]["text"])


def asks(ctx: Context) -> str:
    """Asks."""
    return str(ctx.elicit("?", str).value)


@pytest.mark.parametrize("function", SWALLOWING.values(), ids=SWALLOWING)
async def test_tool_code_cannot_catch_question_as_failure(
    function: Tool, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    offer(tools=[tool_entry(function)], resources=[resource_entry(asks, "test://asks")])
    rounds = call(desk, function.__name__)
    await rounds.go()
    assert set(rounds.asked[0]) == {"elicitation-1"}
    assert await rounds.text({"elicitation-1": accept(value="yes")}) == "yes"
    assert not caplog.records


async def test_round_is_answered_after_cleanup_of_tool(desk: Desk) -> None:
    order: list[str] = []

    def tidy(ctx: Context) -> str:
        """Tidy."""
        try:
            return str(ctx.elicit("?", str).value)
        finally:
            order.append("cleared")

    offer(tools=[tool_entry(tidy)])
    await call(desk, "tidy").go()
    assert order == ["cleared"]


@pytest.mark.requirement("MRTR-01", "PROMPT-07", "RES-13", "CACHE-02")
async def test_prompts_and_resources_may_ask(desk: Desk) -> None:
    async def about(ctx: Context) -> str:
        """About."""
        return f"About {(await ctx.aelicit('What?', str, key='what')).value}"

    offer(prompts=[prompt_entry(about)], resources=[resource_entry(asks, "test://asks")])
    prompt = Rounds(desk, "prompts/get", {"name": "about"})
    await prompt.go()
    got = await prompt.go({"what": accept(value="bees")})
    assert got["messages"][0]["content"]["text"] == "About bees"

    resource = Rounds(desk, "resources/read", {"uri": "test://asks"})
    assert set(await resource.go()) == {"resultType", "inputRequests", "requestState"}
    assert (await resource.go({"elicitation-1": accept(value="read")}))["contents"][0]["text"] == "read"


ASKING: dict[str, tuple[Callable[[Context], Any], dict[str, Any]]] = {
    "form": (lambda ctx: ctx.aelicit("?", str), {"elicitation": {"form": {}}}),
    "url": (lambda ctx: ctx.aelicit_url("?", "https://a.example/", "e"), {"elicitation": {"url": {}}}),
    "sampling": (lambda ctx: ctx.asample("?", max_tokens=1), {"sampling": {}}),
    "tools": (
        lambda ctx: ctx.asample("?", max_tokens=1, tools=[{"name": "t", "inputSchema": {"type": "object"}}]),
        {"sampling": {"tools": {}}},
    ),
    "roots": (lambda ctx: ctx.aroots(), {"roots": {}}),
}


@pytest.mark.requirement("MRTR-04", "CAP-03", "ELI-02")
@pytest.mark.parametrize(("ask", "needed"), ASKING.values(), ids=ASKING)
async def test_missing_capability_error_names_required_capability(
    ask: Callable[[Context], Any], needed: dict[str, Any], desk: Desk
) -> None:
    async def needs(ctx: Context) -> str:
        """Needs."""
        await ask(ctx)
        return "done"

    async def copes(ctx: Context) -> str:
        """Copes."""
        try:
            await ask(ctx)
        except CannotAsk:
            return "without"
        return "with"

    async def reads(ctx: Context) -> str:
        """Reads what needs."""
        return str(await ctx.aread_resource("test://needs"))

    offer(
        tools=[tool_entry(needs), tool_entry(copes), tool_entry(reads)],
        prompts=[prompt_entry(needs)],
        resources=[resource_entry(needs, "test://needs")],
    )
    undeclared: list[Rounds] = [
        call(desk, "needs"),
        call(desk, "reads"),
        Rounds(desk, "prompts/get", {"name": "needs"}),
        Rounds(desk, "resources/read", {"uri": "test://needs"}),
    ]
    for rounds in undeclared:
        rounds.capabilities = {}
        error = await rounds.go()
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": needed})
    assert await call(desk, "copes", capabilities={}).text() == "without"
    assert "inputRequests" in await call(desk, "copes", capabilities=needed).go()


@pytest.mark.requirement("MRTR-04")
@pytest.mark.parametrize("first", ["elicitation", "sampling"])
async def test_supported_question_is_asked_before_missing_capability_error(first: str, desk: Desk) -> None:
    async def mixed(ctx: Context) -> str:
        """Mixed."""
        asked = {
            "elicitation": lambda: ctx.aelicit("?", str, key="form"),
            "sampling": lambda: ctx.asample("?", max_tokens=1, key="sample"),
        }
        order = sorted(asked, key=lambda kind: kind != first)
        await asyncio.gather(*(asked[kind]() for kind in order))
        return "done"

    offer(tools=[tool_entry(mixed)])
    rounds = call(desk, "mixed", capabilities={"sampling": {}})
    await rounds.go()
    assert set(rounds.asked[0]) == {"sample"}
    assert (await rounds.go({"sample": said("x")}))["code"] == -32021


@pytest.mark.requirement("ELI-09")
async def test_url_elicitation_has_no_id_and_repeats_until_done(desk: Desk) -> None:
    done: list[bool] = []

    async def connect(ctx: Context) -> str:
        """Connect."""
        while not done:
            if not await ctx.aelicit_url("Connect", "https://a.example/connect", "e-1"):
                return "refused"
        ctx.elicitation_complete("e-1")
        return "connected"

    offer(tools=[tool_entry(connect)])
    rounds = call(desk, "connect")
    await rounds.go()
    params = {"mode": "url", "message": "Connect", "url": "https://a.example/connect"}
    assert rounds.asked[0]["elicitation-1"]["params"] == params
    await rounds.go({"elicitation-1": {"action": "accept"}})
    assert set(rounds.asked[1]) == {"elicitation-2"}
    done.append(True)
    assert await rounds.text({"elicitation-2": {"action": "accept"}}) == "connected"


async def test_duplicate_question_key_is_tool_error(desk: Desk) -> None:
    async def twice(ctx: Context) -> str:
        """Twice."""
        return f"{await ctx.aroots(key='a')}{await ctx.aroots(key='a')}"

    offer(tools=[tool_entry(twice)])
    assert (await call(desk, "twice").go({"a": {"roots": []}}))["isError"]


async def test_question_does_not_interrupt_running_effect(desk: Desk) -> None:
    effects: list[str] = []

    async def both(ctx: Context) -> str:
        """Both."""
        done, answer = await asyncio.gather(ctx.aonce("order", order), ctx.aelicit("?", str))
        return f"{done} {answer.value}"

    async def order() -> str:
        effects.append("begun")
        for _ in range(20):
            await asyncio.sleep(0)
        effects.append("ended")
        return "ordered"

    offer(tools=[tool_entry(both)])
    rounds = call(desk, "both")
    await rounds.go()
    assert effects == ["begun", "ended"]
    assert await rounds.text({"elicitation-1": accept(value="x")}) == "ordered x"
    assert effects == ["begun", "ended"]


async def test_effect_cannot_ask_and_must_return_json(desk: Desk) -> None:
    def wrong(ctx: Context, kind: str) -> str:
        """Wrong."""
        with pytest.raises((RuntimeError, TypeError)) as raised:
            ctx.once("k", lambda: ctx.elicit("?", str) if kind == "asks" else object())
        return str(raised.value)

    offer(tools=[tool_entry(wrong)])
    assert "ask before it" in await call(desk, "wrong", {"kind": "asks"}).text()
    assert "no JSON form" in await call(desk, "wrong", {"kind": "object"}).text()
