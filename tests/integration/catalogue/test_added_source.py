"""The source added on the page "Add a source or a limit":

listing, calling, restricting, editing and transferring its entries.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.test import Client as Browser
from django.urls import reverse

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.sources.lookup import SOURCES, source_of
from mcp_app.models import Tool
from mcp_app.testing import Client, call_tool
from tests.integration.catalogue.transfers import bring, exported

PAGE = Path(__file__).resolve().parents[3] / "docs" / "extending.md"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def phrases() -> Iterator[dict[str, str]]:
    """Register the source of the page, mirror it, and return the dict behind it."""
    (code,) = re.findall(
        r"^```python\n(# phrases/.*?)^```$", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    module = ModuleType("phrases")
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), module.__dict__)
    SOURCES.append(module.PHRASES)
    mirror()
    yield module.TEXTS
    SOURCES.remove(module.PHRASES)


def is_offered(user: Any = None) -> bool:
    async def names() -> set[str]:
        async with Client(user=user, stored=True) as client:
            return {tool["name"] for tool in await client.list_tools()}

    return "hello" in asyncio.run(names())


def test_entry_of_an_added_source_is_listed_and_called() -> None:
    assert is_offered()
    result = call_tool("hello", {"who": "Ada"}, stored=True)
    assert result["content"] == [{"type": "text", "text": "Hello, Ada!"}]


def test_preset_is_made_from_an_entry_of_an_added_source() -> None:
    tool = Tool.objects.get(name="hello")
    services.save_tool_preset(actor=None, name="greet-ada", preset_of=tool, fixed_arguments={"who": "Ada"})
    result = call_tool("greet-ada", stored=True)
    assert result["content"] == [{"type": "text", "text": "Hello, Ada!"}]


def test_permission_hides_an_entry_of_an_added_source(someone: Any, django_user_model: Any) -> None:
    services.update_entry(entry=Tool.objects.get(name="hello"), actor=None, permission="auth.add_user")
    assert not is_offered(django_user_model.objects.create_user("nobody"))
    assert is_offered(someone)


def test_form_of_an_added_source_shows_and_keeps_overrides(someone: Any, client: Browser) -> None:
    client.force_login(someone)
    row = Tool.objects.get(name="hello")
    address = reverse("admin:mcp_app_tool_change", args=[row.pk])
    page = client.get(address).content.decode()
    assert ">from the phrases<" in page
    assert 'name="fixed_arguments"' not in page
    form = {"title": "Greet", "enabled": "on", "position": "10", "icons": "[]"}
    assert client.post(address, form).status_code == 302
    row.refresh_from_db()
    assert (row.title, row.source) == ("Greet", "phrases")
    listed = client.get(reverse("admin:mcp_app_tool_changelist")).content.decode()
    assert ">phrases</span>" in listed


def test_overrides_of_an_added_source_are_exported_and_imported() -> None:
    assert exported()["tools"] == []
    services.update_entry(entry=Tool.objects.get(name="hello"), actor=None, title="Greet")
    file = exported()
    assert file["tools"] == [{"name": "hello", "source": "phrases", "title": "Greet"}]
    assert bring({"tools": []}, prune=True).counted()["changed"] == 1
    assert Tool.objects.get(name="hello").title == ""
    assert bring(file).counted()["changed"] == 1
    assert Tool.objects.get(name="hello").title == "Greet"


def test_entry_removed_from_an_added_source_is_missing(phrases: dict[str, str]) -> None:
    del phrases["hello"]
    mirror()
    row = Tool.objects.get(name="hello")
    assert (row.missing, is_offered()) == (True, False)
    assert source_of(row).problem(row) == "its source no longer has it"


def test_row_of_an_unknown_source_is_shown_and_not_served(someone: Any, client: Browser) -> None:
    Tool.objects.filter(name="hello").update(source="unheard of")
    client.force_login(someone)
    row = Tool.objects.get(name="hello")
    assert not is_offered()
    assert source_of(row).problem(row) == "this installation does not know its source"
    assert client.get(reverse("admin:mcp_app_tool_change", args=[row.pk])).status_code == 200
    assert exported()["tools"] == []
