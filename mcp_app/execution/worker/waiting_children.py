"""Worker children that wait for a client's answer: their number and people, shared by the processes.

Up to 2025-11-25 a call that asks a question waits within its code, which blocks its child. The worker then
has one more child, so that unanswered questions do not stop other callers. Substitutes cost memory, so their
number is limited, and no child waits without one. When all places are taken, a person with at least two more
places than the asking person loses the oldest one. Unanswered questions of one person never make another
person's question fail.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mcp_app.protocol.principal_key import Person
from mcp_app.sessions.client_requests import NoAnswer

SLOTS = 4096
TOO_MANY = "Too many calls wait for answers of their clients already. Try again when some were answered."
GAVE_WAY = (
    "The question was withdrawn: another user's call needed its place, and several of your calls wait for "
    "answers already. Answer those, then call again."
)
# The server itself, which occupies a place while it waits for another server. Its places are never revoked.
NO_PERSON = 0


class WaitingChildren:
    """The waiting children of one worker by slot, in memory shared with its main process.

    Created before the children are forked. Each child writes only its own slot, except for ``leaving``, which
    others set. So no lock is needed that a killed child could leave locked.
    """

    def __init__(self) -> None:
        self.pids = _shared("I", 4)
        self.people, self.since = _shared("Q", 8), _shared("d", 8)
        self.leaving = _shared("B", 1)

    def count(self, children: Mapping[int, int]) -> int:
        """Return the number of waiting ``children`` (pid by slot). Clear the slots of ended children."""
        waiting = 0
        for slot, pid in enumerate(self.pids):
            if pid and children.get(slot) == pid:
                waiting += 1
            elif pid:
                self.pids[slot] = 0
        return waiting

    def make_room(self, slot: int, person: int, most: int) -> None:
        """Make room for a person within ``most`` places, if necessary by revoking another person's place.

        Raise NoAnswer if no other person has two more places. Two concurrent callers may both take the last
        place, or that of the same child.
        """
        if slot >= SLOTS:
            raise NoAnswer(TOO_MANY)
        staying = [slot for slot, pid in enumerate(self.pids) if pid and not self.leaving[slot]]
        if len(staying) < most:
            return
        held = Counter(self.people[slot] for slot in staying)
        own, _ = held.pop(person, 0), held.pop(NO_PERSON, 0)
        holder, number = max(held.items(), key=lambda each: each[1], default=(NO_PERSON, 0))
        if number < own + 2:
            raise NoAnswer(TOO_MANY)
        theirs = (slot for slot in staying if self.people[slot] == holder)
        self.leaving[min(theirs, key=lambda slot: self.since[slot])] = 1


def _shared(code: Any, size: int) -> Any:
    return memoryview(mmap.mmap(-1, SLOTS * size)).cast(code)


class WaitingPlace:
    """The place of a child process among the waiting children of its worker.

    A context manager for each question. ``person`` is the one whose call asks. ``waits`` and ``must_leave``
    are thread-safe. ``on_leave`` withdraws the open questions.
    """

    def __init__(self, children: WaitingChildren, slot: int, most: int) -> None:
        self._children, self._slot, self._most = children, slot, most
        self._open = 0
        self.person: Person | None = None
        self.on_leave: Callable[[], None] = lambda: None

    @property
    def waits(self) -> bool:
        """True if a question of this child's call is open."""
        return self._open > 0

    @property
    def must_leave(self) -> bool:
        """True if the place was given to another person's call."""
        return self._open > 0 and self._children.leaving[self._slot] > 0

    def __enter__(self) -> None:
        """Take a place for a question. Raise NoAnswer if the person can have none."""
        children, slot, person = self._children, self._slot, NO_PERSON
        if not self._open:
            if self.person is not None:
                # 64 bits of a digest, never NO_PERSON.
                person = int.from_bytes(hashlib.sha256(self.person.encode()).digest()[:8], "big") | 1
            if slot >= SLOTS or SLOTS - children.pids.tolist().count(0) >= self._most:
                children.make_room(slot, person, self._most)
            children.people[slot], children.since[slot] = person, time.monotonic()
            children.leaving[slot] = 0
            children.pids[slot] = os.getpid()
        self._open += 1

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if not self._open:
            self._children.pids[self._slot] = 0
