"""One tool file has the same outcome on each revision over each of its transports."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.interop.conversations import Http, HttpSse, ModernHttp, Stdio, Talk, Wire
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
SAYS: dict[str, Wire] = {"plan_trip": {"value": 5}, "book_trip": {"value": "Ada"}}
SAMPLED: Wire = {
    "role": "assistant",
    "content": {"type": "text", "text": "Look at the river."},
    "model": "m",
    "stopReason": "endTurn",
}
CANNOT_ASK = "The client does not support elicitation/create: it did not declare elicitation form."


@dataclass(frozen=True)
class Revision:
    """The features of a revision, which determine how the same outcome arrives."""

    transports: dict[str, Callable[[LiveServer, str], Talk]]
    # 2025-03-26 added messages to progress.
    words: bool = True
    # 2025-06-18 added elicitation, structured content and output schemas.
    asks: bool = True
    structured: bool = True
    # 2026-07-28 ends a request with an input request; the client repeats it with the response.
    rounds: bool = False


HANDSHAKE: dict[str, Callable[[LiveServer, str], Talk]] = {"http": Http, "sse": HttpSse, "stdio": Stdio}
REVISIONS = {
    "2024-11-05": Revision(HANDSHAKE, words=False, asks=False, structured=False),
    "2025-03-26": Revision(HANDSHAKE, asks=False, structured=False),
    "2025-06-18": Revision(HANDSHAKE),
    "2025-11-25": Revision(HANDSHAKE),
    "2026-07-28": Revision({"http": ModernHttp, "stdio": Stdio}, rounds=True),
}
CELLS = [(version, transport) for version, each in REVISIONS.items() for transport in each.transports]


@dataclass
class Course:
    """The course of a call: its result, and the progress and requests of each round."""

    result: Wire = field(default_factory=dict)
    steps: list[list[tuple[Any, ...]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def course(talk: Talk, name: str, city: str) -> Course:
    """Make the call, answer its requests, and repeat it for each round."""
    found = Course()
    params: Wire = {"name": name, "arguments": {"city": city}}
    while True:
        found.steps.append([])
        # A progress token belongs to one request, and must not be reused while it is active.
        params["_meta"] = {"progressToken": f"{name} {len(found.steps)}"}
        found.result = _answered(talk, params, found)
        if found.result.get("resultType") != "input_required":
            return found
        questions = found.result["inputRequests"]
        params["requestState"] = found.result["requestState"]
        params["inputResponses"] = {key: _reply(name, asked, found) for key, asked in questions.items()}


def _answered(talk: Talk, params: Wire, found: Course) -> Wire:
    for message in talk.ask("tools/call", params):
        if message.get("method") == "notifications/progress":
            step = message["params"]
            assert step["progressToken"] == params["_meta"]["progressToken"]
            found.steps[-1].append((step["progress"], step["total"], step.get("message")))
        elif "method" in message:
            talk.answer(message["id"], _reply(params["name"], message, found))
    assert "result" in message, message
    result: Wire = message["result"]
    return result


def _reply(name: str, question: Wire, found: Course) -> Wire:
    found.asked.append(question["method"])
    if question["method"] == "sampling/createMessage":
        return SAMPLED
    return {"action": "accept", "content": SAYS[name]}


def check(found: Course, revision: Revision, outcome: Wire, words: list[str]) -> None:
    """Assert the outcome, and all messages that the revision has."""
    assert not found.result.get("isError"), found.result
    assert json.loads(found.result["content"][0]["text"]) == outcome
    assert found.result.get("structuredContent") == (outcome if revision.structured else None)
    questions = ["elicitation/create", "sampling/createMessage"]
    assert found.asked == (questions if revision.asks else questions[1:])
    said = [(number, 3, text if revision.words else None) for number, text in enumerate(words, start=1)]
    # A round ends at its input request; the last one completes.
    assert found.steps == ([said[:1], said[:2], said] if revision.rounds else [said])


@pytest.mark.requirement("GEN-01", "CONF-02")
@pytest.mark.parametrize(("version", "transport"), CELLS)
def test_tool_outcome_is_the_same_on_every_revision_and_transport(
    live: LiveServer, version: str, transport: str
) -> None:
    revision = REVISIONS[version]
    with closing(revision.transports[transport](live, version)) as talk:
        *_, listed = talk.ask("tools/list", {})
        for tool in listed["result"]["tools"]:
            if tool["name"] in SAYS:
                assert ("outputSchema" in tool) == revision.structured
        city = f"{transport} {version}"
        plan = {"city": city, "days": 5 if revision.asks else 2, "idea": "Look at the river."}
        check(course(talk, "plan_trip", city), revision, plan, ["for how long", "what to do", "planned"])
        booked = course(talk, "book_trip", city)
        if revision.asks:
            booking = {
                "city": city,
                "guest": "Ada",
                "reservations": 1,
                "greeting": "Look at the river.",
                "made_on": "ForkPoolWorker",
            }
            check(booked, revision, booking, ["for whom", "reserved", "booked"])
        else:
            assert booked.result["isError"]
            assert booked.result["content"] == [{"type": "text", "text": CANNOT_ASK}]
            assert not booked.asked
