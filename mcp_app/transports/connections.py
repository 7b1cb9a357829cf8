"""The open event-stream connections of one process: which to notify, and which to close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.principal_key import Bound, Share, share_of
from mcp_app.transports.turns import take_turns


class StreamReader:
    """One client reading one stream; ``wake`` makes its writer look at what changed.

    ``announce``: has what a change of the catalogue means to this client written, by its writer or without
    waking that.
    ``listening``: what it reads answers no request of its own, but says what the server has to tell.
    ``answering``: what it reads is the answer to its request, and can be had nowhere else.
    ``stale``: the session was changed, perhaps by another process, and must be loaded anew.
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
        """Have the connection closed; the client may come back and resume."""
        self.stopping = True
        self.wake()


class Connections:
    """Registers connections; all methods run on the event loop."""

    def __init__(self, max_per_person: int) -> None:
        self._max = max_per_person
        self._by_session: dict[str, set[StreamReader]] = {}
        self._by_person: Counter[Share] = Counter()
        self._draining = self._leaving = False

    @property
    def answering(self) -> int:
        """How many read an answer that cannot be resumed."""
        return sum(connection.answering for connection in self._all())

    @property
    def open(self) -> int:
        """How many are open now."""
        return self._by_person.total()

    def by_session(self) -> dict[str, tuple[bool, int]]:
        """Of each session with open streams: whether one of them listens, and how many."""
        return {
            session: (any(connection.listening for connection in found), len(found))
            for session, found in self._by_session.items()
        }

    def admit(self, principal_key: str) -> None:
        """Raises TooManyRequests when the person holds as many streams as allowed (SEC-07)."""
        if self._by_person[share_of(Bound.EVENT_STREAMS, principal_key)] >= self._max:
            raise TooManyRequests("Too many open event streams: close unused ones first.", retry_after=5)

    def add(self, connection: StreamReader) -> None:
        """A connection opened."""
        connection.stopping = self._draining or (self._leaving and not connection.answering)
        self._by_session.setdefault(connection.session_id, set()).add(connection)
        self._by_person[connection.share] += 1

    def remove(self, connection: StreamReader) -> None:
        """A connection closed."""
        of_session = self._by_session.get(connection.session_id, set())
        of_session.discard(connection)
        if not of_session:
            self._by_session.pop(connection.session_id, None)
        self._by_person[connection.share] -= 1
        if not self._by_person[connection.share]:
            del self._by_person[connection.share]

    def stop_session(self, session_id: str) -> None:
        """The session ended: its streams end too."""
        for connection in list(self._by_session.get(session_id, ())):
            connection.stop()

    def wake_session(self, session_id: str) -> None:
        """The session changed."""
        for connection in list(self._by_session.get(session_id, ())):
            connection.stale = True
            connection.wake()

    def recheck(self, changed: Mapping[str, Any]) -> None:
        """A credential changed, as broadcast: connections that use it are authenticated again at once."""
        keys = {changed.get("principal"), *changed.get("principals", ())}
        of_key, of_user = f"/key:{changed.get('api_key')}", f"user:{changed.get('user')}/"
        for connection in self._all():
            key = connection.principal_key
            if key in keys or key.endswith(of_key) or key.startswith(of_user):
                connection.stale = True
                connection.wake()

    def take_over(self, session_id: str, token: str) -> None:
        """A newer connection reads the session's standalone stream: the older one ends (T-GET-06)."""
        for connection in list(self._by_session.get(session_id, ())):
            if connection.standalone and connection.token != token:
                connection.stop()

    def announce_catalogue(self) -> None:
        """The catalogue changed: every standalone stream has something to tell."""
        take_turns(_announce, self._all())

    def drain(self) -> None:
        """Close everything, also what is still to open; clients resume elsewhere."""
        self._draining = True
        for connection in self._all():
            connection.stop()

    def leave(self) -> None:
        """Close what goes on at the process that has taken over; an answer of this one is still given."""
        self._leaving = True
        for connection in self._all():
            if not connection.answering:
                connection.stop()

    def _all(self) -> list[StreamReader]:
        return [connection for of_session in self._by_session.values() for connection in of_session]


def _announce(connection: StreamReader) -> None:
    if connection.standalone:
        connection.announce()
