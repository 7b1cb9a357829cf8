"""Editing the catalogue: entries from code are customized, entries of the admin are created and deleted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from rest_framework.permissions import AllowAny
from rest_framework.viewsets import ViewSet

from mcp_app import expose
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.models import (
    AuditEvent,
    CatalogueChange,
    CatalogueRevision,
    Prompt,
    Resource,
    StoredSource,
    Tool,
)
from tests.integration.admin.addresses import page
from tests.samples.admin_seed import Seed

COMMON = {
    "title": "",
    "description": "",
    "tags": "",
    "enabled": "on",
    "permission": "",
    "position": "0",
    "icons": "[]",
    "meta": "{}",
}
LIMITS = {
    "timeout_seconds": "",
    "calls_per_minute": "",
    "retries": "",
    "queue": "",
    "priority": "",
    "max_running": "",
    "max_result_tokens": "",
    "max_result_bytes": "",
    "cost": "",
    "approval_minutes": "",
}
SWITCHES = ("background", "needs_approval", "four_eyes")
PROMPT = COMMON | {
    "name": "hello",
    "template": "Hello {{who}}",
    "arguments": '[{"name": "who", "required": true}]',
}
RESOURCE = COMMON | {
    "uri": "notes://a",
    "name": "A",
    "mime_type": "text/plain",
    "text": "x",
    "annotations": "{}",
}


def _preset(seeded: Seed, **more: Any) -> dict[str, Any]:
    fixed = {"name": "shout", "preset_of": seeded.echo.pk, "fixed_arguments": '{"text": "HI"}'}
    return COMMON | LIMITS | fixed | more


def _errors(answer: Any) -> dict[str, list[str]]:
    assert answer.status_code == 200, answer
    return {name: list(texts) for name, texts in answer.context["adminform"].form.errors.items()}


def _choose(client: Client, model: str, action: str, *rows: Any, **more: str) -> Any:
    data = {"action": action, "_selected_action": [row.pk for row in rows], **more}
    return client.post(page(model, "changelist"), data, follow=True)


def test_preset_is_created_and_recorded(root: Client, seeded: Seed) -> None:
    assert root.post(page("tool", "add"), _preset(seeded)).status_code == 302
    made = Tool.objects.get(name="shout")
    assert (made.source, made.preset_of, made.fixed_arguments) == (
        StoredSource.ADMIN,
        seeded.echo,
        {"text": "HI"},
    )
    assert made.updated_by == seeded.root
    change = CatalogueChange.objects.get(kind="tool", key="shout")
    assert (change.action, change.actor) == ("created", seeded.root)
    assert AuditEvent.objects.filter(
        action="catalogue.created", object_key="shout", actor=seeded.root
    ).exists()


@pytest.mark.parametrize(
    ("changed", "field", "says"),
    [
        ({"fixed_arguments": '{"text": 7}'}, "fixed_arguments", "text: expected string, got 7"),
        (
            {"fixed_arguments": '{"nope": 1}'},
            "fixed_arguments",
            "The tool has no argument 'nope'. It has: text.",
        ),
        ({"fixed_arguments": '{"text" "a"}'}, "fixed_arguments", "Not valid JSON: line 1, column 9"),
        ({"fixed_arguments": "[]"}, "fixed_arguments", "Must be an object"),
        ({"name": "has space"}, "name", ""),
        ({"name": "echo"}, "name", "There is already a tool echo."),
        ({"preset_of": ""}, "preset_of", "required"),
        ({"icons": '[{"src": "javascript:x"}]'}, "icons", "https:"),
        ({"icons": '{"src": "x"}'}, "icons", "Must be a list"),
        ({"timeout_seconds": "0"}, "timeout_seconds", "more than 0"),
        ({"permission": "no.such"}, "permission", "not one of the available choices"),
        ({"title": "x" * 201}, "title", "at most 200"),
    ],
)
def test_preset_errors_appear_beside_the_field(
    changed: dict[str, str], field: str, says: str, root: Client, seeded: Seed
) -> None:
    errors = _errors(root.post(page("tool", "add"), _preset(seeded, **changed)))
    assert list(errors) == [field]
    assert says in " ".join(errors[field])
    assert not Tool.objects.filter(name="shout").exists()


def test_invalid_form_keeps_the_typed_text(root: Client, seeded: Seed) -> None:
    answer = root.post(page("tool", "add"), _preset(seeded, fixed_arguments='{"text": oops'))
    assert "{&quot;text&quot;: oops" in answer.content.decode()


def test_tool_from_code_allows_editing_texts_and_limits_only(root: Client, seeded: Seed) -> None:
    form = root.get(page("tool", "change", seeded.echo.pk)).context["adminform"].form
    assert set(form.fields) == {*COMMON, *LIMITS, *SWITCHES} - {"meta"}
    posted = (
        COMMON
        | LIMITS
        | {"title": "Say it again", "calls_per_minute": "5", "input_schema": "{}", "name": "evil"}
    )
    assert root.post(page("tool", "change", seeded.echo.pk), posted).status_code == 302
    stored = Tool.objects.get(pk=seeded.echo.pk)
    assert (stored.name, stored.title, stored.calls_per_minute) == ("echo", "Say it again", 5)
    assert (stored.input_schema, stored.definition) == (seeded.echo.input_schema, seeded.echo.definition)


def test_unknown_stored_permission_survives_an_edit(root: Client, seeded: Seed) -> None:
    Tool.objects.filter(pk=seeded.echo.pk).update(permission="gone.away")
    root.post(
        page("tool", "change", seeded.echo.pk), COMMON | LIMITS | {"permission": "gone.away", "title": "T"}
    )
    stored = Tool.objects.get(pk=seeded.echo.pk)
    assert (stored.permission, stored.title) == ("gone.away", "T")


def test_prompt_is_created_changed_and_deleted(root: Client, seeded: Seed) -> None:
    assert root.post(page("prompt", "add"), PROMPT).status_code == 302
    made = Prompt.objects.get(name="hello")
    changed = PROMPT | {"template": "Goodbye {{who}}"}
    assert root.post(page("prompt", "change", made.pk), changed).status_code == 302
    made.refresh_from_db()
    assert made.template == "Goodbye {{who}}"
    assert root.post(page("prompt", "delete", made.pk), {"post": "yes"}).status_code == 302
    actions = CatalogueChange.objects.filter(kind="prompt", key="hello").order_by("id")
    assert [change.action for change in actions] == ["created", "changed", "deleted"]


@pytest.mark.parametrize(
    ("changed", "field", "says"),
    [
        ({"template": "Hi {{whom}}"}, "template", "{{whom}} is not among the arguments"),
        ({"template": ""}, "template", "A prompt needs a template."),
        ({"arguments": '[{"name": "who"}, {"name": "who"}]'}, "arguments", "listed twice"),
        ({"arguments": '["who"]'}, "arguments", "Each argument is an object"),
        ({"meta": '{"a": 1, "a": 2}'}, "meta", "'a' occurs twice"),
    ],
)
def test_prompt_errors_appear_beside_the_field(
    changed: dict[str, str], field: str, says: str, root: Client
) -> None:
    errors = _errors(root.post(page("prompt", "add"), PROMPT | changed))
    assert says in " ".join(errors[field])


def test_text_resource_and_uploaded_resource_are_created(root: Client) -> None:
    assert root.post(page("resource", "add"), RESOURCE).status_code == 302
    assert Resource.objects.get(uri="notes://a").text == "x"
    upload = SimpleUploadedFile("logo.svg", b"<svg onload=alert(1)>", "image/svg+xml")
    posted = RESOURCE | {"uri": "notes://b", "text": "", "file": upload}
    assert root.post(page("resource", "add"), posted).status_code == 302
    made = Resource.objects.get(uri="notes://b")
    with made.file.open("rb") as content:
        assert content.read() == b"<svg onload=alert(1)>"
    text = root.get(page("resource", "change", made.pk)).content.decode()
    assert f'href="{made.file.name}"' not in text
    assert made.file.name.split("/")[-1] in text
    root.post(page("resource", "delete", made.pk), {"post": "yes"})
    assert not Resource.objects.filter(uri="notes://b").exists()


def test_uploaded_resource_keeps_its_file_without_a_new_upload(root: Client) -> None:
    upload = SimpleUploadedFile("a.txt", b"kept", "text/plain")
    root.post(page("resource", "add"), RESOURCE | {"text": "", "file": upload})
    made = Resource.objects.get(uri="notes://a")
    assert (
        root.post(page("resource", "change", made.pk), RESOURCE | {"text": "", "title": "T"}).status_code
        == 302
    )
    made.refresh_from_db()
    with made.file.open("rb") as content:
        assert (made.title, content.read()) == ("T", b"kept")


def test_text_with_file_is_refused(root: Client) -> None:
    upload = SimpleUploadedFile("a.txt", b"a", "text/plain")
    errors = _errors(root.post(page("resource", "add"), RESOURCE | {"file": upload}))
    assert errors == {"file": ["Give a text or a file, not both."]}


def test_list_switch_is_idempotent_and_keeps_the_filters(root: Client, seeded: Seed) -> None:
    listed = root.get(page("tool", "changelist") + "?enabled__exact=1").content.decode()
    assert f"{page('tool', 'switch', seeded.echo.pk)}?_changelist_filters=enabled__exact%3D1" in listed
    address = page("tool", "switch", seeded.echo.pk) + "?_changelist_filters=enabled__exact%3D1"
    for _ in range(2):  # A second press, for example by another user, changes nothing.
        answer = root.post(address, {"mcp-enabled": "0"})
        assert answer["Location"] == page("tool", "changelist") + "?enabled__exact=1"
        assert not Tool.objects.get(pk=seeded.echo.pk).enabled
    assert CatalogueChange.objects.filter(key="echo", action="disabled").count() == 1


def test_bulk_switch_creates_one_revision(root: Client, seeded: Seed) -> None:
    tools = list(Tool.objects.filter(source=StoredSource.CODE))
    assert "Disabled: 4 of 5." in _choose(root, "tool", "disable_entries", *tools).content.decode()
    assert not Tool.objects.filter(source=StoredSource.CODE, enabled=True).exists()
    revisions = set(CatalogueChange.objects.filter(action="disabled").values_list("revision", flat=True))
    assert len(revisions) == 1
    assert "Enabled: 5 of 5." in _choose(root, "tool", "enable_entries", *tools).content.decode()


def test_admin_entries_are_duplicated_disabled_and_others_refused(root: Client, seeded: Seed) -> None:
    text = _choose(root, "tool", "duplicate_entries", seeded.preset, seeded.echo).content.decode()
    assert "Not duplicated: echo is defined in code. Add a preset or another entry instead." in text
    copy = Tool.objects.get(name="greet_world-copy")
    assert (copy.enabled, copy.fixed_arguments, copy.title) == (
        False,
        {"text": "Hello, world"},
        "Greet the world",
    )
    _choose(root, "tool", "duplicate_entries", seeded.preset)
    assert Tool.objects.filter(name="greet_world-copy-2").exists()
    _choose(root, "prompt", "duplicate_entries", seeded.own_prompt)
    _choose(root, "resource", "duplicate_entries", seeded.own_resource)
    assert Resource.objects.get(uri="notes://house-rules-copy").text == seeded.own_resource.text


def test_duplicate_of_an_upload_has_its_own_file(root: Client) -> None:
    root.post(
        page("resource", "add"), RESOURCE | {"text": "", "file": SimpleUploadedFile("a.bin", b"\x00\xff")}
    )
    first = Resource.objects.get(uri="notes://a")
    _choose(root, "resource", "duplicate_entries", first)
    copy = Resource.objects.get(uri="notes://a-copy")
    assert copy.file.name != first.file.name
    with copy.file.open("rb") as content:
        assert content.read() == b"\x00\xff"


def test_bulk_delete_confirms_and_skips_entries_from_code(root: Client, seeded: Seed) -> None:
    asked = _choose(root, "tool", "delete_selected", seeded.preset, seeded.echo)
    assert 'name="post" value="yes"' in asked.content.decode()
    assert Tool.objects.filter(pk=seeded.preset.pk).exists()
    _choose(root, "tool", "delete_selected", seeded.preset, seeded.echo, post="yes")
    assert not Tool.objects.filter(pk=seeded.preset.pk).exists()
    assert Tool.objects.filter(pk=seeded.echo.pk).exists()
    said = _choose(root, "tool", "delete_selected", seeded.echo).content.decode()
    assert "Not deleted: echo is defined in code. Disable it instead." in said


def test_missing_tool_is_deleted_unless_it_has_presets(root: Client, seeded: Seed) -> None:
    Tool.objects.filter(pk=seeded.echo.pk).update(missing=True)
    address = page("tool", "delete", seeded.echo.pk)
    assert "greet_world" in root.get(address).content.decode()
    root.post(address, {"post": "yes"})
    assert Tool.objects.filter(pk=seeded.echo.pk).exists()
    root.post(page("tool", "delete", seeded.preset.pk), {"post": "yes"})
    assert root.post(address, {"post": "yes"}).status_code == 302
    assert not Tool.objects.filter(pk=seeded.echo.pk).exists()


def test_entry_from_code_cannot_be_deleted(root: Client, seeded: Seed) -> None:
    assert root.post(page("tool", "delete", seeded.echo.pk), {"post": "yes"}).status_code == 403
    assert (
        root.post(page("resourcetemplate", "delete", seeded.template.pk), {"post": "yes"}).status_code == 403
    )


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "in the web process, unless Background on the tab Execution is on"),
        ({"background": True}, "in a worker"),
        (
            {"background": True, "task_required": True},
            "in a worker; only as a task for clients of 2025-11-25 and 2026-07-28",
        ),
    ],
)
def test_tool_page_shows_where_the_tool_runs(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch, options: dict[str, bool], shown: str
) -> None:
    monkeypatch.setitem(registry.tools, "echo", replace(registry.tools["echo"], **options))
    text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert re.search(rf">\s*{shown}\s*<", text)


@pytest.mark.requirement("SCHEMA-07")
def test_tool_page_names_clients_that_refuse_the_schema(root: Client, seeded: Seed) -> None:
    def shown() -> str:
        text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
        return re.sub(r"\s+", " ", re.sub("<.*?>", "", text))

    assert "works with all known clients" in shown()
    schema = {"type": "object", "properties": {"<b>größe</b>": {"type": "string"}}}
    Tool.objects.filter(pk=seeded.echo.pk).update(input_schema=schema)
    assert "&#x27;&lt;b&gt;größe&lt;/b&gt;&#x27;). Refused by Claude&#x27;s and OpenAI&#x27;s API" in shown()
    assert "Rename the argument" in shown()
    for odd in ([], "text", {"properties": [], "enum": "ab", "$defs": 1, "items": [1, True]}, None):
        Tool.objects.filter(pk=seeded.echo.pk).update(input_schema=odd if odd is not None else {})
        assert root.get(page("tool", "change", seeded.echo.pk)).status_code == 200


@pytest.mark.requirement("INT-46")
def test_tool_page_shows_who_may_call_it(root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
        found = re.search(
            r">\s*(only superusers .*?</bdi>|only superusers [^<]*|everyone: [^<]*|everyone, [^<]*?)\s*<",
            text,
        )
        return re.sub("<.*?>", "", found[1]) if found else ""

    class Echo(ViewSet):
        permission_classes = (AllowAny,)

        def list(self, request: object) -> None:
            """Do nothing."""

    assert shown() == "everyone, unless its code refuses them"
    Tool.objects.filter(pk=seeded.echo.pk).update(name="echo_list")
    with registry.isolated():
        expose.viewset(Echo, actions=["list"])
        assert shown().startswith("everyone: neither")
        Tool.objects.filter(pk=seeded.echo.pk).update(permission="auth.view_user")
        assert shown() == "only superusers (no group or user has the permission “Can view user”)"


def test_drift_is_shown_as_a_diff_and_accepted(root: Client, seeded: Seed) -> None:
    text = root.get(page("tool", "change", seeded.drifted.pk)).content.decode()
    assert "Fetches a page." in text
    assert "Accept new definition" in text
    root.post(page("tool", "accept", seeded.drifted.pk))
    seeded.drifted.refresh_from_db()
    assert not seeded.drifted.drifted
    assert "Accept new definition" not in root.get(page("tool", "change", seeded.drifted.pk)).content.decode()
    assert AuditEvent.objects.filter(action="catalogue.accepted", actor=seeded.root).exists()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("source__exact=admin", {"greet_world"}),
        ("drift=yes", {"web_scrape", "<script>window.pwned=1</script>"}),
        ("missing=yes", {"gone"}),
        ("restricted=yes", {"web_scrape", "<script>window.pwned=1</script>"}),
        ("preset=yes", {"greet_world"}),
        ("enabled__exact=0", {"burn"}),
        ("q=page", {"web_scrape"}),
        ("drift=no&restricted=no&missing=no&preset=no&enabled__exact=1", {"echo", "add"}),
    ],
)
def test_tool_list_filters(query: str, names: set[str], root: Client, seeded: Seed) -> None:
    answer = root.get(page("tool", "changelist") + "?" + query)
    assert {tool.name for tool in answer.context["cl"].result_list} == names


def test_history_shows_every_change_with_its_diff(root: Client, seeded: Seed) -> None:
    root.post(page("prompt", "add"), PROMPT)
    made = Prompt.objects.get(name="hello")
    root.post(page("prompt", "change", made.pk), PROMPT | {"title": "A new title"})
    text = root.get(page("prompt", "history", made.pk)).content.decode()
    assert "added" in text
    assert '<del><span class="mcp-hidden">was </span><span class="mcp-dim">empty</span></del>' in text
    assert '<ins><span class="mcp-hidden">is </span><bdi class="mcp-text">A new title</bdi></ins>' in text
    assert "root" in text


def test_json_schema_is_shown_indented(root: Client, seeded: Seed) -> None:
    text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    shown = json.dumps(seeded.echo.definition, indent=2, sort_keys=True).replace('"', "&quot;")
    assert shown in text


def test_missing_row_redirects_to_the_list(root: Client, seeded: Seed) -> None:
    for address in (
        page("tool", "history", 9999),
        page("session", "change", "x"),
        page("call", "change", "x"),
        page("message", "change", 9999),
    ):
        answer = root.get(address, follow=True)
        assert answer.redirect_chain, address
        assert "There is no" in answer.content.decode()


def test_saving_without_changes_creates_no_revision(root: Client, seeded: Seed) -> None:
    data = COMMON | LIMITS | {"title": "Echo"}
    root.post(page("tool", "change", seeded.echo.pk), data, follow=True)
    before = Tool.objects.get(pk=seeded.echo.pk)
    changes, newest = CatalogueChange.objects.count(), CatalogueRevision.objects.get().number
    logged = LogEntry.objects.count()
    answer = root.post(page("tool", "change", seeded.echo.pk), data, follow=True).content.decode()
    assert "Nothing changed." in answer
    assert "was changed successfully" not in answer
    after = Tool.objects.get(pk=seeded.echo.pk)
    assert (after.updated_at, after.updated_by) == (before.updated_at, before.updated_by)
    assert CatalogueChange.objects.count() == changes
    assert CatalogueRevision.objects.get().number == newest
    assert LogEntry.objects.count() == logged


def test_saving_accepts_drift_without_other_changes(root: Client, seeded: Seed) -> None:
    assert seeded.drifted.drifted
    answer = root.post(page("tool", "change", seeded.drifted.pk), COMMON | LIMITS, follow=True)
    assert not Tool.objects.get(pk=seeded.drifted.pk).drifted
    assert "was changed successfully" in answer.content.decode()


def test_switch_returns_its_new_state_as_json(root: Client, seeded: Seed) -> None:
    address, asked = page("tool", "switch", seeded.echo.pk), {"mcp-enabled": "0"}
    told = [root.post(address, asked, headers={"Accept": "application/json"}).json() for _ in range(2)]
    assert [each["enabled"] for each in told] == [False, False]
    assert told[0]["text"] == "Disabled: echo. Clients are notified now."
    assert told[1]["text"] == "Disabled: echo. Nothing was changed."
    assert told[0]["title"] == "Enable echo"
    assert "Disabled: echo" not in root.get(page("tool", "changelist")).content.decode()


def test_tool_search_ranks_exact_name_first_by_default(root: Client, seeded: Seed) -> None:
    for position, name in enumerate(("a_fast_place_order", "place_order_fast", "place_order")):
        Tool.objects.create(
            name=name, title=str(position), source="admin", preset_of=seeded.echo, position=position
        )
    names = ["place_order", "place_order_fast", "a_fast_place_order"]
    for order, expected in (({}, names), ({"o": "2"}, names[::-1])):
        answer = root.get(page("tool", "changelist"), {"q": "PLACE_ORDER", **order})
        assert [tool.name for tool in answer.context["cl"].result_list] == expected
