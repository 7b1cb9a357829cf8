"""Detection of an unresponsive database: one that is frozen, or behind a network that drops packets.

Such a database neither breaks its connections nor ends its statements. It must not be confused with a slow
database. If a statement takes more than a short time, a probe checks the database on a separate connection.
If the probe gets no answer either, all waits are ended and new queries are refused at once. If the probe
gets an answer, slow statements and waits for locks continue.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

# Their sum is below 2 seconds, within which requests must be refused if nothing can be stored (R15).
SUSPECT_SECONDS = 0.5
PROBE_SECONDS = 1.0
# While the database answers probes, the interval between them grows: it is the statement's duration /
# SHARE.
SHARE = 4
NOTHING = "The database does not respond."

log = logging.getLogger("mcp.database")


class Silent(Exception):
    """Raised if the database is unresponsive.

    It may still execute one statement that it has already received.
    """


class Silence:
    """What this process knows about the responsiveness of one database. Thread-safe.

    ``answers`` probes the database within seconds, and returns True if the database responded.
    """

    def __init__(self) -> None:
        self.answers: Callable[[], bool] = lambda: True
        self._answered_at = 0.0
        self.forget()

    def forget(self) -> None:
        """Reset the state, as if no probe were running."""
        self._changing = threading.Lock()
        self._asked_at: float | None = None

    @property
    def lasts(self) -> bool:
        """True while the database is unresponsive."""
        asked_at = self._asked_at
        return asked_at is not None and time.monotonic() - asked_at >= PROBE_SECONDS

    def refuse(self) -> None:
        """Raise Silent while the database is unresponsive."""
        if self.lasts and not _is_patient():
            raise Silent(NOTHING)

    def bounded(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Wrap the driver's wait on a connection, so that the wait ends if the database is unresponsive.

        While there is nothing to read, the driver resumes the generator ten times a second and sends 0.
        """
        started = time.monotonic()
        try:
            wants = next(work)
            while True:
                ready = yield wants
                if not ready:
                    self._suspect(started)
                wants = work.send(ready)
        except StopIteration as end:
            return end.value

    def found(self) -> None:
        """Treat the database as unresponsive, because it did not even accept a connection."""
        self._probe(time.monotonic() - PROBE_SECONDS)

    def _suspect(self, started: float) -> None:
        self.refuse()
        if self._asked_at is None:
            now = time.monotonic()
            if now - max(started, self._answered_at) >= max(SUSPECT_SECONDS, (now - started) / SHARE):
                self._probe(now)

    def _probe(self, asked_at: float) -> None:
        with self._changing:
            if self._asked_at is not None:
                return
            self._asked_at = asked_at
        threading.Thread(target=self._wait_for_an_answer, name="mcp-database-probe", daemon=True).start()

    def _wait_for_an_answer(self) -> None:
        was_silent = False
        try:
            while not self.answers():
                if not was_silent:
                    log.error("%s Requests that need it are refused until it responds.", NOTHING)
                was_silent = True
        finally:
            with self._changing:
                self._asked_at, self._answered_at = None, time.monotonic()
        if was_silent:
            log.warning("The database responds again.")


def be_patient(*, patient: bool) -> None:
    """Set whether this thread waits for the database without a limit, as threads with application code do."""
    _thread.is_patient = patient


def watch() -> None:
    """Limit the waits of this process for an unresponsive database. For servers only: commands may wait."""
    global _watched  # noqa: PLW0603 - a fact about the process
    _watched = True


def is_watched() -> bool:
    """Return True if this thread must not wait for an unresponsive database."""
    return _watched and not _is_patient()


def of(alias: str) -> Silence:
    """Return the state of the database that has this ``alias`` in Django's settings."""
    return _known.get(alias) or _known.setdefault(alias, Silence())


_watched = False
_thread = threading.local()
_known: dict[str, Silence] = {}


def _is_patient() -> bool:
    return getattr(_thread, "is_patient", False)


def _forget() -> None:
    """Reset all states in a forked child, because it has none of its parent's probing threads."""
    for silence in _known.values():
        silence.forget()


os.register_at_fork(after_in_child=_forget)
