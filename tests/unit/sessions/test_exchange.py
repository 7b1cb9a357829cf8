"""A single 2026-07-28 request: its id, and the common members of its result."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.jsonrpc import Request
from mcp_app.sessions.exchange import Exchange
from tests.clients.envelopes import envelope_of
from tests.views import SERVER


def exchange(principal: str = "user:1", capabilities: dict[str, Any] | None = None) -> Exchange:
    return Exchange(envelope_of(capabilities, {"name": "a client"}), principal, SERVER)


@pytest.mark.requirement("T-MOD-13")
def test_exchange_id_is_unique_and_stable() -> None:
    one, other = exchange(), exchange()
    assert one.id == one.id
    assert one.id != other.id
    assert Exchange(envelope_of(), "user:1", SERVER, "x-1").id == "x-1"


def test_record_id_differs_between_principals() -> None:
    assert exchange("user:1").record_id == exchange("user:1").record_id
    assert exchange("user:1").record_id != exchange("user:2").record_id


def test_invalid_capabilities_are_rejected_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidParams):
            exchange(capabilities={"sampling": "yes"})


@pytest.mark.parametrize("method", ["tools/call", "resources/read"])
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": []},
        {"content": [], "_meta": {"own": 1}},
        {"contents": [], "ttlMs": 5},
        {"resultType": "input_required", "inputRequests": {}},
    ],
)
def test_answer_has_each_member_of_completed_result_once(method: str, result: dict[str, Any]) -> None:
    made = exchange()
    whole = orjson.dumps({"jsonrpc": "2.0", "id": 7, "result": made.complete(method, result)})
    answer = made.answer(Request(7, method, {}), result)
    assert orjson.loads(answer) == orjson.loads(whole)
    assert len(answer) == len(whole)


def test_encoded_result_is_completed_like_plain_result() -> None:
    made, request = exchange(), Request(7, "tools/list", {})
    result = {"tools": []}
    assert made.answer(request, orjson.dumps(result)) == made.answer(request, result)
