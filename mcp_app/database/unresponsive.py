"""Distinguishes an unresponsive database (frozen, or behind a network that drops packets) from a slow one.

To the kernel of the other machine all is well, so no connection breaks and no statement ends. Whoever has
waited for a moment has the database asked on a connection of its own. While that gets no answer either, all
waits end and new ones are refused at once; a slow statement, or one that waits for a lock, goes on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

# Together below the 2 seconds within which is refused what cannot be stored (R15).
SUSPECT_SECONDS = 0.5
PROBE_SECONDS = 1.0
# The longer a statement takes while the database answers others, the more seldom that is asked again.
SHARE = 4
NOTHING = "The database answers nothing."

log = logging.getLogger("mcp.database")


class Silent(Exception):
    """The database answers nothing. One statement that it has received it may carry out when it wakes."""


class Silence:
    """What this process knows of one database; used from all its threads.

    ``answers`` asks the database and returns whether it said anything; it takes seconds at most.
    """

    def __init__(self) -> None:
        self.answers: Callable[[], bool] = lambda: True
        self._answered_at = 0.0
        self.forget()

    def forget(self) -> None:
        """Nobody asks the database at this moment."""
        self._changing = threading.Lock()
        self._asked_at: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether the database is silent now."""
        asked_at = self._asked_at
        return asked_at is not None and time.monotonic() - asked_at >= PROBE_SECONDS

    def refuse(self) -> None:
        """Raises Silent while it is."""
        if self.lasts and not _is_patient():
            raise Silent(NOTHING)

    def bounded(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """What the driver does on a connection, with an end when the database is silent.

        The driver comes by ten times a second while there is nothing to read, and sends 0 then.
        """
        begun = time.monotonic()
        try:
            wants = next(work)
            while True:
                ready = yield wants
                if not ready:
                    self._wonder(begun)
                wants = work.send(ready)
        except StopIteration as end:
            return end.value

    def found(self) -> None:
        """It did not even take a connection."""
        self._ask(time.monotonic() - PROBE_SECONDS)

    def _wonder(self, begun: float) -> None:
        self.refuse()
        if self._asked_at is None:
            now = time.monotonic()
            if now - max(begun, self._answered_at) >= max(SUSPECT_SECONDS, (now - begun) / SHARE):
                self._ask(now)

    def _ask(self, asked_at: float) -> None:
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
                    log.error("%s Requests that need it are refused until it does.", NOTHING)
                was_silent = True
        finally:
            with self._changing:
                self._asked_at, self._answered_at = None, time.monotonic()
        if was_silent:
            log.warning("The database answers again.")


def be_patient(*, patient: bool) -> None:
    """Whether this thread waits for the database as long as it takes: it runs other people's code."""
    _thread.is_patient = patient


def watch() -> None:
    """From now on no wait of this process outlasts a silence. Servers do that; commands have time."""
    global _watched  # noqa: PLW0603 - a fact about the process
    _watched = True


def is_watched() -> bool:
    """Whether this process, in this thread, gives up when the database is silent."""
    return _watched and not _is_patient()


def of(alias: str) -> Silence:
    """What is known of the database that Django's settings call ``alias``."""
    return _known.get(alias) or _known.setdefault(alias, Silence())


_watched = False
_thread = threading.local()
_known: dict[str, Silence] = {}


def _is_patient() -> bool:
    return getattr(_thread, "is_patient", False)


def _forget() -> None:
    """A forked child has none of its parent's threads, so none of them waits for an answer."""
    for silence in _known.values():
        silence.forget()


os.register_at_fork(after_in_child=_forget)
