"""Admission of calls by the limits that hold for them, for code without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from django.db import DatabaseError

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.limits import usage
from mcp_app.limits.answers import CONCURRENT_SECONDS, refusal_of, unknown_count, until_end
from mcp_app.limits.limiter import (
    MOST_OBSERVED,
    Ticket,
    background_among,
    budget_key,
    ended_among,
    keep_seconds,
    period_of,
    units_of,
)
from mcp_app.limits.rules import BUDGET, MICROSECONDS, RATE, Bucket
from mcp_app.protocol.errors import McpError
from mcp_app.streams.blocking import limits as shared
from mcp_app.streams.stores.limits import MemoryLimits

# The rates of this process while Redis is unavailable.
_own: Final = MemoryLimits()
_counting = threading.Lock()


def admit(ticket: Ticket) -> None:
    """Count a call, as ``Limiter.admit``. Without Redis nothing is counted: a worker needs Redis."""
    if not conf.get().redis_url:
        return
    with starting(ticket):
        for bucket in ticket.buckets:
            refusal = _take(bucket, ticket)
            if refusal is None:
                continue
            usage.note_refused(bucket)
            if not bucket.rule.observe:
                raise refusal


@contextmanager
def starting(ticket: Ticket | None) -> Iterator[None]:
    """Uncount an admitted call if an error within this context prevents its start."""
    is_started = False
    try:
        yield
        is_started = True
    finally:
        if not is_started:
            give_back(ticket)


def give_back(ticket: Ticket | None) -> None:
    """Uncount a call that was admitted and did not start. A call of a rate stays counted."""
    if ticket is None:
        return
    counted, ticket.counted = ticket.counted, []
    for bucket in counted:
        try:
            if bucket.measure == BUDGET:
                period, units = period_of(bucket, ticket), units_of(bucket, ticket)
                key = budget_key(bucket, period)
                shared.spend(key, -units, None, keep_seconds(period), units)
            elif bucket.measure != RATE:
                shared.release(place_key(bucket), ticket.holder)
        except shared.Unavailable:
            continue  # What stays counted never admits too many.


def place_key(bucket: Bucket) -> str:
    """Return the name of the places of concurrent calls."""
    return f"limit/{bucket.key}"


def _take(bucket: Bucket, ticket: Ticket) -> McpError | None:
    if bucket.measure == RATE:
        wait = _rate(bucket)
    elif bucket.measure == BUDGET:
        try:
            fits = _spend(bucket, ticket)
        except (shared.Unavailable, DatabaseError):
            return unknown_count(bucket)
        wait = 0.0 if fits else until_end(bucket, clock.utcnow())
    else:
        wait = 0.0 if _acquire(bucket, ticket) else CONCURRENT_SECONDS
    if not wait or (bucket.rule.observe and bucket.measure != RATE):
        ticket.counted.append(bucket)
    return refusal_of(bucket, wait) if wait else None


def _rate(bucket: Bucket) -> float:
    emission, burst = bucket.rule.emission, bucket.burst
    try:
        taken = shared.lease(bucket.key, emission, burst, 1)
    except shared.Unavailable:
        processes = max(1, conf.get().web_processes)
        with _counting:
            taken = _own.lease_now(bucket.key, emission * processes, max(1, burst // processes), 1)
    return 0.0 if taken.calls else taken.wait / MICROSECONDS


def _spend(bucket: Bucket, ticket: Ticket) -> bool:
    rule, units, period = bucket.rule, units_of(bucket, ticket), period_of(bucket, ticket)
    budget = None if rule.observe else rule.budget
    key, seconds = budget_key(bucket, period), keep_seconds(period)
    found = shared.spend(key, units, budget, seconds)
    if found.is_unknown:
        found = shared.spend(key, units, budget, seconds, usage.spent(bucket, period.start))
    usage.note_spent(bucket, period.start, found.units)
    return found.fits and found.units <= rule.budget


def _acquire(bucket: Bucket, ticket: Ticket) -> bool:
    key, most, holder = place_key(bucket), bucket.rule.concurrent, ticket.holder
    try:
        if bucket.rule.observe:
            shared.acquire(key, holder, MOST_OBSERVED, ticket.seconds)
            return shared.held(key) <= most
        if shared.acquire(key, holder, most, ticket.seconds):
            return True
        with suppress(DatabaseError):
            shared.release(key, *ended_among(background_among(shared.holders(key))))
        return shared.acquire(key, holder, most, ticket.seconds)
    except shared.Unavailable:
        return True
