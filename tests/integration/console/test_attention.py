"""Pending tasks that an open admin page receives."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.utils import timezone

from mcp_app.console import consumer
from mcp_app.models import Call, Session
from mcp_app.notices.attention import APPROVALS, ERRORS
from mcp_app.notices.channels import choose
from tests.integration.console.conftest import OpenPage
from tests.samples.admin_seed import undecided_call

pytestmark = pytest.mark.django_db(transaction=True)


def _waits(number: int, **more: Any) -> Call:
    now = timezone.now()
    Session.objects.get_or_create(pk="e" * 32, defaults={"created_at": now, "last_seen_at": now})
    return undecided_call("e" * 32, number, tool="burn", arguments='{"all": "hunter2"}', **more)


async def test_page_receives_pending_calls_without_arguments(
    page: OpenPage, users: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "NEEDS_SECONDS", 0.02)
    await sync_to_async(choose)(user=users["root"], way="browser", kinds=[APPROVALS])
    opened = page("root")
    assert await opened.open()
    await opened.say({"watch": "needs"})
    heard = await opened.until(lambda frame: "needs" in frame)
    assert heard["needs"] == {"all": []}
    call = await sync_to_async(_waits)(1)
    heard = await opened.until(lambda frame: "needs" in frame)
    [need] = heard["needs"]["all"]
    assert need["key"] == f"call:{call.pk}"
    assert need["url"] == f"/admin/mcp_app/call/{call.pk}/change/"
    assert "hunter2" not in str(heard)


async def test_page_receives_only_chosen_and_permitted_tasks(
    page: OpenPage, users: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "NEEDS_SECONDS", 0.02)
    viewer = users["viewer"]
    await sync_to_async(choose)(user=viewer, way="browser", kinds=[APPROVALS, ERRORS])
    await sync_to_async(_waits)(1)
    opened = page("viewer")
    assert await opened.open()
    await opened.say({"watch": "needs"})
    heard = await opened.until(lambda frame: "needs" in frame)
    assert heard["needs"] == {"all": []}
    decides = await Permission.objects.aget(codename="decide_call", content_type__app_label="mcp_app")
    await viewer.user_permissions.aadd(decides)
    heard = await opened.until(lambda frame: "needs" in frame)
    assert len(heard["needs"]["all"]) == 1


async def test_page_is_closed_when_its_permission_is_removed(
    page: OpenPage, users: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "CHECK_SECONDS", 0.05)
    opened = page("viewer")
    assert await opened.open()
    await opened.say({"watch": "needs"})
    assert "watching" in await opened.until(lambda frame: "watching" in frame)
    await users["viewer"].user_permissions.aclear()
    assert await opened.until(lambda frame: False) == {"closed": 4403}
