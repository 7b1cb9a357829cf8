"""Budgets at the end of their period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mcp_app.conf import Settings
from mcp_app.limits.limiter import Limiter, Ticket
from mcp_app.limits.rules import BUDGET
from mcp_app.protocol.errors import McpError
from mcp_app.streams.gateway import Streams
from tests.unit.limits.rules import bucket

pytestmark = pytest.mark.django_db(transaction=True)
# The last moment of a period.
ENDS = {
    "hour": datetime(2026, 5, 12, 9, 59, 59, 999_999, UTC),
    "day": datetime(2028, 2, 28, 23, 59, 59, 999_999, UTC),
    "month": datetime(2026, 12, 31, 23, 59, 59, 999_999, UTC),
}


@pytest.mark.parametrize("period", ENDS)
async def test_call_is_uncounted_in_the_period_that_counted_it(
    period: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams.in_memory()
    await streams.start()
    limiter, limit = Limiter(streams, Settings()), bucket(BUDGET, budget=2, budget_period=period)
    now = ENDS[period]
    monkeypatch.setattr("mcp_app.database.clock.utcnow", lambda: now)

    async def admitted(tries: int) -> list[Ticket]:
        found = []
        for _ in range(tries):
            ticket = Ticket((limit,))
            try:
                await limiter.admit(ticket)
            except McpError:
                continue
            found.append(ticket)
        return found

    late, _ = await admitted(5)
    now += timedelta(microseconds=1)
    assert len(await admitted(1)) == 1
    await limiter.give_back(late)
    assert len(await admitted(5)) == 1
    now = ENDS[period]
    assert len(await admitted(5)) == 1
    await streams.close()
