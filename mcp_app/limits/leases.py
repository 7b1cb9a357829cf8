"""Rates in one process: calls that it leased from the shared count, and its own count without Redis."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from mcp_app.limits.rules import MICROSECONDS, Bucket, Rule
from mcp_app.streams.base import Lease, LimitStore, StreamsError
from mcp_app.streams.stores.limits import MemoryLimits

# The subjects whose leases one process keeps. Leases that are dropped are lost, never exceeded.
REMEMBERED: Final = 10_000

log = logging.getLogger("mcp.limits")


class _Leased:
    """The leased calls of one bucket, and the moment until which the shared count has none."""

    __slots__ = ("blocked_until", "calls", "expires", "pending", "rule", "waiting")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.calls = self.waiting = 0
        self.expires = self.blocked_until = 0.0
        self.pending: asyncio.Task[None] | None = None


class Leases:
    """The rates of one process.

    A process leases calls ahead and admits them without Redis. The shared count has already counted them,
    so all processes together admit no call more than the rate. Leased calls expire when the rate allows as
    many again. While Redis is unavailable, the process counts its share of the rate.
    """

    def __init__(
        self, store: LimitStore, processes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._processes, self._clock = store, max(1, processes), clock
        self._own = MemoryLimits(clock=clock)
        self._leased: dict[str, _Leased] = {}
        self.trips = 0
        self._is_away = False

    async def take(self, bucket: Bucket) -> float:
        """Admit one call and return 0.0, or return the seconds until the rate allows one."""
        leased = self._leased.get(bucket.key)
        # A changed rule must not wait as long as the earlier one, whose broadcast may be lost.
        if leased is None or (leased.rule is not bucket.rule and leased.rule != bucket.rule):
            leased = self._begin(bucket)
        while True:
            now = self._clock()
            if leased.calls > 0 and leased.expires > now:
                leased.calls -= 1
                return 0.0
            if leased.blocked_until > now:
                return leased.blocked_until - now
            leased.waiting += 1
            try:
                if leased.pending is None:
                    leased.pending = asyncio.ensure_future(self._lease(bucket, leased))
                await asyncio.shield(leased.pending)
            except StreamsError:
                return self._take_own(bucket)
            finally:
                leased.waiting -= 1

    def take_now(self, buckets: Sequence[Bucket]) -> bool:
        """Admit one call that this process has leased in all ``buckets``, without waiting.

        Return False without effect if it has not, or if a bucket is not an enforced rate.
        """
        now, found = self._clock(), []
        for bucket in buckets:
            leased = self._leased.get(bucket.key)
            if leased is None or leased.calls < 1 or leased.expires <= now or bucket.rule.observe:
                return False
            found.append(leased)
        for leased in found:
            leased.calls -= 1
        return True

    def give_back(self, bucket: Bucket) -> None:
        """Return a call that was admitted and did not start. Another call of this process may use it."""
        leased = self._leased.get(bucket.key)
        if leased is not None and leased.expires > self._clock():
            leased.calls += 1

    def forget(self) -> None:
        """Drop all leases, because counts were reset or rules changed."""
        self._leased.clear()
        self._own = MemoryLimits(clock=self._clock)

    def _begin(self, bucket: Bucket) -> _Leased:
        if len(self._leased) >= REMEMBERED:
            self._leased = {name: each for name, each in self._leased.items() if each.pending is not None}
        leased = self._leased[bucket.key] = _Leased(bucket.rule)
        return leased

    async def _lease(self, bucket: Bucket, leased: _Leased) -> None:
        """Lease calls ahead, or for the calls that wait for this lease."""
        emission = bucket.rule.emission
        try:
            self.trips += 1
            asked = self._clock()
            wanted = min(max(bucket.lease, leased.waiting), bucket.burst)
            taken = await self._store.lease(bucket.key, emission, bucket.burst, wanted)
        except StreamsError as error:
            if not self._is_away:
                log.warning("Redis is unavailable, limits count in each process: %s", type(error).__name__)
            self._is_away = True
            raise
        finally:
            leased.pending = None
        if self._is_away:
            self._is_away = False
            log.info("Limits count over all processes again.")
        leased.calls = taken.calls
        # Unused calls expire when the rate allows as many again.
        leased.expires = asked + max(1.0, taken.calls * emission / MICROSECONDS)
        if not taken.calls:
            leased.blocked_until = asked + max(taken.wait, (bucket.lease - 1) * emission) / MICROSECONDS

    def _take_own(self, bucket: Bucket) -> float:
        share = max(1, bucket.burst // self._processes)
        taken: Lease = self._own.lease_now(bucket.key, bucket.rule.emission * self._processes, share, 1)
        return 0.0 if taken.calls else taken.wait / MICROSECONDS
