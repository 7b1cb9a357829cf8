"""The children of a worker that wait for a client's answer: how many, and for whom. Shared by its processes.

Up to 2025-11-25, a call that asks a question waits inside its code, which blocks its child. The worker then
starts one more child as a substitute, so that unanswered questions do not hold up other callers.
Substitutes cost memory, so their number is limited, and a child without a substitute must not wait. If all
places are in use, a new question can take over a place. It takes the oldest place of a person who has at
least two more places than the asking person. Thus one person's unanswered questions never make another
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
PREEMPTED = (
    "The question was withdrawn: another user's call needed its place, and several of your calls wait for "
    "answers already. Answer those, then call again."
)
# Stands for the server itself, which uses a place while it waits for another server and never loses it.
NO_PERSON = 0


class WaitingChildren:
    """The waiting children of one worker by slot, in memory that is shared with its main process.

    The object is created before the children are forked. Each child writes only its own slot, except that
    others set ``leaving``. Therefore no lock is needed, which a killed child could fail to release.
    """

    def __init__(self) -> None:
        self.pids = _shared("I", 4)
        self.people, self.since = _shared("Q", 8), _shared("d", 8)
        self.leaving = _shared("B", 1)

    def count(self, children: Mapping[int, int]) -> int:
        """Return how many of ``children`` (pid by slot) wait. Clear the slots of children that have ended."""
        waiting = 0
        for slot, pid in enumerate(self.pids):
            if pid and children.get(slot) == pid:
                waiting += 1
            elif pid:
                self.pids[slot] = 0
        return waiting

    def make_room(self, slot: int, person: int, most: int) -> None:
        """Make sure that a person gets one of ``most`` places, if necessary by taking another person's place.

        Raise NoAnswer if no other person has at least two more places. Two concurrent callers may both take
        the last free place, or both take the place of the same child.
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


class WaitingSlot:
    """The place of a child process among the waiting children of its worker.

    It is used as a context manager around each question. ``person`` is the person whose call asks.
    ``waits`` and ``must_leave`` are thread-safe. ``on_leave`` withdraws the open questions.
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
        """True if another person's call has taken this place."""
        return self._open > 0 and self._children.leaving[self._slot] > 0

    def __enter__(self) -> None:
        """Take a place for a question. Raise NoAnswer if the person cannot get a place."""
        children, slot, person = self._children, self._slot, NO_PERSON
        if not self._open:
            if self.person is not None:
                # 64 bits of a digest, which are never equal to NO_PERSON.
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
