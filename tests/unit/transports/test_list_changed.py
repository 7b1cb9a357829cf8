"""Announcements to clients of older revisions, prepared once for many of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.current_snapshot import Views
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.sessions.session import LiveSession, stored_fields
from mcp_app.transports import list_changed
from tests.views import SERVER

TOOLS = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
PROMPTS = b'{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}'


@pytest.fixture(autouse=True)
def _catalogue() -> Iterator[None]:
    revisions = {**dict.fromkeys(KINDS, 1), "tools": 9, "prompts": 7}
    before = current_snapshot.replace(Catalogue(revision=9, revisions=revisions))
    yield
    current_snapshot.replace(before)


def view() -> CatalogueView:
    return Views(SERVER).of(frozenset())


def session(announced: int, *, initialized: bool = True) -> LiveSession:
    fields = stored_fields("ada", V2025_11_25, {}, {}, announced=announced)
    return LiveSession("s" * 32, {**fields, "initialized": "1" if initialized else "0"})


@pytest.mark.parametrize(("announced", "messages"), [(8, [TOOLS]), (5, [TOOLS, PROMPTS]), (9, []), (11, [])])
def test_announcement_has_changes_since_last_one(announced: int, messages: list[bytes]) -> None:
    due = list_changed.announcement(session(announced), view())
    assert [message for message, _ in due.notices] == messages
    assert due.events == b"".join(b"data: %b\n\n" % message for message in messages)


def test_uninitialized_session_gets_no_announcement() -> None:
    assert list_changed.announcement(session(5, initialized=False), view()) is list_changed.NOTHING


def test_sessions_at_same_revision_share_announcement() -> None:
    first, second = (list_changed.announcement(session(5), view()) for _ in range(2))
    assert first is second
    current_snapshot.replace(Catalogue(revision=10, revisions={**dict.fromkeys(KINDS, 1), "resources": 10}))
    newer = list_changed.announcement(session(5), view())
    assert newer.revision == 10
    assert [method for _, method in newer.notices] == ["notifications/resources/list_changed"]
