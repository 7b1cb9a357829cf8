"""The limit of open background calls per principal, and the frequency of counting them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcp_app.execution.admission import checks
from mcp_app.execution.admission.checks import Backlog
from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.refusals import Code
from mcp_app.streams.gateway import Streams
from tests.unit.execution.attempts import SETTINGS, new_call


class Rows:
    """Open calls of each principal, and the number of counts."""

    def __init__(self, streams: Streams) -> None:
        self.open: dict[str, int] = {}
        self.asked = 0
        settings = replace(SETTINGS, max_open_background_calls_per_principal=10)
        self._check = Backlog(streams, settings, self.count)

    async def count(self, principal: str) -> int:
        self.asked += 1
        return self.open.get(principal, 0)

    async def admit(self, principal: str) -> None:
        await self._check.soon(new_call(principal=principal))


async def test_one_count_serves_until_its_remainder_is_used(streams: Streams) -> None:
    rows = Rows(streams)
    for _ in range(10):
        await rows.admit("ada")
    assert rows.asked == 1
    rows.open["ada"] = 4  # Six have finished.
    for _ in range(6):
        await rows.admit("ada")
    assert rows.asked == 2


async def test_call_above_backlog_limit_is_refused_per_principal(streams: Streams) -> None:
    rows = Rows(streams)
    rows.open["ada"] = 10
    with pytest.raises(TooManyRequests) as refused:
        await rows.admit("ada")
    assert (refused.value.http_status, refused.value.refusal) == (429, Code.BACKLOG_FULL)
    await rows.admit("bob")
    rows.open["ada"] = 9
    await rows.admit("ada")


async def test_remembered_counts_are_bounded(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "REMEMBERED", 2)
    rows = Rows(streams)
    for principal in ("a", "b", "c", "a"):
        await rows.admit(principal)
    assert rows.asked == 4
