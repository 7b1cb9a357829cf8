"""Unanswered questions take no capacity from other users, however many clients ask them (R30)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.calls.conftest import CAPABILITIES, Installation, start_call, text_of
from tests.servers.live import eventually

pytestmark = pytest.mark.process

PLACES = 8
CLIENTS, QUESTIONS = 3, 4
KEYS = """
import json
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
user = get_user_model().objects.create_user({name!r})
print(json.dumps([issue_api_key(user=user, name="held")[1] for _ in range({number})]))
"""
STATES = """
import json
from mcp_app.models import Call
print(json.dumps(list(Call.objects.filter(tool="ask").values_list("person", "state", "outcome"))))
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def _clients(live: Installation, stack: ExitStack, number: int) -> list[Mcp]:
    """Return clients of a new user, each with its own key."""
    name = f"person-{secrets.token_hex(4)}"
    found = []
    for key in json.loads(live.shell(KEYS.format(name=name, number=number)).splitlines()[-1]):
        client = stack.enter_context(closing(live.mcp(0, token=key)))
        client.initialize("2025-11-25", CAPABILITIES)
        stack.callback(client.delete)
        found.append(client)
    return found


def _waiting(live: Installation) -> int:
    states = json.loads(live.shell(STATES).splitlines()[-1])
    return sum(state == "input_required" for _, state, _ in states)


@pytest.mark.parametrize("silent", [1, 2])
def test_question_of_another_user_is_answered_at_once(
    live: Installation, stack: ExitStack, nonce: str, silent: int
) -> None:
    for person in range(silent):
        for number, client in enumerate(_clients(live, stack, CLIENTS)):
            for question in range(QUESTIONS):
                of_it = f"{nonce}-{person}-{number}-{question}"
                body = {
                    "jsonrpc": "2.0",
                    "id": question,
                    "method": "tools/call",
                    "params": {"name": "ask", "arguments": {"nonce": of_it}},
                }
                with client.client.open_stream(
                    "POST", client.path, client.headers(), json.dumps(body).encode()
                ) as stream:
                    stream.cut()
    eventually(lambda: _waiting(live) >= silent * PLACES // 2, 60, "the questions that nobody answers")
    (other,) = _clients(live, stack, 1)
    for number in range(3):
        with start_call(other, "ask", nonce=f"{nonce}-asked-{number}") as stream:
            question = stream.message()
            assert question.get("method") == "elicitation/create", question
            answer = {"action": "accept", "content": {"value": "Ada"}}
            assert other.respond(question["id"], answer).status == 202
            assert text_of(stream.message()) == "Hello, Ada!"
        with start_call(other, "work_once", nonce=f"{nonce}-worked-{number}", steps=1, delay=0.01) as stream:
            assert not stream.messages()[-1]["result"].get("isError")
