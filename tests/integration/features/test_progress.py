"""Progress of running calls, and pings."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import Client, Conversation


def use(client: Client, tool: str, token: Any = "t", **arguments: Any) -> Conversation:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return client.converse("tools/call", {"name": tool, "arguments": arguments, **meta})


def values(said: Conversation) -> list[float]:
    return [params["progress"] for params in said.told("notifications/progress")]


@pytest.mark.requirement("PROG-01")
@pytest.mark.parametrize("token", ["a token", "7", 7, 0, -1, 9007199254740991, ""])
def test_progress_has_the_token_with_its_type(token: str | int, client: Client) -> None:
    (params,) = use(client, "report", token, values=[1.5], total=4).told("notifications/progress")
    assert params == {"progressToken": token, "progress": 1.5, "total": 4, "message": "at 1.5"}
    assert type(params["progressToken"]) is type(token)


@pytest.mark.requirement("PROG-01")
def test_no_progress_is_sent_without_a_token(client: Client) -> None:
    said = use(client, "report", None, values=[1, 2])
    assert (said.text, said.before) == ("reported", [])


@pytest.mark.requirement("PROG-02")
@pytest.mark.parametrize("tool", ["report", "report_in_thread"])
@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ([10, 10, 5], [10]),
        ([1, 2, 3], [1, 2, 3]),
        ([0.5, 0.25, 0.75], [0.5, 0.75]),
        ([-3, -2, -2, 0], [-3, -2, 0]),
        ([0], [0]),
    ],
)
def test_progress_only_increases(tool: str, sent: list[float], received: list[float], client: Client) -> None:
    said = use(client, tool, values=sent)
    assert values(said) == received
    assert said.text == "reported"


@pytest.mark.requirement("PROG-03")
def test_no_message_follows_the_response(client: Client) -> None:
    said = use(client, "report_late")
    assert values(said) == [1]
    with client.listen() as standalone:
        assert standalone.quiet(0.3)


@pytest.mark.requirement("PROG-04")
def test_progress_is_rate_limited_and_the_last_value_is_sent(client: Client) -> None:
    begun = time.monotonic()
    said = use(client, "report", values=list(range(1, 2001)))
    allowed = 10 + 10 * (time.monotonic() - begun) + 1
    assert values(said)[-1] == 2000
    assert len(values(said)) <= allowed


@pytest.mark.requirement("PROG-05")
def test_progress_uses_the_stream_of_its_request_only(client: Client) -> None:
    with client.listen() as standalone:
        assert values(use(client, "report", values=[1])) == [1]
        assert standalone.quiet(0.2)


@pytest.mark.parametrize("tool", ["track", "track_async"])
def test_track_reports_each_item_and_the_end(tool: str, client: Client) -> None:
    said = use(client, tool, count=3)
    assert said.text == "0,1,2"
    told = said.told("notifications/progress")
    assert [params["progress"] for params in told] == [0, 1, 2, 3]
    assert [params.get("message") for params in told] == ["item 1", "item 2", "item 3", None]
    assert all(params["total"] == 3 for params in told)


@pytest.mark.requirement("PING-01")
@pytest.mark.parametrize("confirm", [True, False])
def test_ping_is_answered_at_once_even_before_initialized(confirm: bool, connect: Connect) -> None:
    client = connect(confirm=confirm)
    begun = time.monotonic()
    said = client.converse("ping")
    assert (said.result, said.streamed) == ({}, False)
    assert client.converse("ping", {"_meta": {"x": 1}}).result == {}
    assert time.monotonic() - begun < 1 + SLACK
