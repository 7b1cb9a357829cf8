"""Storage quotas in Redis: a principal over its quota is refused, and no other principal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
import redis

from mcp_app.streams.connections.keys import KEPT
from mcp_app.streams.stores.storage_quota import TOMBSTONE
from tests.clients.raw_http import Answer, Mcp
from tests.clients.raw_sse import HttpSseClient
from tests.integration.calls.conftest import CAPABILITIES, Installation, start_call, text_of, unexplained
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import eventually

SHARE = 2_000_000
LARGE = 300_000
# Results are sent whole, because their bytes are what is counted.
LIMITS = {"MAX_KEPT_BYTES_PER_PRINCIPAL": SHARE, "MAX_RESULT_TOKENS": 0}
ENV = {"LEDGER_MCP": json.dumps({"AUTH": "required", **LIMITS})}
OpenAs = Callable[..., Mcp]
NewKey = Callable[[str], str]
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Installation]:
    with Installation(2, settings="tests.ledger_app.settings", worker=True, env=ENV) as server:
        assert isinstance(server, Installation)
        yield server
        assert not unexplained(server), server.logs()[-4000:]


@pytest.fixture
def new_key(server: Installation) -> Iterator[NewKey]:
    """Return a factory of API keys of a user by name."""
    with OtherProcess(server) as other:
        yield other.issue_key


@pytest.fixture
def open_as(server: Installation, new_key: NewKey) -> Iterator[OpenAs]:
    """Return a factory of sessions of a user by name; the key, and so the account, is the same each time."""
    with ExitStack() as stack:
        keys: dict[str, str] = {}

        def opened(user: str, version: str = "2025-11-25", process: int = 0) -> Mcp:
            key = keys[user] = keys.get(user) or new_key(user)
            client = stack.enter_context(closing(server.mcp(process, key)))
            client.initialize(version, CAPABILITIES)
            return client

        yield opened


def again(client: Mcp, server: Installation) -> Mcp:
    """Return another client with the same key, without a session."""
    return server.mcp(0, client.token)


def calling(identifier: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}


def batch(round_: int) -> list[dict[str, Any]]:
    """Return large calls, and a member that makes their batch a stream."""
    slow = calling(f"slow-{round_}", "work", nonce=f"batch-{round_}", steps=3, delay=0.1)
    return [*(calling(f"{round_}-{number}", "fill", size=LARGE) for number in range(2)), slow]


def kept(server: Installation) -> int:
    """Return the sum of all accounts."""
    with redis.Redis.from_url(server.redis.url, protocol=2) as client:
        return sum(accounts(client).values())


def accounts(client: redis.Redis) -> dict[str, int]:
    found: Any = client.hgetall(KEPT[2])
    return {owner.decode(): int(held) for owner, held in found.items()}


def check_refused(answer: Answer, client: Mcp) -> None:
    assert answer.status == 429, answer.body
    assert int(answer.headers["retry-after"]) > 0
    assert "Too much is kept for you" in answer.json()["error"]["message"]


def fill_by_batches(client: Mcp) -> Answer:
    """Send batches until one is refused; all earlier ones are answered in full."""
    for round_ in range(SHARE // LARGE + 5):
        answer = client.post(batch(round_))
        if answer.status != 200:
            return answer
        assert answer.body.count(b"x" * LARGE) == 2
        assert answer.body.count(b'"id"') == 3
    raise AssertionError("Nothing was refused.")


def fill_by_background_calls(client: Mcp) -> Answer:
    for round_ in range(SHARE // LARGE + 5):
        answer = client.post(calling(f"fill-{round_}", "fill", size=LARGE))
        if answer.status != 200:
            return answer
        assert answer.body.count(b"x" * LARGE) == 1
    raise AssertionError("Nothing was refused.")


def test_second_api_key_shares_the_quota_of_its_user(
    server: Installation, open_as: OpenAs, new_key: NewKey
) -> None:
    filler, other = open_as("keyring"), open_as("neighbour")
    check_refused(fill_by_background_calls(filler), filler)
    second = server.mcp(1, new_key("keyring"))
    check_refused(second.post(second.request_message("initialize", INITIALIZE)), second)
    assert text_of(other.tool("fill", size=10)) == "x" * 10
    assert filler.delete().status == 200
    second.initialize()
    assert second.delete().status == 200
    second.close()


def test_opening_and_ending_sessions_exhausts_only_the_own_quota(
    server: Installation, open_as: OpenAs, new_key: NewKey
) -> None:
    other = open_as("bystander")
    client = server.mcp(0, new_key("opener"))

    def opened_and_ended() -> Answer:
        client.session = None
        answer = client.post(client.request_message("initialize", INITIALIZE))
        client.session = answer.headers.get("mcp-session-id")
        assert client.session is None or client.delete().status == 200
        return answer

    assert opened_and_ended().status == 200
    with redis.Redis.from_url(server.redis.url, protocol=2) as store:
        # Several endings are recorded together.
        eventually(lambda: TOMBSTONE in accounts(store).values())
        [opener] = [who for who, held in accounts(store).items() if held == TOMBSTONE]
        # As if thousands of sessions had been opened and ended.
        store.hincrby(KEPT[2], opener, SHARE - 10 * TOMBSTONE)
        answers = [opened_and_ended() for _ in range(10)]
        assert [answer.status for answer in answers] == [200] * 9 + [429]
        check_refused(answers[-1], client)
        store.hdel(KEPT[2], opener)
    assert text_of(other.tool("fill", size=10)) == "x" * 10
    client.close()


@pytest.mark.parametrize("how", ["batches", "background calls"])
def test_exceeding_the_quota_refuses_only_its_user_until_sessions_end(
    server: Installation, open_as: OpenAs, how: str
) -> None:
    user = how.replace(" ", "-")
    filler = open_as(user, "2025-03-26" if how == "batches" else "2025-11-25")
    second, other = open_as(user), open_as("other")
    refused = fill_by_batches(filler) if how == "batches" else fill_by_background_calls(filler)
    check_refused(refused, filler)
    assert SHARE <= kept(server) < SHARE + 4 * LARGE

    # Every request that would store more, through any session and process of the user.
    check_refused(second.post(calling("b", "fill", size=10)), second)
    elsewhere = second.via(server.ports[1])
    check_refused(elsewhere.post(calling("e", "fill", size=10)), elsewhere)
    elsewhere.close()
    third = again(filler, server)
    check_refused(third.post(third.request_message("initialize", INITIALIZE)), third)
    # Requests that store nothing are served.
    assert text_of(second.tool("quick", nonce="q"))
    assert kept(server) < SHARE + 4 * LARGE

    # Other users are not affected.
    with start_call(other, "work", nonce=f"other-{user}", steps=3) as stream:
        messages = stream.messages()
    assert len(messages) > 1
    assert "result" in messages[-1]

    assert filler.delete().status == 200
    third.initialize()
    assert text_of(second.tool("fill", size=10)) == "x" * 10
    assert third.delete().status == 200
    third.close()


@pytest.mark.parametrize("how", ["a batch", "slow calls", "background calls"])
def test_large_concurrent_responses_stop_at_twice_the_quota(
    server: Installation, open_as: OpenAs, how: str
) -> None:
    """Each call was accepted while there was room; every request gets a response (R31)."""
    user, many = how.replace(" ", "-") + "-together", 30
    client, other = open_as(user, "2025-03-26" if how == "a batch" else "2025-11-25"), open_as("witness")
    before = kept(server)
    tool = "fill" if how == "background calls" else "fill_late"
    calls = [calling(f"{user}-{number}", tool, size=LARGE) for number in range(many)]

    def post(call: dict[str, Any]) -> Answer:
        with closing(client.via(server.ports[0])) as connection:
            return connection.post(call)

    if how == "a batch":
        bodies = [client.post(calls).body]
    else:
        with ThreadPoolExecutor(many) as pool:
            bodies = [answer.body for answer in pool.map(post, calls)]
    full = sum(body.count(b"x" * LARGE) for body in bodies)
    short = sum(body.count(b"too large for the room") for body in bodies)
    refused = sum(body.count(b"Too much is kept") for body in bodies)
    assert full + short + refused == many
    # A call that comes after the share is used is refused: the others then need not fill it twice.
    assert full + 1 >= (SHARE if refused else 2 * SHARE) // LARGE
    # One large response of each process may have been in progress when the quota was exhausted.
    assert kept(server) - before < 2 * SHARE + 4 * LARGE
    assert all(f'"id":"{call["id"]}"'.encode() in b"".join(bodies) for call in calls)
    assert text_of(other.tool("fill", size=LARGE)) == "x" * LARGE
    assert client.delete().status == 200


def test_http_sse_response_over_quota_is_an_error_with_its_id(server: Installation, new_key: NewKey) -> None:
    """Both forms: a single request, and a batch whose responses are one event."""
    with HttpSseClient(server.ports, new_key("sse")) as client:
        client.open()
        client.initialize("2025-03-26")
        too_many = [calling(f"b-{number}", "fill_late", size=LARGE, says=False) for number in range(20)]
        client.post(too_many)
        answers: Any = client.message()
        assert [answer["id"] for answer in answers] == [call["id"] for call in too_many]
        assert all("too large for the room" in answer["error"]["message"] for answer in answers)
        client.post(calling("one", "fill_late", size=2 * SHARE, says=False))
        answer = client.message()
        assert answer["id"] == "one"
        assert "too large for the room" in answer["error"]["message"]
        assert client.call("tools/call", {"name": "fill_late", "arguments": {"size": 10, "says": False}})
