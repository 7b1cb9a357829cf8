"""Questions of application code to its caller: refusals, validation of answers, context properties."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from pydantic import BaseModel, field_validator

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.execution.calls.call import Cancelled, RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.foreign_code import Escaped
from mcp_app.protocol.errors import ResourceNotFound
from mcp_app.protocol.messages.jsonrpc import Response
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import resource_entry
from tests.unit.execution.stage import DONE, Stage, begun, in_thread, never, result, session_with
from tests.unit.handlers.desk import offer

Ask = Callable[[Context], Awaitable[Any]]
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SELECT = {"type": "string", "enum": ["a", "b"]}


def form_of(member: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"m": member}}


async def outcome(stage: Stage, ask: Ask, reply: dict[str, Any] | None) -> Any:
    """Return what asking returned or raised when the client replies with ``reply``."""
    found: list[Any] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        try:
            found.append(await ask(context))
        except Exception as error:  # noqa: BLE001 - judged by the test
            found.append(error)
        return result()

    call = stage.start(work)
    if reply is not None:
        await stage.answer(call, reply)
    else:
        await stage.said(call)
    async with asyncio.timeout(5):
        while not call.outcome:
            await asyncio.sleep(0)
    return found[0]


ASKING: dict[str, tuple[str, Ask]] = {
    "form": ("elicitation form", lambda context: context.aelicit("?", FORM)),
    "url": ("elicitation url", lambda context: context.aelicit_url("?", "https://a.example/", "e-1")),
    "sampling": ("sampling", lambda context: context.asample("?", max_tokens=5)),
    "roots": ("roots", lambda context: context.aroots()),
}


@pytest.mark.requirement("CAP-02")
@pytest.mark.parametrize(("capability", "ask"), ASKING.values(), ids=ASKING)
async def test_undeclared_capability_raises_tool_error(capability: str, ask: Ask, streams: Streams) -> None:
    stage = Stage(streams, session_with(capabilities={}))
    error = await outcome(stage, ask, None)
    assert isinstance(error, ToolError)
    assert "did not declare" in str(error)
    assert capability in str(error)
    assert not stage.streams.requests._requests  # type: ignore[attr-defined]


@pytest.mark.requirement("CAP-02")
@pytest.mark.parametrize(
    ("version", "capabilities", "ask", "words"),
    [
        ("2025-03-26", {"elicitation": {}}, ASKING["form"][1], "did not declare"),
        ("2025-06-18", {"elicitation": {}}, ASKING["url"][1], "did not declare"),
        (
            "2025-06-18",
            {"elicitation": {}},
            lambda context: context.aelicit("?", form_of({"type": "array", "items": SELECT})),
            "choice of several values",
        ),
        (
            "2025-11-25",
            {"sampling": {}},
            lambda context: context.asample(
                "?", max_tokens=5, tools=[{"name": "t", "inputSchema": {"type": "object"}}]
            ),
            "sampling tools",
        ),
    ],
)
async def test_question_unsupported_by_revision_raises_tool_error(
    version: str, capabilities: dict[str, Any], ask: Ask, words: str, streams: Streams
) -> None:
    error = await outcome(Stage(streams, session_with(capabilities, version)), ask, None)
    assert isinstance(error, ToolError)
    assert words in str(error)


@pytest.mark.parametrize(
    "ask",
    [
        lambda context: context.aelicit("?", form_of({"type": "object"})),
        lambda context: context.aelicit("?", form_of({"type": "string", "title": "Password"})),
        lambda context: context.aelicit("?", list[str]),
        lambda context: context.aelicit_url("?", "javascript:alert(1)", "e-1"),
        lambda context: context.aelicit_url("?", "http://a.example/", "e-1"),
        lambda context: context.asample("?", max_tokens=0),
    ],
)
async def test_invalid_question_raises_before_sending(ask: Ask, stage: Stage) -> None:
    assert isinstance(await outcome(stage, ask, None), ValueError)
    assert not stage.streams.requests._requests  # type: ignore[attr-defined]


@pytest.mark.requirement("ELI-05")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({}, "no valid action"),
        ({"action": "yes"}, "no valid action"),
        ({"action": ["accept"]}, "no valid action"),
        ({"action": "accept"}, "without any content"),
        ({"action": "accept", "content": [1]}, "without any content"),
        ({"action": "accept", "content": {}}, "'n' is missing"),
        ({"action": "accept", "content": {"n": "1"}}, "'n' must be a number"),
        ({"action": "accept", "content": {"n": 1.5}}, "'n' must be a whole number"),
    ],
)
async def test_answer_violating_form_raises_tool_error(
    reply: dict[str, Any], words: str, stage: Stage
) -> None:
    error = await outcome(stage, ASKING["form"][1], reply)
    assert isinstance(error, ToolError)
    assert words in str(error)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_answer_is_falsy_and_empty(action: str, stage: Stage) -> None:
    answer = await outcome(stage, ASKING["form"][1], {"action": action, "content": {"n": 1}})
    assert (answer.action, answer.content, bool(answer)) == (action, {}, False)


async def test_accepted_form_returns_content_and_typed_value(stage: Stage) -> None:
    answer = await outcome(stage, ASKING["form"][1], {"action": "accept", "content": {"n": 1, "extra": 2}})
    assert (answer.content["n"], bool(answer)) == (1, True)
    typed = await outcome(
        stage, lambda context: context.aelicit("?", bool), {"action": "accept", "content": {"value": False}}
    )
    assert (typed.value, bool(typed)) == (False, False)


async def test_question_without_form_is_confirmation(stage: Stage) -> None:
    answer = await outcome(stage, lambda context: context.aelicit("?"), {"action": "accept", "content": {}})
    assert bool(answer)


async def test_url_answer_has_no_content(stage: Stage) -> None:
    answer = await outcome(stage, ASKING["url"][1], {"action": "accept", "content": {"n": 1}})
    assert (answer.content, bool(answer)) == ({}, True)


async def test_malformed_sample_raises_tool_error(stage: Stage) -> None:
    assert isinstance(await outcome(stage, ASKING["sampling"][1], {"role": "assistant"}), ToolError)


async def test_sample_is_returned_unchanged(stage: Stage) -> None:
    sampled = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
    found = await outcome(stage, ASKING["sampling"][1], sampled)
    assert found["content"] == {"type": "text", "text": "42"}


@pytest.mark.requirement("ROOT-04")
@pytest.mark.parametrize(
    ("reply", "uris"),
    [
        ({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "B"}]}, ["file:///a", "file:///b"]),
        ({"roots": [{"uri": "http://a/"}, {"uri": "file:///a/../b"}, {"uri": 1}, "x", None, {}]}, []),
        ({"roots": "file:///a"}, []),
        ({}, []),
    ],
)
async def test_roots_other_than_file_uris_are_dropped(
    reply: dict[str, Any], uris: list[str], stage: Stage
) -> None:
    found = await outcome(stage, ASKING["roots"][1], reply)
    assert [root["uri"] for root in found] == uris


async def test_client_error_is_quoted_and_truncated(stage: Stage) -> None:
    found: list[Exception] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        try:
            await context.aroots()
        except ToolError as error:
            found.append(error)
        return result()

    call = stage.start(work)
    question = await stage.question(call)
    refusal = {"code": -32601, "message": "no " * 500}
    assert await stage.requests.answer(stage.session, Response(question["id"], None, refusal))
    while not call.outcome:
        await asyncio.sleep(0)
    assert str(found[0]).startswith("The client refused roots/list: no no")
    assert str(found[0]).endswith("(-32601).")
    assert len(str(found[0])) < 300


async def test_unanswered_question_raises_tool_error(streams: Streams) -> None:
    stage = Stage(streams, client_request_seconds=0.0)
    error = await outcome(stage, ASKING["roots"][1], None)
    assert isinstance(error, ToolError)
    assert "did not answer" in str(error)


SYNCHRONOUS: dict[str, tuple[Callable[[Context], Any], dict[str, Any], str]] = {
    "elicit": (lambda c: c.elicit("?", int).value, {"action": "accept", "content": {"value": 7}}, "7"),
    "elicit_url": (
        lambda c: c.elicit_url("?", "https://a.example/", "e").action,
        {"action": "decline"},
        "decline",
    ),
    "sample": (
        lambda c: c.sample("?", max_tokens=5)["model"],
        {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
        "m",
    ),
    "roots": (lambda c: len(c.roots()), {"roots": [{"uri": "file:///a"}]}, "1"),
}


@pytest.mark.parametrize(("ask", "reply", "expected"), SYNCHRONOUS.values(), ids=SYNCHRONOUS)
async def test_sync_question_methods_return_answers(
    ask: Callable[[Context], Any], reply: dict[str, Any], expected: str, stage: Stage
) -> None:
    call = stage.start(in_thread(ask))
    await stage.answer(call, reply)
    assert (await stage.said(call))[-1]["result"] == result(expected)


class Interrupting(BaseModel):
    """A form whose validator raises an exception that would end the process."""

    n: int

    @field_validator("n")
    @classmethod
    def check(cls, value: int) -> int:
        """Fail."""
        raise SystemExit(value)


QUESTIONS: dict[str, Callable[[Context], Awaitable[object]]] = {
    "async": lambda context: context.aelicit("?", Interrupting),
    "synchronous": lambda context: asyncio.to_thread(context.elicit, "?", Interrupting),
    "synchronous, together": lambda context: asyncio.to_thread(
        context.gather, context.aelicit("?", Interrupting)
    ),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
async def test_exception_in_form_validator_stays_in_its_call(
    ask: Callable[[Context], Awaitable[object]], stage: Stage
) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        with pytest.raises(Escaped):
            await ask(context)
        return result()

    call = stage.start(work)
    await stage.answer(call, {"action": "accept", "content": {"n": 1}})
    assert (await stage.said(call))[-1] == DONE


async def test_resources_are_read_with_permissions_of_caller(stage: Stage) -> None:
    def open_to_all() -> str:
        """Open to all."""
        return "read"

    def secret() -> str:
        """Not for everybody."""
        return "secret"

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        read = {"contents": [{"uri": "a://1", "mimeType": "text/plain", "text": "read"}]}
        assert await context.aread_resource("a://1") == read
        assert await asyncio.to_thread(context.read_resource, "a://1") == read
        with pytest.raises(ResourceNotFound):
            await context.aread_resource("a://2")
        return result()

    before = current_snapshot.current()
    entries = [resource_entry(open_to_all, "a://1"), resource_entry(secret, "a://2", 2, permission="app.see")]
    offer(resources=entries)
    try:
        assert await stage.said(stage.start(work)) == [DONE]
    finally:
        current_snapshot.replace(before)


async def test_track_reports_progress_before_each_item_and_at_end(stage: Stage) -> None:
    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        assert [item async for item in context.atrack("ab", "item {}")] == ["a", "b"]
        return result()

    said = await stage.said(stage.start(work))
    assert [message["params"] for message in said[:-1]] == [
        {"progressToken": "t", "progress": 0, "total": 2.0, "message": "item 1"},
        {"progressToken": "t", "progress": 1, "total": 2.0, "message": "item 2"},
        {"progressToken": "t", "progress": 2.0, "total": 2.0},
    ]


async def test_track_works_without_length_and_stops_on_cancel(stage: Stage) -> None:
    done: list[int] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        for number in context.track(iter(range(100))):
            done.append(number)
            if number == 2:
                call.cancel("")
        raise AssertionError

    call = stage.start(work)
    said = await stage.said(call)
    assert (done, said[-1]["error"]["code"]) == ([0, 1, 2], -32800)
    assert "total" not in said[0]["params"]


async def test_context_exposes_cancellation(stage: Stage) -> None:
    contexts: list[Context] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        contexts.append(context)
        context.raise_if_cancelled()
        return await never(call, context)

    call = stage.start(work)
    await begun(call)
    assert not contexts[0].cancelled
    call.cancel("")
    assert contexts[0].cancelled
    with pytest.raises(Cancelled):
        contexts[0].raise_if_cancelled()
    await stage.said(call)


async def test_context_exposes_principal_client_and_permissions(stage: Stage) -> None:
    principal = Principal(key="k", name="ada", permissions=frozenset({"app.may"}))
    contexts: list[Context] = []

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        contexts.append(context)
        return result()

    await stage.said(stage.start(work, principal=principal, request_id="r"))
    (context,) = contexts
    assert (context.request_id, context.protocol_version) == ("r", "2025-11-25")
    assert context.session_id == stage.session.id
    assert (context.client.name, context.client.version) == ("tests", "1")
    assert context.client.can("sampling")
    assert not context.client.can("sampling_tools")
    assert not context.client.can("anything else")
    assert (context.has_permission("app.may"), context.has_permission("app.other")) == (True, False)
    assert isinstance(context.user, AnonymousUser)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
async def test_context_user_is_django_user_of_credential(stage: Stage) -> None:
    user = await get_user_model().objects.acreate(username="ada")
    principal = Principal(key="k", name="ada", permissions=frozenset(), user_id=user.pk)

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        assert await context.auser() == user
        return result()

    assert await stage.said(stage.start(work, principal=principal)) == [DONE]
