"""Open event streams: wake-ups, closing, and limits per principal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.transports.open_streams import Connections, StreamReader


class Opened:
    """A connection that counts its wake-ups."""

    def __init__(
        self,
        connections: Connections,
        session: str = "s",
        principal: str = "ada",
        *,
        token: str = "",
        answering: bool = False,
    ) -> None:
        self.woken = 0
        self.connection = StreamReader(
            session, principal, standalone=bool(token), wake=self._wake, answering=answering
        )
        self.connection.token = token
        connections.add(self.connection)

    def _wake(self) -> None:
        self.woken += 1

    @property
    def is_stopping(self) -> bool:
        return self.connection.stopping


@pytest.fixture
def connections() -> Connections:
    return Connections(2)


@pytest.mark.requirement("SEC-07")
def test_streams_are_bounded_per_principal(
    connections: Connections,
) -> None:
    first = Opened(connections, "s1")
    connections.admit("ada")
    Opened(connections, "s2")
    with pytest.raises(TooManyRequests) as refused:
        connections.admit("ada")
    assert refused.value.headers == ((b"retry-after", b"5"),)
    connections.admit("bob")
    connections.remove(first.connection)
    connections.admit("ada")


def test_closed_connections_leave_nothing_behind(connections: Connections) -> None:
    opened = [Opened(connections, f"s{number % 2}", f"p{number % 3}") for number in range(12)]
    for each in opened:
        connections.remove(each.connection)
    assert connections._by_session == {}
    assert not connections._by_person


def test_session_end_stops_its_streams_only(connections: Connections) -> None:
    ended = [Opened(connections, "s", token="t"), Opened(connections, "s")]
    other = Opened(connections, "other")
    connections.stop_session("s")
    connections.stop_session("unknown")
    assert [(each.is_stopping, each.woken) for each in ended] == [(True, 1), (True, 1)]
    assert (other.is_stopping, other.woken) == (False, 0)


def test_session_change_wakes_its_streams_only(connections: Connections) -> None:
    changed, other = Opened(connections, "s"), Opened(connections, "other")
    connections.wake_session("s")
    connections.wake_session("unknown")
    assert (changed.woken, changed.is_stopping, other.woken) == (1, False, 0)


@pytest.mark.requirement("T-GET-06")
def test_takeover_stops_older_standalone_stream_only(connections: Connections) -> None:
    older, newer = Opened(connections, token="old"), Opened(connections, token="new")
    of_a_call, elsewhere = Opened(connections), Opened(connections, "other", token="old")
    connections.take_over("s", "new")
    stopping = [each.is_stopping for each in (older, newer, of_a_call, elsewhere)]
    assert stopping == [True, False, False, False]


async def test_catalogue_change_wakes_standalone_streams_only(
    connections: Connections,
) -> None:
    standalone = [Opened(connections, name, token="t") for name in ("s", "other")]
    of_a_call = Opened(connections)
    connections.announce_catalogue()
    await asyncio.sleep(0)
    assert [each.woken for each in (*standalone, of_a_call)] == [1, 1, 0]


def test_drain_stops_every_stream(connections: Connections) -> None:
    opened = [Opened(connections, "s"), Opened(connections, "s", token="t"), Opened(connections, "other")]
    connections.drain()
    connections.drain()
    assert all(each.is_stopping for each in opened)


def test_leave_keeps_answering_streams_until_drain(
    connections: Connections,
) -> None:
    answer, stream = Opened(connections, "s", answering=True), Opened(connections, "s", token="t")
    connections.leave()
    later = Opened(connections, "s", answering=True), Opened(connections, "s")
    assert [each.is_stopping for each in (answer, stream, *later)] == [False, True, False, True]
    assert connections.answering == 2
    connections.drain()
    assert answer.is_stopping


def test_connection_may_close_while_others_are_woken(connections: Connections) -> None:
    second = Opened(connections)
    first = StreamReader("s", "ada", standalone=False, wake=lambda: connections.remove(second.connection))
    connections.add(first)
    connections.stop_session("s")
    connections.remove(first)
    assert connections._by_session == {}


@pytest.mark.parametrize(
    ("told", "woken"),
    [
        ({"api_key": 3}, [1, 0, 0, 0]),
        ({"principal": "user:7/client:3"}, [0, 1, 0, 0]),
        ({"connections": [1, 2], "principals": ["user:7/client:3", "user:70/client:3"]}, [0, 1, 1, 0]),
        ({"user": 7}, [1, 1, 0, 0]),
        ({"user": "7"}, [1, 1, 0, 0]),
        ({}, [0, 0, 0, 0]),
    ],
)
def test_recheck_wakes_streams_of_changed_credentials(
    connections: Connections, told: dict[str, Any], woken: list[int]
) -> None:
    keys = ("user:7/key:3", "user:7/client:3", "user:70/client:3", "loopback")
    opened = [Opened(connections, f"s{number}", key) for number, key in enumerate(keys)]
    connections.recheck(told)
    assert [each.woken for each in opened] == woken
    assert [each.connection.stale for each in opened] == [bool(number) for number in woken]
