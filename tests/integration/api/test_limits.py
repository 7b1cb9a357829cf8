"""Limits over the API: settings, what is used, and refused calls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots.current_snapshot import refresh_now
from mcp_app.execution import services
from mcp_app.limits import current, report, usage
from mcp_app.models import AuditEvent, Call, LimitRule
from tests.integration.api.conftest import ClientOf, send

pytestmark = pytest.mark.django_db(transaction=True)
CALM = {"name": "calm", "who": "user", "who_value": "*", "rate": 2, "rate_period": "minute"}


@pytest.fixture
def admin(client_of: ClientOf, clean_redis: str, settings: Any, monkeypatch: Any) -> Iterator[Client]:
    """Return an administrator's client of a server with Redis and the demo's tools, and without a worker."""
    monkeypatch.setattr("celery.current_app.send_task", lambda *_, **__: None)
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    mirror()
    refresh_now(force=True)
    yield client_of("superuser")
    refresh_now(force=True)


def _start(client: Client, key: str | None = None) -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    body = {"tool": "count", "arguments": {"to": 3}}
    return send(client, "POST", "/api/calls/", body, headers=headers)


def test_limit_is_added_changed_used_reset_and_deleted(admin: Client) -> None:
    made = admin.post("/api/limits/", CALM, content_type="application/json")
    assert made.status_code == 201, made.content
    assert (made.json()["rate"], made.json()["mode"]) == (2, "enforce")
    again = admin.post("/api/limits/", CALM, content_type="application/json")
    assert (again.status_code, list(again.json()["errors"])) == (400, ["name"])
    changed = admin.patch(
        "/api/limits/calm/", {"rate": 3, "rate_period": "hour"}, content_type="application/json"
    )
    assert changed.json()["rate"] == 3
    exempt = admin.patch(
        "/api/limits/calm/", {"exempt": ["user:the-superuser"]}, content_type="application/json"
    )
    assert exempt.json()["exempt"] == ["user:the-superuser"], exempt.json()
    assert [_start(admin).status_code for _ in range(4)] == [202] * 4
    admin.patch("/api/limits/calm/", {"exempt": []}, content_type="application/json")
    statuses = [_start(admin).status_code for _ in range(4)]
    assert statuses == [202, 202, 202, 429]
    usage.store()
    (used,) = admin.get("/api/limits/calm/usage/").json()
    assert (used["used"], used["maximum"], used["refused"]) == (3, 3, 1)
    assert used["resets_at"] is not None
    # The next call is possible long before nothing is used any more.
    (fill,) = report.of_rule(current.rule_of(LimitRule.objects.get(name="calm")))
    assert fill.next_call is not None
    assert fill.resets is not None
    assert fill.next_call < fill.resets - timedelta(minutes=30)
    (mine,) = admin.get("/api/usage/").json()
    assert mine == used
    assert admin.post("/api/limits/calm/reset/", {}, content_type="application/json").status_code == 204
    assert _start(admin).status_code == 202
    assert admin.delete("/api/limits/calm/").status_code == 204
    assert admin.get("/api/limits/").json()["results"] == []
    actions = AuditEvent.objects.filter(object_kind="limit").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["limit.created", *["limit.changed"] * 3, "limit.reset", "limit.deleted"]


def test_refused_start_has_code_retry_after_and_log_line(admin: Client) -> None:
    admin.post("/api/limits/", {**CALM, "rate": 1}, content_type="application/json")
    _start(admin)
    refused = _start(admin)
    assert refused.status_code == 429
    assert refused.json()["refusal"] == "limit_reached"
    assert 0 < int(refused["Retry-After"]) <= 60
    assert Call.objects.count() == 1


def test_limit_of_a_network_counts_calls_over_the_api(admin: Client) -> None:
    home = {**CALM, "who": "address", "who_value": "127.0.0.0/8", "rate": 1}
    admin.post("/api/limits/", home, content_type="application/json")
    assert [_start(admin).status_code for _ in range(2)] == [202, 429]


def test_start_that_is_not_stored_frees_its_place(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"name": "one", "who": "installation", "concurrent": 1}
    admin.post("/api/limits/", one, content_type="application/json")
    admin.raise_request_exception = False

    def failing(_: Any) -> Any:
        raise DatabaseError("away")

    with monkeypatch.context() as patched:
        patched.setattr(services, "_accepted", failing)
        assert _start(admin).status_code >= 500
    assert _start(admin).status_code == 202


def test_repeated_start_and_refused_retry_are_not_counted(admin: Client) -> None:
    admin.post(
        "/api/limits/", {"name": "b", "who": "installation", "budget": 2}, content_type="application/json"
    )
    first = _start(admin, key="again")
    assert [_start(admin, key="again").status_code for _ in range(3)] == [200, 200, 200]
    assert first.status_code == 202
    assert _start(admin).status_code == 202
    refused = _start(admin)
    assert (refused.status_code, refused.json()["refusal"]) == (429, "limit_used_up")
    call_id = first.json()["id"]
    admin.post(f"/api/calls/{call_id}/cancel/")
    assert admin.post(f"/api/calls/{call_id}/retry/").status_code == 429


def test_key_of_another_limit_shows_only_its_own_usage(admin: Client) -> None:
    admin.post("/api/limits/", {**CALM, "who": "key", "who_value": "*"}, content_type="application/json")
    subjects = {each["subject"] for each in admin.get("/api/usage/").json()}
    assert len(subjects) <= 1


@pytest.mark.parametrize(
    ("body", "field"),
    [({"rate": None}, "rate"), ({"who_value": "nobody"}, "who_value"), ({"who": "moon"}, "who")],
)
def test_wrong_limit_is_refused_at_its_field(body: dict[str, Any], field: str, admin: Client) -> None:
    answer = admin.post("/api/limits/", {**CALM, **body}, content_type="application/json")
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]
    assert not LimitRule.objects.exists()


def test_usage_without_limits_is_empty(admin: Client) -> None:
    assert admin.get("/api/usage/").json() == []
