"""Open calls of an older version survive an upgrade and end as promised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.test_operate_pages import Operated
from tests.servers.live import LiveServer, eventually

pytestmark = pytest.mark.process

# The last migration of that version, with rows written by its processes.
CALLS = """
import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
call_command("migrate", "auth", verbosity=0)
call_command("migrate", "mcp_app", "0036", verbosity=0)
from mcp_app.execution.stored.call_record import digest, request_key, stream_of
from mcp_app.sessions.session import stored_fields
old = MigrationExecutor(connection).loader.project_state(("mcp_app", "0036_failed_calls")).apps
Call = old.get_model("mcp_app", "Call")
now, hour = datetime.now(UTC), timedelta(hours=1)

def add(name, tool, version="2025-11-25", **more):
    number = uuid4()
    principal = "loopback"
    fields = stored_fields(principal, version, {}, {}, announced=0) | {"initialized": "1"}
    arguments = {"nonce": name, "steps": 1}
    Call.objects.create(
        id=number, session_id="s-" + name, request_id=json.dumps(name), request_key=request_key(name),
        principal=principal, tool=tool, arguments=json.dumps(arguments), digest=digest(tool, arguments),
        session_fields=fields, stream=stream_of(number), timeout=60, accepted_at=now, **more,
    )

lost = {"state": "running", "attempt": 1, "worker": "gone:1", "started_at": now, "enqueued_at": now,
        "lease_until": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
add("waits", "work", state="accepted", enqueued_at=now - hour)
add("never-queued", "work", state="accepted")
add("lost", "work", max_attempts=3, **lost)
add("lost-once", "work_once", **lost)
add("needs-approval", "approved_work", state="approval_needed", approval_until=now + hour, reminded_at=now)
add("task", "work", "2026-07-28", state="accepted", enqueued_at=now - hour, task_until=now + hour)
"""
STATES = """
import json
from mcp_app.models import Call
print(json.dumps({json.loads(row.request_id): [row.state, row.attempt, row.outcome, row.answer, row.person]
                  for row in Call.objects.all()}))
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database of that version with open calls."""
    operated = Operated(tmp_path_factory.mktemp("old"), DJANGO_SETTINGS_MODULE="tests.ledger_app.settings")
    operated.shell(CALLS)
    return operated.data / "db.sqlite3"


@pytest.fixture(scope="module")
def live(database: Path) -> Iterator[LiveServer]:
    """Run the newest version on that database: ``prepare`` upgrades it, then its processes start."""
    environment = {"DATABASE_URL": f"sqlite:///{database}"}
    with LiveServer(1, settings="tests.ledger_app.settings", worker=True, env=environment) as server:
        yield server


def rows(live: LiveServer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(live.shell(STATES))
    return found


# By call: final state, attempts, and words of the answer.
PROMISES = {
    "waits": ("completed", 1, "waits"),
    "never-queued": ("completed", 1, "never-queued"),
    "lost": ("completed", 2, "lost"),
    "lost-once": ("failed", 1, "work_once"),
    # Its row does not record the work to approve: its client must ask again.
    "needs-approval": ("failed", 0, "approved_work was changed after this call was asked for"),
    "task": ("completed", 1, "task"),
}


@pytest.mark.parametrize("name", PROMISES)
def test_open_call_continues_after_upgrade(name: str, live: LiveServer) -> None:
    state, attempts, words = PROMISES[name]
    eventually(lambda: rows(live)[name][0] == state, 20, f"{state} of {name}")
    found = rows(live)[name]
    assert found[:2] == [state, attempts]
    assert words in found[3]
    assert found[4] == "loopback"
