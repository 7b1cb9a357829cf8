"""Toolsets over the API and the management command, which write through the same services as the admin."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.models import Toolset
from tests.integration.api.conftest import send
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
ECHO = {"kind": "tool", "key": "echo"}


@pytest.fixture(autouse=True)
def _loaded(seeded: Seed) -> Any:
    """Load the seeded catalogue, and the former one after the test."""
    before = current_snapshot.current()
    current_snapshot.refresh_now(force=True)
    yield
    current_snapshot.replace(before)


def test_toolset_is_created_changed_and_deleted(root: Client) -> None:
    Group.objects.create(name="Team")
    body = {"slug": "team", "audience": "groups", "groups": ["Team"], "members": [ECHO]}
    made = send(root, "POST", "/api/toolsets/", body)
    assert made.status_code == 201, made.content
    assert (made.json()["path"], made.json()["groups"]) == ("/mcp/team", ["Team"])
    assert [each["key"] for each in made.json()["entries"]] == ["echo"]
    assert made.json()["tokens"] == made.json()["entries"][0]["tokens"] > 0
    changed = send(root, "PATCH", "/api/toolsets/team/", {"rules": [{"tag": "billing"}]})
    assert changed.json()["rules"] == [{"tag": "billing"}]
    assert [each["slug"] for each in root.get("/api/toolsets/").json()["results"]] == ["team"]
    history = root.get("/api/toolsets/team/history/").json()["results"]
    assert [each["action"] for each in history] == ["changed", "created"]
    assert root.delete("/api/toolsets/team/").status_code == 204
    assert root.get("/api/toolsets/team/").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"slug": "No slug"}, "slug"),
        ({"slug": "a", "groups": ["Unknown"]}, "groups"),
        ({"slug": "a", "members": [{"kind": "tool", "key": "unknown"}]}, "members"),
        ({"slug": "a", "rules": [1]}, "rules"),
        ({"slug": "a", "color": "red"}, "color"),
    ],
)
def test_unfit_values_are_refused_at_their_field(body: dict[str, Any], field: str, root: Client) -> None:
    refused = send(root, "POST", "/api/toolsets/", {"audience": "everyone", **body})
    assert (refused.status_code, field in refused.json()["errors"]) == (400, True), refused.content


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_toolset", *arguments, stdout=out)
    return out.getvalue()


def test_command_adds_lists_and_removes_toolsets() -> None:
    Group.objects.create(name="Team")
    added = command("add", "team", "--title", "T", "--tool", "echo", "--tag", "billing", "--group", "Team")
    assert "/mcp/team" in added
    row = Toolset.objects.get()
    assert (row.members, row.rules, row.audience) == ([ECHO], [{"tag": "billing"}], "groups")
    assert added == command("list")
    command("remove", "team")
    assert command("list") == ""
    for wrong in (("add", "a", "--tool", "unknown"), ("add", "a", "--group", "unknown"), ("remove", "team")):
        with pytest.raises(CommandError):
            command(*wrong)
