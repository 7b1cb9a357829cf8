"""Input requests of tools on workers in 2026-07-28, and killed processes between rounds."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.clients.raw_modern import Modern, Wire
from tests.integration.calls.conftest import CAPABILITIES, Installation
from tests.samples.approvals import decide, states
from tests.servers.live import eventually

ASKING = {
    "ask": ("elicitation-1", {"action": "accept", "content": {"value": "Ada"}}, "Hello, Ada!"),
    "ask_in_thread": ("elicitation-1", {"action": "accept", "content": {"value": "Ada"}}, "Hello, Ada!"),
    "sample": (
        "sampling-1",
        {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
        "hi",
    ),
}
# The numbers of unfinished calls of a test, and of its calls with stored inputs.
LEFT = """
from mcp_app.models import Call
mine = Call.objects.filter(arguments__contains="{nonce}")
print(mine.filter(finished_at=None).count(), mine.exclude(inputs=None).count())
"""


def request_of(tool: str, nonce: str, **members: Any) -> Wire:
    return {"name": tool, "arguments": {"nonce": nonce}, **members}


@pytest.mark.requirement("MRTR-05", "MRTR-09")
@pytest.mark.parametrize("name", ASKING)
def test_worker_ends_at_an_input_request_and_a_new_run_continues(
    live: Installation, nonce: str, name: str
) -> None:
    key, answer, text = ASKING[name]
    first, second = (Modern(port, capabilities=CAPABILITIES) for port in live.ports)
    asked = first.request("tools/call", request_of(name, nonce))
    assert set(asked["inputRequests"]) == {key}
    assert live.shell(LEFT.format(nonce=nonce)).split() == ["0", "0"]
    members = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
    done = second.request("tools/call", request_of(name, nonce, **members))
    assert done["content"][0]["text"] == text
    assert len(live.lines(nonce, "start")) == 2


@pytest.mark.requirement("STATE-02")
def test_call_with_a_foreign_state_never_reaches_a_worker(live: Installation, nonce: str) -> None:
    client = Modern(live.ports[0], capabilities=CAPABILITIES)
    asked = client.request("tools/call", request_of("ask", nonce))
    refused = client.request(
        "tools/call", request_of("ask", f"{nonce}-other", requestState=asked["requestState"])
    )
    assert (client.status, refused["data"]) == (400, {"reason": "invalid_request_state"})
    assert not live.lines(f"{nonce}-other")


@pytest.mark.requirement("MRTR-05")
def test_next_round_works_after_the_first_process_was_killed(live: Installation, nonce: str) -> None:
    first, second = (Modern(port, capabilities=CAPABILITIES) for port in live.ports)
    asked = first.request("tools/call", request_of("ask", nonce))
    live.restart(0, signal.SIGKILL)
    key, answer, text = ASKING["ask"]
    members = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
    for client in (second, first):
        done = client.request("tools/call", request_of("ask", nonce, **members))
        assert done["content"][0]["text"] == text


def test_approval_covers_further_rounds_once_each(live: Installation, nonce: str) -> None:
    # While the first request is pending, two programs start and query the database.
    client = Modern(live.ports[0], capabilities=CAPABILITIES, request_id=nonce, patience=90.0)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.request, "tools/call", request_of("approved_ask", nonce))
        eventually(lambda: states(live, nonce) == ["approval_needed"], 30, "the wait for approval")
        assert "approved" in decide(live, "approve", nonce)
        asked = first.result(90)
    key, answer, text = ASKING["ask"]
    members = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
    again = Modern(live.ports[1], capabilities=CAPABILITIES, request_id=f"{nonce}-2")
    done = again.request("tools/call", request_of("approved_ask", nonce, **members))
    assert done["content"][0]["text"] == text
    assert again.request("tools/call", request_of("approved_ask", nonce, **members))["data"] == {
        "reason": "invalid_request_state"
    }
    assert len(live.lines(nonce, "start")) == 2
