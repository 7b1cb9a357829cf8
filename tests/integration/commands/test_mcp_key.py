"""``manage.py mcp_key``: API keys of an installation without an admin."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from mcp_app.auth.api_keys import find_principal
from mcp_app.models import ApiKey, AuditEvent
from mcp_app.protocol.scopes import BASIC

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("ada", password="x")


def run(*arguments: str) -> tuple[str, str]:
    """Run the command; return its standard output and standard error."""
    out, err = StringIO(), StringIO()
    call_command("mcp_key", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_added_key_is_printed_alone_and_authenticates_its_user(ada: Any) -> None:
    out, err = run("add", "ada", "--name", "laptop")
    principal = find_principal(out.strip())
    assert principal is not None
    assert principal.user_id == ada.pk
    assert principal.scopes == frozenset(BASIC)
    assert out.strip() not in err


def test_added_key_expires_after_its_days(ada: Any) -> None:
    run("add", "ada", "--name", "week", "--days", "7")
    key = ApiKey.objects.get()
    assert key.expires_at is not None
    assert round((key.expires_at - key.created_at).total_seconds() / 86400) == 7


def test_key_without_expiry_is_issued_with_a_warning(ada: Any) -> None:
    _, err = run("add", "ada", "--name", "robot", "--days", "0")
    assert ApiKey.objects.get().expires_at is None
    assert "never expires" in err


def test_scopes_are_stored_as_named(ada: Any) -> None:
    run("add", "ada", "--name", "reader", "--scope", "mcp:resources", "--scope", "mcp")
    assert ApiKey.objects.get().scopes == "mcp mcp:resources"


def test_list_shows_every_key_and_no_secret(ada: Any) -> None:
    secret = run("add", "ada", "--name", "laptop")[0].strip()
    run("add", "ada", "--name", "old")
    run("revoke", str(ApiKey.objects.get(name="old").pk))
    out, _ = run("list")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [(row[2], row[4]) for row in rows] == [("laptop", "active"), ("old", "revoked")]
    assert secret not in out
    assert ApiKey.objects.get(name="laptop").secret_hash not in out


def test_revoked_key_does_not_authenticate(ada: Any) -> None:
    secret = run("add", "ada", "--name", "laptop")[0].strip()
    run("revoke", str(ApiKey.objects.get().pk))
    assert find_principal(secret) is None
    assert set(AuditEvent.objects.values_list("action", flat=True)) >= {"api_key.issue", "api_key.revoke"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "nobody", "--name", "x"], "There is no user 'nobody'"),
        (["add", "ada", "--name", ""], "1 to 100 characters"),
        (["add", "ada", "--name", "x", "--days", "-1"], "--days must be from 0"),
        (["add", "ada", "--name", "x", "--days", "99999999"], "--days must be from 0"),
        (["revoke", "404"], "There is no key 404"),
    ],
)
def test_invalid_values_are_refused_with_a_reason(ada: Any, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run(*arguments)
    assert not ApiKey.objects.exists()


def test_inactive_user_gets_no_key(ada: Any) -> None:
    ada.is_active = False
    ada.save()
    with pytest.raises(CommandError, match="inactive"):
        run("add", "ada", "--name", "x")


def test_second_revocation_reports_the_first(ada: Any) -> None:
    run("add", "ada", "--name", "x")
    key = str(ApiKey.objects.get().pk)
    run("revoke", key)
    with pytest.raises(CommandError, match="was revoked on"):
        run("revoke", key)


def test_no_key_is_issued_where_keys_are_disabled(ada: Any, settings: Any) -> None:
    with (
        override_settings(MCP={**settings.MCP, "API_KEYS": False}),
        pytest.raises(CommandError, match="API_KEYS"),
    ):
        run("add", "ada", "--name", "x")


def test_replaced_key_is_printed_alone_and_ends_the_old_key(ada: Any) -> None:
    old_secret = run("add", "ada", "--name", "laptop", "--scope", "mcp:tools")[0].strip()
    old = ApiKey.objects.get()
    out, err = run("replace", str(old.pk))
    new = ApiKey.objects.exclude(pk=old.pk).get()
    assert find_principal(out.strip()) is not None
    assert find_principal(old_secret) is None
    assert (new.name, new.scopes, new.user) == (old.name, old.scopes, ada)
    assert out.strip() not in err


def test_replaced_key_may_end_later(ada: Any) -> None:
    old_secret = run("add", "ada", "--name", "laptop")[0].strip()
    run("replace", str(ApiKey.objects.get().pk), "--old-key-ends", "24h")
    assert find_principal(old_secret) is not None


def test_revoked_and_unknown_keys_are_not_replaced(ada: Any) -> None:
    run("add", "ada", "--name", "laptop")
    key = ApiKey.objects.get()
    run("revoke", str(key.pk))
    for pk in (key.pk, key.pk + 1):
        with pytest.raises(CommandError):
            run("replace", str(pk))
    assert ApiKey.objects.count() == 1
