"""Four eyes with real processes and keys: every user involved in a call is excluded from approving it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.raw_http import RawClient
from tests.integration.calls.conftest import Installation, start_call

pytestmark = pytest.mark.process

# Three administrators and a requester, each with two keys; the first may act as another user.
PEOPLE = """
import json
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from mcp_app.auth.bench import issue_bench_token
from mcp_app.auth.api_keys import issue_api_key
users = {}
for name in ("asker", "boss", "deputy", "third"):
    # Other tests of the same installation may have created this user without staff status.
    users[name], _ = get_user_model().objects.get_or_create(username=name)
    get_user_model().objects.filter(pk=users[name].pk).update(is_staff=True)
    users[name].refresh_from_db()
    users[name].groups.add(Group.objects.get(name="MCP administrator"))
keys = {}
for name, user in users.items():
    for number in "12":
        keys[name + number] = issue_api_key(user=user, name="four eyes")[1]
keys["bench"] = issue_bench_token(actor=users["boss"])[0]
keys["bench as asker"] = issue_bench_token(actor=users["boss"], user=users["asker"])[0]
print(json.dumps(keys))
"""
# Cancels the call, and has each of these users retry it in turn.
AGAIN = """
from django.contrib.auth import get_user_model
from mcp_app.execution.services import cancel_call, retry_call
call_id = {call!r}
for name in {names!r}:
    user = get_user_model().objects.get(username=name)
    cancel_call(call_id=call_id, actor=user)
    call_id = retry_call(call_id=call_id, actor=user)
print(call_id)
"""
FIND = """
from mcp_app.models import Call
print(Call.objects.get(request_id={request_id!r}).pk)
"""
APPROVE = """
import json
from django.contrib.auth import get_user_model
from mcp_app.execution.decisions import DecisionRefused, approve_call
said = {{}}
for name in {names!r}:
    try:
        approve_call(call_id={call!r}, actor=get_user_model().objects.get(username=name))
        said[name] = "approved"
    except DecisionRefused as refused:
        said[name] = str(refused)
print(json.dumps(said))
"""


@dataclass(frozen=True, slots=True)
class Means:
    """A way to call the tool: its credential, transport, retries and involved users."""

    credential: str
    hands: tuple[str, ...]
    api: bool = False
    again: tuple[str, ...] = ()


MEANS = {
    "own key": Means("boss1", ("boss",)),
    "second own key": Means("boss2", ("boss",)),
    "the bench": Means("bench", ("boss",)),
    "the bench as another user": Means("bench as asker", ("boss", "asker")),
    "the API": Means("boss1", ("boss",), api=True),
    "retried by another user": Means("asker1", ("asker", "boss"), again=("boss",)),
    "retried twice": Means("asker1", ("asker", "boss", "deputy"), again=("boss", "deputy")),
    "the bench as another user, retried by a third": Means(
        "bench as asker", ("boss", "asker", "deputy"), again=("deputy",)
    ),
    "the API, retried": Means("asker1", ("asker", "boss"), api=True, again=("boss",)),
}


@pytest.fixture(scope="module")
def keys(live: Installation) -> dict[str, str]:
    found: dict[str, str] = json.loads(live.shell(PEOPLE))
    return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def _asked(live: Installation, stack: ExitStack, means: Means, key: str, nonce: str) -> str:
    """Make the call, and return its id once it is pending."""
    if means.api:
        body = json.dumps({"tool": "approved_by_another", "arguments": {"nonce": nonce}}).encode()
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Idempotency-Key": nonce,
        }
        with closing(RawClient("127.0.0.1", live.ports[0])) as client:
            first, second = (client.request("POST", "/api/calls/", headers, body) for _ in range(2))
        assert (first.status, second.status) == (202, 200)
        assert first.json()["id"] == second.json()["id"]
        return str(first.json()["id"])
    client = stack.enter_context(closing(live.mcp(0, token=key)))
    client.initialize("2025-11-25", {})
    stream = stack.enter_context(start_call(client, "approved_by_another", nonce=nonce))
    assert stream.message(15)["params"]["message"].startswith("Waiting for approval")
    return live.shell(FIND.format(request_id=json.dumps(nonce))).strip()


@pytest.mark.parametrize("means", MEANS.values(), ids=MEANS)
def test_involved_users_cannot_approve_and_another_user_can(
    means: Means, live: Installation, keys: dict[str, str], stack: ExitStack
) -> None:
    nonce = f"n{secrets.token_hex(5)}"
    call = _asked(live, stack, means, keys[means.credential], nonce)
    if means.again:
        call = live.shell(AGAIN.format(call=call, names=means.again)).strip()
    deciders = (*means.hands, "third")
    said: dict[str, Any] = json.loads(live.shell(APPROVE.format(call=call, names=deciders)))
    assert said.pop("third") == "approved"
    assert set(said) == set(means.hands)
    assert all(words.endswith("another user has to approve it.") for words in said.values()), said
    live.started(nonce)
