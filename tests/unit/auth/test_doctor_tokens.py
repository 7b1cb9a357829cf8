"""Tokens of the doctor's page: what they grant, and when they are refused."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from mcp_app.auth import doctor_tokens
from mcp_app.auth.bench import BENCH_PREFIX, find_bench_principal
from mcp_app.auth.doctor_tokens import DOCTOR_PREFIX, find_doctor_principal, issue_doctor_token
from mcp_app.observability.redaction import MARK, Redactor
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.scopes import widened

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@pytest.fixture
def operator() -> Any:
    user = get_user_model().objects.create_user("ada", password="not used", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=("run_doctor", "view_tool")))
    return user


def test_token_connects_as_its_user_without_any_permission(operator: Any) -> None:
    principal = find_doctor_principal(issue_doctor_token(operator))
    assert principal is not None
    assert (principal.user_id, principal.name, principal.path) == (operator.pk, "ada", ENDPOINT)
    assert "mcp_app.view_tool" not in principal.permissions
    assert (principal.scopes, principal.bench) == (widened(["mcp:tools"]), True)


@pytest.mark.parametrize("change", ["permission", "staff", "active", "password", "deleted"])
def test_token_ends_with_the_right_of_its_user(change: str, operator: Any) -> None:
    token = issue_doctor_token(operator)
    match change:
        case "permission":
            operator.user_permissions.clear()
        case "staff":
            operator.is_staff = False
        case "active":
            operator.is_active = False
        case "password":
            operator.set_password("another")
        case "deleted":
            operator.delete()
    if change != "deleted":
        operator.save()
    assert find_doctor_principal(token) is None


def test_token_expires(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    token = issue_doctor_token(operator)
    later = time.time() + doctor_tokens.TOKEN_SECONDS
    monkeypatch.setattr(time, "time", lambda: later)
    assert find_doctor_principal(token) is None


def test_forged_and_foreign_tokens_are_refused(operator: Any) -> None:
    token = issue_doctor_token(operator)
    for wrong in ("", DOCTOR_PREFIX, token[:-1], token + "A", token.replace(DOCTOR_PREFIX, BENCH_PREFIX)):
        assert find_doctor_principal(wrong) is None, wrong
    assert find_bench_principal(token.replace(DOCTOR_PREFIX, BENCH_PREFIX)) is None


def test_token_is_redacted_in_logs(operator: Any) -> None:
    token = issue_doctor_token(operator)
    assert Redactor(()).text(f"a log with {token} in it") == f"a log with {MARK} in it"
