"""The users who can use an entry: group restriction, the page of callers, and names instead of ids."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from mcp_app.admin.entries.callers import HELP
from mcp_app.admin.entries.entry_forms import CHANGED
from mcp_app.auth.membership import grant_membership, group_of, membership_of
from mcp_app.auth.permissions import may_view_people, permissions_of
from mcp_app.auth.principal import below
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.execution.decisions import objection_to
from mcp_app.models import Call, Draft, Prompt, Resource, Tool
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.integration.admin.test_catalogue_pages import COMMON, LIMITS
from tests.samples.admin_seed import ALL_HOSTILE, RAW_MARKUP, Seed, call
from tests.samples.approved_work import guarded_tool

pytestmark = pytest.mark.postgres


def _restrict(root: Client, tool: Tool, permission: str, **more: str) -> Any:
    data = COMMON | LIMITS | {"permission": permission} | more
    return root.post(page("tool", "change", tool.pk), data, follow=True)


def _callers(client: Client, entry: Any, **query: str) -> dict[str, tuple[bool, str]]:
    answer = client.get(page("tool", "callers", entry.pk), query)
    assert answer.status_code == 200
    return {each.name: (each.can, each.why) for each in answer.context["callers"]}


def test_tool_form_restricts_a_tool_to_a_group(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors & friends")
    editors.user_set.add(seeded.viewer)
    form = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert "members of Editors &amp; friends" in form
    _restrict(root, seeded.echo, membership_of(editors))
    seeded.echo.refresh_from_db()
    assert seeded.echo.permission == f"auth.member_of_editors_friends_{editors.pk}"
    assert group_of(seeded.echo.permission) == editors
    assert seeded.echo.permission in permissions_of(seeded.viewer)
    assert seeded.echo.permission not in permissions_of(seeded.outsider)
    # The permission is not one of this server's administration: a token without that scope has it.
    held: Any = below(frozenset({"mcp"}), permissions_of(seeded.viewer))
    assert seeded.echo.permission in held
    assert "members of Editors &amp; friends" in root.get(page("tool", "changelist")).content.decode()


def test_renamed_group_is_shown_by_its_new_name(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    editors.user_set.add(seeded.viewer)
    _restrict(root, seeded.echo, kept := membership_of(editors))
    change = reverse("admin:auth_group_change", args=[editors.pk])
    held = [*editors.permissions.values_list("pk", flat=True)]
    root.post(change, {"name": "Authors", "members": [seeded.viewer.pk], "permissions": held})
    text = root.get(page("tool", "callers", seeded.echo.pk)).content.decode()
    assert "<p>Members of Authors can use it.</p>" in text
    assert "members of Authors" in root.get(page("tool", "changelist")).content.decode()
    # The form lists the stored permission once and keeps it.
    form = root.get(page("tool", "change", seeded.echo.pk)).context["adminform"].form
    groups = dict(form.fields["permission"].choices)
    assert groups["Members of a group"].count((kept, "members of Authors")) == 1
    assert "auth.add_user" in dict(groups["Permissions: users"])
    assert [name for name in groups if name and kept in dict(groups[name])] == ["Members of a group"]
    _restrict(root, seeded.echo, kept, title="Again")
    seeded.echo.refresh_from_db()
    assert (seeded.echo.title, seeded.echo.permission) == ("Again", kept)
    # The group's own page does not show the old name either.
    names = [*Permission.objects.filter(codename__startswith="member_of").values_list("name", flat=True)]
    assert names == ["Is a member of Authors"]


def test_foreign_permission_with_a_group_id_grants_no_membership(root: Client, seeded: Seed) -> None:
    guests = Group.objects.create(name="Guests")
    foreign = f"auth.member_of_editors_{guests.pk}"
    assert group_of(foreign) is None
    grant_membership(foreign)
    assert not guests.permissions.exists()


def test_draft_restricted_to_a_group_is_accepted(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    _restrict(root, seeded.echo, membership_of(editors), _draft="1")
    assert editors.permissions.count() == 1
    seeded.echo.refresh_from_db()
    assert seeded.echo.permission == ""


def test_membership_permissions_of_similar_group_names_differ() -> None:
    first, second = Group(pk=3, name="The Team"), Group(pk=13, name="the-team")
    assert membership_of(first) != membership_of(second)
    assert membership_of(Group(pk=7, name="***")) == "auth.member_of__7"
    assert len(membership_of(Group(pk=10**9, name="x" * 150))) < 100


@pytest.mark.django_db
@pytest.mark.parametrize("said", ["", "auth.member_of_editors_1", "auth.x_99999999999999999999", "a.b_²"])
def test_other_permissions_are_not_memberships(said: str) -> None:
    assert group_of(said) is None


def test_callers_page_lists_users_with_reasons(root: Client, seeded: Seed) -> None:
    assert _callers(root, seeded.echo)["outsider"] == (True, "everyone can use it")
    editors = Group.objects.create(name="Editors")
    editors.user_set.add(seeded.viewer)
    name = membership_of(editors)
    saved = _restrict(root, seeded.echo, name).content.decode()
    assert f'<a href="{page("tool", "callers", seeded.echo.pk)}">Who can use it</a>' in saved
    found = _callers(root, seeded.echo)
    assert found["viewer"] == (True, "by the group Editors")
    assert found["root"] == (True, "superusers have every permission")
    assert found["outsider"] == (False, "not a member of Editors")
    assert list(_callers(root, seeded.echo, q="OUTS")) == ["outsider"]
    text = root.get(page("tool", "callers", seeded.echo.pk)).content.decode()
    assert "<p>Members of Editors can use it.</p>" in text
    Group.objects.filter(pk=editors.pk).update(name="Authors")
    Group.objects.create(name="Guests").permissions.add(*editors.permissions.all())
    said = "not a member of Authors; these groups count as well: Guests"
    assert _callers(root, seeded.echo)["outsider"] == (False, said)
    seeded.viewer.is_active = False
    seeded.viewer.save()
    assert _callers(root, seeded.echo)["viewer"] == (False, "the account is not active")
    services.set_enabled(entries=[seeded.echo], enabled=False, actor=None)
    assert set(_callers(root, seeded.echo).values()) == {(False, "it is disabled")}
    text = root.get(page("tool", "callers", seeded.echo.pk)).content.decode()
    assert ">No client can use it: it is disabled. Otherwise, members of Authors or Guests can use it" in text


def test_preset_inherits_the_callers_of_its_tool(root: Client, seeded: Seed) -> None:
    editors = Group.objects.create(name="Editors")
    editors.user_set.add(seeded.viewer)
    _restrict(root, seeded.echo, membership_of(editors))
    seeded.echo.refresh_from_db()
    preset = services.save_tool_preset(
        actor=None, name="echo_hello", preset_of=seeded.echo, fixed_arguments={"text": "hello"}
    )
    text = root.get(page("tool", "callers", preset.pk)).content.decode()
    assert "<p>Members of Editors can use it.</p>" in text
    can = {name: can for name, (can, _) in _callers(root, preset).items()}
    assert can[seeded.viewer.get_username()]
    assert not can[seeded.outsider.get_username()]
    seen = root.get(reverse("mcp_person", args=[seeded.outsider.pk]), {"kind": "tool"})
    assert not next(each for each in seen.context["page"] if each.name == "echo_hello").can


def test_callers_page_query_count_is_constant(root: Client, seeded: Seed) -> None:
    editors, own = Group.objects.create(name="Editors"), "mcp_app.view_session"
    _restrict(root, seeded.echo, membership_of(editors))
    asked = []
    for number in (1, 40):
        people = get_user_model().objects.bulk_create(
            get_user_model()(username=f"{number}-{each}") for each in range(number)
        )
        editors.user_set.add(*people[::2])
        with CaptureQueriesContext(connection) as queries:
            found = _callers(root, seeded.echo)
        asked.append(len(queries))
        assert [found[each.username][1] for each in people[:1]] == ["by the group Editors"]
    assert asked[0] == asked[1]
    _restrict(root, seeded.echo, own)
    assert _callers(root, seeded.echo)["viewer"] == (True, "own permission")


def test_callers_pagination_keeps_the_search(root: Client, seeded: Seed) -> None:
    users = get_user_model()
    users.objects.bulk_create(users(username=f"one & all {number:03}") for number in range(120))
    text = root.get(page("tool", "callers", seeded.echo.pk), {"q": "one & all", "p": "2"}).content.decode()
    found = re.findall(r'rel="(?:prev|next)" href="([^"]+)"', text)
    links = [dict(parse_qsl(unescape(each)[1:])) for each in found]
    assert links == [{"q": "one & all", "p": "1"}, {"q": "one & all", "p": "3"}]
    assert "← Previous" in text
    assert "Next →" in text


def test_view_people_permission_follows_the_user_model(settings: Any) -> None:
    asked: list[str] = []
    somebody = SimpleNamespace(has_perm=lambda name: bool(asked.append(name)))
    may_view_people(somebody)
    settings.AUTH_USER_MODEL = "mcp_app.ApiKey"
    may_view_people(somebody)
    assert asked == ["auth.view_user", "mcp_app.view_apikey"]


def test_callers_page_requires_permission_and_escapes_group_names(
    root: Client, viewer: Client, seeded: Seed
) -> None:
    assert viewer.get(page("tool", "callers", seeded.echo.pk)).status_code == 403
    Group.objects.create(name=ALL_HOSTILE[:150])
    hostile = Tool.objects.get(source="upstream")
    for view in ("callers", "change"):
        text = root.get(page("tool", view, hostile.pk)).content.decode()
        assert not [raw for raw in RAW_MARKUP if raw in text]
    assert root.get(page("tool", "callers", 10**9)).status_code == 302


def test_tool_form_and_history_show_the_texts_from_code(root: Client, seeded: Seed) -> None:
    text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert 'placeholder="Gives the same text back."' in text
    _restrict(root, seeded.echo, "", description="Says it again.")
    history = root.get(page("tool", "history", seeded.echo.pk)).content.decode()
    assert "<del>" in history
    assert "Gives the same text back." in history


def _beside(client: Client, entry: Any, field: str) -> str:
    """Return the help text beside a form field as plain text."""
    answer = client.get(page(entry._meta.model_name, "change", entry.pk))
    shown = str(answer.context["adminform"].form.fields[field].help_text)
    return unescape(re.sub(r"<[^>]+>", "", shown))


def test_form_marks_texts_from_code_and_overrides(root: Client, seeded: Seed) -> None:
    for entry in (seeded.echo, Prompt.objects.get(name="code_review"), Resource.objects.get(source="code")):
        definition = {**entry.definition, "title": "A title", "description": "What it does."}
        type(entry).objects.filter(pk=entry.pk).update(definition=definition, description="Ours.")
        assert f"{CHANGED} Clear the field to use the text from code." in _beside(root, entry, "description")
        assert _beside(root, entry, "title").endswith("from code Type to replace the grey text.")
    # A text that code does not define cannot be overridden, nor can one of an entry made in the admin.
    Tool.objects.filter(pk=seeded.echo.pk).update(definition={"name": "echo"})
    preset = Tool.objects.filter(source="admin").first()
    for entry in (seeded.echo, preset):
        assert "code" not in _beside(root, entry, "description")


def test_form_marks_limits_and_permission_from_code(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = replace(
        registry.tools["echo"], timeout=30.0, queue="slow", needs_approval=True, permission="auth.view_user"
    )
    monkeypatch.setitem(registry.tools, "echo", stated)
    Tool.objects.filter(pk=seeded.echo.pk).update(queue="fast")
    said = {name: _beside(root, seeded.echo, name) for name in ("timeout_seconds", "permission", "queue")}
    assert said["timeout_seconds"].endswith("from code In use: 30.0.")
    assert said["permission"].endswith("from code In use: auth.view_user.")
    assert f"{CHANGED} Clear the field to use slow from code." in said["queue"]
    assert "cannot be switched off here" in _beside(root, seeded.echo, "needs_approval")
    assert "from code" not in _beside(root, seeded.echo, "calls_per_minute")


def test_draft_form_marks_overridden_fields(root: Client, seeded: Seed) -> None:
    _restrict(root, seeded.echo, "", description="Drafted.", _draft="1")
    draft = Draft.objects.get()
    answer = root.get(page("tool", "change", seeded.echo.pk), {"draft": str(draft.pk)})
    form = answer.context["adminform"].form
    assert form.initial["description"] == "Drafted."
    assert "Clear the field to use the text from code." in str(form.fields["description"].help_text)


def test_pages_show_user_and_key_names_instead_of_principals(root: Client, seeded: Seed) -> None:
    principal = f"user:{seeded.root.pk}/key:{seeded.key.pk}"
    type(seeded.session).objects.filter(pk=seeded.session.pk).update(principal=principal)
    Call.objects.filter(pk=seeded.call.pk).update(principal=principal)
    for address in (
        page("session", "changelist"),
        page("session", "change", seeded.session.pk),
        page("call", "changelist"),
        page("call", "change", seeded.call.pk),
    ):
        shown = root.get(address).content.decode()
        assert f'href="{page("apikey", "change", seeded.key.pk)}"' in shown, address
        assert principal in shown, address
    type(seeded.message).objects.filter(session=seeded.session).update(principal=principal)
    rows = root.get(reverse("mcp_console:lines"), {"session": seeded.session.pk}).json()["rows"]
    rows += root.get(reverse("mcp_console:sessions_now"), {"search": seeded.session.pk}).json()["rows"]
    assert {(row["user"], row["credential"]) for row in rows} == {("root", seeded.key.name)}
    assert {row["client"].partition(" ")[0] for row in rows} == {seeded.session.client_name}


def test_queue_row_approves_a_call(root: Client, seeded: Seed) -> None:
    call = seeded.undecided_call
    guarded_tool(call.tool).save(force_insert=True)
    queue = root.get(page("approval", "changelist")).content.decode()
    address = page("approval", "approve", call.pk)
    assert (f'formaction="{address}?' in queue) == (objection_to(call, seeded.root) == "")
    answer = root.post(f"{address}?from_queue=1")
    assert answer["Location"] == page("approval", "changelist")
    call.refresh_from_db()
    assert call.decision == "approved"


def test_placeholder_keeps_line_breaks_and_marks_hidden_characters(root: Client, seeded: Seed) -> None:
    definition = {**seeded.echo.definition, "description": "One\n\ntwo\u202e.", "title": "One\ntwo"}
    Tool.objects.filter(pk=seeded.echo.pk).update(definition=definition)
    text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert 'placeholder="One\n\ntwo⟦U+202E⟧."' in text
    assert 'placeholder="One⟦U+000A⟧two"' in text


def test_group_created_beside_the_field_is_selected_by_its_id(root: Client, seeded: Seed) -> None:
    form = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert 'id="add_id_permission"' in form
    assert HELP in form
    editors = Group.objects.create(name="Editors")
    _restrict(root, seeded.echo, str(editors.pk))
    seeded.echo.refresh_from_db()
    assert seeded.echo.permission == membership_of(editors)
    refused = _restrict(root, seeded.echo, str(editors.pk), position="much")
    assert refused.context["adminform"].form["permission"].value() == membership_of(editors)
    assert "permission" in _restrict(root, seeded.echo, "999999").context["adminform"].form.errors


def test_viewer_sees_effective_texts_callers_and_missing_permissions(
    root: Client, viewer: Client, seeded: Seed
) -> None:
    group = Group.objects.create(name="Cashiers & co")
    services.update_entry(entry=seeded.echo, actor=None, permission=membership_of(group))
    text = viewer.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert "You can view this tool but not change it." in text
    assert "<code>mcp_app.change_tool</code>" in text
    assert "<p>Members of Cashiers &amp; co can use it.</p>" in text
    assert "<code>auth.view_user</code>" in text
    assert membership_of(group) not in text
    # The effective description comes from code: once as clients see it, once in the definition.
    shown = re.findall(r'<pre class="mcp-pre" tabindex="0">Gives the same text back.</pre>', text)
    assert len(shown) == 2
    assert ">from code</span>" in text
    for name, entry in (("prompt", seeded.code_prompt), ("resource", seeded.own_resource)):
        text = viewer.get(page(name, "change", entry.pk)).content.decode()
        assert f"<code>mcp_app.change_{name}</code>" in text
    text = root.get(page("tool", "change", seeded.echo.pk)).content.decode()
    assert "You may look" not in text
    assert "mcp-who-title" not in text


def test_unknown_tool_error_links_the_restricted_tool(
    viewer: Client, client_of: ClientOf, seeded: Seed
) -> None:
    group = Group.objects.create(name="Cashiers")
    services.update_entry(entry=seeded.echo, actor=None, permission=membership_of(group))

    def message(name: str) -> str:
        data = {"kind": "tool_not_found", "name": name}
        answer = json.dumps({"error": {"code": -32602, "message": f"Unknown tool: {name}", "data": data}})
        row = call(None, 950, outcome="error", target="", answer=answer)
        return page("message", "change", row.pk)

    text = viewer.get(message("echo")).content.decode()
    said = "There is a tool echo, but this user could not use it. Members of Cashiers can use it."
    assert said in text
    assert f'href="{page("tool", "change", seeded.echo.pk)}">View tool</a>' in text
    assert "There is a tool" not in viewer.get(message("nonsense")).content.decode()
    seeded.outsider.user_permissions.set(Permission.objects.filter(codename="view_message"))
    assert "There is a tool" not in client_of("outsider").get(message("echo")).content.decode()
