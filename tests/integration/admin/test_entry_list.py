"""The list of tools: calls, errors and last call of the last week, and columns that are equal in all rows."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
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
    """Log five calls of ``echo``, two failed and one refused, and one call of ``slow`` two weeks ago."""
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
        line("7", outcome="refused", at=now - 60),
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
    assert found["echo"][:3] == (5, 2, 1)
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
    assert re.search(r'status%3Afailed\+since%3A7d&amp;target=echo">2 failed</a> · <a ', text)
    assert re.search(r'status%3Arefused\+since%3A7d&amp;target=echo">1 refused</a>', text)


def test_tool_list_leads_to_the_bench_of_those_who_may_use_it(client_of: ClientOf, seeded: Seed) -> None:
    link = f'href="{page("tool", "try", seeded.echo.pk)}">Try…'
    assert link in client_of("root").get(page("tool", "changelist")).content.decode()
    seeded.viewer.user_permissions.remove(*Permission.objects.filter(codename="try_entries"))
    assert link not in client_of("viewer").get(page("tool", "changelist")).content.decode()


def test_list_says_who_can_use_an_entry(root: Client, seeded: Seed) -> None:
    def shown() -> str:
        text = root.get(page("tool", "changelist"), {"q": "echo"}).content.decode()
        (cell, *_) = re.findall(
            r'<td class="[^"]*field-shown_permission[^"]*"[^>]*>(.*?)</td>', text, re.DOTALL
        )
        return re.sub("<.*?>", "", cell).strip()

    Tool.objects.filter(pk=seeded.echo.pk).update(permission="auth.view_group")
    asked = Permission.objects.get(content_type__app_label="auth", codename="view_group")
    asked.user_set.clear()
    asked.group_set.clear()
    assert shown() == "only superusers (no group or user has the permission “Can view group”)"
    seeded.outsider.user_permissions.add(asked)
    Group.objects.create(name="Editors").permissions.add(asked)
    held = "users with the permission “Can view group” (members of Editors, 1 user)"
    assert shown() == held
    Tool.objects.filter(pk=seeded.echo.pk).update(permission="auth.no_such_permission")
    assert shown() == "only superusers (no group or user has the permission “auth.no_such_permission”)"


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
