"""Times relative to now."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from mcp_app.admin.markup import from_now, relative, written
from tests.samples.admin_seed import Seed

HALF_MINUTE = timedelta(seconds=30)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (HALF_MINUTE, "30 s ago"),
        (timedelta(minutes=5) + HALF_MINUTE, "5 min ago"),
        (timedelta(hours=3) + HALF_MINUTE, "3 h ago"),
        (timedelta(days=1) + HALF_MINUTE, "1 day ago"),
        (timedelta(days=29) + HALF_MINUTE, "29 days ago"),
        (-timedelta(hours=2) - HALF_MINUTE, "in 2 h"),
        (-timedelta(days=3) - HALF_MINUTE, "in 3 days"),
    ],
)
def test_time_within_a_month_is_relative(ago: timedelta, words: str) -> None:
    assert from_now(timezone.now() - ago) == words


@pytest.mark.parametrize("ago", [timedelta(days=31), -timedelta(days=31)])
def test_time_beyond_a_month_is_a_date(ago: timedelta) -> None:
    at = timezone.now() - ago
    assert from_now(at) == written(at)[:10]


def test_missing_time_is_never() -> None:
    assert "never" in relative(None)


def test_list_has_the_exact_time_as_tooltip(root: Client, seeded: Seed) -> None:
    page = root.get(reverse("admin:mcp_app_tool_changelist")).content.decode()
    assert f'title="{written(seeded.echo.updated_at)}"' in page
