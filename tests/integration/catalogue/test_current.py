"""The snapshot of a process: it serves one at a time, and replaces it as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import Tool
from tests.views import SERVER, seen

pytestmark = pytest.mark.django_db(transaction=True)
NOBODY: frozenset[str] = frozenset()


def prepare() -> Tool:
    mirror()
    current_snapshot.refresh_now()
    return Tool.objects.get(name="add")


def test_unloaded_process_serves_no_entry() -> None:
    assert current_snapshot.current().revision == -1
    assert current_snapshot.Views(SERVER).of(NOBODY).tool("add") is None


def test_snapshot_is_immutable_until_refreshed() -> None:
    row = prepare()
    held = current_snapshot.current()
    services.set_enabled(entries=[row], enabled=False, actor=None)
    assert current_snapshot.current() is held
    assert seen(held, NOBODY).tool("add") is not None
    assert current_snapshot.refreshed_view(NOBODY).tool("add") is None
    assert seen(held, NOBODY).tool("add") is not None


def test_refresh_without_a_new_revision_is_one_query() -> None:
    prepare()
    held = current_snapshot.current()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert current_snapshot.refresh_now() is held
    assert len(queries) == 1
    assert current_snapshot.refresh_now(force=True) is not held


@pytest.mark.requirement("TOOL-23")
async def test_concurrent_refreshes_return_the_newest_revision() -> None:
    row = await sync_to_async(prepare)()
    await sync_to_async(services.set_enabled)(entries=[row], enabled=False, actor=None)
    found: list[Any] = await asyncio.gather(*(current_snapshot.refresh() for _ in range(20)))
    assert {held.revision for held in found} == {2}
    assert len({id(held) for held in found}) == 1
    assert current_snapshot.current() is found[0]


def test_unusable_schema_removes_only_its_own_entry(registered: Any) -> None:
    prepare()
    registered.tools["add"].wire["outputSchema"] = {"type": "nothing"}
    held = current_snapshot.refresh_now(force=True)
    assert seen(held, NOBODY).tool("add") is None
    assert seen(held, NOBODY).prompt("code_review") is not None
