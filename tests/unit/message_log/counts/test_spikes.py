"""A caller that suddenly makes most of the calls is found, and no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mcp_app.message_log.counts.spikes import CLIENT, PRINCIPAL, USER, Counts, dominating, find_spike
from mcp_app.message_log.rollups import DAY, HOUR, TEN_MINUTES
from mcp_app.models import CallerRollup, Message, Session
from mcp_app.protocol.messages.methods import OTHER

NOW = datetime(2026, 11, 20, 13, 36, 30, tzinfo=UTC)
CURRENT = datetime(2026, 11, 20, 13, 30, tzinfo=UTC)
FLOOD = datetime(2026, 11, 20, 13, 34, tzinfo=UTC)


@pytest.mark.parametrize(
    ("recent", "usual", "found"),
    [
        ({"bot": 840, "ada": 160}, {"bot": 100, "ada": 900}, "bot"),
        ({"bot": 840, "ada": 160}, {"ada": 900}, "bot"),
        # Too few calls, and too small a share.
        ({"bot": 99}, {"ada": 900}, None),
        ({"bot": 490, "ada": 310, "eve": 200}, {"ada": 900}, None),
        # The share is usual, as that of the only client is.
        ({"bot": 840, "ada": 160}, {"bot": 8_400, "ada": 1_600}, None),
        ({"bot": 840}, {"bot": 10}, None),
        # The rate is usual: the others are away.
        ({"bot": 500}, {"bot": 50_000, "ada": 200_000}, None),
        # Nothing to compare with.
        ({"bot": 840}, {}, None),
        ({}, {"ada": 900}, None),
        # Names that stand for several callers.
        ({"": 840, "ada": 10}, {"ada": 900}, None),
        ({OTHER: 840, "ada": 10}, {"ada": 900}, None),
    ],
)
def test_dominating_caller_has_an_unusual_majority(
    recent: dict[str, int], usual: dict[str, int], found: str | None
) -> None:
    assert dominating(Counts(recent, 10.0), Counts(usual, 1_440.0)) == found


def _count(at: datetime, principal: str, client: str, count: int) -> None:
    for span in (TEN_MINUTES, HOUR, DAY):
        start = datetime.fromtimestamp(int(at.timestamp()) // span * span, UTC)
        for kind, name in ((PRINCIPAL, principal), (CLIENT, client)):
            row, _ = CallerRollup.objects.get_or_create(
                span=span, at=start, kind=kind, name=name, outcome="ok", defaults={"count": 0}
            )
            CallerRollup.objects.filter(pk=row.pk).update(count=row.count + count)


def _still_calls(principal: str, client: str = "") -> None:
    """Store a message of the last minute."""
    if client:
        Session.objects.create(
            id="s" * 32, principal=principal, protocol_version="2025-11-25", client_name=client,
            created_at=CURRENT, last_seen_at=NOW,
        )  # fmt: skip
    _log(NOW - timedelta(minutes=1), principal, "s" * 32, 1)


def _log(at: datetime, principal: str, session: str, count: int) -> None:
    """Store messages of one minute, without counting them."""
    made = [
        Message(
            at=at + timedelta(seconds=number % 60), principal=principal, session_id=session, outcome="ok",
            method="tools/call", direction="in", kind="request", target="echo",
        )
        for number in range(count)
    ]  # fmt: skip
    Message.objects.bulk_create(made)


@pytest.mark.django_db
@pytest.mark.postgres
class TestFindSpike:
    """The rows that the log writer stores lead to the caller, its share and its begin."""

    @pytest.fixture(autouse=True)
    def usual(self) -> None:
        """Count a day of calls by ada."""
        for hours in range(1, 24):
            _count(NOW - timedelta(hours=hours), "user:1/key:1", "Orion", 60)

    def test_spike_names_key_user_and_client_since_its_minute(self) -> None:
        Session.objects.create(
            id="r" * 32, principal="user:2/key:7", protocol_version="2025-11-25", client_name="Report Bot",
            created_at=CURRENT, last_seen_at=NOW,
        )  # fmt: skip
        _count(CURRENT, "user:1/key:1", "Orion", 60)
        _count(CURRENT, "user:2/key:7", "Report Bot", 303)
        _log(CURRENT + timedelta(minutes=1), "user:2/key:7", "r" * 32, 3)
        for minute in range(3):
            _log(FLOOD + timedelta(minutes=minute), "user:2/key:7", "r" * 32, 100)
        found = find_spike(NOW)
        assert found is not None
        assert found.names == {PRINCIPAL: "user:2/key:7", USER: "user:2", CLIENT: "Report Bot"}
        assert (round(found.share, 2), found.since) == (0.83, FLOOD)

    def test_user_with_many_keys_is_one_caller(self) -> None:
        for key in range(10):
            _count(CURRENT, f"user:2/key:{key}", f"client-{key}", 30)
        _still_calls("user:2/key:3")
        _count(CURRENT, "user:1/key:1", "Orion", 60)
        found = find_spike(NOW)
        assert found is not None
        assert found.names == {USER: "user:2"}

    def test_client_of_many_users_is_one_caller(self) -> None:
        for user in range(10):
            _count(CURRENT, f"user:{user + 2}/key:1", "Report Bot", 30)
        _still_calls("user:3/key:1", "Report Bot")
        found = find_spike(NOW)
        assert found is not None
        assert found.names == {CLIENT: "Report Bot"}

    def test_long_spike_began_in_an_earlier_cell(self) -> None:
        begin = CURRENT - timedelta(minutes=40)
        for minutes in range(0, 50, 10):
            _count(begin + timedelta(minutes=minutes), "user:2/key:7", "Report Bot", 600)
        _still_calls("user:2/key:7")
        found = find_spike(NOW)
        assert found is not None
        assert found.since == begin

    def test_new_ten_minutes_are_judged_with_those_before(self) -> None:
        _count(CURRENT - timedelta(minutes=10), "user:2/key:7", "Report Bot", 600)
        _log(CURRENT - timedelta(minutes=2), "user:2/key:7", "", 1)
        found = find_spike(CURRENT + timedelta(seconds=5))
        assert found is not None
        assert found.names[PRINCIPAL] == "user:2/key:7"

    @pytest.mark.parametrize(("minutes", "is_found"), [(4, True), (6, False)])
    def test_caller_that_stopped_is_not_found(self, minutes: int, is_found: bool) -> None:
        _count(CURRENT, "user:2/key:7", "Report Bot", 600)
        _log(NOW - timedelta(minutes=minutes), "user:2/key:7", "", 1)
        _log(NOW, "user:1/key:1", "", 1)
        assert (find_spike(NOW) is not None) == is_found

    @pytest.mark.parametrize("ago", [20, 60])
    def test_past_spike_is_not_found(self, ago: int) -> None:
        _count(CURRENT - timedelta(minutes=ago), "user:2/key:7", "Report Bot", 600)
        _count(CURRENT, "user:1/key:1", "Orion", 10)
        assert find_spike(NOW) is None


def test_counts_without_calls_have_no_share() -> None:
    empty: Any = Counts({}, 10.0)
    assert (empty.share("x"), empty.rate("x")) == (0.0, 0.0)
