"""Questions of a scripted server of the legacy era: their ends, their limits, and what cannot be shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_app.catalogue.sources.upstream import conversation
from mcp_app.catalogue.upstreams import following, importing, storing
from mcp_app.database.queries import aquery
from mcp_app.execution.questions.relayed import form_of, relayed
from mcp_app.models import Draft, Upstream
from mcp_app.protocol.versions import V2025_11_25, V2026_07_28
from mcp_app.testing import Client
from mcp_app.testing.answers import Answers, RequestError
from mcp_app.upstreams import open_calls, sessions, tasks
from tests.servers.asking_server import TOOL, Asker
from tests.servers.task_server import QUESTION, TaskServer
from tests.servers.upstream_state import forget_upstreams
from tests.unit.egress.sites import serve_kept

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    yield
    forget_upstreams()
    assert not open_calls._parked


@asynccontextmanager
async def serve(asker: Asker, **values: Any) -> AsyncIterator[None]:
    """Serve the tool ``other_ask``."""
    async with serve_kept(asker) as site:
        await aquery(lambda: _add(f"http://127.0.0.1:{site.port}/mcp", values))
        yield


def _add(url: str, values: dict[str, Any]) -> None:
    row = storing.save_upstream(actor=None, name="other", url=url, **{"era": "legacy", **values})
    Upstream.objects.filter(pk=row.pk).update(listed=storing.packed({"tools": [TOOL]}))
    row.refresh_from_db()
    assert importing.import_items(upstream=row, keys=["ask"], actor=None, publish=True).published


async def called(**options: Any) -> str:
    async with Client(stored=True, **options) as ours:
        return str((await ours.call_tool("other_ask"))["content"][0]["text"])


def waiting() -> tuple[Any, asyncio.Event]:
    """Return a user who never answers, and the event that is set when the user is asked."""
    asked = asyncio.Event()

    async def answer(_params: dict[str, Any]) -> None:
        asked.set()
        await asyncio.Event().wait()

    return answer, asked


def test_answer_reaches_the_server_and_time_stops_meanwhile() -> None:
    async def run() -> None:
        asker = Asker()

        async def slow(_params: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(1.2)
            return {"name": "Ada"}

        async with serve(asker, timeout_seconds=1):
            call = asyncio.create_task(called(elicit=slow))
            answer = await asker.answers.get()
            assert answer["result"] == {"action": "accept", "content": {"name": "Ada"}}
            asker.finish("Hello")
            assert await call == "Hello"
        assert asker.capabilities == {"elicitation": {"form": {}, "url": {}}}

    asyncio.run(run())


def test_cancelled_call_with_a_question_is_cancelled_at_the_server() -> None:
    async def run() -> None:
        asker, (answer, asked) = Asker(), waiting()
        async with serve(asker), Client(stored=True, elicit=answer) as ours:
            call = asyncio.create_task(ours.call_tool("other_ask"))
            await asked.wait()
            call.cancel()
            assert await asker.cancelled.get() == asker.call

    asyncio.run(run())


@pytest.mark.requirement("INT-71")
def test_question_that_nobody_answers_is_cancelled_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_calls, "QUESTION_SECONDS", 0.1)

    async def run() -> None:
        asker = Asker()
        async with serve(asker), Client(stored=True, version=V2026_07_28, elicit={}) as ours:
            result = await ours._exchange("tools/call", {"name": "other_ask", "arguments": {}}, None)
            assert result["resultType"] == "input_required"
            assert await asker.cancelled.get() == asker.call
            again = {"name": "other_ask", "arguments": {}, "requestState": result["requestState"]}
            again["inputResponses"] = {key: {"action": "decline"} for key in result["inputRequests"]}
            late = await ours._exchange("tools/call", again, None)
            assert "no longer waits" in late["content"][0]["text"]

    asyncio.run(run())


@pytest.mark.requirement("INT-71")
def test_large_question_ends_the_call() -> None:
    async def run() -> str:
        asker = Asker(message="x" * conversation.MAX_QUESTION_BYTES)
        async with serve(asker):
            text = await called(elicit={})
            assert await asker.cancelled.get() == asker.call
            return text

    assert "more than 256 KiB" in asyncio.run(run())


@pytest.mark.requirement("INT-71")
@pytest.mark.parametrize("isolation", ["session", "shared"])
def test_caller_keeps_few_calls_waiting(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_calls, "MAX_PARKED_OF_CALLER", 1)

    async def run() -> None:
        asker = Asker()
        async with (
            serve(asker, isolation=isolation),
            Client(stored=True, version=V2026_07_28, elicit={}) as ours,
        ):
            await ours._exchange("tools/call", {"name": "other_ask", "arguments": {}}, None)
            await ours._exchange("tools/call", {"name": "other_ask", "arguments": {}}, None)
            assert await asker.cancelled.get() == asker.call
            assert len(open_calls._parked) == 1
            for call, serving in [*open_calls._parked.values()]:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
                assert call.is_here
                # Users who share a session share no places.
                assert call.caller == "test"

    asyncio.run(run())


@pytest.mark.requirement("INT-75")
def test_session_ends_with_the_session_of_its_client() -> None:
    async def run() -> None:
        asker = Asker()
        async with serve(asker):
            async with Client(stored=True, elicit={}) as ours:
                call = asyncio.create_task(ours.call_tool("other_ask"))
                await asker.answers.get()
                asker.finish("")
                await call
            assert await asker.deleted.get() == "1"
        assert sessions._kept == {}

    asyncio.run(run())


@pytest.mark.requirement("INT-66")
def test_reported_change_of_a_list_becomes_a_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "SETTLE_SECONDS", 0.0)

    async def run() -> None:
        asker = Asker()
        async with serve(asker), Client(stored=True, elicit={}) as ours:
            call = asyncio.create_task(ours.call_tool("other_ask"))
            await asker.answers.get()
            asker.tool = {**TOOL, "description": "Ask again."}
            for _ in range(3):
                asker.send(method="notifications/tools/list_changed")
            asker.finish("")
            await call
            await asyncio.gather(*following._reading)

    asyncio.run(run())
    (draft,) = Draft.objects.filter(kind="tool")
    assert draft.values["description"] == "Ask again."


@pytest.mark.requirement("INT-65")
def test_state_and_ids_belong_to_one_caller_and_server(django_user_model: Any) -> None:
    users = [django_user_model.objects.create_user(name) for name in ("ada", "bob")]

    async def run() -> None:
        asker, answers = Asker(mode="url", url="https://example.com/", elicitationId="7"), {"elicit": {}}
        async with serve(asker), Client(stored=True, user=users[0], version=V2026_07_28, **answers) as ada:
            result = await ada._exchange("tools/call", {"name": "other_ask", "arguments": {}}, None)
            again = {"name": "other_ask", "arguments": {}, "requestState": result["requestState"]}
            again["inputResponses"] = {key: {"action": "accept"} for key in result["inputRequests"]}
            async with Client(stored=True, user=users[1], version=V2026_07_28, **answers) as bob:
                with pytest.raises(RequestError):
                    await bob._exchange("tools/call", again, None)
            assert asker.answers.empty()
            call = asyncio.create_task(ada._exchange("tools/call", again, None))
            assert (await asker.answers.get())["result"] == {"action": "accept"}
            asker.finish("Allowed")
            assert (await call)["content"][0]["text"] == "Allowed"

    asyncio.run(run())


@pytest.mark.requirement("INT-64")
@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"message": None}, -32602),
        ({"requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}}}, -32602),
        ({"requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}}}, -32602),
        ({"requestedSchema": "x"}, -32602),
        ({"mode": "url", "url": "javascript:alert(1)", "elicitationId": "1"}, -32602),
        ({"mode": "url", "url": "https://u:p@example.com/", "elicitationId": "1"}, -32602),
    ],
)
def test_question_that_cannot_be_shown_is_refused(params: dict[str, Any], code: int) -> None:
    async def run() -> None:
        asker = Asker(**params)
        async with serve(asker):
            call = asyncio.create_task(called(elicit={}))
            answer = await asker.answers.get()
            assert answer["error"]["code"] == code
            asker.finish("")
            await call

    asyncio.run(run())


@pytest.mark.requirement("INT-64")
def test_sampling_gets_no_context_of_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the client, this server and all servers behind it are one."""
    monkeypatch.setattr(Answers, "capabilities", lambda _: {"sampling": {"context": {}}})
    seen: list[dict[str, Any]] = []

    def think(params: dict[str, Any]) -> str:
        seen.append(params)
        return "Hm."

    async def run() -> None:
        asker = Asker()
        message = {"role": "user", "content": {"type": "text", "text": "Why?"}}
        asker.method = "sampling/createMessage"
        asker.params = {"messages": [message], "maxTokens": 9, "includeContext": "allServers"}
        async with serve(asker, sampling=True):
            call = asyncio.create_task(called(sample=think))
            assert "result" in await asker.answers.get()
            asker.finish("")
            await call
        assert asker.capabilities == {"sampling": {}}
        assert "includeContext" not in seen[0]

    asyncio.run(run())


