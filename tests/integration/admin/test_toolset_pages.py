"""The admin pages of toolsets: list, form with a picker, contents, who can use it, history and roll back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.search import misses
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.toolsets.contents import contents_of, search_tokens
from mcp_app.catalogue.toolsets.drafts import save_toolset_draft
from mcp_app.catalogue.toolsets.groups import memberships_of
from mcp_app.catalogue.toolsets.services import save_toolset
from mcp_app.models import AuditEvent, Draft, Tool, Toolset
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.postgres
LIST, ADD = page("toolset", "changelist"), page("toolset", "add")


@pytest.fixture(autouse=True)
def _loaded(seeded: Seed) -> Any:
    """Load the seeded catalogue, and the former one after the test."""
    before = current_snapshot.current()
    current_snapshot.refresh_now(force=True)
    yield
    current_snapshot.replace(before)


@pytest.fixture
def editor(seeded: Seed, django_user_model: Any) -> Client:
    """Return a client of staff who may add and change toolsets, and not publish them."""
    user = django_user_model.objects.create_user("editor", is_staff=True)
    names = [f"{verb}_toolset" for verb in ("view", "add", "change")]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    return client


def press(client: Client, button: str, draft: Draft, **more: Any) -> Any:
    """Press a button of the card of a draft."""
    card = client.get(page("draft", "change", draft.pk), follow=True).context["card"]
    sent = {"version": card.draft.version, "seen": card.seen, **more}
    return client.post(page("draft", button, draft.pk), sent)


def typed(**values: Any) -> dict[str, Any]:
    return {"slug": "team", "audience": "everyone", "enabled": "on", "overrides": "{}", **values}


def store(**values: Any) -> Toolset:
    members = [{"kind": "tool", "key": "echo"}]
    return save_toolset(actor=None, **{"slug": "team", "audience": "everyone", "members": members, **values})


def test_toolset_is_added_edited_and_listed(root: Client, seeded: Seed) -> None:
    team = Group.objects.create(name="Team")
    added = root.post(
        ADD,
        typed(
            audience="groups",
            groups=["Team"],
            members=["tool echo"],
            rules="tag:billing\n\nkind:tool prefix:shop_",
            overrides='{"tool echo": {"title": "Say again", "fixed_arguments": {"text": "hi"}}}',
            why="New team",
        ),
    )
    row = Toolset.objects.get()
    assert (added.status_code, added["Location"]) == (302, page("toolset", "change", row.pk))
    assert row.rules == [{"tag": "billing"}, {"kind": "tool", "prefix": "shop_"}]
    assert row.members == [
        {"kind": "tool", "key": "echo", "title": "Say again", "fixed_arguments": {"text": "hi"}}
    ]
    assert row.permissions == [f"auth.member_of_team_{team.pk}"]
    assert revisions.history_of("toolset", "team").get().why == "New team"
    form = root.get(page("toolset", "edit", row.pk)).context["form"]
    assert form["rules"].value() == "tag:billing\nkind:tool prefix:shop_"
    assert (form.chosen, form["groups"].value()) == ({"tool echo"}, ["Team"])
    seen = str(row.revision)
    edited = root.post(page("toolset", "edit", row.pk), typed(seen=seen, title="All", members=["tool echo"]))
    assert edited.status_code == 302
    assert Toolset.objects.get().title == "All"
    stale = root.post(page("toolset", "edit", row.pk), typed(seen=seen, title="Other"))
    assert stale.context["form"].non_field_errors()
    listed = root.get(LIST).context["cl"].result_list
    assert [each.slug for each in listed] == ["team"]


@pytest.mark.parametrize("damage", [{"members": [{}, 3]}, {"rules": ["tag:x"]}, {"permissions": {}}])
def test_damaged_toolset_is_shown_and_repaired_by_saving(root: Client, damage: dict[str, Any]) -> None:
    row = store()
    Toolset.objects.update(**damage)
    for name in ("change", "edit", "history"):
        assert root.get(page("toolset", name, row.pk)).status_code == 200
    assert root.get(LIST).status_code == 200
    saved = root.post(page("toolset", "edit", row.pk), typed(seen=str(row.revision), members=["tool echo"]))
    assert saved.status_code == 302
    assert not current_snapshot.refresh_now().toolsets["/mcp/team"].problem


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rules": "foo:bar"}, "foo:bar is not known here. A rule can have kind:, tag:, prefix:, source:"),
        ({"excluded": "nonsense"}, "nonsense: write the kind (tool, prompt, resource, template), a space"),
        ({"members": ["tool echo"], "overrides": '{"echo": {"title": "x"}}'}, "echo: write the kind (tool,"),
        ({"members": ["tool echo"], "overrides": '{"tool echo": {"titel": "x"}}'},
         "tool echo: 'titel' is not known. Use title, description, keywords, fixed_arguments."),
    ],
)  # fmt: skip
def test_error_of_an_entry_says_what_to_write(
    values: dict[str, Any], words: str, root: Client, seeded: Seed
) -> None:
    errors = root.post(ADD, typed(**values)).context["form"].errors
    assert words in " ".join(text for problems in errors.values() for text in problems)


@pytest.mark.parametrize(
    ("values", "field", "tab"),
    [
        ({"slug": "No slug"}, "slug", "general"),
        ({"audience": "groups"}, "groups", "access"),
        ({"rules": "color:red"}, "rules", "entries"),
        ({"rules": "tag:billing tag:sales"}, "rules", "entries"),
        ({"rules": "tag:No!"}, "rules", "entries"),
        ({"members": ["tool unknown"]}, "members", "entries"),
        ({"overrides": '{"tool echo": {"title": "x"}}'}, "overrides", "entries"),
        ({"members": ["tool echo"], "overrides": '{"tool echo": 1}'}, "overrides", "entries"),
        ({"members": ["tool echo"], "overrides": '{"tool echo": {"fixed_arguments": {"a": 1}}}'},
         "members", "entries"),
        ({"is_default": "on", "audience": "logged_in"}, "is_default", "general"),
    ],
)  # fmt: skip
def test_error_is_shown_at_its_field_and_tab(
    values: dict[str, Any], field: str, tab: str, root: Client, seeded: Seed
) -> None:
    answer = root.post(ADD, typed(**values))
    assert answer.status_code == 200
    assert field in answer.context["form"].errors
    assert {each.name: each.errors for each in answer.context["tabs"]}[tab] == 1
    shown = re.search(r'Not saved\. 1 error on the tab <a href="#([a-z]+)">', answer.content.decode())
    assert shown
    assert shown[1] == tab
    assert not Toolset.objects.exists()


def test_page_shows_entries_tokens_missing_members_and_advice(root: Client, seeded: Seed) -> None:
    row = store(members=[{"kind": "tool", "key": "echo"}, {"kind": "prompt", "key": "own_prompt"}][:1])
    shown = root.get(page("toolset", "change", row.pk))
    contents = shown.context["contents"]
    assert [each.key for each in contents.members] == ["echo"]
    assert contents.tokens == contents.members[0].tokens > 10
    assert f'data-tokens="{contents.tokens}"' in shown.content.decode()
    assert 0 <= shown.context["unused"].percent <= 100
    Tool.objects.filter(name="echo").update(enabled=False)
    save_toolset(actor=None, toolset=row, title="x")
    shown = root.get(page("toolset", "change", row.pk))
    assert shown.context["contents"].missing == [("tool", "echo")]
    assert 'id="mcp-toolset-missing"' in shown.content.decode()


def test_pages_show_the_whole_address(root: Client, seeded: Seed) -> None:
    row, base = store(), settings.MCP["PUBLIC_URL"].rstrip("/")
    assert base.startswith("http")
    shown = f'<pre class="mcp-pre" id="mcp-toolset-address" tabindex="0">{base}/mcp/team</pre>'
    assert shown in root.get(page("toolset", "change", row.pk)).content.decode()
    assert shown in root.get(page("toolset", "edit", row.pk)).content.decode()
    assert f"The address is {base}/mcp/NAME." in root.get(ADD).content.decode()


def test_form_without_groups_leads_to_the_form_of_a_group(root: Client, seeded: Seed) -> None:
    Group.objects.all().delete()
    answer = root.post(ADD, typed(audience="groups")).content.decode()
    assert "Choose at least one group, or choose other users" in answer
    assert f'<a href="{reverse("admin:auth_group_add")}" target="_blank">Add a group</a>' in answer


def test_page_answers_who_can_use_it(root: Client, seeded: Seed, django_user_model: Any) -> None:
    team = Group.objects.create(name="Team")
    row = store(audience="groups", permissions=memberships_of(["Team"]))
    member = django_user_model.objects.create_user("member")
    django_user_model.objects.create_user("stranger")
    django_user_model.objects.create_user("former", is_active=False)
    member.groups.add(team)
    Tool.objects.filter(name="echo").update(permission="auth.add_user")
    save_toolset(actor=None, toolset=row, title="x")
    address = page("toolset", "change", row.pk)
    for name, can, why in (
        ("member", True, "member of Team"),
        ("stranger", False, "not a member of Team"),
        ("former", False, "not active"),
        (seeded.root.get_username(), True, "superusers"),
    ):
        context = root.get(f"{address}?user={name}").context
        assert (context["decision"].can, why in context["decision"].why) == (True and can, True), name
        assert [each.key for each in context["lacking"]] == (["echo"] if name == "member" else [])
    assert root.get(f"{address}?user=unknown").context["unknown"]
    save_toolset(actor=None, toolset=row, enabled=False)
    assert "disabled" in root.get(f"{address}?user=member").context["decision"].why


def test_history_rolls_back_and_restores(root: Client, seeded: Seed) -> None:
    row = store(title="First")
    first = revisions.history_of("toolset", "team").get()
    save_toolset(actor=None, toolset=row, title="Second")
    shown = root.get(page("toolset", "history", row.pk)).context["changes"]
    assert [each.is_present for each in shown] == [True, False]
    assert root.get(shown[1].back_url).context["fields"]
    assert root.post(shown[1].back_url, {"why": "Back"}).status_code == 302
    assert Toolset.objects.get().title == "First"
    assert root.post(page("toolset", "remove", row.pk)).status_code == 302
    assert not Toolset.objects.exists()
    assert len(root.get(page("toolset", "deleted")).context["rows"]) == 1
    restored = root.post(page("toolset", "roll_back", first.pk), {})
    assert restored.status_code == 302
    assert Toolset.objects.get().title == "First"


def test_searched_toolset_counts_its_search_tools_and_shows_misses(root: Client, seeded: Seed) -> None:
    row = store()
    listed = contents_of(row)
    root.post(page("toolset", "edit", row.pk), typed(searches="on", members=["tool echo"]))
    row.refresh_from_db()
    assert row.searches
    assert contents_of(row).tokens == search_tokens() != listed.tokens
    misses.record("team", "cancel <b>order</b>")
    shown = root.get(page("toolset", "change", row.pk))
    assert [each.query for each in shown.context["misses"]] == ["cancel <b>order</b>"]
    assert "<b>order</b>" not in shown.content.decode()


def test_searches_without_a_tool_need_the_permission_to_view_messages(
    client_of: ClientOf, seeded: Seed
) -> None:
    row = store(searches=True)
    misses.record("team", "cancel order 4711")
    for codename, found in (("view_toolset", 0), ("view_message", 1)):
        seeded.outsider.user_permissions.add(Permission.objects.get(codename=codename))
        shown = client_of("outsider").get(page("toolset", "change", row.pk))
        assert shown.content.decode().count("cancel order 4711") == found


def test_draft_of_toolset_is_saved_compared_and_published(root: Client, editor: Client, seeded: Seed) -> None:
    row = store(rules=[{"kind": "prompt"}], title="Before")
    edit = page("toolset", "edit", row.pk)
    values = typed(title="After", members=["tool echo"], rules="", seen=row.revision, why="smaller")
    assert editor.post(edit, values).status_code == 403
    answer = editor.post(edit, values | {"_draft": "1"}, follow=True)
    assert answer.redirect_chain[-1][0] == page("toolset", "change", row.pk)
    row.refresh_from_db()
    draft = Draft.objects.get()
    assert (row.title, draft.kind, draft.note) == ("Before", "toolset", "smaller")
    card = answer.context["card"]
    assert "prompt summarise" in {each.identity for each in card.effect.lost}
    assert {each.kind for each in card.effect.lost} == {"prompt"}
    assert (card.effect.gained, card.effect.before > card.effect.after) == ([], True)
    assert (card.may_edit, card.may_publish) == (True, False)
    assert press(editor, "publish", draft).status_code == 403
    listed = root.get(page("draft", "changelist")).context["cl"].result_list
    assert [each.key for each in listed] == ["team"]
    assert press(root, "publish", draft)["Location"] == page("toolset", "change", row.pk)
    row.refresh_from_db()
    assert (row.title, row.rules, Draft.objects.count()) == ("After", [], 0)
    newest = revisions.history_of("toolset", "team").first()
    assert newest is not None
    assert (newest.action, newest.why) == ("published", "smaller")
    event = AuditEvent.objects.filter(action="catalogue.published").latest("id")
    assert event.detail["drafted_by"] == "editor"


def test_draft_of_new_toolset_is_edited_and_published(root: Client, editor: Client, seeded: Seed) -> None:
    answer = editor.post(ADD, typed(_draft="1", members=["tool echo"]), follow=True)
    draft = Draft.objects.get()
    assert answer.redirect_chain[-1][0] == page("draft", "change", draft.pk)
    assert not Toolset.objects.exists()
    edit = answer.context["card"].edit_url
    form = editor.get(edit).context["form"]
    assert (form["slug"].value(), form.chosen) == ("team", {"tool echo"})
    again = typed(_draft="1", title="Team", members=["tool echo"], **{"mcp-draft": f"{draft.pk}:1"})
    assert editor.post(edit, again).status_code == 302
    stale = editor.post(edit, again)
    assert stale.context["form"].non_field_errors()
    second = editor.post(ADD, typed(_draft="1"))
    assert "slug" in second.context["form"].errors
    assert press(root, "publish", Draft.objects.get())["Location"] == page(
        "toolset", "change", Toolset.objects.get().pk
    )
    assert Toolset.objects.get().title == "Team"


def test_draft_of_changed_or_deleted_toolset_is_not_published_unseen(root: Client, seeded: Seed) -> None:
    row = store()
    draft = save_toolset_draft(actor=None, toolset=row, title="Drafted")
    seen = row.revision
    save_toolset(actor=None, toolset=row, instructions="Newer")
    sent = {"version": 1, "seen": seen}
    root.post(page("draft", "publish", draft.pk), sent)
    assert Toolset.objects.get().title == ""
    card = root.get(page("toolset", "change", row.pk)).context["card"]
    assert [each.change.action for each in card.between] == ["changed"]
    press(root, "publish", draft)
    row.refresh_from_db()
    assert (row.title, row.instructions) == ("Drafted", "Newer")
    other = save_toolset_draft(actor=None, toolset=row, title="Other")
    press(root, "discard", other)
    assert not Draft.objects.exists()
    save_toolset_draft(actor=None, toolset=row, title="Other")
    root.post(page("toolset", "remove", row.pk))
    assert not Draft.objects.exists()


def test_unused_tools_are_left_out_in_a_draft(root: Client, seeded: Seed) -> None:
    row = store(rules=[{"kind": "tool"}])
    shown = root.get(page("toolset", "change", row.pk)).context
    unused = {each.identity for each in shown["unused"].tools}
    assert unused
    assert "tool echo" not in unused  # The seeded messages call it.
    form = root.get(shown["unused_url"]).context["form"]
    assert form.chosen == {"tool echo"}
    assert set(form["excluded"].value().splitlines()) == unused
    values = typed(_draft="1", members=["tool echo"], rules="kind:tool", excluded=form["excluded"].value())
    root.post(page("toolset", "edit", row.pk), values)
    shown = root.get(page("toolset", "change", row.pk)).context
    assert {each.identity for each in shown["card"].effect.lost} == unused
    assert root.get(shown["unused_url"]).context["draft"] == Draft.objects.get()
    assert root.get(LIST).context["cl"].result_list[0].has_draft
    assert not any(each.get("excluded") for each in Toolset.objects.get().members)
    press(root, "publish", Draft.objects.get())
    row.refresh_from_db()
    assert not unused & {each.identity for each in contents_of(row).members}


def test_entries_are_links_for_users_who_may_view_them(
    root: Client, client_of: ClientOf, seeded: Seed
) -> None:
    row, echo = store(), Tool.objects.get(name="echo")
    address = page("toolset", "change", row.pk)
    linked = f'<a href="{page("tool", "change", echo.pk)}"><bdi class="mcp-text">echo</bdi></a>'
    assert linked in root.get(address).content.decode()
    seeded.viewer.user_permissions.set(Permission.objects.filter(codename="view_toolset"))
    text = client_of("viewer").get(address).content.decode()
    assert "echo" in text
    assert linked not in text
