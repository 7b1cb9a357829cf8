"""Servers over stdio for administrators: page, API, command, doctor, configuration files, and calls."""

from __future__ import annotations

import asyncio
import json
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from mcp_app.admin.upstreams import processes
from mcp_app.bridge.service import Bridge
from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.sources.upstream.session_keys import capabilities
from mcp_app.catalogue.upstreams import standing, storing
from mcp_app.doctor import Installation
from mcp_app.doctor import upstreams as doctor_check
from mcp_app.models import Upstream
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.testing import Client as McpClient
from mcp_app.upstreams import bridge as seen
from tests.process.bridge.conftest import TOKEN, server_of
from tests.process.bridge.test_bridge import call
from tests.servers import stdio_program

pytestmark = [pytest.mark.django_db, pytest.mark.requirement("INT-76")]
FORM = {"era": "legacy", "isolation": "session", "timeout_seconds": "20", "enabled": "on"}


@pytest.fixture(autouse=True)
def _unknown() -> Any:
    yield
    known._kept.clear()


def added(admin_client: Client, name: str = "usual") -> tuple[Upstream, Any]:
    form = {**FORM, "name": "local", "command": name}
    response = admin_client.post(reverse("admin:mcp_app_upstream_add"), form, follow=True)
    return Upstream.objects.get(name="local"), response


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_upstream", *arguments, stdout=out)
    return out.getvalue()


def findings() -> list[tuple[str, str]]:
    return [(found.level.value, found.text) for found in doctor_check.bridged(Installation.configured())]


@pytest.mark.django_db(transaction=True)
def test_page_adds_a_command_and_its_tool_is_called(served: Bridge, admin_client: Client) -> None:
    row, response = added(admin_client)
    assert (row.command, row.url) == ("usual", "")
    assert response.context["number"] == len(stdio_program.TOOLS)
    page = reverse("admin:mcp_app_upstream_select", args=[row.pk])
    admin_client.post(page, {"tools": ["counter", "form"]})
    admin_client.post(reverse("admin:mcp_app_upstream_publish", args=[row.pk]))

    async def use() -> tuple[str, str]:
        async with McpClient(stored=True, elicit={"action": "decline"}) as ours:
            counted = await ours.call_tool("local_counter", {})
            asked = await ours.call_tool("local_form", {})
            return counted["content"][0]["text"], asked["content"][0]["text"]

    counted, asked = asyncio.run(use())
    assert counted == "1"
    assert json.loads(asked)["action"] in ("accept", "decline")


def test_page_shows_error_output_without_secrets_and_with_marks(served: Bridge, admin_client: Client) -> None:
    row, _ = added(admin_client)
    asyncio.run(call(server_of("usual"), "stderr"))
    page = admin_client.get(reverse("admin:mcp_app_upstream_change", args=[row.pk]))
    shown = page.context["processes"]
    assert (shown["state"], shown["number"], shown["problem"]) == ("running", 1, "")
    assert "[hidden]" in shown["errors"]
    assert "⟦U+202E⟧" in shown["errors"]
    assert TOKEN not in page.content.decode()


def test_page_without_a_bridge_names_the_command_to_start(admin_client: Client) -> None:
    row, _ = added(admin_client)
    page = admin_client.get(reverse("admin:mcp_app_upstream_change", args=[row.pk]))
    assert seen.NOT_RUNNING in page.context["processes"]["problem"]
    assert page.context["processes"]["state"] == "unknown"


def test_command_that_left_the_settings_is_named(admin_client: Client, settings: Any) -> None:
    row, _ = added(admin_client)
    settings.MCP = {**settings.MCP, "UPSTREAM_COMMANDS": {}}
    shown = processes.context_of(row)
    assert shown is not None
    assert shown["problem"] == processes.NOT_IN_SETTINGS
    text = "the server local needs the command usual, which UPSTREAM_COMMANDS does not have"
    assert findings() == [("warning", text)]
    # The settings of the server can still be changed.
    settings_page = reverse("admin:mcp_app_upstream_settings", args=[row.pk])
    assert "command" in admin_client.get(settings_page).context["form"].fields


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"command": "unknown"}, "command"),
        ({"command": "usual", "url": "https://mcp.example.com/mcp"}, "command"),
        ({"command": "usual", "credential": "any"}, "credential"),
        ({}, "url"),
    ],
)
def test_server_has_a_url_or_a_command_of_the_settings(values: dict[str, str], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        storing.save_upstream(actor=None, name="local", **values)
    assert [*refused.value.message_dict] == [field]


def test_shared_session_over_stdio_declares_no_capabilities() -> None:
    row = storing.save_upstream(actor=None, name="local", command="usual", isolation="shared")
    told = ClientCapabilities(elicitation_form=True)
    assert capabilities(known.read(row), told) == {}
    row = storing.save_upstream(actor=None, upstream=row, isolation="user")
    assert capabilities(known.read(row), told) == {"elicitation": {"form": {}}}


def test_command_adds_lists_and_prints_error_output(served: Bridge) -> None:
    said = command("add", "local", "--command", "usual", "--era", "legacy", "--item", "counter")
    assert "Saved 1 draft of local" in said
    assert "command usual" in command("list")
    asyncio.run(call(server_of("usual"), "stderr"))
    assert "[hidden]" in command("logs", "local")
    storing.save_upstream(actor=None, name="web", url="https://mcp.example.com/mcp")
    with pytest.raises(CommandError):
        command("logs", "web")


def test_doctor_names_failing_commands_and_a_missing_bridge(served: Bridge) -> None:
    assert [level for level, _ in findings()] == ["ok"]
    for _ in range(2):
        with pytest.raises(Exception, match="status 4"):
            asyncio.run(call(server_of("broken"), "counter"))
    assert [text for level, text in findings() if level == "warning"] == [
        "the process of the command broken ended at once 2 times in a row"
    ]


def test_doctor_reports_a_bridge_that_does_not_run() -> None:
    assert [level for level, _ in findings()] == ["error"]


def test_configuration_file_adds_commands_of_the_settings_only(admin_client: Client) -> None:
    servers = {"usual": {"command": "rm", "args": ["-rf", "/"]}, "other": {"command": "npx"}}
    page = reverse("admin:mcp_app_upstream_bring")
    admin_client.post(page, {"configuration": json.dumps({"mcpServers": servers})})
    assert [*Upstream.objects.values_list("name", "command", "url")] == [("usual", "usual", "")]


def test_api_adds_a_server_with_a_command(admin_client: Client) -> None:
    body = {"name": "local", "command": "usual"}
    added = admin_client.post("/api/upstreams/", body, content_type="application/json")
    assert added.status_code == 201, added.content
    assert added.json()["command"] == "usual"


def test_no_process_waits_for_changes_of_a_server_over_stdio() -> None:
    storing.save_upstream(actor=None, name="local", command="usual")
    storing.save_upstream(actor=None, name="web", url="https://mcp.example.com/mcp")
    assert [each.server.name for each in standing._wanted()] == ["web"]
