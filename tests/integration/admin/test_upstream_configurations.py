"""Upstream servers from the configuration of a client: page, command, credentials and permissions."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from mcp_app.models import AuditEvent, Credential, Tool, Upstream
from tests.integration.admin.test_upstream_pages import client_of, messages_of

pytestmark = pytest.mark.django_db
PAGE = "admin:mcp_app_upstream_bring"
TEXT = json.dumps(
    {
        "mcpServers": {
            "crm": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer s3cret"}},
            "shop": {"url": "https://shop.example.com/mcp", "headers": {"X-Key": "s3cret", "X-Team": "a"}},
            "plain": {"url": "https://plain.example.com/mcp", "headers": {"X-Key": "${input:key}"}},
            "files": {"command": "npx", "args": ["-y", "server-filesystem"]},
            "own": {"url": "https://user:s3cret@own.example.com/mcp"},
        }
    }
)


def post(client: Client, text: str = TEXT) -> Any:
    return client.post(reverse(PAGE), {"configuration": text}, follow=True)


def test_page_adds_servers_with_sealed_credentials(admin_client: Client) -> None:
    response = post(admin_client)
    said = messages_of(response)
    assert "Added crm, shop, plain." in said
    assert "Not added: files. This server is a local command." in said
    assert "Not added: own." in said
    assert "plain needs X-Key" in said
    assert "s3cret" not in response.content.decode()
    rows = {row.name: row.credential for row in Upstream.objects.all()}
    assert rows == {"crm": "crm", "shop": "shop", "plain": ""}
    kinds = {row.name: (row.kind, row.origins) for row in Credential.objects.all()}
    assert kinds == {
        "crm": ("bearer", ["https://mcp.example.com"]),
        "shop": ("headers", ["https://shop.example.com"]),
    }
    assert not Tool.objects.filter(source="upstream").exists()
    assert "s3cret" not in json.dumps(list(AuditEvent.objects.values("action", "detail")))


def test_servers_that_exist_are_refused_and_change_nothing(admin_client: Client) -> None:
    post(admin_client)
    before = list(Credential.objects.values_list("name", "sealed"))
    assert "Not added: crm." in messages_of(post(admin_client))
    assert list(Credential.objects.values_list("name", "sealed")) == before
    assert Upstream.objects.count() == 3


def test_text_that_is_no_configuration_stays_in_the_form(admin_client: Client) -> None:
    response = post(admin_client, '{"token": "s3cret"')
    assert "not JSON" in response.context["form"].errors["configuration"][0]
    assert "s3cret" in response.content.decode()
    assert "no-store" in response.headers["Cache-Control"]
    assert not Upstream.objects.exists()


@pytest.mark.parametrize(
    ("permissions", "status", "names"),
    [
        ((), 403, set()),
        (("view_upstream",), 403, set()),
        (("view_upstream", "add_upstream"), 200, {"plain"}),
        (("view_upstream", "add_upstream", "add_credential"), 200, {"plain"}),
        (
            ("view_upstream", "add_upstream", "add_credential", "view_credential"),
            200,
            {"crm", "shop", "plain"},
        ),
    ],
)
def test_permissions_decide_on_servers_and_credentials(
    permissions: tuple[str, ...], status: int, names: set[str], django_user_model: Any
) -> None:
    response = post(client_of(django_user_model, *permissions))
    assert response.status_code == status
    assert set(Upstream.objects.values_list("name", flat=True)) == names
    assert Credential.objects.count() == len(names - {"plain"})


def test_command_adds_the_servers_of_a_file(tmp_path: Path) -> None:
    path, out = tmp_path / "mcp.json", StringIO()
    path.write_text(TEXT)
    call_command("mcp_upstream", "bring", str(path), stdout=out)
    assert "Added crm" in out.getvalue()
    assert "Not added: files." in out.getvalue()
    assert "s3cret" not in out.getvalue()
    assert Upstream.objects.count() == 3


@pytest.mark.parametrize("text", ["", "[]", None])
def test_command_names_the_problem_of_a_file(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "mcp.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CommandError, match="Nothing was added"):
        call_command("mcp_upstream", "bring", str(path), stdout=StringIO())
