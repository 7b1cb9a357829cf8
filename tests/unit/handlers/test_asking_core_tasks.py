"""Questions of 2025-11-25 tasks: each client waiting for the result is asked, in any session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_app import Context
from mcp_app.streams.gateway import Streams
from tests.samples.published_schema import problems
from tests.unit.catalogue.entries import tool_entry
from tests.unit.handlers.core_desk import ADA, FORM, RESULT, VERSION, CoreDesk, open_names, start
from tests.unit.handlers.desk import offer

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

RELATED = "io.modelcontextprotocol/related-task"
ASK = ("elicitation/create", {"mode": "form", "message": "Who?", "requestedSchema": FORM})
LINK = (
    "elicitation/create",
    {"mode": "url", "message": "Go", "url": "https://example.org/", "elicitationId": "e"},
)
SAMPLE = ("sampling/createMessage", {"messages": [], "maxTokens": 5})
ROOTS: tuple[str, dict[str, Any]] = ("roots/list", {})
ANSWER = {"action": "accept", "content": {"value": "Ada"}}


def work(ctx: Context) -> str:
    """Works."""
    return "done"


@pytest.fixture
async def core(streams: Streams) -> AsyncIterator[CoreDesk]:
    made = CoreDesk(streams)
    await made.enter()
    offer(tools=[tool_entry(work, background=True)])
    yield made
    await made.process.calls.close(0.01)


async def _statuses(core: CoreDesk) -> list[str]:
    return [message["params"]["status"] for message in await core.told()]


@pytest.mark.requirement("TASK4-05", "TASK4-08", "TASK4-09", "TASK4-10")
@pytest.mark.parametrize("waits_before", [True, False])
async def test_waiting_client_is_asked_once_and_last_answer_resumes_task(
    core: CoreDesk, waits_before: bool
) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "result") if waits_before else ""
    await core.work(task_id, asks={"who": ASK, "where": ROOTS})
    assert (await core.get(task_id))["status"] == "input_required"
    stream = stream or await core.wait(task_id, "result")
    # The client returns for the rest: no question is sent twice.
    assert await core.process.background.complete(core.session.id, stream)
    asked = await core.told(stream)
    assert [message["method"] for message in asked] == ["elicitation/create", "roots/list"]
    assert [message["params"]["_meta"] for message in asked] == [{RELATED: {"taskId": task_id}}] * 2
    assert problems(VERSION, "ElicitRequest", asked[0]) == []

    await core.respond(asked[0], result=ANSWER)
    await core.respond(asked[0], result={"action": "decline"})
    assert (await core.get(task_id))["status"] == "input_required"
    await core.respond(asked[1], result={"roots": []})
    assert (await core.get(task_id))["status"] == "working"
    call = await start(task_id)
    assert call.inputs is not None
    assert call.inputs["responses"] == {"who": ANSWER, "where": {"roots": []}}
    assert await _statuses(core) == ["input_required", "input_required", "working"]


async def test_repeated_question_has_a_new_id(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "result")
    for number in range(2):
        await core.work(task_id, asks={"who": ASK})
        asked = await core.told(stream)
        assert len(asked) == number + 1
        await core.respond(asked[number], result=ANSWER)
    assert asked[0]["id"] != asked[1]["id"]
    await core.end(task_id)
    assert (await core.told(stream))[-1]["result"]["content"] == RESULT["content"]


@pytest.mark.requirement("TASK4-05", "CAN-08")
async def test_first_of_two_answers_counts_and_other_question_is_cancelled(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    waits = [await core.wait(task_id, number) for number in (100, 101)]
    await core.work(task_id, asks={"who": ASK})
    questions = [(await core.told(stream))[0] for stream in waits]
    await core.respond(questions[1], result=ANSWER)
    await core.respond(questions[0], result={"action": "decline"})
    withdrawn = (await core.told(waits[0]))[1]
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == questions[0]["id"]
    assert len(await core.told(waits[1])) == 1
    call = await start(task_id)
    assert call.inputs is not None
    assert call.inputs["responses"] == {"who": ANSWER}


@pytest.mark.requirement("TASK4-14", "ELI-02")
async def test_session_is_asked_only_declared_capabilities(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    await core.work(task_id, asks={"a": ASK, "b": LINK, "c": SAMPLE, "d": ROOTS})
    asked = {}
    for name, capabilities in {
        "nothing": {},
        "forms": {"elicitation": {}},
        "links": {"elicitation": {"url": {}}},
        "more": {"sampling": {}, "roots": {}},
    }.items():
        await core.enter(ADA, capabilities)
        asked[name] = len(await core.told(await core.wait(task_id, name)))
    assert asked == {"nothing": 0, "forms": 1, "links": 1, "more": 2}
    over = core.session
    stream = await core.wait(task_id, "another")
    await core.process.dispatcher.end_session(over, "ended")
    await core.enter()
    assert len(await core.told(await core.wait(task_id, "last"))) == 4
    assert await core.told(stream, over) == []


async def test_error_response_is_passed_to_tool_as_answer(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "result")
    await core.work(task_id, asks={"c": SAMPLE})
    (asked,) = await core.told(stream)
    await core.respond(asked, error={"code": -1, "message": "no"})
    call = await start(task_id)
    assert call.inputs is not None
    assert call.inputs["responses"] == {"c": {"error": {"code": -1, "message": "no"}}}


@pytest.mark.requirement("TASK4-12")
async def test_answer_from_another_session_is_ignored(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "result")
    await core.work(task_id, asks={"who": ASK})
    (asked,) = await core.told(stream)
    await core.enter()
    for question in (asked, {"id": f"{stream}.what"}, {"id": "wait-x.who"}, {"id": f"{stream}"}):
        await core.respond(question, result=ANSWER)
    assert await open_names(task_id) == ["who"]


@pytest.mark.requirement("TASK4-07", "TASK4-08")
async def test_task_with_open_question_is_cancelled(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "result")
    await core.work(task_id, asks={"who": ASK})
    assert (await core.say("tasks/cancel", taskId=task_id))["result"]["status"] == "cancelled"
    asked, answer = await core.told(stream)
    assert answer["error"]["code"] == -32800
    await core.respond(asked, result=ANSWER)
    assert (await core.get(task_id))["status"] == "cancelled"
    assert await _statuses(core) == ["input_required", "cancelled"]
