"""Toolsets as administrators store them: checks, history, roll back, catalogue files, and their entries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError

from mcp_app import resource, tool
from mcp_app.auth.principal import EVERYTHING
from mcp_app.catalogue.changes import revisions, services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.changes.services import ChangedMeanwhile
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import Catalogue
from mcp_app.catalogue.toolsets.checks import MAX_RULES, SLUG_DAYS
from mcp_app.catalogue.toolsets.drafts import publish_toolset_draft, save_toolset_draft
from mcp_app.catalogue.toolsets.groups import memberships_of, names_of
from mcp_app.catalogue.toolsets.services import delete_toolset, roll_back, save_toolset, state_of
from mcp_app.catalogue.transfer import TransferRefused
from mcp_app.database.queries import aquery
from mcp_app.execution.stored.approved_work import covers, work_of
from mcp_app.models import AuditEvent, CatalogueChange, Tool, Toolset
from tests.integration.catalogue.transfers import HEAD, bring, exported

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]
ADD = {"kind": "tool", "key": "add"}


@pytest.fixture(autouse=True)
def _mirrored(announced: list[int]) -> None:
    mirror()
    announced.clear()


def store(slug: str = "team", actor: Any = None, **values: Any) -> Toolset:
    return save_toolset(actor=actor, slug=slug, **{"audience": "everyone", "members": [ADD], **values})


def served(slug: str = "team") -> Catalogue:
    current_snapshot.refresh_now()
    return current_snapshot.refreshed_view(EVERYTHING, f"/mcp/{slug}").snapshot


def refused(**values: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as error:
        store(**values)
    return dict(error.value.message_dict)


def test_saved_toolset_is_recorded_audited_and_announced(announced: list[int], someone: Any) -> None:
    row = store(actor=someone, title="Team")
    (change,) = revisions.history_of("toolset", "team")
    assert (change.action, change.actor, change.before) == ("created", someone, None)
    assert change.after == state_of(row)
    assert (row.revision, row.updated_by) == (change.revision, someone)
    assert announced == [row.revision]
    assert AuditEvent.objects.filter(action="catalogue.created", object_kind="toolset").exists()
    save_toolset(actor=someone, toolset=row, title="Team")
    assert announced == [row.revision]


def test_only_publishers_change_toolsets(django_user_model: Any) -> None:
    row, user = store(), django_user_model.objects.create_user("editor")
    with pytest.raises(PermissionDenied):
        store("other", actor=user)
    with pytest.raises(PermissionDenied):
        delete_toolset(toolset=row, actor=user)


def test_stale_change_is_refused() -> None:
    row = store()
    seen = row.revision
    save_toolset(actor=None, toolset=row, title="A", seen=seen)
    with pytest.raises(ChangedMeanwhile):
        save_toolset(actor=None, toolset=row, title="B", seen=seen)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"slug": "Not a slug"}, "slug"),
        ({"slug": ""}, "slug"),
        ({"slug": "a" * 51}, "slug"),
        ({"audience": "friends"}, "audience"),
        ({"audience": "groups"}, "groups"),
        ({"audience": "groups", "permissions": ["auth.member_of_nobody_999"]}, "groups"),
        ({"audience": "groups", "permissions": ["auth.add_user"]}, "groups"),
        ({"audience": "logged_in", "is_default": True}, "is_default"),
        ({"members": [{"kind": "tool", "key": "unknown"}]}, "members"),
        ({"members": [{"kind": "user", "key": "add"}]}, "members"),
        ({"members": [ADD, ADD]}, "members"),
        ({"members": [{**ADD, "title": 3}]}, "members"),
        ({"members": [{**ADD, "other": 3}]}, "members"),
        ({"members": [{**ADD, "fixed_arguments": {"c": 1}}]}, "members"),
        ({"members": [{**ADD, "fixed_arguments": {"b": "two"}}]}, "members"),
        ({"members": [{"kind": "prompt", "key": "code_review", "fixed_arguments": {"a": 1}}]}, "members"),
        ({"members": {}}, "members"),
        ({"rules": [{}]}, "rules"),
        ({"rules": [{"name": "x"}]}, "rules"),
        ({"rules": [{"tag": "No Tag"}]}, "rules"),
        ({"rules": [{"kind": "user"}]}, "rules"),
        ({"rules": [{"source": "nowhere"}]}, "rules"),
        ({"rules": [{"prefix": ""}]}, "rules"),
        ({"rules": [{"prefix": "x"}] * (MAX_RULES + 1)}, "rules"),
    ],
)  # fmt: skip
def test_unfit_values_are_refused_at_their_field(values: dict[str, Any], field: str) -> None:
    assert field in refused(**values)


def test_only_one_toolset_is_the_default() -> None:
    store(is_default=True)
    assert "team" in refused(slug="other", is_default=True)["is_default"][0]


@pytest.mark.requirement("TSET-08")
def test_slug_of_a_deleted_toolset_waits_and_the_toolset_can_be_restored() -> None:
    row = store(title="First")
    created = revisions.history_of("toolset", "team").get()
    delete_toolset(toolset=row, actor=None)
    assert "deleted on" in refused()["slug"][0]
    deleted = revisions.history_of("toolset", "team").get(action="deleted")
    assert roll_back(to=deleted, actor=None).title == "First"
    delete_toolset(toolset=Toolset.objects.get(), actor=None)
    for change in CatalogueChange.objects.filter(action="deleted"):
        CatalogueChange.objects.filter(pk=change.pk).update(at=change.at - timedelta(days=SLUG_DAYS + 1))
    assert store().slug == created.key


def test_roll_back_restores_a_state_even_without_a_deleted_member() -> None:
    own = services.save_tool_preset(actor=None, name="own", preset_of=Tool.objects.get(name="add"))
    row = store(members=[ADD, {"kind": "tool", "key": "own"}], title="First")
    first = revisions.history_of("toolset", "team").get()
    services.delete_entry(entry=own, actor=None)
    row = save_toolset(actor=None, toolset=row, title="Second", members=[ADD])
    row = roll_back(to=first, actor=None, seen=row.revision)
    assert (row.title, len(row.members)) == ("First", 2)
    assert set(served().tools) == {"add"}


def test_slug_cannot_change() -> None:
    row = store()
    with pytest.raises(ValidationError, match="address"):
        save_toolset(actor=None, toolset=row, slug="other")


@pytest.mark.requirement("TSET-06")
async def test_toolset_overrides_texts_and_fixes_arguments_of_members() -> None:
    fixed = {**ADD, "title": "Add two", "description": "Adds 2.", "fixed_arguments": {"b": 2}}
    await aquery(lambda: store(members=[fixed]))
    own = (await aquery(served)).tools["add"]
    whole = current_snapshot.current().tools["add"]
    assert (own.wire["title"], own.wire["description"]) == ("Add two", "Adds 2.")
    assert list(own.wire["inputSchema"]["properties"]) == ["a"]
    assert whole.wire["title"] == "Add"
    assert list(whole.wire["inputSchema"]["properties"]) == ["a", "b"]
    assert own.check({"a": 1}) is None
    assert own.check({"a": 1, "b": 3})
    assert own.function.bind({"a": 1}) == {"a": 1, "b": 2}
    assert own.fixed_arguments == {"b": 2}
    # An approval of this call stays valid, and one with other fixed arguments does not.
    approval = work_of(whole.identity, {"a": 1, "b": 2})
    assert covers(approval, own, {"a": 1})
    assert not covers(work_of(whole.identity, {"a": 1, "b": 3}), own, {"a": 1})
    assert (await aquery(served)).tools["add"] is own


@pytest.mark.requirement("TSET-06")
def test_argument_that_a_preset_fixes_cannot_be_fixed_otherwise_in_a_toolset() -> None:
    """The approval of a call and its log show the arguments with which the tool runs."""
    row = services.save_tool_preset(actor=None, name="own", preset_of=Tool.objects.get(name="add"))
    store(members=[{"kind": "tool", "key": "own", "fixed_arguments": {"a": 1, "b": 2}}])
    services.update_entry(entry=row, actor=None, fixed_arguments={"b": 3})
    own = served().tools["own"]
    assert own.function.bind(dict(own.fixed_arguments)) == own.fixed_arguments == {"a": 1, "b": 3}


@pytest.mark.requirement("TSET-01")
def test_template_of_a_toolset_does_not_match_uris_of_an_earlier_template_outside() -> None:
    """The earlier template may need a permission that the later one does not need."""
    resource("docs://secret/{slug}", permission="auth.add_user")(document)
    resource("docs://{+slug}")(document)
    mirror()
    store(members=[{"kind": "template", "key": "docs://{+slug}"}])
    current_snapshot.refresh_now()
    for path in ("/mcp", "/mcp/team"):
        view = current_snapshot.refreshed_view(frozenset(), path)
        assert view.resource("docs://secret/plan") is None, path
        assert view.resource("docs://open/plan") is not None, path
    # A permission does not bring entries into a toolset.
    assert current_snapshot.refreshed_view(EVERYTHING, "/mcp/team").resource("docs://secret/plan") is None


def document(slug: str) -> str:
    return slug


@pytest.mark.requirement("TSET-07")
def test_missing_member_costs_only_itself() -> None:
    own = services.save_tool_preset(actor=None, name="own", preset_of=Tool.objects.get(name="add"))
    row = store(members=[ADD, {"kind": "tool", "key": "own"}])
    services.delete_entry(entry=own, actor=None)
    assert set(served().tools) == {"add"}
    save_toolset(actor=None, toolset=row, title="Changed")
    Toolset.objects.update(members=[{"kind": "tool"}, "x"])
    services.set_enabled(entries=[Tool.objects.get(name="add")], enabled=False, actor=None)
    assert current_snapshot.refresh_now().toolsets["/mcp/team"].problem


def test_new_entry_that_matches_a_rule_joins_and_only_then_the_list_changes() -> None:
    store(members=[], rules=[{"tag": "billing"}, {"kind": "tool", "prefix": "bill_"}])
    before = served()
    assert before.tools == {}
    tool(tags=["billing"])(code)
    tool(other)
    mirror()
    after = served()
    assert set(after.tools) == {"code"}
    assert after.revisions["tools"] == after.revision > before.revisions["tools"]
    services.update_entry(entry=Tool.objects.get(name="other"), actor=None, title="Other")
    assert served().revisions == after.revisions
    services.update_entry(entry=Tool.objects.get(name="code"), actor=None, tags=["sales"])
    assert served().tools == {}


def code() -> str:
    return ""


def other() -> str:
    return ""


def test_renamed_group_keeps_the_toolset_and_a_deleted_one_admits_nobody() -> None:
    group = Group.objects.create(name="Sales")
    row = store(audience="groups", permissions=memberships_of(["Sales"]))
    group.name = "Sellers"
    group.save()
    assert names_of(row.permissions) == ["Sellers"]
    view = current_snapshot.refreshed_view(frozenset(row.permissions), "/mcp/team")
    assert "add" in view.snapshot.tools
    group.delete()
    view = current_snapshot.refreshed_view(frozenset({"auth.add_user"}), "/mcp/team")
    assert (view.server.removed, view.snapshot.tools) == (True, {})
    save_toolset(actor=None, toolset=row, title="Still editable")


def test_catalogue_file_has_toolsets_with_names_of_groups() -> None:
    Group.objects.create(name="Sales")
    store(audience="groups", permissions=memberships_of(["Sales"]), rules=[{"tag": "a"}])
    document = exported()
    assert document["toolsets"][0]["groups"] == ["Sales"]
    delete_toolset(toolset=Toolset.objects.get(), actor=None)
    CatalogueChange.objects.filter(kind="toolset").delete()
    result = bring(document)
    assert [(each.action, each.kind) for each in result.differences] == [("added", "toolset")]
    assert exported() == document
    assert bring(document).differences == ()
    wanted = {**HEAD, "toolsets": [{"slug": "team", "groups": ["Nobody"]}]}
    with pytest.raises(TransferRefused, match="Nobody"):
        bring(wanted)
    with pytest.raises(TransferRefused, match="true or false"):
        bring({**HEAD, "toolsets": [{"slug": "x", "enabled": "yes"}]})
    bring({**HEAD, "toolsets": []}, prune=True)
    assert not Toolset.objects.exists()


@pytest.mark.requirement("TSET-13")
def test_excluded_entry_is_not_offered_although_a_rule_matches(announced: list[int]) -> None:
    tool(echo_back)
    mirror()
    excluded = {**ADD, "excluded": True}
    row = store(members=[excluded], rules=[{"kind": "tool"}])
    assert list(served().tools) == ["echo_back"]
    assert "members" in refused(slug="other", members=[{**excluded, "title": "Sum"}])
    assert "members" in refused(slug="other", members=[{**ADD, "excluded": "yes"}])
    save_toolset(actor=None, toolset=row, members=[])
    assert "add" in served().tools


@pytest.mark.requirement("TSET-12")
def test_draft_changes_neither_lists_nor_revisions_until_it_is_published(
    announced: list[int], someone: Any, django_user_model: Any
) -> None:
    row = store()
    announced.clear()
    draft = save_toolset_draft(actor=someone, toolset=row, members=[], title="Empty")
    assert (list(served().tools), announced) == (["add"], [])
    with pytest.raises(ValidationError):
        save_toolset_draft(actor=None, toolset=row, draft=draft, title="", members=[ADD])
    with pytest.raises(ChangedMeanwhile):
        save_toolset_draft(actor=None, toolset=row, title="Other")
    with pytest.raises(PermissionDenied):
        publish_toolset_draft(draft=draft, actor=django_user_model.objects.create_user("editor"))
    publish_toolset_draft(draft=draft, actor=None)
    row.refresh_from_db()
    assert (dict(served().tools), announced) == ({}, [row.revision])
    with pytest.raises(ChangedMeanwhile):
        publish_toolset_draft(draft=draft, actor=None)
    tool(echo_back)
    mirror()
    new = {"kind": "tool", "key": "echo_back"}
    doomed = save_toolset_draft(actor=None, toolset=row, members=[new])
    Tool.objects.filter(name="echo_back").delete()
    with pytest.raises(ValidationError):
        publish_toolset_draft(draft=doomed, actor=None)


def echo_back(text: str) -> str:
    """Return the text."""
    return text
