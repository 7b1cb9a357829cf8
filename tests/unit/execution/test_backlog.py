"""How many background calls a principal may have open, and how seldom that is counted."""

from __future__ import annotations

import pytest

from mcp_app.execution.background import backlog
from mcp_app.execution.background.backlog import Backlog
from mcp_app.protocol.errors import TooManyRequests


class Rows:
    """The open calls of each principal, and how often somebody asked."""

    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        self.asked = 0

    def count(self, principal: str) -> int:
        self.asked += 1
        return self.open.get(principal, 0)


def test_one_count_is_enough_until_what_it_left_is_used_up() -> None:
    rows = Rows()
    admission = Backlog(10, rows.count)
    for _ in range(10):
        admission.admit("ada")
    assert rows.asked == 1
    rows.open["ada"] = 4  # Six are over by now.
    for _ in range(6):
        admission.admit("ada")
    assert rows.asked == 2


def test_at_the_limit_a_call_is_refused_and_others_are_not() -> None:
    rows = Rows()
    rows.open["ada"] = 10
    admission = Backlog(10, rows.count)
    with pytest.raises(TooManyRequests) as refused:
        admission.admit("ada")
    assert refused.value.http_status == 429
    admission.admit("bob")
    rows.open["ada"] = 9
    admission.admit("ada")


def test_it_forgets_rather_than_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "REMEMBERED", 2)
    rows = Rows()
    admission = Backlog(10, rows.count)
    for principal in ("a", "b", "c", "a"):
        admission.admit(principal)
    assert rows.asked == 4
