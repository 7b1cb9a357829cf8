"""Request state held by clients between rounds: bound to one request and principal, and expiring."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from mcp_app import Context
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.handlers.desk import Desk, offer
from tests.unit.handlers.rounds import Rounds, accept, call

ANSWER = {"elicitation-1": accept(value=True)}
Change = Callable[[Rounds], None]


async def asks(ctx: Context, order: int = 1, how: str = "well") -> str:
    """Asks."""
    return f"{(await ctx.aelicit('Sure?', bool)).value} {order} {how}"


async def also_asks(ctx: Context, order: int = 1, how: str = "well") -> str:
    """Also asks."""
    return await asks(ctx, order, how)


def asks_nothing(order: int = 1, how: str = "well") -> str:
    """Asks nothing."""
    return "done"


async def asks_nothing_at_once(order: int = 1, how: str = "well") -> str:
    """Asks nothing and never waits."""
    return "done"


@pytest.fixture(autouse=True)
def _offered() -> None:
    offer(
        tools=[tool_entry(each) for each in (asks, also_asks, asks_nothing, asks_nothing_at_once)],
        prompts=[prompt_entry(lambda: "x", name="still", description="Still.")],
        resources=[resource_entry(lambda: "x", "test://still", name="still")],
    )


def _as_another(rounds: Rounds) -> None:
    rounds.desk.principal = replace(rounds.desk.principal, key="somebody-else")


def _other_arguments(rounds: Rounds) -> None:
    rounds.params = {**rounds.params, "arguments": {"order": 2}}


def _named(name: str) -> Change:
    def change(rounds: Rounds) -> None:
        rounds.params = {**rounds.params, "name": name}

    return change


def _state(change: Callable[[str], Any]) -> Change:
    def changed(rounds: Rounds) -> None:
        rounds.states[-1] = change(rounds.states[-1])

    return changed


def _of_a_prompt(rounds: Rounds) -> None:
    rounds.method, rounds.params = "prompts/get", {"name": "still"}


def _of_a_resource(rounds: Rounds) -> None:
    rounds.method, rounds.params = "resources/read", {"uri": "test://still"}


REFUSED: dict[str, tuple[Change, str]] = {
    "tampered": (_state(lambda state: state + "-TAMPERED"), "changed|base64"),
    "truncated": (_state(lambda state: state[:-5]), "changed|base64"),
    "foreign principal": (_as_another, "made for"),
    "other arguments": (_other_arguments, "another request"),
    "other tool": (_named("also_asks"), "another request"),
    "tool without questions": (_named("asks_nothing"), "another request"),
    "non-waiting tool": (_named("asks_nothing_at_once"), "another request"),
    "prompt without questions": (_of_a_prompt, "another request"),
    "resource without questions": (_of_a_resource, "another request"),
    "unsealed state": (_state(lambda _: "eyJhIjoxfQ"), "no token"),
    "empty": (_state(lambda _: ""), "no token"),
    "too long": (_state(lambda state: state + "A" * 20_000), "characters"),
    "non-string": (_state(lambda _: 7), ""),
    "null": (_state(lambda _: None), ""),
}


@pytest.mark.requirement("STATE-01", "STATE-02", "STATE-06", "STATE-07")
@pytest.mark.parametrize(("change", "cause"), REFUSED.values(), ids=REFUSED)
async def test_invalid_state_gets_uniform_error(
    change: Change, cause: str, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = call(desk, "asks")
    await rounds.go()
    change(rounds)
    error = await rounds.go(ANSWER, requestState=rounds.states[-1])
    assert error == {
        "code": -32602,
        "message": "The requestState is not valid for this request: make the request again without it.",
        "data": {"reason": "invalid_request_state"},
    }
    if cause:
        (record,) = [each for each in caplog.records if each.name == "mcp.questions"]
        assert any(word in record.getMessage() for word in cause.split("|"))


async def test_unsealable_question_is_internal_error(desk: Desk) -> None:
    # Python decodes an environment variable with invalid UTF-8 to such text.
    with override_settings(SECRET_KEY=os.fsdecode(b"\xff" * 32)):
        async with asyncio.timeout(10):
            error = await call(desk, "asks").go()
    assert error["code"] == -32603
    assert error["message"].startswith("Internal error (incident ")


@pytest.mark.requirement("STATE-02")
async def test_state_expires(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = call(desk, "asks")
    await rounds.go()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 599)
    assert await rounds.text(ANSWER) == "True 1 well"
    monkeypatch.setattr(time, "time", lambda: now + 602)
    assert (await rounds.go(ANSWER))["data"] == {"reason": "invalid_request_state"}


async def test_argument_order_does_not_affect_state(desk: Desk) -> None:
    rounds = call(desk, "asks", {"order": 3, "how": "fast"})
    await rounds.go()
    rounds.params = {"arguments": {"how": "fast", "order": 3}, "name": "asks", "_meta": {"x": 1}}
    assert await rounds.text(ANSWER) == "True 3 fast"


@pytest.mark.requirement("STATE-07")
async def test_state_without_answers_repeats_questions(desk: Desk) -> None:
    rounds = call(desk, "asks")
    await rounds.go()
    await rounds.go()
    assert rounds.asked[0] == rounds.asked[1]
    assert rounds.states[0] != rounds.states[1]


@pytest.mark.requirement("STATE-04")
async def test_single_use_state_is_rejected_on_replay(desk: Desk, streams: Streams) -> None:
    sent: list[str] = []

    def pay(ctx: Context) -> str:
        """Pay."""
        code = ctx.once("code", lambda: sent.append("code") or "1234", single_use=True)
        ctx.elicit("Your code?", str)
        return f"paid with {code}"

    offer(tools=[tool_entry(pay)])
    rounds = call(desk, "pay")
    await rounds.go()
    answer = {"elicitation-1": accept(value="1234")}
    assert await rounds.text(answer) == "paid with 1234"
    other = call(Desk(streams), "pay")
    other.states = rounds.states
    for replayed in (rounds, other):
        assert (await replayed.go(answer))["data"] == {"reason": "invalid_request_state"}
    assert sent == ["code"]


async def test_reusable_state_is_accepted_twice(desk: Desk) -> None:
    rounds = call(desk, "asks")
    await rounds.go()
    assert await rounds.text(ANSWER) == await rounds.text(ANSWER)


@pytest.mark.requirement("STATE-05")
async def test_remembered_values_are_bounded_and_encrypted(desk: Desk) -> None:
    async def remembers(ctx: Context, size: int) -> str:
        """Remembers."""
        await ctx.aonce("secret", lambda: _letters(size))
        return str((await ctx.aelicit("?", str)).value)

    async def _letters(size: int) -> str:
        return "s" * size

    offer(tools=[tool_entry(remembers)])
    small = call(desk, "remembers", {"size": 8_000})
    await small.go()
    assert "ssss" not in small.states[0]
    assert (await call(desk, "remembers", {"size": 20_000}).go())["code"] == -32603
