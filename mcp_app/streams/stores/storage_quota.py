"""The account of the data that Redis stores for each person, and the quota checks.

The account belongs to the person. All principals of one person share it.
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
    QuotaExceeded,
    StreamLimits,
    StreamsError,
    StreamsFull,
    StreamsUnavailable,
)
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Argument, Batch
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import KEPT

# Expired streams removed by one run of the script, which takes a few milliseconds of Redis' time.
SWEEP = 1_000
# How long the memory usage of Redis is cached: much less than the time in which its memory could fill up.
MEMORY_SECONDS = 0.1
# How long the notes of a process are collected before they are sent. One script costs as much as ten notes.
NOTE_SECONDS = MEMORY_SECONDS
# Limit for the sizes in unsent notes. When it is exceeded, the notes are sent at once.
NOTE_BYTES = LARGE_BYTES
# Accepted work may use twice the quota of a person before its large answers are refused.
OVERDRAFT = 2
# Measured size of an ended session in Redis: a key of about 50 characters, a small hash and its expiry.
TOMBSTONE = 200
# Maximum number of refused people that one process remembers.
REMEMBERED = 10_000
NO_NOTES: Mapping[str, tuple[int | str, str, int]] = MappingProxyType({})


class RedisStorageQuota:
    """An implementation of ``base.StorageQuota`` on Redis.

    The account has its own hash tag, so it is updated in a separate step after the stream was written. If
    that update is lost, the next note about the stream corrects the account, or the expiry of the stream
    does.
    """

    def __init__(self, batch: Batch, limits: StreamLimits) -> None:
        self._batch, self._limits = batch, limits
        self._notes: dict[str, tuple[int, str, int]] = {}
        self._waiting = 0  # bytes of the streams in the unsent notes
        self._ended: dict[str, int] = {}  # ended sessions of each person that were not sent yet
        self._ended_ttl = 0
        self._telling: asyncio.TimerHandle | None = None
        # For each person the time and value of the last known usage. The value includes sessions that ended
        # later.
        self._told: dict[str, tuple[float, int]] = {}
        self._memory = (0, 0)  # bytes in use and their limit (0: no limit)
        self._bound = bound_of(0, limits)
        self._refused: set[str] = set()
        self._looked_at = float("-inf")
        self._large = asyncio.Lock()

    async def held(self, owner: str) -> int:
        more = True
        person = person_of(owner)
        self._send_ended()
        while more:
            notes = account(person, self._taken(), self._limits.ttl)
            held, more = await self._batch.script(scripts.KEPT, KEPT, *notes)
        return int(held)

    async def admit(self, owner: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at > MEMORY_SECONDS:
            self._looked_at = now
            self._memory = await memory_or_zero(self._batch)
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
        except QuotaExceeded:
            if len(self._refused) >= REMEMBERED:
                self._refused.clear()
            self._refused.add(person)
            raise

    def refused(self, owner: str) -> bool:
        return person_of(owner) in self._refused

    @asynccontextmanager
    async def room(self, owner: str, size: int) -> AsyncIterator[None]:
        """Reserve ``size`` bytes for one large write of accepted work, or raise QuotaExceeded.

        A process makes one reservation at a time, because concurrent checks would all see the same free
        memory.
        """
        async with self._large:
            used, memory = await memory_or_zero(self._batch)
            check_accepted(await self.held(owner) + size, bound_of(memory, self._limits))
            try:
                check_room(used + size, memory, accepted_percent(self._limits))
            except StreamsFull as error:
                raise QuotaExceeded(str(error)) from None
            yield

    def _has_room(self, person: str, now: float) -> bool:
        """Return True if the person recently used under half of the quota and stored nothing since."""
        at, held = self._told.get(person, (float("-inf"), 0))
        return held * 2 < self._bound and now - at < MEMORY_SECONDS

    # The methods below do not wait for replies, and are called after the write that they record. Notes are
    # collected for a short time and sent together, at the latest before the next query. So a process sees
    # its own notes.

    def record(self, owner: bytes, session: str, stream: str, size: int, offset: int) -> None:
        """Replace a stream's entry in the account. Never fails, because the stream has already been written.

        ``offset`` is the offset of the newest event in the stream. It protects the account against a
        delayed note. Such a note must not replace the note that another process, such as a worker, made for
        a later write.
        """
        person = person_of(owner.decode())
        self._notes[f"{session}/{stream}"] = size, person, offset
        self._told.pop(person, None)
        self._waiting += size
        if self._waiting > NOTE_BYTES:
            self.send_pending()
        elif self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.send_pending)

    def send_pending(self) -> None:
        """Send all pending notes to the account. Never fails."""
        self._send_ended()
        if notes := self._taken():
            self._batch.post(scripts.KEPT, KEPT, *account("", notes, self._limits.ttl))

    def record_tombstone(self, owner: str, ttl: int) -> None:
        """Add the tombstone of an ended session for ``ttl`` seconds. Ignore an empty owner. Never fails."""
        if not owner:
            return
        if ttl != self._ended_ttl:
            self._send_ended()
            self._ended_ttl = ttl
        person = person_of(owner)
        self._ended[person] = self._ended.get(person, 0) + 1
        if (known := self._told.get(person)) is not None:
            self._told[person] = known[0], known[1] + TOMBSTONE
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.send_pending)

    def _send_ended(self) -> None:
        ended, self._ended = self._ended, {}
        if ended:
            self._batch.post(scripts.KEPT, KEPT, *tombstones(ended, self._ended_ttl))

    def forget(self, session: str, streams: list[str]) -> None:
        """Remove deleted streams from the account. Never fails."""
        for start in range(0, len(streams), SWEEP):
            names = [f"{session}/{stream}" for stream in streams[start : start + SWEEP]]
            for name in names:
                self._notes.pop(name, None)
            self._batch.post(scripts.KEPT, KEPT, *account(gone=names))

    def _taken(self) -> dict[str, tuple[int, str, int]]:
        """Return the pending notes and clear them."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        notes, self._notes, self._waiting = self._notes, {}, 0
        return notes