@pytest.mark.parametrize("switch", ["", "sampling", "roots"])
def test_switched_off_question_is_neither_declared_nor_relayed(switch: str) -> None:
    async def run() -> None:
        asker = Asker()
        asker.method, asker.params = "roots/list", {}
        async with serve(asker, **({switch: True} if switch else {})):
            call = asyncio.create_task(called(sample="x", roots=["file:///a"]))
            answer = await asker.answers.get()
            assert ("result" in answer) == (switch == "roots")
            asker.finish("")
            await call
        assert asker.capabilities == ({switch: {}} if switch else {})

    asyncio.run(run())


def test_generated_forms_lose_unknown_keywords() -> None:
    schema = {
        "title": "Person", "type": "object", "additionalProperties": False, "required": ["age"],
        "properties": {
            "age": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
            "name": {"type": "string", "pattern": "x", "minLength": "1"},
            "kind": {"const": "a"},
        },
    }  # fmt: skip
    assert form_of(schema) == {
        "type": "object",
        "required": ["age"],
        "properties": {"age": {"type": "integer"}, "name": {"type": "string"}, "kind": CHOICE},
    }


CHOICE = {"type": "string", "enum": ["a"]}
HOSTILE: list[tuple[str, Any]] = [
    ("elicitation/create", {}),
    ("elicitation/create", {"message": "x", "requestedSchema": {"properties": {"a": 1}}}),
    ("elicitation/create", {"message": "x", "mode": "url"}),
    ("sampling/createMessage", {"messages": "x", "maxTokens": 1}),
    ("sampling/createMessage", {"messages": [{"role": "user"}], "maxTokens": 1}),
    ("sampling/createMessage", {"messages": [], "maxTokens": "1"}),
    ("resources/read", {}),
]


