"""The token meter: the lists that groups and callers get, their tokens, and the tools that were called."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.auth.own_addresses import resource
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.toolsets.contents import search_tokens
from mcp_app.catalogue.toolsets.groups import memberships_of
from mcp_app.catalogue.toolsets.meter import FAMILIES, Meter, estimates
from mcp_app.catalogue.toolsets.services import save_toolset
from mcp_app.models import Message, Session, Tool
from mcp_app.oauth.models import Client as OAuthClient
from mcp_app.oauth.models import Connection
from mcp_app.protocol.messages.server import ENDPOINT
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
FAR = datetime(2099, 1, 1, tzinfo=UTC)
ECHO = {"kind": "tool", "key": "echo"}


@pytest.fixture(autouse=True)
def _toolsets(seeded: Seed) -> Any:
    """Store a toolset of a group, and one that is searched. Load the catalogue, and the former one after."""
    before = current_snapshot.current()
    Group.objects.create(name="Team")
    save_toolset(
        actor=None, slug="team", audience="groups", permissions=memberships_of(["Team"]), members=[ECHO]
    )
    save_toolset(actor=None, slug="large", audience="logged_in", rules=[{"kind": "tool"}], searches=True)
    current_snapshot.refresh_now(force=True)
    yield
    current_snapshot.replace(before)


def test_lists_cost_what_their_callers_get() -> None:
    Tool.objects.filter(name="echo").update(permission="auth.add_user")
    current_snapshot.refresh_now(force=True)
    meter = Meter(called={"echo"})
    found = {cost.path: cost for cost in meter.lists({"auth.add_user"})}
    assert set(found) == {ENDPOINT, "/mcp/large"}
    assert (found["/mcp/large"].tools, found["/mcp/large"].tokens) == (3, search_tokens())
    assert (found["/mcp/large"].called, found["/mcp/large"].unused) == (1, 0)
    (less,) = meter.lists(set(), paths=[ENDPOINT])
    assert 0 < less.tools < found[ENDPOINT].tools
    assert less.tokens < found[ENDPOINT].tokens
    assert (less.called, found[ENDPOINT].called, less.unused) == (0, 1, 100)
    assert list(meter.lists(set(), scopes=set())) == []
    assert estimates(1_000) == [("OpenAI", 952), ("Anthropic", 1000), ("Gemini", 1026)]
    assert [name for name, _ in found[ENDPOINT].families] == list(FAMILIES)


def _call_as(tool: str, principal: str) -> None:
    """Give the calls of a tool to another caller, with a session of its own."""
    now = timezone.now()
    session = Session.objects.create(pk=principal, principal=principal, created_at=now, last_seen_at=now)
    Message.objects.filter(target=tool).update(principal=principal, session=session)


def test_pages_of_groups_and_callers_show_their_lists(root: Client, seeded: Seed) -> None:
    team, user = Group.objects.get(name="Team"), seeded.outsider
    user.groups.add(team)
    key, _ = issue_api_key(user=user, name="k", actor=None)
    client = OAuthClient.objects.create(client_id="c", name="Client", scope="mcp mcp:tools")
    _call_as("echo", f"user:{user.pk}/key:{key.pk}")
    connection = Connection.objects.create(
        user=user, client=client, resource=resource(path="/mcp/team"), scope="mcp", ends_at=FAR
    )
    every = {ENDPOINT, "/mcp/team", "/mcp/large"}
    for name, pk, expected in (
        ("auth_group", team.pk, every),
        ("auth_user", user.pk, every),
        ("mcp_app_apikey", key.pk, every),
        ("mcp_oauth_connection", connection.pk, {"/mcp/team"}),
        ("mcp_oauth_client", client.pk, {f"{user}: /mcp/team"}),
    ):
        shown = root.get(reverse(f"admin:{name}_change", args=[pk]))
        found = {row.name: row.cost for row in shown.context["meter"].rows}
        assert set(found) == expected, name
        assert shown.content.decode().count("data-list=") == len(expected), name
        assert [cost.tools for path, cost in found.items() if path.endswith("team")] == [1], name
    other = User.objects.create_user("uncalled", is_staff=True)
    other.groups.add(team)
    # Another user made these calls as the user.
    _call_as("count", f"user:{other.pk}/by:{user.pk}")
    of_user = "admin:auth_user_change"
    for address, called in (
        (page("apikey", "change", key.pk), 1),
        (reverse(of_user, args=[user.pk]), 1),
        (reverse(of_user, args=[other.pk]), 0),
    ):
        own = root.get(address).context["meter"]
        assert own.is_own
        assert {row.cost.called for row in own.rows} == {called}


def test_page_of_tokens_compares_addresses_and_groups(
    root: Client, client_of: ClientOf, seeded: Seed
) -> None:
    (_, _, addresses), (_, _, groups) = root.get(page("toolset", "tokens")).context["tables"]
    assert [row.name for row in addresses.rows] == [ENDPOINT, "/mcp/large", "/mcp/team"]
    named = [row.name for row in groups.rows]
    assert {"Team: /mcp", "Team: /mcp/team"} <= set(named)
    assert "MCP operator: /mcp/team" not in named
    assert [bool(row.leave_out) for row in addresses.rows] == [
        False,
        False,
        addresses.rows[2].cost.unused > 0,
    ]
    seeded.outsider.user_permissions.add(Permission.objects.get(codename="view_toolset"))
    less = client_of("outsider").get(page("toolset", "tokens")).context["tables"]
    assert [title for title, _, _ in less] == ["Addresses"]
    assert {row.cost.called for row in less[0][2].rows} == {None}


def test_lists_of_others_need_the_permission_to_view_people(client_of: ClientOf, seeded: Seed) -> None:
    seeded.outsider.user_permissions.set(
        Permission.objects.filter(codename__in=["view_group", "view_apikey", "view_tool"])
    )
    client = client_of("outsider")
    group = client.get(reverse("admin:auth_group_change", args=[Group.objects.get(name="Team").pk]))
    key = client.get(page("apikey", "change", seeded.key.pk))
    for shown in (group, key):
        assert shown.status_code == 200
        assert not shown.context.get("meter")
    seeded.outsider.user_permissions.add(Permission.objects.get(codename="view_user"))
    shown = client_of("outsider").get(page("apikey", "change", seeded.key.pk))
    assert [(row.name, row.cost.called) for row in shown.context["meter"].rows] == [(ENDPOINT, None)]