async def memory(batch: Batch) -> tuple[int, int]:
    """Return how many bytes Redis uses, and its limit (0: no limit). Raise StreamsError if INFO fails."""
    text = (await batch.command("INFO", "memory")).decode()
    facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))


async def memory_or_zero(batch: Batch) -> tuple[int, int]:
    """Return the same as ``memory``. Return zeros if Redis has no INFO (fakeredis) or forbids it."""
    try:
        return await memory(batch)
    except StreamsUnavailable:
        raise
    except StreamsError:
        return 0, 0


def admit_now(url: str, limits: StreamLimits, owner: str) -> None:
    """Check the quota as ``StorageQuota.admit`` does, for code without an event loop.

    Raise StreamsUnavailable as well.
    """
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
    """Return the memory section of INFO. Return {} if Redis has no INFO or forbids it."""
    try:
        facts: Any = client.info("memory")
    except redis.ResponseError:
        return {}
    return dict(facts)


@lru_cache(maxsize=2)
def _client(url: str) -> redis.Redis:
    return sync_client(url)


def account(
    queried: str = "",
    notes: Mapping[str, tuple[int | str, str, int]] = NO_NOTES,
    ttl: int = 0,
    gone: Sequence[str] = (),
) -> list[Argument]:
    """Return arguments for ``lua/kept.lua``: the owner ``queried``, notes of streams, and deleted streams."""
    arguments: list[Argument] = [queried, SWEEP, len(notes), ttl]
    for stream, (size, owner, offset) in notes.items():
        arguments += stream, size, owner, offset
    return [*arguments, *gone]


def tombstones(ended: Mapping[str, int], ttl: int) -> list[Argument]:
    """Return arguments for ``lua/kept.lua`` that record how many sessions of each person have ended.

    Sessions that end within a minute share an entry of the account. Single entries would use more memory
    than the tombstones themselves.
    """
    notes = {f"ended/{person}": (f"+{TOMBSTONE * count}", person, 0) for person, count in ended.items()}
    return account("", notes, ttl)


def check_room(used: int, memory: int, percent: int) -> None:
    """Raise StreamsFull if more than ``percent`` of ``memory`` is ``used``. A 0 in either means no limit."""
    if memory and percent and used * 100 > memory * percent:
        raise StreamsFull(f"Redis uses {used} of its {memory} bytes.")


def check(held: int, bound: int) -> None:
    """Raise QuotaExceeded if the bytes ``held`` for an owner have reached ``bound`` (0: no limit)."""
    if bound and held >= bound:
        raise QuotaExceeded(f"{held} bytes are kept, and {bound} may be.")


def check_accepted(held: int, bound: int) -> None:
    """Raise QuotaExceeded if accepted work must not store as many as ``held`` bytes for an owner."""
    check(held, bound * OVERDRAFT)


def accepted_percent(limits: StreamLimits) -> int:
    """Return the percentage of Redis' memory above which large answers are refused (0: no limit)."""
    return limits.full_percent and (limits.full_percent + 100) // 2


def bound_of(memory: int, limits: StreamLimits) -> int:
    """Return the quota of an owner in bytes, for a store with ``memory`` bytes (0: no limit)."""
    share = memory * limits.kept_percent // 100
    return min(share, limits.kept_bytes) if share and limits.kept_bytes else share or limits.kept_bytes
