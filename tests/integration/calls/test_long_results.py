"""Results above their tool's bound with real processes: cut, stored, and read page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_app.execution.long_results.shortening import META
from tests.clients.raw_http import Mcp
from tests.integration.calls.conftest import Installation, unexplained
from tests.integration.calls.test_tasks import DECLARED, TaskClient
from tests.ledger_app.mcp import long_text

pytestmark = pytest.mark.process

BOUND = 10_000 * 4
LINES = 52_000
TOOLS = ("report", "report_with_context", "report_from_thread", "report_in_background")
KEYS = """
import json
from django.contrib.auth.models import User
from mcp_app.auth.api_keys import issue_api_key
users = [User.objects.create_user(name) for name in ("reader", "other")]
named = {"reader": users[0], "second": users[0], "other": users[1]}
print(json.dumps({name: issue_api_key(user=user, name=name)[1] for name, user in named.items()}))
"""
STORED = """
from mcp_app.models import ResultPage, StoredResult
print(StoredResult.objects.count(), ResultPage.objects.count())
"""
EXPIRE = """
from mcp_app.database import clock
from mcp_app.models import StoredResult
print(StoredResult.objects.update(expires_at=clock.now(-1)))
"""
PURGE = "from mcp_app.execution.long_results.storage import purge; print(purge())"


@pytest.fixture(scope="module")
def server() -> Iterator[Installation]:
    """Start two web processes that require authentication, and a worker."""
    with Installation(
        2, settings="tests.ledger_app.settings", env={"MCP_AUTH": "required"}, worker=True, concurrency=1
    ) as server:
        assert isinstance(server, Installation)
        yield server
        assert not unexplained(server), server.logs()[-4000:]


@pytest.fixture(scope="module")
def keys(server: Installation) -> dict[str, str]:
    found: dict[str, str] = json.loads(server.shell(KEYS).splitlines()[-1])
    return found


def call(client: Mcp, tool: str, lines: int = LINES) -> dict[str, Any]:
    found: dict[str, Any] = client.call("tools/call", {"name": tool, "arguments": {"lines": lines}})["result"]
    return found


def read(server: Installation, process: int, token: str, uri: str) -> dict[str, Any]:
    """Read a resource in a new session."""
    with closing(server.mcp(process, token)) as client:
        client.initialize()
        answer: dict[str, Any] = client.call("resources/read", {"uri": uri})
        client.delete()
    return answer


@pytest.mark.requirement("TOOL-26")
@pytest.mark.parametrize(
    ("tool", "mode"),
    [
        ("report", "legacy"),
        ("report_with_context", "legacy"),
        ("report_with_context", "auto"),
        ("report_from_thread", "auto"),
        ("report_in_background", "auto"),
    ],
)
async def test_official_client_reads_a_long_result_page_by_page(
    server: Installation, keys: dict[str, str], tool: str, mode: str
) -> None:
    whole = long_text(LINES)
    headers = {"Authorization": f"Bearer {keys['reader']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        result: Any = await client.call_tool(tool, {"lines": LINES})
        part, words, link = result.content
        assert not result.is_error
        assert len((part.text + words.text).encode()) <= BOUND
        assert whole.startswith(part.text)
        assert f"of {LINES:,}" in words.text
        assert link.uri in words.text
        assert link.size == len(whole.encode()) > 5_000_000
        uri, read = link.uri, []
        while uri:
            page: Any = (await client.read_resource(uri)).contents
            assert sum(len(each.text.encode()) for each in page) <= BOUND
            read.append(page[0].text)
            uri = page[0].meta[META]["next"]
    assert "".join(read) == whole
    assert len(read) == result.meta[META]["pages"]


@pytest.mark.requirement("TOOL-27")
def test_long_result_is_readable_after_its_session_and_by_its_caller_alone(
    server: Installation, keys: dict[str, str]
) -> None:
    with closing(server.mcp(0, keys["reader"])) as client:
        client.initialize()
        uri = call(client, "report_in_background")["content"][-1]["uri"]
        client.delete()
    page = read(server, 1, keys["reader"], uri)["result"]["contents"][0]
    assert long_text(LINES).startswith(page["text"])
    number = page["_meta"][META]["pages"]
    assert long_text(LINES).endswith(
        read(server, 0, keys["reader"], f"{uri}/{number}")["result"]["contents"][0]["text"]
    )
    denied = [
        (keys["other"], uri),
        (keys["second"], uri),
        (keys["reader"], f"{uri}/{number + 1}"),
        (keys["reader"], f"{uri}/0"),
        (keys["reader"], f"{uri}0"),
        (keys["reader"], "result://" + "0" * 32),
        (keys["reader"], "result://"),
    ]
    errors = [read(server, 1, key, address)["error"] for key, address in denied]
    for error, (_, address) in zip(errors, denied, strict=True):
        assert error == {"code": -32002, "message": "Resource not found", "data": {"uri": address}}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_revision_without_links_gets_the_address_in_words(
    server: Installation, keys: dict[str, str], version: str
) -> None:
    with closing(server.mcp(0, keys["reader"])) as client:
        client.initialize(version)
        content = call(client, "report")["content"]
        assert {each["type"] for each in content} == {"text"}
        assert content[1]["text"].count("result://") == 1
        uri = next(word for word in content[1]["text"].split() if word.startswith("result://"))
        page = client.call("resources/read", {"uri": uri})["result"]["contents"]
        assert page[1]["text"].startswith("Page 1 of ")
        client.delete()


def test_task_of_2026_07_28_ends_with_a_cut_result(server: Installation, keys: dict[str, str]) -> None:
    token = keys["reader"]
    with closing(TaskClient.at(server.ports[0], token=token, capabilities=DECLARED)) as client:
        task = client.start("report_in_background", lines=LINES)
        uri = client.settled(task["taskId"])["result"]["content"][-1]["uri"]
    with closing(TaskClient.at(server.ports[1], token=token)) as client:
        contents = client.post("resources/read", {"uri": uri}).json()["result"]["contents"]
    assert long_text(LINES).startswith(contents[0]["text"])


def test_result_within_its_bound_is_not_stored(server: Installation, keys: dict[str, str]) -> None:
    before = server.shell(STORED)
    with closing(server.mcp(0, keys["reader"])) as client:
        client.initialize()
        for tool in TOOLS:
            assert call(client, tool, 100)["content"] == [{"type": "text", "text": long_text(100)}]
        client.delete()
    assert server.shell(STORED) == before


def test_expired_result_is_not_found_and_deleted(server: Installation, keys: dict[str, str]) -> None:
    with closing(server.mcp(0, keys["other"])) as client:
        client.initialize()
        uri = call(client, "report_from_thread")["content"][-1]["uri"]
        client.delete()
    server.shell(EXPIRE)
    assert read(server, 0, keys["other"], uri)["error"]["code"] == -32002
    server.shell(PURGE)
    assert server.shell(STORED).split() == ["0", "0"]
