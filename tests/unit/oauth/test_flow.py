"""Connecting a client for a user: consent, tokens, refresh, and end."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.models import AuditEvent
from mcp_app.oauth.connections import find_principal
from mcp_app.oauth.models import AccessToken, AuthorizationCode, Connection, RefreshToken
from tests.unit.oauth.flow import ALL, BASE, RESOURCE, Program, sent_back

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.mark.requirement("AUTH-15", "AUTH-25", "AUTH-37")
def test_self_registered_client_gets_tokens_of_user(program: Program, person: Any) -> None:
    way_back = sent_back(program.decide(program.ask()))
    assert (way_back["state"], way_back["iss"]) == ("as sent", BASE)
    answer = program.exchange(way_back["code"])
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    tokens = answer.json()
    assert (tokens["token_type"], tokens["scope"], tokens["expires_in"]) == ("Bearer", ALL, 3600)
    principal = find_principal(tokens["access_token"])
    assert principal is not None
    assert (principal.user_id, principal.audience) == (person.pk, RESOURCE)
    assert principal.scopes == frozenset(ALL.split())
    assert set(AuditEvent.objects.values_list("action", flat=True)) >= {
        "oauth.client_register",
        "oauth.allow",
    }


def test_no_token_code_or_verifier_is_stored(program: Program) -> None:
    code = program.code()
    tokens = program.exchange(code).json()
    renewed = program.refresh(tokens["refresh_token"]).json()
    stored = str(
        [
            list(model.objects.values())
            for model in (
                Connection,
                AccessToken,
                RefreshToken,
                AuthorizationCode,
                AuditEvent,
            )
        ]
    )
    given = [answer[kind] for answer in (tokens, renewed) for kind in ("access_token", "refresh_token")]
    for secret in (code, program.verifier, *given):
        assert len(secret) >= 20
        assert secret not in stored
