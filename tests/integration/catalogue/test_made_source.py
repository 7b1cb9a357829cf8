"""A second source of tools for administrators works everywhere after registration alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client as Browser
from django.urls import reverse

from mcp_app.catalogue.changes import drafts, revisions, services
from mcp_app.catalogue.changes.rolling_back import roll_back
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.models import CatalogueChange, Draft, Tool
from mcp_app.testing import call_tool
from tests.integration.catalogue.toys import GreetingSource, registered, schema
from tests.integration.catalogue.transfers import bring, exported

ADD = reverse("admin:mcp_app_tool_add")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def source() -> Iterator[Source]:
    with registered(GreetingSource()) as found:
        yield found


@pytest.fixture
def root(someone: Any, client: Browser) -> Browser:
    client.force_login(someone)
    return client


@pytest.fixture
def hello(source: Source) -> Tool:
    return services.save_entry(
        kind=Tool, actor=None, source=source, name="hello", input_schema=schema("Hello, {who}!")
    )


def form(**values: Any) -> dict[str, Any]:
    usual = {"name": "hello", "enabled": "on", "position": "0", "icons": "[]", "meta": "{}"}
    return {**usual, "input_schema": json.dumps(schema("Hello, {who}!")), **values}


def said(name: str) -> str:
    return str(call_tool(name, {"who": "Ada"}, stored=True)["content"][0]["text"])


def changes_of(row: Tool) -> Any:
    return CatalogueChange.objects.filter(kind="tool", entry_id=row.pk)


def test_list_links_to_the_add_form_of_each_source(root: Browser) -> None:
    page = root.get(reverse("admin:mcp_app_tool_changelist")).content.decode()
    for address, noun in ((ADD, "preset of a tool"), (f"{ADD}?source=greeting", "greeting")):
        assert re.search(rf'href="{re.escape(address)}" title="[^"]*">Add {noun}</a>', page)


def test_source_page_replaces_its_add_form(root: Browser, source: Source) -> None:
    source.adding = {Tool: Adding("greeting", "", "admin:mcp_app_catalogue_import")}  # type: ignore[misc]
    page = root.get(reverse("admin:mcp_app_tool_changelist")).content.decode()
    assert f'href="{reverse("admin:mcp_app_catalogue_import")}" title="">Add greeting</a>' in page


def test_add_button_has_no_menu_with_one_source(root: Browser) -> None:
    # Prompts are made by one source, tools by several.
    for page in ("changelist", "add"):
        assert 'aria-label="Add"' not in root.get(reverse(f"admin:mcp_app_prompt_{page}")).content.decode()


def test_add_form_has_the_fields_of_its_source(root: Browser) -> None:
    usual, greeting = (root.get(address).content.decode() for address in (ADD, f"{ADD}?source=greeting"))
    assert ('name="preset_of"' in usual, 'name="input_schema"' in usual) == (True, False)
    assert ('name="preset_of"' in greeting, 'name="input_schema"' in greeting) == (False, True)
    assert f'class="mcp-button mcp-primary" href="{ADD}?source=greeting"' in greeting


@pytest.mark.parametrize("stored", ["code", "feed", "unheard of", ""])
def test_add_form_of_another_source_returns_404(root: Browser, stored: str) -> None:
    assert root.get(ADD, {"source": stored}).status_code == 404


def test_add_form_creates_a_tool_of_its_source(root: Browser) -> None:
    answer = root.post(f"{ADD}?source=greeting", form(_addanother=""))
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{ADD}?source=greeting")
    row = Tool.objects.get(name="hello")
    assert (row.source, row.preset_of) == ("greeting", None)
    assert said("hello") == "Hello, Ada!"


def test_add_form_shows_the_error_of_its_source(root: Browser) -> None:
    page = root.post(f"{ADD}?source=greeting", form(input_schema="{}")).content.decode()
    assert "Write the text as its title." in page
    assert not Tool.objects.filter(name="hello").exists()


def test_api_checks_a_new_tool_by_the_source_in_the_address(root: Browser) -> None:
    # The API reads the fields of all sources when it is imported, so only refusals can be seen here.
    for address, field in (
        ("?source=code", "source"),
        ("", "preset_of"),
        ("?source=greeting", "input_schema"),
    ):
        answer = root.post(f"/api/tools/{address}", {"name": "hello"}, content_type="application/json")
        assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_copy_has_the_source_and_fields_of_its_original(root: Browser, hello: Tool) -> None:
    services.update_entry(entry=hello, actor=None, title="Greet", timeout_seconds=5)
    asked = {"action": "duplicate_entries", "_selected_action": [hello.pk]}
    root.post(reverse("admin:mcp_app_tool_changelist"), asked)
    copy = Tool.objects.get(name="hello-copy")
    assert (copy.source, copy.preset_of, copy.enabled) == ("greeting", None, False)
    assert (copy.title, copy.timeout_seconds, copy.input_schema) == ("Greet", 5, hello.input_schema)


def test_deleted_tool_is_restored_with_its_source(hello: Tool) -> None:
    services.delete_entry(entry=hello, actor=None)
    restored = roll_back(to=CatalogueChange.objects.get(action="deleted", key="hello"), actor=None)
    assert (restored.source, restored.input_schema) == ("greeting", hello.input_schema)
    assert said("hello") == "Hello, Ada!"


def test_roll_back_restores_fields_and_keeps_the_source(hello: Tool) -> None:
    first = changes_of(hello).get()
    services.save_entry(kind=Tool, entry=hello, actor=None, input_schema=schema("Bye, {who}."))
    assert said("hello") == "Bye, Ada."
    assert roll_back(to=first, actor=None).source == "greeting"
    assert said("hello") == "Hello, Ada!"


def test_draft_of_a_new_tool_is_edited_and_published_with_its_source(root: Browser) -> None:
    page = root.post(f"{ADD}?source=greeting", form(_draft=""), follow=True).content.decode()
    draft = Draft.objects.get()
    assert (draft.source, draft.entry_id, "cannot be published" in page) == ("greeting", None, False)
    edit = f"{ADD}?draft={draft.pk}"
    shown = root.get(edit).content.decode()
    assert ('name="input_schema"' in shown, 'name="preset_of"' in shown) == (True, False)
    again = form(**{"_draft": "", "mcp-draft": f"{draft.pk}:1", "name": "bye"})
    assert root.post(edit, {**again, "input_schema": json.dumps(schema("Bye, {who}."))}).status_code == 302
    root.post(reverse("admin:mcp_app_draft_publish", args=[draft.pk]), {"version": 2, "seen": 0})
    assert Tool.objects.get(name="bye").source == "greeting"
    assert said("bye") == "Bye, Ada."


def test_draft_of_a_missing_source_is_shown_but_not_published(root: Browser, source: Source) -> None:
    values: dict[str, Any] = {"name": "hello", "input_schema": schema("Hello, {who}!")}
    draft = drafts.save_draft(kind=Tool, actor=None, source=source, **values)
    source.own_fields = {}  # type: ignore[misc]
    page = root.get(reverse("admin:mcp_app_draft_change", args=[draft.pk])).content.decode()
    assert "Entries of this source cannot be made here." in page
    with pytest.raises(ValidationError, match="cannot be made here"):
        drafts.publish_draft(draft=draft, actor=None)


def test_draft_of_an_existing_tool_keeps_its_source(hello: Tool) -> None:
    draft = drafts.save_draft(kind=Tool, actor=None, entry=hello, input_schema=schema("Bye, {who}."))
    published = drafts.publish_draft(draft=draft, actor=None)
    assert (draft.source, published.source, said("hello")) == ("greeting", "greeting", "Bye, Ada.")


def test_catalogue_import_restores_a_tool_with_its_source(hello: Tool) -> None:
    file = exported()
    (entry,) = file["tools"]
    assert (entry["source"], entry["input_schema"]) == ("greeting", hello.input_schema)
    services.delete_entry(entry=hello, actor=None)
    bring(file)
    assert Tool.objects.get(name="hello").source == "greeting"


def test_tool_created_without_a_source_is_a_preset(hello: Tool) -> None:
    preset = services.save_entry(
        kind=Tool, actor=None, name="ada", preset_of=hello, fixed_arguments={"who": "Ada"}
    )
    assert (preset.source, revisions.state_of(preset)["preset_of"]) == (PRESET.stored, "hello")
    assert call_tool("ada", stored=True)["content"][0]["text"] == "Hello, Ada!"
