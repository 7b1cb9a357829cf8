"""Owns the account of what Redis holds for each person, and decides who may store more.

An owner is named by the key of a principal; all principals of a person are on one account.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import redis

from mcp_app.protocol.principal_key import person_of
from mcp_app.streams.base import (
    LARGE_BYTES,
    KeptFull,
    StreamLimits,
    StreamsError,
    StreamsFull,
    StreamsUnavailable,
)
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Argument, Batch
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import KEPT

# Expired streams that one look forgets: a few milliseconds of Redis' time.
SWEEP = 1_000
# How long what Redis said of its memory is good: much less than it takes to fill what is left then.
MEMORY_SECONDS = 0.1
# How long the notes of a process wait for each other, as good as that: one script costs as much as ten notes.
NOTE_SECONDS = MEMORY_SECONDS
# No more than this is noted and not yet told: what is large counts at once.
NOTE_BYTES = LARGE_BYTES
# Accepted work may take as much again as a person's share before its large answers are refused.
OVERDRAFT = 2
# What Redis needs for an ended session, measured: a key of about 50 characters, a small hash, its expiry.
TOMBSTONE = 200
# Refused people that one process knows of.
REMEMBERED = 10_000
NO_NOTES: Mapping[str, tuple[int | str, str, int]] = MappingProxyType({})


class RedisKept:
    """``base.Kept`` on Redis.

    The account has a hash tag of its own, so it is updated after the stream was written. What is lost between
    the two is put right by the next note of that stream, at the latest by its expiry.
    """

    def __init__(self, batch: Batch, limits: StreamLimits) -> None:
        self._batch, self._limits = batch, limits
        self._notes: dict[str, tuple[int, str, int]] = {}
        self._waiting = 0  # bytes of these
        self._ended: dict[str, int] = {}  # sessions of each person that have ended, and are not noted yet
        self._ended_ttl = 0
        self._telling: asyncio.TimerHandle | None = None
        # When Redis told what each of some people holds, and how much that was, with their sessions that have
        # ended since.
        self._told: dict[str, tuple[float, int]] = {}
        self._memory = (0, 0)  # bytes that Redis uses, and may use (0: no limit)
        self._bound = bound_of(0, limits)
        self._refused: set[str] = set()
        self._looked_at = float("-inf")
        self._large = asyncio.Lock()

    async def held(self, owner: str) -> int:
        """See ``Kept.held``."""
        more = True
        person = person_of(owner)
        self._tell_ended()
        while more:
            notes = account(person, self._taken(), self._limits.ttl)
            held, more = await self._batch.script(scripts.KEPT, KEPT, *notes)
        return int(held)

    async def admit(self, owner: str) -> None:
        """See ``Kept.admit``."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at > MEMORY_SECONDS:
            self._looked_at = now
            self._memory = await memory_if_told(self._batch)
            self._bound = bound_of(self._memory[1], self._limits)
        check_room(*self._memory, self._limits.full_percent)
        person = person_of(owner)
        self._refused.discard(person)
        if not self._bound or self._has_room(person, now):
            return
        held = await self.held(person)
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told[person] = asyncio.get_running_loop().time(), held
        try:
            check(held, self._bound)
        except KeptFull:
            if len(self._refused) >= REMEMBERED:
                self._refused.clear()
            self._refused.add(person)
            raise

    def refused(self, owner: str) -> bool:
        """See ``Kept.refused``."""
        return person_of(owner) in self._refused

    @asynccontextmanager
    async def room(self, owner: str, size: int) -> AsyncIterator[None]:
        """Hold the room for one large write (in bytes) of accepted work; raises KeptFull when there is none.

        One at a time in each process: many that look at once would all see the same room.
        """
        async with self._large:
            used, memory = await memory_if_told(self._batch)
            check_accepted(await self.held(owner) + size, bound_of(memory, self._limits))
            try:
                check_room(used + size, memory, accepted_percent(self._limits))
            except StreamsFull as error:
                raise KeptFull(str(error)) from None
            yield

    def _has_room(self, person: str, now: float) -> bool:
        """Whether somebody held less than half of a share a moment ago, and this process has kept no more."""
        at, held = self._told.get(person, (float("-inf"), 0))
        return held * 2 < self._bound and now - at < MEMORY_SECONDS

    # What follows is sent without waiting for the reply, after the write it tells of. The notes of a moment
    # leave together, at the latest with the next question for a sum: a process reads its own notes.

    def note(self, owner: bytes, session: str, stream: str, size: int, offset: int) -> None:
        """Replace a stream's entry in the account. Never fails: the stream has already been written.

        ``offset`` is that of its newest event: a note that waited here may come after that of a later write
        elsewhere, such as a worker's answer, and must not replace it.
        """
        person = person_of(owner.decode())
        self._notes[f"{session}/{stream}"] = size, person, offset
        self._told.pop(person, None)
        self._waiting += size
        if self._waiting > NOTE_BYTES:
            self.tell_notes()
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.tell_notes)

    def tell_notes(self) -> None:
        """Tell the account at once what has been noted by now. Never fails."""
        self._tell_ended()
        if notes := self._taken():
            self._batch.tell(scripts.KEPT, KEPT, *account("", notes, self._limits.ttl))

    def note_tombstone(self, owner: str, ttl: int) -> None:
        """Add what an ended session leaves for ``ttl`` seconds; "": that was noted before. Never fails."""
        if not owner:
            return
        if ttl != self._ended_ttl:
            self._tell_ended()
            self._ended_ttl = ttl
        person = person_of(owner)
        self._ended[person] = self._ended.get(person, 0) + 1
        if (told := self._told.get(person)) is not None:
            self._told[person] = told[0], told[1] + TOMBSTONE
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.tell_notes)

    def _tell_ended(self) -> None:
        ended, self._ended = self._ended, {}
        if ended:
            self._batch.tell(scripts.KEPT, KEPT, *tombstones(ended, self._ended_ttl))

    def forget(self, session: str, streams: list[str]) -> None:
        """Take streams that are gone from the account. Never fails, either."""
        for start in range(0, len(streams), SWEEP):
            names = [f"{session}/{stream}" for stream in streams[start : start + SWEEP]]
            for name in names:
                self._notes.pop(name, None)
            self._batch.tell(scripts.KEPT, KEPT, *account(gone=names))

    def _taken(self) -> dict[str, tuple[int, str, int]]:
        """The notes that wait, which do so no longer."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        notes, self._notes, self._waiting = self._notes, {}, 0
        return notes


async def memory(batch: Batch) -> tuple[int, int]:
    """Bytes Redis uses, and may use (0: no limit). Raises StreamsError if it does not tell."""
    text = (await batch.command("INFO", "memory")).decode()
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))


async def memory_if_told(batch: Batch) -> tuple[int, int]:
    """As ``memory``; both 0 if Redis does not know INFO (fakeredis), or we may not ask."""
    try:
        return await memory(batch)
    except StreamsUnavailable:
        raise
    except StreamsError:
        return 0, 0


def admit_now(url: str, limits: StreamLimits, owner: str) -> None:
    """``Kept.admit`` for code without an event loop; raises StreamsUnavailable, too."""
    client, held, more = _client(url), 0, 1
    try:
        facts = _facts(client)
        most = int(facts.get("maxmemory", 0))
        check_room(int(facts.get("used_memory", 0)), most, limits.full_percent)
        while more:
            held, more = client.eval(scripts.KEPT.source, len(KEPT), *KEPT, *account(person_of(owner)))
    except redis.RedisError as error:
        raise StreamsUnavailable("Redis does not say what is kept.") from error
    check(int(held), bound_of(most, limits))


def _facts(client: redis.Redis) -> dict[str, Any]:
    """As ``memory_if_told``, by its names in Redis."""
    try:
        facts: Any = client.info("memory")
    except redis.ResponseError:
        return {}
    return dict(facts)


@lru_cache(maxsize=2)
def _client(url: str) -> redis.Redis:
    return sync_client(url)


def account(
    told: str = "",
    notes: Mapping[str, tuple[int | str, str, int]] = NO_NOTES,
    ttl: int = 0,
    gone: Sequence[str] = (),
) -> list[Argument]:
    """The arguments of ``lua/kept.lua``: whose sum to tell, notes of streams, streams that are gone."""
    arguments: list[Argument] = [told, SWEEP, len(notes), ttl]
    for stream, (size, owner, offset) in notes.items():
        arguments += stream, size, owner, offset
    return [*arguments, *gone]


def tombstones(ended: Mapping[str, int], ttl: int) -> list[Argument]:
    """The arguments of ``lua/kept.lua`` for so many ended sessions of each person.

    Those of a minute are one entry of the account, since many entries would take more room than tombstones.
    """
    notes = {f"ended/{person}": (f"+{TOMBSTONE * count}", person, 0) for person, count in ended.items()}
    return account("", notes, ttl)


def check_room(used: int, memory: int, percent: int) -> None:
    """Raise StreamsFull when more than ``percent`` of ``memory`` is ``used``; 0 of either is no limit."""
    if memory and percent and used * 100 > memory * percent:
        raise StreamsFull(f"Redis uses {used} of its {memory} bytes.")


def check(held: int, bound: int) -> None:
    """Raise KeptFull when the bytes ``held`` for an owner are as many as may be (0: any number) or more."""
    if bound and held >= bound:
        raise KeptFull(f"{held} bytes are kept, and {bound} may be.")


def check_accepted(held: int, bound: int) -> None:
    """Raise KeptFull when accepted work may not keep ``held`` bytes for an owner."""
    check(held, bound * OVERDRAFT)


def accepted_percent(limits: StreamLimits) -> int:
    """Return the percentage of Redis' memory above which no large answer is written; 0: no limit."""
    return limits.full_percent and (limits.full_percent + 100) // 2


def bound_of(memory: int, limits: StreamLimits) -> int:
    """How many bytes may be kept for an owner, in a store of so much ``memory``; 0: any number."""
    share = memory * limits.kept_percent // 100
    return min(share, limits.kept_bytes) if share and limits.kept_bytes else share or limits.kept_bytes