@pytest.mark.parametrize(("method", "params"), HOSTILE)
def test_unreadable_question_is_a_value_error(method: str, params: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        relayed(method, params)


@pytest.mark.requirement("INT-63")
@pytest.mark.parametrize("ours", [V2025_11_25, V2026_07_28])
def test_task_of_a_modern_server_asks_the_client(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "FIRST_SECONDS", 0.01)
    server = TaskServer(V2026_07_28)
    server.states = [{"status": "input_required", "inputRequests": {"q": QUESTION}}, {"status": "completed"}]

    async def run() -> str:
        async with serve_kept(server) as site:
            await aquery(lambda: _add(f"http://127.0.0.1:{site.port}/mcp", {"era": "modern"}))
            return await called(version=ours, elicit={"name": "Ada"})

    assert asyncio.run(run()) == "done"
    assert server.answers == {"q": {"action": "accept", "content": {"name": "Ada"}}}
    assert server.methods.count("tasks/update") == 1


@pytest.mark.requirement("INT-63")
def test_cancel_reaches_a_modern_task_that_asks_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "FIRST_SECONDS", 0.01)
    server = TaskServer(V2026_07_28)
    server.states = [{"status": "input_required", "inputRequests": {"q": QUESTION}}]
    answer, asked = waiting()

    async def run() -> None:
        async with serve_kept(server) as site:
            await aquery(lambda: _add(f"http://127.0.0.1:{site.port}/mcp", {"era": "modern"}))
            async with Client(stored=True, elicit=answer) as ours:
                call = asyncio.create_task(ours.call_tool("other_ask"))
                await asked.wait()
                call.cancel()
                assert await asyncio.to_thread(server.cancelled.wait, 10)

    asyncio.run(run())
