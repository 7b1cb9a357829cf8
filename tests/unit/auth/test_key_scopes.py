"""Scopes of API keys: an upper limit on permissions, as with OAuth tokens."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.db import connection

from mcp_app.auth.api_keys import find_principal, issue_api_key, principal_of
from mcp_app.auth.challenges import check_scopes
from mcp_app.auth.principal import Principal
from mcp_app.models import ApiKey
from mcp_app.protocol.errors import Forbidden
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.scopes import ALL, in_order

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

METHODS = {
    "tools/list": "mcp",
    "tools/call": "mcp:tools",
    "resources/read": "mcp:resources",
    "prompts/get": "mcp:prompts",
}


def principal_with(user: Any, *scopes: str) -> Principal:
    """Return the principal of a new key with these scopes."""
    principal = find_principal(issue_api_key(user=user, name="robot", scopes=scopes)[1])
    assert principal is not None
    return principal


@pytest.mark.requirement("AUTH-10", "AUTH-11", "AUTH-50")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("held", [*((scope,) for scope in ALL), ("mcp", "mcp:tools"), ALL])
def test_key_is_denied_methods_outside_its_scopes(user: Any, held: tuple[str, ...], method: str) -> None:
    principal = principal_with(user, *held)
    request = jsonrpc.Request(id=7, method=method, params={})
    if METHODS[method] in held or METHODS[method] == "mcp" or "mcp:admin" in held:
        check_scopes(principal, request)
        return
    with pytest.raises(Forbidden) as refused:
        check_scopes(principal, request)
    assert refused.value.http_status == 403
    assert 'error="insufficient_scope"' in str(refused.value.challenge)
    assert f'scope="{in_order({"mcp", *held, METHODS[method]})}"' in str(refused.value.challenge)
    assert refused.value.request_id == 7


def test_key_created_before_scopes_has_all_scopes(user: Any) -> None:
    row, secret = issue_api_key(user=user, name="old")
    # Insert the row as an earlier version would, without a scopes column.
    with connection.cursor() as cursor:
        columns = "user_id, name, prefix, secret_hash, created_at"
        cursor.execute(
            f"INSERT INTO mcp_app_apikey ({columns}) SELECT user_id, 'older', prefix, 'x', created_at"
            " FROM mcp_app_apikey"
        )
    assert ApiKey.objects.get(name="older").scopes == row.scopes == " ".join(ALL)
    principal = find_principal(secret)
    assert principal is not None
    assert principal.scopes is None


def test_admin_permissions_require_key_with_admin_scope(user: Any) -> None:
    user.user_permissions.set(Permission.objects.filter(codename__in=("view_tool", "view_group")))
    narrow, whole = principal_with(user, "mcp", "mcp:tools"), principal_with(user, *ALL)
    for permission, is_own in (("mcp_app.view_tool", True), ("auth.view_group", False)):
        assert (permission in narrow.permissions) == (not is_own)
        assert permission in whole.permissions


def test_key_with_empty_scopes_is_denied(user: Any) -> None:
    _, secret = issue_api_key(user=user, name="robot")
    ApiKey.objects.update(scopes="")
    principal = find_principal(secret)
    assert principal is not None
    with pytest.raises(Forbidden):
        check_scopes(principal, jsonrpc.Request(id=1, method="initialize", params={}))


def test_stored_call_keeps_scopes_of_its_key(user: Any) -> None:
    user.user_permissions.set(Permission.objects.filter(codename="view_tool"))
    asked = principal_with(user, "mcp", "mcp:tools")
    runs = principal_of(asked.key, user.pk, asked.api_key_id, in_order(asked.scopes or ()))
    assert runs.scopes == asked.scopes
    assert "mcp_app.view_tool" not in runs.permissions


@pytest.mark.parametrize("scopes", [(), ("mcp:everything",), ("mcp", "openid")])
def test_invalid_scopes_raise_validation_error_on_their_field(user: Any, scopes: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        issue_api_key(user=user, name="robot", scopes=scopes)
    assert set(refused.value.message_dict) == {"scopes"}
    assert not ApiKey.objects.exists()
