"""``manage.py mcp_openapi`` prints a survey, imports chosen operations and updates them (INT-30)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mcp_app.models import ApiDocument, Draft, Tool
from tests.integration.catalogue.test_openapi_import import PATHS, changed_paths, data

pytestmark = pytest.mark.django_db


def run(folder: Path, *arguments: str, content: bytes | None = None) -> str:
    file = folder / "api.json"
    file.write_bytes(data() if content is None else content)
    out = io.StringIO()
    call_command("mcp_openapi", str(file), *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.requirement("INT-30")
@pytest.mark.parametrize("option", ["--survey", "--dry-run"])
def test_survey_lists_operations_and_stores_nothing(tmp_path: Path, option: str) -> None:
    lines = run(tmp_path, "--prefix", "shop", option).splitlines()
    assert lines[0].startswith("GET /orders/{id}  shop_getOrder  ")
    assert "POST /orders  shop_bad  not usable: " in lines[3]
    assert lines[4].startswith("4 of 4 operations, about ")
    assert not ApiDocument.objects.exists()


@pytest.mark.requirement("INT-30")
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (["--all"], {"getOrder", "deleteOrder", "listOrders"}),
        (["--operation", "GET /orders/{id}"], {"getOrder"}),
        (["--include", "GET *"], {"getOrder", "listOrders"}),
        (["--operation", "listOrders", "--operation", "DELETE /orders/{id}"], {"listOrders", "deleteOrder"}),
    ],
)
def test_chosen_operations_become_drafts(tmp_path: Path, choice: list[str], names: set[str]) -> None:
    out = run(tmp_path, "--prefix", "shop", *choice)
    assert {draft.key for draft in Draft.objects.all()} == {f"shop_{name}" for name in names}
    assert f"Saved {len(names)} draft{'s' * (len(names) > 1)} of shop." in out
    assert ("skipped  POST /orders: " in out) == ("--all" in choice)


@pytest.mark.requirement("INT-30")
def test_tagged_operations_are_published_for_another_server(tmp_path: Path) -> None:
    paths: dict[str, Any] = json.loads(json.dumps(PATHS))
    paths["/orders"]["get"]["tags"] = ["lists"]
    own = ("--tag", "lists", "--origin", "https://own.example/v2", "--publish")
    out = run(tmp_path, "--prefix", "shop", *own, content=data(paths))
    tool = Tool.objects.get(name="shop_listOrders")
    assert (tool.request["origin"], tool.request["path"]) == ("https://own.example", "/v2/orders")  # type: ignore[index]
    assert "Published 1 tool of shop as revision" in out


def test_second_run_updates_the_imported_tools(tmp_path: Path) -> None:
    run(tmp_path, "--prefix", "shop", "--all", "--publish")
    out = run(tmp_path, "--prefix", "shop", "--operation", "GET /new", content=data(changed_paths()))
    assert "Updated shop: 3 drafts saved." in out
    assert {draft.key for draft in Draft.objects.filter(entry_id=None)} == {"shop_get_new"}


@pytest.mark.parametrize(
    ("arguments", "content", "reason"),
    [
        (["--all"], b"<html>", "a web page"),
        ([], None, "Choose operations by --operation, --tag or --all"),
        (["--tag", "none"], None, "No operation fits"),
        (["--all", "--actor", "nobody"], None, "There is no user 'nobody'"),
        (["--all", "--prefix", "ä"], None, "Use letters, digits"),
        (["--all", "--origin", "ftp://x.example"], None, "cannot be called"),
    ],
)
def test_refused_import_names_its_reason(
    tmp_path: Path, arguments: list[str], content: bytes | None, reason: str
) -> None:
    with pytest.raises(CommandError, match=reason):
        run(tmp_path, *arguments, content=content)
    assert not Draft.objects.exists()


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("mcp_openapi", str(tmp_path / "none.json"), "--all")
