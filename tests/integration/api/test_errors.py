"""Errors in the API: list, filters, exception, and triage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mcp_app.models import AuditEvent, ErrorGroup, Triage
from tests.integration.api.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
DIGEST = "a" * 32


@pytest.fixture(autouse=True)
def _errors(seeded: Seed) -> None:
    now = timezone.now()
    frame = {
        "file": "shop/mcp.py", "line": 42, "function": "ship", "module": "shop.mcp", "own": True,
        "offset": 2, "omitted": 0,
    }  # fmt: skip
    common = {"method": "tools/call", "outcome": "tool_error", "first_at": now, "first_id": 1, "last_id": 1}
    ErrorGroup.objects.create(
        digest=DIGEST, tool="ship", words="ValueError", place="shop/mcp.py:ship+2", is_fault=True,
        exception=json.dumps({"type": "ValueError", "message": "no such order", "frames": [frame]}),
        example="x",
        last_at=now, count=3, **common,
    )  # fmt: skip
    ErrorGroup.objects.create(
        digest="b" * 32, tool="echo", words="too long", example="too long", last_at=now, count=1, **common
    )


def post(client: Client, action: str, data: Any = None, digest: str = DIGEST) -> Any:
    return client.post(f"/api/errors/{digest}/{action}/", data or {}, content_type="application/json")


def found(client: Client, query: str = "") -> list[str]:
    return sorted(each["tool"] for each in client.get(f"/api/errors/?{query}").json()["results"])


def test_errors_are_listed_filtered_and_shown_with_their_exception(root: Client) -> None:
    assert (found(root), found(root, "is_fault=true"), found(root, "tool=echo")) == (
        ["echo", "ship"], ["ship"], ["echo"],
    )  # fmt: skip
    shown = root.get(f"/api/errors/{DIGEST}/").json()
    assert (shown["text"], shown["state"], shown["exception"]["message"]) == (
        "ValueError", "open", "no such order",
    )  # fmt: skip
    assert root.get(f"/api/errors/{'b' * 32}/").json()["exception"] is None
    assert root.get("/api/errors/no-such-error/").status_code == 404


def test_errors_are_muted_resolved_and_assigned(root: Client, seeded: Seed) -> None:
    name = seeded.root.get_username()
    assert post(root, "assign", {"user": name}).json()["assignee"] == name
    assert post(root, "mute", {"times": 10}).json()["muted_count"] == 13
    assert (found(root, "state=muted"), found(root, "state=unresolved")) == (["ship"], ["echo"])
    assert post(root, "resolve").json()["state"] == "resolved"
    assert found(root, "state=resolved") == ["ship"]
    assert post(root, "reopen").json()["state"] == "open"
    assert post(root, "assign", {"user": None}).json()["assignee"] is None
    actions = AuditEvent.objects.filter(object_kind="error").order_by("pk").values_list("action", flat=True)
    assert list(actions) == [
        "error.assign", "error.mute", "error.resolve", "error.reopen", "error.assign",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("action", "data", "status"),
    [
        ("mute", {"times": 0}, 400),
        ("mute", {"until": "2020-01-01T00:00:00Z"}, 409),
        ("assign", {"user": "nobody at all"}, 400),
        ("assign", {}, 400),
        ("assign", {"user": "outsider"}, 409),
        ("delete", {}, 404),
    ],
)
def test_invalid_triage_is_refused(action: str, data: Any, status: int, root: Client) -> None:
    assert post(root, action, data).status_code == status
    assert ErrorGroup.objects.get(pk=DIGEST).triage == Triage.OPEN


def test_triage_requires_its_permission(client_of: ClientOf) -> None:
    auditor = client_of("auditor")
    assert auditor.get(f"/api/errors/{DIGEST}/").status_code == 200
    assert post(auditor, "resolve").status_code == 403
    assert client_of("outsider").get(f"/api/errors/{DIGEST}/").status_code == 403
