"""Tool calls by client and principal: equal to the log, bounded, counted exactly once, and purged."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db.models import Sum
from django.test import override_settings
from django.utils import timezone

from mcp_app.message_log.counts import callers
from mcp_app.message_log.writer import drain_once
from mcp_app.models import CallerRollup, LogCursor
from mcp_app.protocol.messages.methods import OTHER
from tests.unit.sessions.queues import ListQueue, batch, line, opened

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def counts(kind: str, span: int = 600) -> dict[str, int]:
    rows = CallerRollup.objects.filter(kind=kind, span=span).order_by().values_list("name")
    return dict(rows.annotate(Sum("count")))


def drain(*batches: bytes) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(*batches)
    while queue.batches:
        drain_once(queue)


def test_calls_are_counted_once_by_principal_and_client_name() -> None:
    sessions = [opened("a" * 32, client_name="orion"), opened("b" * 32, client_name="orion")]
    drain(
        batch(
            line("1", session="a" * 32, principal="p"),
            line("2", session="b" * 32, principal="q"),
            facts=sessions,
        ),
        batch(line("3", principal="p"), line("4", method="ping", principal="p")),
    )
    for span in callers.SPANS:
        assert counts("principal", span) == {"p": 2, "q": 1}
        assert counts("client", span) == {"orion": 2, "": 1}


def test_malformed_batch_is_not_counted() -> None:
    drain(
        batch(line("1", principal="p"), line("2", principal="p", ms="not a number")),
        batch(line("3", principal="q")),
    )
    assert counts("principal") == {"q": 1}


def test_names_are_bounded_and_rest_is_counted_as_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MOST_NAMES", 3)
    at = time.time()
    for some in (range(4), range(2, 9)):
        drain(batch(*[line(str(number), principal=f"p{number}", at=at) for number in some]))
    found = counts("principal")
    assert len(found) == 4
    assert found[OTHER] > 1
    assert sum(found.values()) == 11


def test_expired_rows_are_purged_per_span() -> None:
    drain(batch(line("1", at=time.time() - 9 * 86_400), line("2")))
    callers.purge()
    assert (sum(counts("principal").values()), sum(counts("principal", 3_600).values())) == (1, 2)
    with override_settings(MCP={"ROLLUP_DAYS": 8}):
        callers.purge()
    assert sum(counts("principal", 3_600).values()) == 1
    assert CallerRollup.objects.filter(at__gt=timezone.now()).count() == 0
