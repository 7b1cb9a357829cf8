"""The standalone stream: one reader at a time, takeover by a resuming reader, and its stored position."""

from __future__ import annotations

import asyncio

import pytest

from mcp_app.conf import Settings
from mcp_app.sessions import standalone_stream as module
from mcp_app.sessions.open_sessions import Sessions
from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.sessions.standalone_stream import Standalone
from mcp_app.streams.base import StreamFinished
from mcp_app.streams.gateway import Streams
from tests.unit.sessions.conftest import opening, process


@pytest.fixture
async def session(sessions: Sessions) -> LiveSession:
    return await sessions.create(opening())


@pytest.fixture
def standalone(streams: Streams) -> Standalone:
    return Standalone(streams, 15.0)


def closing(sessions: Sessions, standalone: Standalone, session: LiveSession, token: str) -> list[str]:
    """Return the tokens received by a connection that leaves when it is taken over."""
    left: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    def take_over(session_id: str, by: str) -> None:
        if by != token and not left:
            left.append(by)
            tasks.append(asyncio.create_task(standalone.leave(session, token)))

    sessions.on_take_over.append(take_over)
    return left


@pytest.mark.requirement("T-GET-06")
async def test_only_one_connection_listens_across_processes(
    session: LiveSession, standalone: Standalone, streams: Streams
) -> None:
    other = Standalone(streams, 15.0)
    assert await standalone.listen(session, "a", take_over=False)
    assert not await other.listen(session, "b", take_over=False)
    assert not await standalone.listen(session, "c", take_over=False)
    await standalone.leave(session, "a")
    assert await other.listen(session, "b", take_over=False)


@pytest.mark.requirement("T-GET-06")
async def test_resuming_connection_replaces_older_one(
    session: LiveSession, standalone: Standalone, sessions: Sessions, streams: Streams
) -> None:
    assert await standalone.listen(session, "a", take_over=False)
    left = closing(sessions, standalone, session, "a")
    other = Standalone(streams, 15.0)
    assert await other.listen(session, "b", take_over=True)
    assert left == ["b"]
    assert await other.renew(session, "b")
    assert not await standalone.listen(session, "a", take_over=False)


async def test_unresponsive_holder_does_not_delay_takeover(
    session: LiveSession, standalone: Standalone, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKEOVER_SECONDS", 0.0)
    assert await standalone.listen(session, "deaf", take_over=False)
    async with asyncio.timeout(5):
        assert await Standalone(streams, 15.0).listen(session, "b", take_over=True)


async def test_later_of_two_simultaneous_resumes_wins(
    session: LiveSession, streams: Streams, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKEOVER_SECONDS", 0.0)
    first, second = Standalone(streams, 15.0), Standalone(streams, 15.0)
    assert await first.listen(session, "a", take_over=True)
    assert await second.listen(session, "b", take_over=True)  # Not yet subscribed to the notice.
    left = closing(sessions, first, session, "a")
    assert await second.renew(session, "b")
    async with asyncio.timeout(5):
        while not left:
            await asyncio.sleep(0)
    assert await second.renew(session, "b")
    assert not await Standalone(streams, 15.0).listen(session, "c", take_over=False)


async def test_lease_lost_to_newer_connection_cannot_be_renewed(
    session: LiveSession, standalone: Standalone, streams: Streams
) -> None:
    assert await standalone.listen(session, "old", take_over=False)
    await streams.windows.release(f"listener/{session.id}", "old")  # It expired while the process was frozen.
    assert await Standalone(streams, 15.0).listen(session, "new", take_over=False)
    assert not await standalone.renew(session, "old")


async def test_expired_lease_without_new_holder_is_renewed(
    session: LiveSession, standalone: Standalone, streams: Streams
) -> None:
    assert await standalone.listen(session, "a", take_over=False)
    await streams.windows.release(f"listener/{session.id}", "a")
    assert await standalone.renew(session, "a")
    assert not await standalone.listen(session, "b", take_over=False)


@pytest.mark.requirement("T-GET-09")
async def test_new_reader_starts_after_delivered_position(
    session: LiveSession, standalone: Standalone, streams: Streams
) -> None:
    epoch, offset = await standalone.position(session)
    assert offset == 0
    for number in range(3):
        await streams.log.append(session.id, STANDALONE, b"%d" % number)
    assert await standalone.position(session) == (epoch, 0)
    await standalone.delivered(session, epoch, 2)
    assert await Standalone(streams, 15.0).position(session) == (epoch, 2)


async def test_recreated_stream_is_read_from_start(
    session: LiveSession, standalone: Standalone, streams: Streams
) -> None:
    epoch, _ = await standalone.position(session)
    await standalone.delivered(session, epoch, 7)
    await streams.log.drop(session.id, STANDALONE)
    new_epoch, offset = await standalone.position(session)
    assert (new_epoch != epoch, offset) == (True, 0)


async def test_position_refreshes_announced_revision(
    session: LiveSession, standalone: Standalone, streams: Streams, settings: Settings
) -> None:
    other = process(streams, settings)
    await other.announced(await other.load(session.id, "ada"), 9)
    assert session.announced == 3
    await standalone.position(session)
    assert session.announced == 9


async def test_ended_session_has_no_position(
    session: LiveSession, standalone: Standalone, sessions: Sessions
) -> None:
    await sessions.end(session.id, "test")
    with pytest.raises(StreamFinished):
        await standalone.position(session)


async def test_leave_is_idempotent_and_cleans_up(session: LiveSession, standalone: Standalone) -> None:
    await standalone.listen(session, "a", take_over=False)
    await standalone.leave(session, "a")
    await standalone.leave(session, "a")
    assert standalone._holders == set()
