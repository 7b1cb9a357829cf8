"""The tools on the consent page: those that the user may call, with their effect on data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from mcp_app import tool
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.effects import Effect
from mcp_app.catalogue.reach import reach_of
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import Tool
from mcp_app.prepare import prepare
from mcp_app.protocol.messages.server import ENDPOINT
from tests.unit.oauth.flow import Program


@pytest.fixture
def offered(transactional_db: None) -> Iterator[None]:
    """Offer three tools: one reads, one may destroy data, and one needs a permission."""
    before = current_snapshot.current()
    with registry.isolated():

        @tool(read_only=True)
        def read_order(order: str) -> str:
            "Read an order."
            return order

        @tool(title="Refund an <b>order</b>", destructive=True)
        def refund_order(order: str) -> str:
            "Refund an order."
            return order

        @tool(permission="auth.view_group", destructive=False)
        def move_order(order: str) -> str:
            "Move an order."
            return order

        prepare()
        current_snapshot.refresh_now(force=True)
        yield
    Tool.objects.all().delete()
    current_snapshot.replace(before)


@pytest.mark.usefixtures("offered")
def test_reach_contains_the_tools_that_the_user_may_call() -> None:
    user = get_user_model().objects.create_user("bob")
    found = reach_of(user, ["mcp", "mcp:tools"], ENDPOINT)
    assert found is not None
    assert [(each.name, each.effect) for each in found.tools] == [
        ("refund_order", Effect.DESTROYS),
        ("read_order", Effect.READS),
    ]
    assert [each.name for each in found.changing] == ["refund_order"]
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    again = get_user_model().objects.get(pk=user.pk)
    more = reach_of(again, ["mcp:admin"], ENDPOINT)
    assert more is not None
    assert [each.name for each in more.tools] == ["refund_order", "move_order", "read_order"]


@pytest.mark.django_db
def test_client_without_the_scope_for_tools_reaches_none() -> None:
    user = get_user_model().objects.create_user("bob")
    assert reach_of(user, ["mcp", "mcp:resources"], ENDPOINT) is None


@pytest.mark.usefixtures("offered")
@pytest.mark.requirement("AUTH-49")
def test_consent_page_names_the_tools(program: Program) -> None:
    text = program.ask().content.decode()
    assert 'data-reach="2"' in text
    assert "refund_order" in text
    assert Effect.DESTROYS.consequence in text
    assert "Refund an &lt;b&gt;order&lt;/b&gt;" in text
    assert "move_order" not in text
    assert "data-reach" not in program.ask(scope="mcp").content.decode()
