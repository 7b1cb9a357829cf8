"""Operations become drafts, then tools; updates keep administrators' choices (INT-27, INT-31)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied, ValidationError

from mcp_app.catalogue.changes import drafts, services
from mcp_app.catalogue.documents import fetching, importing, storing, updating
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError
from mcp_app.models import ApiDocument, AuditEvent, CatalogueRevision, Draft, Tool
from tests.servers.web_api import web_api

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
ANNOUNCES = pytest.mark.django_db(transaction=True)

TEXT = {"type": "string"}
PATHS: dict[str, Any] = {
    "/orders/{id}": {
        "get": {"operationId": "getOrder", "summary": "Get an order"},
        "delete": {"operationId": "deleteOrder"},
    },
    "/orders": {
        "get": {"operationId": "listOrders", "parameters": [{"name": "q", "in": "query", "schema": TEXT}]},
        "post": {"operationId": "bad", "parameters": [{"$ref": "#/no"}]},
    },
}


def data(paths: dict[str, Any] = PATHS, **members: Any) -> bytes:
    root = {
        "openapi": "3.0.3",
        "info": {"title": "Shop API"},
        "servers": [{"url": "https://api.example.com"}],
    }
    return json.dumps({**root, "paths": paths, **members}).encode()


@pytest.fixture
def shop() -> ApiDocument:
    """Store a document with four operations."""
    return storing.receive(data=data(), actor=None, prefix="shop")


def publish(shop: ApiDocument, *keys: str) -> list[Tool]:
    importing.import_operations(row=shop, keys=keys, actor=None)
    importing.publish_imported(row=shop, actor=None)
    return list(Tool.objects.filter(source="http").order_by("name"))


def newer(shop: ApiDocument, paths: dict[str, Any]) -> updating.UpdatePlan:
    storing.receive_newer(row=shop, data=data(paths), actor=None)
    return updating.planned(shop)


def test_document_is_stored_with_its_survey(shop: ApiDocument) -> None:
    assert (shop.name, shop.title, shop.operations, shop.state) == ("shop", "Shop API", 4, "ready")
    assert AuditEvent.objects.filter(action="document.received", object_key="shop").exists()
    assert [each.key for each in storing.packing.unpacked_survey(shop.survey)] == [
        "GET /orders/{id}", "DELETE /orders/{id}", "GET /orders", "POST /orders",
    ]  # fmt: skip
    assert storing.document_of(shop).title == "Shop API"


@pytest.mark.parametrize("bad", [b"<html>", b"{}", b"openapi: 3.0.0"])
def test_unusable_document_stores_nothing(bad: bytes) -> None:
    with pytest.raises(DocumentError):
        storing.receive(data=bad, actor=None)
    assert not ApiDocument.objects.exists()


def test_names_of_documents_are_unique_and_checked(shop: ApiDocument) -> None:
    assert storing.receive(data=data(), actor=None, prefix="shop").name == "shop-2"
    for wrong in ("shop", "Not OK"):
        with pytest.raises(ValidationError):
            storing.receive(data=data(), actor=None, name=wrong)


def test_large_document_is_read_later_and_reports_its_problem() -> None:
    row = storing.receive(data=data(), actor=None, prefix="a", later=True)
    assert (row.state, row.content) == ("reading", None)
    storing.read_incoming(row.pk)
    row.refresh_from_db()
    assert (row.state, row.progress, row.operations, row.incoming) == ("ready", 100, 4, None)
    bad = storing.receive(data=b"<html>", actor=None, prefix="b", later=True)
    storing.read_incoming(bad.pk)
    bad.refresh_from_db()
    assert (bad.state, bad.content) == ("failed", None)
    assert "a web page" in bad.problem
    storing.read_incoming(bad.pk)


@pytest.mark.requirement("INT-20", "INT-27")
@ANNOUNCES
def test_operations_become_drafts_and_no_client_sees_them(shop: ApiDocument, announced: list[int]) -> None:
    keys = ["GET /orders", "GET /orders/{id}", "POST /orders", "GET /nothing"]
    found = importing.import_operations(row=shop, keys=keys, actor=None, names={"GET /orders": "own_name"})
    assert sorted(draft.key for draft in found.drafts) == ["own_name", "shop_getOrder"]
    assert "leads nowhere (#/paths/~1orders/post/parameters/0)" in found.skipped["POST /orders"]
    assert found.skipped["GET /nothing"] == "The document has no such operation."
    assert (Tool.objects.count(), announced) == (0, [])
    again = importing.import_operations(row=shop, keys=["GET /orders"], actor=None)
    assert again.skipped == {"GET /orders": "It is a tool or a draft already."}


@pytest.mark.requirement("INT-27")
@ANNOUNCES
def test_many_drafts_are_published_as_one_revision(announced: list[int]) -> None:
    paths = {f"/x{number}": {"get": {}} for number in range(30)}
    row = storing.receive(data=data(paths), actor=None, prefix="big")
    importing.import_operations(row=row, keys=[f"GET /x{number}" for number in range(30)], actor=None)
    before = CatalogueRevision.objects.get().number if CatalogueRevision.objects.exists() else 0
    importing.publish_imported(row=row, actor=None)
    assert announced == [before + 1]
    assert Tool.objects.filter(source="http").count() == 30
    assert not Draft.objects.exists()
    assert importing.publish_imported(row=row, actor=None) == 0


@pytest.mark.requirement("INT-27")
@ANNOUNCES
def test_operations_are_published_at_once_as_one_revision(shop: ApiDocument, announced: list[int]) -> None:
    keys = ["GET /orders", "GET /orders/{id}", "POST /orders"]
    found = importing.import_operations(row=shop, keys=keys, actor=None, publish=True)
    assert (announced, found.published) == ([found.revision], ["shop_listOrders", "shop_getOrder"])
    assert found.skipped.keys() == {"POST /orders"}


def test_publishing_needs_its_permission(shop: ApiDocument, django_user_model: Any) -> None:
    person = django_user_model.objects.create_user("editor", is_staff=True)
    importing.import_operations(row=shop, keys=["GET /orders"], actor=person)
    with pytest.raises(PermissionDenied):
        importing.publish_imported(row=shop, actor=person)
    with pytest.raises(PermissionDenied):
        importing.import_operations(row=shop, keys=["GET /orders/{id}"], actor=person, publish=True)
    assert not Tool.objects.exists()


def test_taken_name_is_skipped_with_its_reason(shop: ApiDocument) -> None:
    publish(shop, "GET /orders")
    found = importing.import_operations(
        row=shop, keys=["GET /orders/{id}"], actor=None, names={"GET /orders/{id}": "shop_listOrders"}
    )
    assert "There is already a tool" in found.skipped["GET /orders/{id}"]


def test_published_tools_are_offered_with_their_hints(shop: ApiDocument) -> None:
    publish(shop, "DELETE /orders/{id}")
    wire = snapshot_loader.load().tools["shop_deleteOrder"].wire
    assert wire["annotations"]["destructiveHint"] is True
    assert wire["inputSchema"]["required"] == ["id"]


@pytest.mark.requirement("INT-28")
@pytest.mark.parametrize("url", ["/v1", "https://{tenant}.example.com", "ftp://a.example"])
def test_document_without_usable_server_imports_nothing(url: str) -> None:
    row = storing.receive(data=data(servers=[{"url": url}]), actor=None)
    with pytest.raises(DocumentError, match="The server cannot be used"):
        importing.import_operations(row=row, keys=["GET /orders"], actor=None)
    storing.save_choices(row=row, actor=None, server="https://own.example/v9")
    found = importing.import_operations(row=row, keys=["GET /orders"], actor=None)
    request = found.drafts[0].values["request"]
    assert (request["origin"], request["path"]) == ("https://own.example", "/v9/orders")


def changed_paths() -> dict[str, Any]:
    paths: dict[str, Any] = json.loads(json.dumps(PATHS))
    paths["/orders"]["get"]["parameters"].append(
        {"name": "page", "in": "query", "schema": {"type": "integer"}}
    )
    paths["/orders/{id}"]["get"]["summary"] = "Fetch an order"
    del paths["/orders/{id}"]["delete"]
    paths["/new"] = {"get": {}}
    return paths


@pytest.mark.requirement("INT-31")
def test_update_shows_changed_gone_and_new_operations(shop: ApiDocument) -> None:
    publish(shop, "GET /orders", "GET /orders/{id}", "DELETE /orders/{id}")
    plan = newer(shop, changed_paths())
    found = {each.key: (each.action, {part.name for part in each.parts}) for each in plan.changes}
    assert found == {
        "GET /orders": ("changed", {"request", "input_schema"}),
        "GET /orders/{id}": ("changed", {"title", "description"}),
        "DELETE /orders/{id}": ("gone", set()),
    }
    assert (plan.added, plan.unchanged) == (["GET /new"], 0)
    assert newer(shop, PATHS).changes == []


@pytest.mark.requirement("INT-31")
def test_accepted_changes_become_drafts_and_others_are_shown_again(shop: ApiDocument) -> None:
    publish(shop, "GET /orders", "GET /orders/{id}", "DELETE /orders/{id}")
    newer(shop, changed_paths())
    done = updating.update_tools(row=shop, accepted={"GET /orders", "DELETE /orders/{id}"}, actor=None)
    assert len(done.drafts) == 2
    assert all(Tool.objects.get(name=draft.key).enabled for draft in done.drafts)
    assert importing.publish_imported(row=shop, actor=None)
    assert "page" in Tool.objects.get(name="shop_listOrders").input_schema["properties"]
    assert not Tool.objects.get(name="shop_deleteOrder").enabled
    shop.refresh_from_db()
    assert (shop.newer, [each.key for each in updating.planned(shop).changes]) == (None, ["GET /orders/{id}"])


@pytest.mark.requirement("INT-31")
def test_changes_are_published_by_users_who_may_change_tools(
    shop: ApiDocument, django_user_model: Any
) -> None:
    publish(shop, "GET /orders")
    newer(shop, changed_paths())
    updating.update_tools(row=shop, accepted={"GET /orders"}, actor=None)
    importing.import_operations(row=shop, keys=["GET /orders/{id}"], actor=None)
    person = django_user_model.objects.create_user("editor", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=("add_tool", "publish_entries")))
    assert set(importing.waiting_drafts_of(shop, person)) == {"GET /orders/{id}"}
    assert set(importing.waiting_drafts_of(shop, None)) == {"GET /orders/{id}", "GET /orders"}


@pytest.mark.requirement("INT-31")
def test_update_keeps_words_and_choices_of_administrators(shop: ApiDocument) -> None:
    (tool,) = publish(shop, "GET /orders/{id}")
    own = {
        "title": "My order",
        "enabled": False,
        "calls_per_minute": 7,
        "permission": "mcp_app.view_tool",
        "request": {**tool.request, "timeout": 5, "headers": {"X-Own": "1"}, "result": {"mapping": "id"}},
    }
    services.save_entry(kind=Tool, entry=tool, actor=None, **own)
    paths = changed_paths()
    paths["/orders/{id}"]["get"] |= {"parameters": [{"name": "v", "in": "query", "schema": TEXT}]}
    plan = newer(shop, paths)
    kept = {part.name: part.kept for part in plan.changes[0].parts}
    assert kept == {"title": True, "description": False, "request": False, "input_schema": False}
    (draft,) = updating.update_tools(row=shop, accepted=["GET /orders/{id}"], actor=None).drafts
    drafts.publish_draft(draft=draft, actor=None)
    tool.refresh_from_db()
    assert (tool.title, tool.enabled, tool.calls_per_minute) == ("My order", False, 7)
    assert tool.permission == "mcp_app.view_tool"
    assert tool.description == "Fetch an order"
    request = tool.request
    assert (request["timeout"], request["headers"], request["result"]) == (
        5,
        {"X-Own": "1"},
        {"mapping": "id"},
    )
    assert [each["name"] for each in request["parameters"]] == ["v", "id"]
    assert updating.planned(shop).changes == []


def test_change_with_a_pending_draft_is_not_drafted_twice(shop: ApiDocument) -> None:
    (tool,) = publish(shop, "GET /orders/{id}")
    drafts.save_draft(kind=Tool, entry=tool, actor=None, title="Other")
    plan = newer(shop, changed_paths())
    assert plan.changes[0].waits
    done = updating.update_tools(row=shop, accepted=["GET /orders/{id}"], actor=None)
    assert done.drafts == []
    assert "has a draft already" in done.skipped["GET /orders/{id}"]


def test_deleted_document_leaves_its_tools(shop: ApiDocument) -> None:
    publish(shop, "GET /orders")
    storing.delete_document(row=shop, actor=None)
    assert Tool.objects.filter(name="shop_listOrders").exists()
    assert AuditEvent.objects.filter(action="document.deleted", object_key="shop").exists()


def test_interrupted_reading_is_shown_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(data: bytes, url: str) -> None:
        raise TimeoutError

    row = storing.receive(data=data(), actor=None, prefix="a", later=True)
    monkeypatch.setattr(storing, "_read", stop)
    with pytest.raises(TimeoutError):
        storing.read_incoming(row.pk)
    row.refresh_from_db()
    assert (row.state, row.problem, row.incoming) == ("failed", storing.BROKEN, None)


def test_documents_that_never_arrive_take_the_time_of_one(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    monkeypatch.setattr(fetching, "SECONDS", 0.5)
    paths = {f"/{number}": {"$ref": f"other{number}.json#/x"} for number in range(5)}
    with web_api() as api:
        api.answer = lambda heard: b""  # The server never answers.
        row = storing.receive(data=data({**PATHS, **paths}), actor=None, url=f"{api.origin}/openapi.json")
        assert len(api.requests) == 1
    assert row.operations == 4


SEVERAL: dict[str, Any] = {
    "/notes": {
        "post": {
            "operationId": "addNote",
            "requestBody": {
                "content": {
                    "text/plain": {"schema": TEXT},
                    "application/x-www-form-urlencoded": {
                        "schema": {"type": "object", "properties": {"a": TEXT}}
                    },
                    "application/json": {"schema": {"type": "object", "properties": {"b": TEXT}}},
                }
            },
        }
    }
}


def test_content_type_is_chosen_stated_and_kept_by_updates() -> None:
    row = storing.receive(data=data(SEVERAL), actor=None, prefix="shop")
    (surveyed,) = storing.packing.unpacked_survey(row.survey)
    assert (surveyed.body, len(surveyed.bodies)) == ("application/json", 3)
    assert "is sent as application/json" in " ".join(surveyed.notes)
    form = "application/x-www-form-urlencoded"
    key = "POST /notes"
    importing.import_operations(row=row, keys=[key], actor=None, content_types={key: form})
    importing.publish_imported(row=row, actor=None)
    tool = Tool.objects.get()
    assert (tool.request["body"]["mode"], list(tool.input_schema["properties"])) == ("form", ["a"])
    assert updating.planned(row).changes == []
    paths = json.loads(json.dumps(SEVERAL))
    paths["/notes"]["post"]["summary"] = "Add a note"
    (change,) = newer(row, paths).changes
    assert {part.name for part in change.parts} == {"title", "description"}


def test_tools_take_the_tags_of_their_operations_until_an_administrator_changes_them(
    shop: ApiDocument,
) -> None:
    key, tags = "GET /orders", ["Open Orders", "v2"]
    operation = {**PATHS["/orders"]["get"], "tags": tags}
    storing.receive_newer(row=shop, data=data({"/orders": {"get": operation}}), actor=None)
    storing.take_newer(shop)
    (tool,) = publish(shop, key)
    assert tool.tags == ["open-orders", "v2"]
    operation["tags"] = ["v3"]
    (change,) = newer(shop, {"/orders": {"get": operation}}).changes
    assert [(part.name, part.new, part.kept) for part in change.parts] == [("tags", ["v3"], False)]
    services.save_entry(kind=Tool, entry=tool, actor=None, tags=["own"])
    (change,) = updating.planned(shop).changes
    assert [(part.name, part.kept) for part in change.parts] == [("tags", True)]
    # A tool of an earlier version has no digest of its tags.
    tool.request["document"]["parts"].pop("tags")
    Tool.objects.filter(pk=tool.pk).update(tags=[], request=tool.request)
    (change,) = updating.planned(shop).changes
    assert [(part.name, part.kept) for part in change.parts] == [("tags", False)]
