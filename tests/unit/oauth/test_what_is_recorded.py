"""Audit rows and metric counts of consent, tokens and refusals."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest
from django.contrib.auth import get_user_model
from django.test import Client as Browser

from mcp_app.auth import challenges
from mcp_app.auth.challenges import insufficient
from mcp_app.auth.principal import Principal
from mcp_app.egress.client import Fetched
from mcp_app.egress.policy import Policy
from mcp_app.metrics import tally
from mcp_app.models import AuditEvent
from mcp_app.oauth.documents import find_or_fetch
from mcp_app.oauth.models import Client
from tests.servers.live import eventually
from tests.unit.oauth.flow import Program

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
ADDRESS = "https://client.example/metadata.json"


def counted() -> dict[str, int]:
    """Return counts since the last call."""
    return {f"{before}{after}": count for before, _, after, count in tally.take()}


def test_denied_consent_is_audited(program: Program) -> None:
    counted()
    program.decide(program.ask(), "deny")
    row = AuditEvent.objects.get(action="oauth.deny")
    assert (row.object_key, row.actor_name, row.detail["name"]) == (program.client_id, "ada", "Test client")
    assert counted() == {"oauth_consent denied": 1}


def test_each_step_of_connection_is_counted_by_result(browser: Browser) -> None:
    counted()
    program = Program(browser)
    tokens = program.connect()
    program.refresh(tokens["refresh_token"])
    program.refresh("mcprt_unknown")
    program.post("/oauth/token", {"grant_type": "password"})
    program.wire.post("/oauth/token", b"{}", content_type="application/json")
    program.register(redirect_uris=[])
    assert counted() == {
        "oauth_registration ok": 1,
        "oauth_registration refused": 1,
        "oauth_consent allowed": 1,
        "oauth_token authorization_code ok": 1,
        "oauth_token refresh_token ok": 1,
        "oauth_token refresh_token invalid_grant": 1,
        "oauth_token other unsupported_grant_type": 1,
        "oauth_token other invalid_request": 1,
    }


def test_changed_document_is_audited() -> None:
    said = {"client_id": ADDRESS, "client_name": "One", "redirect_uris": ["https://client.example/cb"]}

    async def fetched(url: str, policy: Policy) -> Fetched:
        return Fetched(url, 200, "application/json", "", orjson.dumps(said))

    async def broken(url: str, policy: Policy) -> Fetched:
        return Fetched(url, 200, "application/json", "", b"")

    def fetch_again(fetch: object) -> None:
        rows = Client.objects.filter(client_id=ADDRESS)
        for row in rows:
            rows.update(cimd_expires_at=row.cimd_expires_at - timedelta(days=2))
        find_or_fetch(ADDRESS, fetch)  # type: ignore[arg-type]

    counted()
    fetch_again(fetched)
    fetch_again(fetched)
    said["client_name"] = "Another"
    fetch_again(fetched)
    fetch_again(broken)
    rows = AuditEvent.objects.filter(object_key=ADDRESS).order_by("pk")
    assert [row.action for row in rows] == ["oauth.client_register", "oauth.client_change"]
    assert rows[1].detail["before"] == ["One", "https://client.example/cb"]
    assert counted() == {"oauth_document ok": 3, "oauth_document stale": 1}


def test_scope_refusal_is_audited_hourly_and_counted_each_time() -> None:
    user = get_user_model().objects.create_user("grace")
    key = f"user:{user.pk}/client:tests"
    held = Principal(key=key, name="grace", permissions=(), user_id=user.pk, scopes=frozenset({"mcp"}))
    challenges._noted.clear()
    counted()
    for scope in ("mcp:tools", "mcp:tools", "mcp:admin"):
        insufficient(held, scope)
    rows = AuditEvent.objects.filter(action="oauth.scope_refused")
    eventually(lambda: rows.count() == 2, what="two rows")
    assert {(row.object_key, row.actor_id, row.detail["principal"]) for row in rows} == {
        ("mcp:tools", user.pk, key),
        ("mcp:admin", user.pk, key),
    }
    assert counted() == {"oauth_scope_refused mcp:tools": 2, "oauth_scope_refused mcp:admin": 1}
