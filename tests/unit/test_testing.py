"""The in-process client for tests of applications."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils.translation import gettext_lazy

from mcp_app import Context, CreateMessageResult, ToolError, notify_resource_updated, prompt, resource, tool
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.testing import Client, RequestError, call_tool


@pytest.fixture(autouse=True)
def _entries() -> Iterator[None]:
    with registry.isolated():
        for number in range(205):
            tool(name=f"t{number}")(lambda: "x")
        tool(question)
        tool(who)
        tool(wait)
        prompt(greet)
        resource("notes://one")(lambda: "one")
        resource("notes://{slug}", name="note")(note)
        yield


async def question(ctx: Context) -> str:
    answer = await ctx.aelicit("Your name?", str)
    text = (await ctx.asample("Hello", max_tokens=5))["content"]["text"]
    roots = await ctx.aroots()
    return f"{answer.value} {text} {roots[0]['uri']}"


def who(ctx: Context) -> str:
    return f"{ctx.user} {ctx.has_permission('app.use')} {ctx.protocol_version}"


async def wait(ctx: Context) -> str:
    ctx.info("waiting")
    await asyncio.Event().wait()
    return "never"


def greet(name: str) -> str:
    return f"Hello {name}"


def note(slug: str) -> str:
    return slug


async def test_lists_fetch_every_page() -> None:
    async with Client() as client:
        assert len(await client.list_tools()) == 208
        assert [item["name"] for item in await client.list_prompts()] == ["greet"]
        assert [item["uri"] for item in await client.list_resources()] == ["notes://one"]
        assert [item["uriTemplate"] for item in await client.list_templates()] == ["notes://{slug}"]


@pytest.mark.requirement("MRTR-13")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_server_questions_are_answered_by_values_or_functions(version: str) -> None:
    async def sampled(params: dict[str, Any]) -> str:
        return str(params["maxTokens"])

    options: dict[str, Any] = {"elicit": lambda params: {"value": params["message"]}, "sample": sampled}
    async with Client(**options, roots=["file:///home"], version=version) as client:
        result = await client.call_tool("question")
    assert result["content"][0]["text"] == "Your name? 5 file:///home"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_protocol_version_is_selectable(version: str) -> None:
    async with Client(version=version) as client:
        assert (
            client.server.get("protocolVersion", client.server.get("supportedVersions", [""])[0]) == version
        )
        assert version in (await client.call_tool("who"))["content"][0]["text"]


@pytest.mark.django_db(transaction=True)
def test_caller_is_given_user_with_permissions() -> None:
    user = User.objects.create_superuser("ada", password="x")
    assert call_tool("who", user=user)["content"][0]["text"].startswith("ada True")
    assert call_tool("who", user=user, permissions=())["content"][0]["text"].startswith("ada False")


async def test_request_error_has_code_and_data() -> None:
    async with Client() as client:
        with pytest.raises(RequestError) as caught:
            await client.read_resource("other://x")
    assert (caught.value.code, caught.value.data) == (-32002, {"uri": "other://x"})


async def test_cancelled_caller_cancels_call() -> None:
    async with Client() as client:
        call = asyncio.create_task(client.call_tool("wait"))
        async with asyncio.timeout(5):
            while not client.notifications:
                await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.get_prompt("greet", {"name": "Ada"}))["messages"][0]["content"][
            "text"
        ] == "Hello Ada"
    assert client.notifications[0][0] == "notifications/message"


async def test_catalogue_of_process_is_restored() -> None:
    before = current_snapshot.current()
    async with Client():
        assert current_snapshot.current() is not before
    assert current_snapshot.current() is before


@pytest.mark.django_db(transaction=True)
def test_stored_catalogue_is_served_on_request() -> None:
    from mcp_app.catalogue.changes import services
    from mcp_app.catalogue.changes.mirroring import mirror
    from mcp_app.models import Tool

    mirror()
    services.set_enabled(entries=[Tool.objects.get(name="who")], enabled=False, actor=None)
    assert call_tool("who")["content"]
    with pytest.raises(RequestError, match="Unknown tool: who"):
        call_tool("who", stored=True)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_unanswered_request_times_out_with_its_method(version: str) -> None:
    async with Client(version=version, timeout=0.3) as client:
        with pytest.raises(TimeoutError, match=r"tools/call was not answered within 0\.3 s"):
            await client.call_tool("wait")
        client.timeout = 60.0
        assert (await client.call_tool("t1"))["content"]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_configured_redis_is_not_contacted(version: str) -> None:
    @tool(background=True)
    def slow(ctx: Context) -> str:
        notify_resource_updated("notes://one")
        ctx.progress(1)
        return "done"

    with socket.create_server(("127.0.0.1", 0)) as redis:
        redis.setblocking(False)
        url = f"redis://127.0.0.1:{redis.getsockname()[1]}/0"
        with override_settings(MCP={**settings.MCP, "REDIS_URL": url}):
            assert call_tool("slow", version=version)["content"][0]["text"] == "done"
            assert settings.MCP["REDIS_URL"] == url
        with pytest.raises(BlockingIOError):
            redis.accept()


async def test_overlapping_clients_isolate_redis_settings() -> None:
    with override_settings(MCP={**settings.MCP, "REDIS_URL": "redis://127.0.0.1:1/0"}):
        first = await Client().__aenter__()
        async with Client():
            await first.__aexit__()
            assert settings.MCP["REDIS_URL"] == ""
        assert settings.MCP["REDIS_URL"] == "redis://127.0.0.1:1/0"


UPDATED = "notifications/resources/updated"
BOTH_ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])


@BOTH_ERAS
async def test_resource_update_reaches_subscriber(version: str) -> None:
    @tool
    def correct(uri: str) -> None:
        """Correct."""
        notify_resource_updated(uri)

    async with Client(version=version) as client:
        await client.subscribe("notes://two")
        for uri in ("notes://other", "notes://two"):
            await client.call_tool("correct", {"uri": uri})
        assert (await client.notification(UPDATED))["uri"] == "notes://two"
        notify_resource_updated("notes://two")  # Synchronous code called by async code.
        assert (await client.notification(UPDATED))["uri"] == "notes://two"


@BOTH_ERAS
@pytest.mark.django_db(transaction=True)
async def test_rolled_back_update_is_not_sent(version: str) -> None:
    @tool(atomic=True)
    def correct(slug: str, *, fails: bool) -> None:
        """Correct."""
        notify_resource_updated(f"notes://{slug}")
        if fails:
            raise ToolError("no")

    async with Client(version=version) as client:
        for slug in ("undone", "kept"):
            await client.subscribe(f"notes://{slug}")
        await client.call_tool("correct", {"slug": "undone", "fails": True})
        await client.call_tool("correct", {"slug": "kept", "fails": False})
        assert (await client.notification(UPDATED))["uri"] == "notes://kept"


@BOTH_ERAS
async def test_missing_notification_and_unknown_resource_raise_named_errors(version: str) -> None:
    async with Client(version=version, timeout=0.2) as client:
        with pytest.raises(TimeoutError, match=rf"{UPDATED} did not come within 0\.2 s"):
            await client.notification(UPDATED)
        client.timeout = 60.0
        with pytest.raises(RequestError, match="not found"):
            await client.subscribe("nowhere://x")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_all_progress_of_finished_call_is_received(version: str) -> None:
    @tool
    async def count(ctx: Context) -> str:
        """Count."""
        for number in (1, 2, 3):
            ctx.progress(number, 3)
        return "counted"

    told: list[dict[str, Any]] = []
    async with Client(version=version) as client:
        await client.call_tool("count", on_progress=told.append)
    assert [each["progress"] for each in told] == [1, 2, 3]


async def test_lazy_texts_are_translated_in_results_and_messages() -> None:
    @tool
    async def agree(ctx: Context) -> dict[str, Any]:
        """Agree."""
        ctx.progress(1, 2, gettext_lazy("Yes"))
        answer = await ctx.aelicit(gettext_lazy("No"), bool)
        return {"said": gettext_lazy("Yes"), "more": [gettext_lazy("No")], "answer": answer.value}

    told: list[dict[str, Any]] = []
    async with Client(elicit=lambda params: {"value": params["message"] == "No"}) as client:
        result = await client.call_tool("agree", on_progress=told.append)
    assert result["structuredContent"] == {"said": "Yes", "more": ["No"], "answer": True}
    assert told[0]["message"] == "Yes"


def test_sample_result_has_text_and_message_members() -> None:
    @tool
    def ask(ctx: Context) -> list[Any]:
        """Ask."""
        said = ctx.sample("Hello", max_tokens=5)
        return [said.text, said.model, said.stop_reason, said["content"] == said.blocks[0]]

    assert call_tool("ask", sample="Hi")["structuredContent"] == {"result": ["Hi", "test", "endTurn", True]}


def test_multiple_text_blocks_are_joined() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    said = CreateMessageResult(role="assistant", content=blocks, model="m")
    assert (said.text, said.stop_reason) == ("a\nb", "")
