"""One session used alternately through two processes (SES-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
Exchange = tuple[str, dict[str, Any], Callable[[dict[str, Any]], object]]


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


REFERENCE = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
TYPED = {"name": "arg1", "value": "test"}

# Every client request: method, params, and a check of the result.
EXCHANGES: tuple[Exchange, ...] = (
    ("ping", {}, lambda result: result == {}),
    ("tools/list", {}, lambda result: any(tool["name"] == "steps" for tool in result["tools"])),
    ("tools/call", {"name": "test_simple_text"}, lambda result: "simple text" in text_of(result)),
    ("tools/call", {"name": "steps", "arguments": {"count": 2}}, lambda result: text_of(result) == "done"),
    ("tools/call", {"name": "test_error_handling"}, lambda result: result["isError"]),
    ("prompts/list", {}, lambda result: result["prompts"]),
    ("prompts/get", {"name": "test_simple_prompt"}, lambda result: result["messages"]),
    ("resources/list", {}, lambda result: result["resources"]),
    ("resources/templates/list", {}, lambda result: result["resourceTemplates"]),
    ("resources/read", {"uri": "test://static-text"}, lambda result: result["contents"][0]["text"]),
    ("resources/read", {"uri": "test://template/7/data"}, lambda result: "7" in str(result["contents"])),
    ("resources/subscribe", {"uri": "test://watched-resource"}, lambda result: result == {}),
    ("resources/unsubscribe", {"uri": "test://watched-resource"}, lambda result: result == {}),
    ("logging/setLevel", {"level": "warning"}, lambda result: result == {}),
    (
        "completion/complete",
        {"ref": REFERENCE, "argument": TYPED},
        lambda result: result["completion"]["values"] == ["testValue1", "testValue2"],
    ),
)  # fmt: skip


@pytest.fixture(params=LEGACY)
def halves(
    live: LiveServer, open_session: OpenSession, request: pytest.FixtureRequest
) -> Iterator[tuple[Mcp, Mcp]]:
    """Open one session and use it at the first and at the second process."""
    first = open_session(request.param)
    with closing(first.via(live.ports[1])) as second:
        yield first, second


@pytest.mark.requirement("SES-11", "RPC-02")
def test_every_request_is_served_by_either_process(halves: tuple[Mcp, Mcp]) -> None:
    for round_number in range(2):
        for number, (method, params, holds) in enumerate(EXCHANGES):
            client = halves[(number + round_number) % 2]
            answer = client.call(method, params)
            assert answer["id"] == client.next_id
            assert holds(answer["result"]), (method, answer)


@pytest.mark.requirement("SES-11")
def test_session_confirmed_at_another_process_works_at_both(
    live: LiveServer, open_session: OpenSession
) -> None:
    begun = open_session(confirm=False)
    with closing(begun.via(live.ports[1])) as elsewhere:
        assert elsewhere.notify("notifications/initialized").status == 202
        for client in (begun, elsewhere) * 3:
            assert client.tool("test_simple_text")["result"]["content"]


@pytest.mark.requirement("SES-11")
def test_both_processes_offer_the_same_lists(halves: tuple[Mcp, Mcp]) -> None:
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        first, second = (client.call(method)["result"] for client in halves)
        assert first == second


@pytest.mark.requirement("SES-11")
def test_shared_socket_needs_no_sticky_sessions(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session()
    for _ in range(20):
        # A new connection each time: the kernel chooses the process.
        with closing(client.via(live.port)) as anywhere:
            assert anywhere.tool("test_simple_text")["result"]["content"]
