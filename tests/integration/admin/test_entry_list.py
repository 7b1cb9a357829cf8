"""The list of tools: calls, errors and last call of the last week, and columns that are equal in all rows."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app.message_log.counts.usage import usage_of
from mcp_app.message_log.writer import drain_once
from mcp_app.models import LogCursor, Message, Rollup, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed
from tests.samples.approved_work import guarded_tool
from tests.unit.sessions.queues import ListQueue, batch, line

pytestmark = pytest.mark.postgres

DAY = 86_400
COLUMNS = ("calls", "errors", "last_call")


@pytest.fixture
def called(seeded: Seed) -> Seed:
    """Log four calls of ``echo``, two of which failed, and one call of ``slow`` two weeks ago."""
    for model in (Rollup, Message, LogCursor):
        model.objects.all().delete()
    now = time.time()
    lines = [
        line("1", at=now - 3 * DAY),
        line("2", at=now - 60),
        line("3", outcome="tool_error", at=now - 3_600 * 5),
        line("4", outcome="error", at=now - 60),
        line("5", target="slow", at=now - 14 * DAY),
        line("6", method="ping", target=""),
    ]
    queue: Any = ListQueue(batch(*lines))
    drain_once(queue)
    return seeded


def test_usage_counts_the_last_week_and_dates_the_last_call(called: Seed) -> None:
    now = timezone.now()
    with CaptureQueriesContext(connection) as captured:
        found = usage_of(["echo", "slow", "add"], now)
    selects = [each["sql"] for each in captured if each["sql"].startswith("SELECT")]
    assert len(selects) == 1
    assert list(found) == ["echo"]
    assert found["echo"][:2] == (4, 2)
    assert timedelta() <= now - found["echo"].last < timedelta(minutes=3)


def test_tool_list_shows_usage_in_one_further_query(root: Client, called: Seed) -> None:
    address = page("tool", "changelist")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(address).status_code == 200
        return sum("rollup" in each["sql"] for each in captured)

    assert queries() == 1
    for number in range(20):
        guarded_tool(f"more-{'x' * number}").save(force_insert=True)
    assert queries() == 1
    text = root.get(f"{address}?q=echo").content.decode()
    assert "tool=echo&amp;range=week" in text
    assert "status%3Afailed+since%3A7d&amp;target=echo" in text


def test_usage_needs_the_permission_to_view_messages(client_of: ClientOf, called: Seed) -> None:
    viewer = client_of("viewer")
    address = page("tool", "changelist")
    assert all(f"column-{name}" in viewer.get(address).content.decode() for name in COLUMNS)
    called.viewer.user_permissions.remove(Permission.objects.get(codename="view_message"))
    text = client_of("viewer").get(address).content.decode()
    assert not any(f"column-{name}" in text for name in COLUMNS)
    prompts = client_of("root").get(page("prompt", "changelist")).content.decode()
    assert "column-calls" not in prompts


def test_tool_that_needs_approval_is_marked(root: Client, seeded: Seed) -> None:
    address = page("tool", "changelist")
    assert ">approval</span>" not in root.get(address).content.decode()
    Tool.objects.filter(pk=seeded.echo.pk).update(needs_approval=True)
    assert root.get(address).content.decode().count(">approval</span>") == 1 + seeded.echo.presets.count()


def test_equal_columns_are_hidden(root: Client, seeded: Seed) -> None:
    address = page("tool", "changelist")
    Tool.objects.update(permission="", missing=False, reviewed_hash="")
    changelist = root.get(address).context["cl"]
    assert "permission" in changelist.same
    Tool.objects.filter(pk=seeded.echo.pk).update(permission="auth.view_group")
    assert "permission" not in root.get(address).context["cl"].same
    kinds = {(row.source, row.preset_of_id is None) for row in Tool.objects.all()}
    assert ("source" in changelist.same) == (len(kinds) == 1)
