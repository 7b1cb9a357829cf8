"""Input requests of 2026-07-28 over HTTP: each round at another process, as in the official suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.raw_modern import Modern, Wire
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer

EVERYTHING: Wire = {"sampling": {}, "elicitation": {}, "roots": {}}
SAMPLED: Wire = {
    "role": "assistant",
    "content": {"type": "text", "text": "Paris"},
    "model": "test-model",
    "stopReason": "endTurn",
}
ROOTS: Wire = {"roots": [{"uri": "file:///test/root", "name": "root"}]}


def filled(**content: Any) -> Wire:
    """Return the response of a completed form."""
    return {"action": "accept", "content": content}


class Rounds:
    """One request, sent to the processes in turn."""

    def __init__(self, live: LiveServer, method: str, params: Wire, **client: Any) -> None:
        self._clients = [Modern(port, **{"capabilities": EVERYTHING, **client}) for port in live.ports]
        self._method, self._params = method, params
        self.status = 0
        self.result: Wire = {}

    def go(self, responses: Any = None, **members: Any) -> Wire:
        """Send one more round with the newest state."""
        sent = {**self._params, **members}
        if responses is not None:
            sent["inputResponses"] = responses
        if "requestState" in self.result and "requestState" not in members:
            sent["requestState"] = self.result["requestState"]
        client = self._clients[0]
        self._clients.append(self._clients.pop(0))
        self.result = client.request(self._method, sent)
        self.status = client.status
        return self.result

    def asked(self) -> Wire:
        """Return the input requests of the newest result, and assert that it has no other content."""
        assert self.status == 200
        assert set(self.result) == {"resultType", "inputRequests", "requestState", "_meta"}
        assert self.result["resultType"] == "input_required"
        found: Wire = self.result["inputRequests"]
        return found


def tool(live: LiveServer, name: str, **client: Any) -> Rounds:
    return Rounds(
        live, "tools/call", {"name": f"test_input_required_result_{name}", "arguments": {}}, **client
    )


def text_of(result: Wire) -> str:
    assert result["resultType"] == "complete"
    return str(result["content"][0]["text"])


# Tool, the responses of each round, the keys each round asks for, and part of the last text.
PLAYED: dict[str, tuple[list[Wire], list[set[str]], str]] = {
    "elicitation": ([{"user_name": filled(name="Ada")}], [{"user_name"}], "Hello, Ada!"),
    "sampling": ([{"capital_question": SAMPLED}], [{"capital_question"}], "Paris"),
    "list_roots": ([{"client_roots": ROOTS}], [{"client_roots"}], "file:///test/root"),
    "request_state": ([{"confirm": filled(ok=True)}], [{"confirm"}], "state-ok"),
    "multiple_inputs": (
        [{"user_name": filled(name="Ada"), "greeting": SAMPLED, "client_roots": ROOTS}],
        [{"user_name", "greeting", "client_roots"}],
        "Ada: Paris (1 roots)",
    ),
    "multi_round": (
        [{"step1": filled(name="Ada")}, {"step2": filled(color="red")}],
        [{"step1"}, {"step2"}],
        "Ada likes red.",
    ),
}


@pytest.mark.requirement("MRTR-05", "MRTR-11", "ROOT-03", "SAMP-06")
@pytest.mark.parametrize("name", PLAYED)
def test_each_round_is_served_by_another_process(live: LiveServer, name: str) -> None:
    answers, keys, text = PLAYED[name]
    rounds, states = tool(live, name), set()
    rounds.go()
    for asked, given in zip(keys, answers, strict=True):
        assert set(rounds.asked()) == asked
        states.add(rounds.result["requestState"])
        rounds.go(given)
    assert text in text_of(rounds.result)
    assert len(states) == len(answers)


def test_input_requests_have_the_published_wire_form(live: LiveServer) -> None:
    rounds = tool(live, "multiple_inputs")
    rounds.go()
    form = {"type": "object", "properties": {"name": {"type": "string", "description": "Your name"}}}
    assert rounds.asked() == {
        "user_name": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "What is your name?",
                "requestedSchema": {**form, "required": ["name"]},
            },
        },
        "greeting": {
            "method": "sampling/createMessage",
            "params": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "Generate a greeting"}}],
                "maxTokens": 50,
            },
        },
        "client_roots": {"method": "roots/list", "params": {}},
    }


@pytest.mark.requirement("MRTR-01", "PROMPT-07", "PROMPT-08")
def test_prompt_may_require_input_and_lists_never_do(live: LiveServer) -> None:
    rounds = Rounds(live, "prompts/get", {"name": "test_input_required_result_prompt"})
    rounds.go()
    assert set(rounds.asked()) == {"user_context"}
    result = rounds.go({"user_context": filled(context="bees")})
    assert "bees" in result["messages"][0]["content"]["text"]
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        listing = Rounds(live, method, {}).go({"user_context": filled(context="bees")}, requestState="x")
        assert listing["resultType"] == "complete"


@pytest.mark.requirement("STATE-01", "MRTR-08")
@pytest.mark.parametrize(
    "sent", [{"requestState": "TAMPERED"}, {"inputResponses": 5}, {"inputResponses": {"confirm": 12345}}]
)
def test_tampered_state_or_invalid_responses_return_400(live: LiveServer, sent: Wire) -> None:
    rounds = tool(live, "tampered_state")
    state = rounds.go()["requestState"]
    if "requestState" in sent:
        sent = {"requestState": f"{state}-TAMPERED", "inputResponses": {"confirm": filled(ok=True)}}
    assert rounds.go(**sent)["code"] == -32602
    assert rounds.status == 400


@pytest.mark.requirement("MRTR-04", "CAP-03")
def test_input_requests_follow_declared_capabilities(live: LiveServer) -> None:
    rounds = tool(live, "capabilities", capabilities={"sampling": {}})
    rounds.go()
    assert [each["method"] for each in rounds.asked().values()] == ["sampling/createMessage"]

    missing = Rounds(live, "tools/call", {"name": "test_missing_capability"}, capabilities={})
    error = missing.go()
    assert (missing.status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"sampling": {}}}


def test_notifications_precede_the_input_request(live: LiveServer) -> None:
    client = Modern(live.ports[0], capabilities=EVERYTHING)
    result = client.request("tools/call", {"name": "test_streaming_elicitation"})
    assert set(result["inputRequests"]) == {"elicitation-1"}
    assert not [message for message in client.received if "id" in message]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LiveServer]:
    """Start two web processes that require authentication."""
    settings, env = "tests.integration.http.settings", {"MCP_AUTH": "required"}
    with LiveServer(2, settings=settings, env=env) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]


@pytest.mark.requirement("MRTR-15", "STATE-02")
def test_every_round_requires_the_credential_of_the_first(guarded: LiveServer) -> None:
    with OtherProcess(guarded) as admin:
        ada, bob = admin.issue_key("ada"), admin.issue_key("bob")
        first = tool(guarded, "elicitation", token=ada)
        first.go()
        answer = {"user_name": filled(name="Ada")}
        stolen = tool(guarded, "elicitation", token=bob)
        assert stolen.go(answer, requestState=first.result["requestState"])["data"] == {
            "reason": "invalid_request_state"
        }
        state = first.result["requestState"]
        admin.revoke_key(ada)
        first.go(answer, requestState=state)
        assert first.status == 401
