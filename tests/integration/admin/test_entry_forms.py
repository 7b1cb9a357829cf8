"""Forms and lists of entries: tabs, titles and buttons of new entries, warnings, and filters."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.admin.entries.form_tabs import TABS
from mcp_app.models import Prompt, Resource, StoredSource, Tool
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
TOOLS = page("tool", "changelist")


def tabs(answer: Any) -> dict[str, int]:
    """Return the tabs of a form with their numbers of errors."""
    return {tab.name: tab.errors for tab in answer.context["tabs"]}


def filters(client: Client, query: str = "") -> dict[str, list[str]]:
    """Return the choices of each filter of the list of tools, without "All"."""
    listed = client.get(TOOLS + query).context["cl"]
    return {
        spec.parameter_name: [each["display"] for each in spec.choices(listed)][1:]
        for spec in listed.filter_specs
    }


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("tool", ["text", "access", "limits", "definition"]),
        ("prompt", ["text", "access", "definition"]),
        ("resource", ["text", "access", "definition"]),
    ],
)
def test_form_is_divided_into_tabs(model: str, names: list[str], root: Client, seeded: Seed) -> None:
    assert list(tabs(root.get(page(model, "add")))) == names
    pk = {"tool": seeded.echo, "prompt": seeded.own_prompt, "resource": seeded.own_resource}[model].pk
    answer = root.get(page(model, "change", pk))
    assert list(tabs(answer)) == names
    text = answer.content.decode()
    for name in names:
        assert f'href="#{name}"' in text
        assert f'id="{name}" aria-label="{TABS[name]}"' in text


def test_tab_counts_its_errors(root: Client, seeded: Seed) -> None:
    data = {"timeout_seconds": "-1", "position": "0", "icons": "[", "permission": "", "enabled": "on"}
    answer = root.post(page("tool", "change", seeded.echo.pk), data)
    assert tabs(answer) == {"text": 0, "access": 0, "limits": 0, "definition": 1}
    answer = root.post(page("tool", "change", seeded.echo.pk), {**data, "icons": "[]"})
    assert tabs(answer) == {"text": 0, "access": 0, "limits": 1, "definition": 0}


def test_form_shows_a_schema_once(root: Client, seeded: Seed) -> None:
    Tool.objects.filter(pk=seeded.echo.pk).update(
        definition={"name": "echo", "inputSchema": {"type": "object", "title": "UniqueSchemaTitle"}},
        input_schema={"type": "object", "title": "UniqueSchemaTitle"},
    )
    assert root.get(page("tool", "change", seeded.echo.pk)).content.decode().count("UniqueSchemaTitle") == 1


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own admin names its forms")
@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/admin/auth/group/add/", "Add group"),
        ("/admin/mcp_app/apikey/add/", "Add API key"),
        ("/admin/mcp_app/credential/add/", "Add credential"),
        ("/admin/mcp_oauth/client/add/", "Add OAuth client"),
    ],
)
def test_form_of_a_new_row_is_named_and_does_not_link_itself(
    root: Client, seeded: Seed, address: str, name: str
) -> None:
    text = root.get(address).content.decode()
    heading = text[text.index("<h1") : text.index("</h1>")]
    assert f">{name}</span>" in heading
    assert "addlink" not in text


def test_hints_of_search_fields_end_without_a_full_stop() -> None:
    hints = {name: str(each.search_help_text or "") for name, each in admin.site._registry.items()}
    assert [name for name, hint in hints.items() if hint.endswith(".")] == []


OFFERED = ("HTTP tool", "upstream server", "preset of a tool")


def test_empty_field_names_the_default_of_its_source(root: Client, seeded: Seed) -> None:
    for tool, default in (
        (seeded.echo, "Empty: the value in its code, or the server"),
        (seeded.preset, "Empty: the value of the tool it calls, or the server"),
    ):
        shown = root.get(page("tool", "change", tool.pk)).content.decode()
        assert shown.count(default) == 3, tool
    new = root.get(page("tool", "add")).content.decode()
    assert "in its code" not in new
    assert "Empty: the value of the tool it calls, or no limit." in new


def test_new_tool_is_called_a_preset(root: Client, seeded: Seed) -> None:
    listed = root.get(TOOLS)
    assert [each["texts"].noun for each in listed.context["add_choice"]] == [
        "HTTP tool",
        "upstream server",
        "preset",
    ]
    text = listed.content.decode()
    assert [f">Add {words}</a>" in text for words in OFFERED] == [True, True, True]
    overview = root.get(reverse("admin:index")).content.decode()
    assert [overview.count(f">Add {words}</a>") for words in OFFERED] == [1, 1, 1]
    assert "addlink" not in text.partition('id="changelist"')[0]
    form = root.get(page("tool", "add"))
    assert form.context["title"] == "Add preset"
    data = {"name": "hi", "preset_of": seeded.echo.pk, "fixed_arguments": '{"text": "hi"}', "position": "0"}
    saved = root.post(page("tool", "add"), {**data, "icons": "[]", "meta": "{}"}, follow=True)
    assert saved.redirect_chain == [(TOOLS, 302)]
    assert "The preset" in str(*saved.context["messages"])


@pytest.mark.parametrize(
    ("entered", "uri", "name"),
    [("terms", "resource://terms", "terms"), ("docs://legal/terms.md", "docs://legal/terms.md", "terms.md")],
)
def test_resource_form_completes_uri_and_name(entered: str, uri: str, name: str, root: Client) -> None:
    data = {"uri": entered, "text": "Be kind.", "position": "0", "icons": "[]", "meta": "{}"}
    root.post(page("resource", "add"), {**data, "annotations": "{}"})
    assert Resource.objects.get(uri=uri).name == name


def test_prompt_with_single_braces_is_saved_with_a_warning(root: Client) -> None:
    data = {"name": "p", "template": "Order {order}", "arguments": "[]", "position": "0"}
    saved = root.post(page("prompt", "add"), {**data, "icons": "[]", "meta": "{}"}, follow=True)
    assert Prompt.objects.get(name="p").template == "Order {order}"
    warnings = [str(each) for each in saved.context["messages"] if each.level_tag == "warning"]
    assert warnings == ["Template: {order} is plain text. Did you mean {{order}}?"]


def test_filters_offer_only_what_exists(root: Client, seeded: Seed) -> None:
    Tool.objects.update(enabled=True, missing=False, permission="")
    found = filters(root)
    assert found["source__exact"] == ["preset", "code", "upstream server"]
    assert "missing" not in found
    assert "enabled__exact" not in found
    assert filters(root, "?enabled__exact=0")["enabled__exact"] == ["enabled", "disabled"]
    Tool.objects.filter(pk=seeded.echo.pk).update(enabled=False)
    assert filters(root)["enabled__exact"] == ["enabled", "disabled"]
    Tool.objects.exclude(source=StoredSource.CODE).delete()
    assert "source__exact" not in filters(root)


def test_show_all_link_requires_a_filter(root: Client, seeded: Seed) -> None:
    for query, is_filtered in (("", False), ("?p=1", False), ("?q=echo", True), ("?preset=yes", True)):
        listed = root.get(TOOLS + query).context["cl"]
        assert (listed.full_result_count is None) == is_filtered


def test_tags_are_words_in_the_form_and_filter_the_list(root: Client, seeded: Seed) -> None:
    address = page("tool", "change", seeded.echo.pk)
    data = {"position": "0", "icons": "[]", "permission": "", "enabled": "on"}
    assert root.post(address, {**data, "tags": "Billing, §"}).context["errors"]
    assert root.post(address, {**data, "tags": "Billing, weekly report  billing"}).status_code == 302
    assert Tool.objects.get(pk=seeded.echo.pk).tags == ["billing", "report", "weekly"]
    assert 'value="billing, report, weekly"' in root.get(address).content.decode()
    assert filters(root)["tag"] == ["billing", "report", "weekly"]
    found = [tool.name for tool in root.get(f"{TOOLS}?tag=weekly").context["cl"].result_list]
    # The preset of the tool inherits the tags.
    assert found == ["echo", "greet_world"]
    assert not root.get(f"{TOOLS}?tag=unknown").context["cl"].result_list
