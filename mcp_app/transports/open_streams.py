"""The open event-stream connections of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.principal_key import Bound, Share, share_of
from mcp_app.transports.event_loop_turns import run_in_turns


class StreamReader:
    """A client that reads a stream.

    ``wake`` makes the stream's writer check for changes. ``announce`` sends notifications about a changed
    catalogue, with or without waking the writer. ``listening`` is True if the stream carries the server's own
    messages and not the answer to a request. ``answering`` is True for an answer that cannot be resumed.
    ``stale`` is True if the session or its credential changed and must be checked again.
    """

    __slots__ = (
        "announce",
        "answering",
        "listening",
        "principal_key",
        "session_id",
        "share",
        "stale",
        "standalone",
        "stopping",
        "token",
        "wake",
    )

    def __init__(
        self,
        session_id: str,
        principal_key: str,
        *,
        standalone: bool,
        wake: Callable[[], None],
        listening: bool = False,
        answering: bool = False,
    ) -> None:
        self.session_id = session_id
        self.principal_key = principal_key
        self.share = share_of(Bound.EVENT_STREAMS, principal_key)
        self.standalone = standalone
        self.listening = listening or standalone
        self.answering = answering
        self.wake = self.announce = wake
        self.stopping = self.stale = False
        self.token = ""

    def stop(self) -> None:
        """Close the connection. The client may return and resume."""
        self.stopping = True
        self.wake()


class Connections:
    """The registry of connections. Use it on the event loop only."""

    def __init__(self, max_per_person: int) -> None:
        self._max = max_per_person
        self._by_session: dict[str, set[StreamReader]] = {}
        self._by_person: Counter[Share] = Counter()
        self._draining = self._leaving = False

    @property
    def answering(self) -> int:
        """The number of connections with an answer that cannot be resumed."""
        return sum(connection.answering for connection in self._all())

    @property
    def open(self) -> int:
        """The number of open connections."""
        return self._by_person.total()

    def by_session(self) -> dict[str, tuple[bool, int]]:
        """Map each session to whether one of its streams is listening, and the number of its streams."""
        return {
            session: (any(connection.listening for connection in found), len(found))
            for session, found in self._by_session.items()
        }

    def admit(self, principal_key: str) -> None:
        """Raise TooManyRequests if the person already has the maximum number of streams (SEC-07)."""
        if self._by_person[share_of(Bound.EVENT_STREAMS, principal_key)] >= self._max:
            raise TooManyRequests("Too many open event streams: close unused ones first.", retry_after=5)

    def add(self, connection: StreamReader) -> None:
        """Register a connection."""
        connection.stopping = self._draining or (self._leaving and not connection.answering)
        self._by_session.setdefault(connection.session_id, set()).add(connection)
        self._by_person[connection.share] += 1

    def remove(self, connection: StreamReader) -> None:
        """Unregister a connection."""
        of_session = self._by_session.get(connection.session_id, set())
        of_session.discard(connection)
        if not of_session:
            self._by_session.pop(connection.session_id, None)
        self._by_person[connection.share] -= 1
        if not self._by_person[connection.share]:
            del self._by_person[connection.share]

    def stop_session(self, session_id: str) -> None:
        """Close the streams of a session that has ended."""
        for connection in list(self._by_session.get(session_id, ())):
            connection.stop()

    def wake_session(self, session_id: str) -> None:
        """Mark a changed session as stale and wake its streams."""
        for connection in list(self._by_session.get(session_id, ())):
            connection.stale = True
            connection.wake()

    def recheck(self, changed: Mapping[str, Any]) -> None:
        """Make connections authenticate again if their credential changed.

        ``changed`` is the payload of the broadcast, which names users, principals or an API key.
        """
        keys = {changed.get("principal"), *changed.get("principals", ())}
        of_key, of_user = f"/key:{changed.get('api_key')}", f"user:{changed.get('user')}/"
        for connection in self._all():
            key = connection.principal_key
            if key in keys or key.endswith(of_key) or key.startswith(of_user):
                connection.stale = True
                connection.wake()

    def take_over(self, session_id: str, token: str) -> None:
        """Close older connections to a session's standalone stream (T-GET-06)."""
        for connection in list(self._by_session.get(session_id, ())):
            if connection.standalone and connection.token != token:
                connection.stop()

    def announce_catalogue(self) -> None:
        """Announce a changed catalogue on every standalone stream."""
        run_in_turns(_announce, self._all())

    def drain(self) -> None:
        """Close all connections, including connections that open later. Clients resume at other processes."""
        self._draining = True
        for connection in self._all():
            connection.stop()

    def leave(self) -> None:
        """Close the connections that can continue at another process. Pending answers are still sent."""
        self._leaving = True
        for connection in self._all():
            if not connection.answering:
                connection.stop()

    def _all(self) -> list[StreamReader]:
        return [connection for of_session in self._by_session.values() for connection in of_session]


def _announce(connection: StreamReader) -> None:
    if connection.standalone:
        connection.announce()
