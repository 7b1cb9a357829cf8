"""A user connects an account at our own server, calls its tools with it, and disconnects."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.models import Upstream
from mcp_app.testing import call_tool
from mcp_app.upstreams.accounts import tokens
from tests.integration.connections.conftest import Visitor, publish

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def test_connected_user_calls_with_the_own_account(crm: Upstream, ada: Visitor, bob: Visitor) -> None:
    row = ada.connect(crm)
    publish(crm, ada.user, "echo")
    result = call_tool("crm_echo", {"text": "hello"}, stored=True, user=ada.user)
    assert text_of(result) == "hello"
    refused = call_tool("crm_echo", {"text": "hello"}, stored=True, user=bob.user)
    assert refused["isError"]
    assert f"/connections/?server={crm.pk}" in text_of(refused)
    stored = tokens.opened(row)
    assert stored is not None
    assert stored.access not in row.sealed
    assert row.can_renew
