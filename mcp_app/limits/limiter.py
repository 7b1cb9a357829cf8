"""Admission of calls by the limits that hold for them, on the event loop of one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from django.db import DatabaseError

from mcp_app.conf import Settings
from mcp_app.database import clock
from mcp_app.database.queries import aquery_soon
from mcp_app.limits import current, usage
from mcp_app.limits.answers import CONCURRENT_SECONDS, refusal_of, unknown_count, until_end
from mcp_app.limits.leases import Leases
from mcp_app.limits.rules import BUDGET, CONCURRENT, RATE, Bucket, Period, has_limit
from mcp_app.models import Call
from mcp_app.protocol.call_state import TERMINAL
from mcp_app.protocol.errors import McpError
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

DAY_SECONDS: Final = 86_400.0
# A rule that observes concurrent calls counts up to this number of them.
MOST_OBSERVED: Final = 100_000
# The holder of a place of a background call is its stream, of another call this and a random number.
INLINE: Final = "inline-"

Work = Callable[..., Awaitable[dict[str, Any]]]


@dataclass(slots=True, eq=False)
class Ticket:
    """A call before its admission: the counts it belongs to, and those that have counted it.

    ``holder`` names the call among concurrent calls, which end after ``seconds`` at the latest. ``round`` is
    the digest of the state with which a client continues a call that asked it a question. ``at`` is the time
    at which budgets have counted the call, or None.
    """

    buckets: tuple[Bucket, ...]
    cost: int = 1
    holder: str = ""
    seconds: float = DAY_SECONDS
    round: str = ""
    counted: list[Bucket] = field(default_factory=list)
    at: datetime | None = None

    @property
    def ends(self) -> bool:
        """True if the call holds a place that its end must release."""
        return any(bucket.measure == CONCURRENT for bucket in self.counted)


def ticket_for(
    principal: str,
    tool: Any,
    path: str,
    *,
    holder: str = "",
    seconds: float = 0.0,
    state: str = "",
    concurrent: bool = True,
    counted: bool = False,
) -> Ticket | None:
    """Return the ticket of a call of ``tool``, an entry of the catalogue, or None if no rule limits it.

    Without ``concurrent`` the call does not count among concurrent calls. With ``counted`` it counts only
    among them. ``state`` is the ``round`` of the ticket.
    """
    if not current.holder.active and not has_limit(tool):
        return None
    found = current.buckets_of(principal, tool, path)
    if counted or not concurrent:
        found = tuple(bucket for bucket in found if (bucket.measure == CONCURRENT) == counted)
    if not found:
        return None
    return Ticket(found, tool.cost or 1, holder or f"{INLINE}{uuid4().hex}", seconds or DAY_SECONDS, state)


class Limiter:
    """The limits of one process."""

    def __init__(
        self, streams: Streams, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._streams = streams
        self.leases = Leases(streams.rules, settings.web_processes, clock)
        self._ending: set[asyncio.Task[None]] = set()

    async def admit(self, ticket: Ticket) -> None:
        """Count a call. Raise McpError if an enforced limit refuses it; no limit has then counted it."""
        buckets = ticket.buckets
        if ticket.round and await self._continues(ticket.round):
            buckets = tuple(bucket for bucket in buckets if bucket.measure == CONCURRENT)
        is_admitted = False
        try:
            for bucket in buckets:
                refusal = await self._take(bucket, ticket)
                if refusal is None:
                    continue
                usage.note_refused(bucket)
                if not bucket.rule.observe:
                    raise refusal
            is_admitted = True
        except asyncio.CancelledError:
            # Redis may have given a place whose answer was not read.
            ticket.counted += [each for each in buckets if each.measure == CONCURRENT]
            raise
        finally:
            if not is_admitted:
                await self.give_back(ticket)

    async def give_back(self, ticket: Ticket | None) -> None:
        """Uncount a call that was admitted and did not start. Do nothing if no rule limits it."""
        if ticket is None:
            return
        counted, ticket.counted = ticket.counted, []
        for bucket in counted:
            if bucket.measure == RATE:
                self.leases.give_back(bucket)
            elif bucket.measure == BUDGET:
                await self._uncount(bucket, ticket)
            else:
                await self._release(bucket, ticket)

    def until_end(self, ticket: Ticket, work: Work) -> Work:
        """Return the work of a call that releases the places of the call before it is answered.

        A client that has its answer can then call again.
        """

        async def released(*arguments: Any) -> dict[str, Any]:
            try:
                return await work(*arguments)
            finally:
                await asyncio.shield(self._end(ticket))

        return released

    def _end(self, ticket: Ticket) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._release_all(ticket))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _release_all(self, ticket: Ticket) -> None:
        for bucket in ticket.counted:
            if bucket.measure == CONCURRENT:
                await self._release(bucket, ticket)

    async def _continues(self, state: str) -> bool:
        """Return True if a client continues a call that asked it a question.

        Each state continues a call only once. Otherwise clients could repeat it to avoid a limit. The state
        was verified before.
        """
        try:
            return await self._streams.windows.hit(f"round/{state}", 1, DAY_SECONDS)
        except StreamsError:
            return False

    async def _take(self, bucket: Bucket, ticket: Ticket) -> McpError | None:
        """Count a call in one bucket. Return the refusal if the limit is reached."""
        if bucket.measure == RATE:
            wait = await self.leases.take(bucket)
        elif bucket.measure == BUDGET:
            try:
                fits = await self._spend(bucket, ticket)
            except (StreamsError, DatabaseError):
                return unknown_count(bucket)
            wait = 0.0 if fits else until_end(bucket, clock.utcnow())
        else:
            wait = 0.0 if await self._acquire(bucket, ticket) else CONCURRENT_SECONDS
        # A rule that observes has counted the call in any case.
        if not wait or (bucket.rule.observe and bucket.measure != RATE):
            ticket.counted.append(bucket)
        return refusal_of(bucket, wait) if wait else None

    async def _spend(self, bucket: Bucket, ticket: Ticket) -> bool:
        rule, units, period = bucket.rule, units_of(bucket, ticket), period_of(bucket, ticket)
        budget = None if rule.observe else rule.budget
        key, seconds = budget_key(bucket, period), keep_seconds(period)
        found = await self._streams.rules.spend(key, units, budget, seconds)
        if found.is_unknown:
            stored = await aquery_soon(usage.spent, bucket, period.start)
            found = await self._streams.rules.spend(key, units, budget, seconds, stored)
        usage.note_spent(bucket, period.start, found.units)
        return found.fits and found.units <= rule.budget

    async def _uncount(self, bucket: Bucket, ticket: Ticket) -> None:
        period, units = period_of(bucket, ticket), units_of(bucket, ticket)
        key = budget_key(bucket, period)
        try:
            await self._streams.rules.spend(key, -units, None, keep_seconds(period), units)
        except StreamsError:
            return  # The call stays counted, which never admits too many.

    async def _acquire(self, bucket: Bucket, ticket: Ticket) -> bool:
        """Take a place among the concurrent calls. Places of background calls that ended are released first.

        While Redis is unavailable, places cannot be counted, and every call gets one.
        """
        windows, key, most = self._streams.windows, f"limit/{bucket.key}", bucket.rule.concurrent
        try:
            if bucket.rule.observe:
                await windows.acquire(key, ticket.holder, MOST_OBSERVED, ticket.seconds)
                return await windows.held(key) <= most
            if await windows.acquire(key, ticket.holder, most, ticket.seconds):
                return True
            background = background_among(await windows.holders(key))
            if not background:
                return False
            with suppress(DatabaseError):
                for holder in await aquery_soon(ended_among, background):
                    await windows.release(key, holder)
            return await windows.acquire(key, ticket.holder, most, ticket.seconds)
        except StreamsError:
            return True

    async def _release(self, bucket: Bucket, ticket: Ticket) -> None:
        try:
            await self._streams.windows.release(f"limit/{bucket.key}", ticket.holder)
        except StreamsError:
            return  # The place expires.


def units_of(bucket: Bucket, ticket: Ticket) -> int:
    """Return the units of a budget that a call spends."""
    return ticket.cost if bucket.rule.budget_unit == "cost" else 1


def period_of(bucket: Bucket, ticket: Ticket) -> Period:
    """Return the period of a budget that counts a call. A call is uncounted in the period that counted it."""
    if ticket.at is None:
        ticket.at = clock.utcnow()
    return Period.at(bucket.rule.budget_period, ticket.at)


def budget_key(bucket: Bucket, period: Period) -> str:
    """Return the name of the shared count of a budget in one period."""
    return f"{bucket.key}/{period.start:%Y%m%d%H}"


def keep_seconds(period: Period) -> float:
    """Return how long the shared count of a budget is kept: a day longer than its period."""
    return (period.end - clock.utcnow()).total_seconds() + DAY_SECONDS


def background_among(holders: list[str]) -> list[str]:
    """Return those holders of places that are background calls."""
    return [each for each in holders if not each.startswith(INLINE)]


def ended_among(holders: list[str]) -> list[str]:
    """Return those holders of places whose background call has ended. Blocks on the database."""
    calls = {UUID(each.rpartition("-")[2]): each for each in holders}
    ended = Call.objects.filter(pk__in=calls, state__in=TERMINAL).values_list("pk", flat=True)
    return [calls[pk] for pk in ended]
