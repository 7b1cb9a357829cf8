"""OpenAPI documents over the API: import, choice, drafts, updates, and their refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.documents import storing
from mcp_app.credentials.services import save_credential
from mcp_app.execution.background import celery
from mcp_app.models import ApiDocument, AuditEvent, Draft, Tool
from tests.integration.api.conftest import ClientOf, send
from tests.integration.catalogue.test_openapi_import import PATHS, changed_paths, data

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
SHOP = "/api/documents/shop/"
KEYS = ["GET /orders", "GET /orders/{id}", "DELETE /orders/{id}"]


@pytest.fixture
def admin(client_of: ClientOf) -> Client:
    return client_of("superuser")


@pytest.fixture
def shop() -> ApiDocument:
    return storing.receive(data=data(), actor=None, prefix="shop")


def member(django_user_model: Any, *permissions: str) -> Client:
    user = django_user_model.objects.create_user("member")
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    _, secret = issue_api_key(user=user, name="tests")
    return Client(headers={"authorization": f"Bearer {secret}"})


@pytest.mark.requirement("INT-30")
@pytest.mark.parametrize("way", ["text", "file"])
def test_document_is_stored_from_text_or_file(way: str, admin: Client) -> None:
    if way == "text":
        answer = send(admin, "POST", "/api/documents/", {"text": data().decode(), "prefix": "shop"})
    else:
        file = SimpleUploadedFile("api.json", data())
        answer = admin.post("/api/documents/", {"file": file, "prefix": "shop"})
    found = answer.json()
    assert answer.status_code == 201, found
    assert (found["name"], found["state"], found["operations"]) == ("shop", "ready", 4)
    assert [each["url"] for each in found["servers"]] == ["https://api.example.com"]
    assert admin.get(SHOP).json() == found
    assert [each["name"] for each in admin.get("/api/documents/").json()["results"]] == ["shop"]


@pytest.mark.parametrize(
    ("given", "status", "problem"),
    [
        ({}, 400, "Choose one"),
        ({"text": "{}", "url": "https://a.example"}, 400, "Choose one"),
        ({"url": "ftp://a.example"}, 400, "begins with https"),
        ({"url": "http://127.0.0.1/x"}, 422, "cannot be fetched"),
        ({"text": "<html>"}, 422, "a web page"),
        ({"text": data().decode(), "prefix": "a b"}, 400, "Use letters"),
        ({"text": data().decode(), "name": "A B"}, 400, "lower-case"),
        ({"text": data().decode(), "color": "red"}, 400, "Unknown field"),
    ],
)
def test_unusable_document_is_refused_and_not_stored(
    given: Any, status: int, problem: str, admin: Client
) -> None:
    answer = send(admin, "POST", "/api/documents/", given)
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert problem in answer.content.decode()
    assert not ApiDocument.objects.exists()


def test_large_document_is_accepted_and_read_by_a_worker(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[int] = []
    monkeypatch.setattr(storing, "LARGE", 10)
    monkeypatch.setattr(celery, "enqueue_document", queued.append)
    answer = send(admin, "POST", "/api/documents/", {"text": data().decode(), "name": "shop"})
    assert (answer.status_code, answer.json()["state"]) == (202, "reading")
    assert send(admin, "POST", f"{SHOP}import/", {"all": True}).status_code == 422
    storing.read_incoming(queued[0])
    assert admin.get(SHOP).json()["state"] == "ready"


@pytest.mark.parametrize("path", ["/api/documents/", f"{SHOP}fetch/"])
def test_large_document_without_broker_changes_nothing(
    path: str, admin: Client, shop: ApiDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pk: int) -> None:
        raise celery.BrokerUnavailable

    monkeypatch.setattr(storing, "LARGE", 10)
    monkeypatch.setattr(celery, "enqueue_document", refuse)
    answer = send(admin, "POST", path, {"text": data().decode()})
    assert (answer.status_code, "Retry-After" in answer) == (503, True)
    row = ApiDocument.objects.get()
    assert (row.state, row.incoming) == ("ready", None)


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 4), ("method=GET", 2), ("text=ORDERS/", 2), ("usable=false", 1), ("usable=true&method=GET", 2)],
)
def test_operations_are_filtered(query: str, count: int, admin: Client, shop: ApiDocument) -> None:
    found = admin.get(f"{SHOP}operations/?{query}").json()
    assert (found["count"], len(found["results"]), found["next"]) == (count, count, None)


def test_operations_are_paginated(admin: Client, shop: ApiDocument) -> None:
    address, keys = f"{SHOP}operations/?limit=3", []
    while address:
        page = admin.get(address).json()
        keys += [each["key"] for each in page["results"]]
        address = page["next"]
    assert len(keys) == len(set(keys)) == 4
    assert admin.get(f"{SHOP}operations/?colour=red").status_code == 400


@pytest.mark.requirement("INT-27", "INT-30")
def test_import_saves_drafts_once_and_publishing_offers_them(admin: Client, shop: ApiDocument) -> None:
    save_credential(
        actor=None, name="key", kind="bearer", secret={"token": "t"}, origins=["https://own.example"]
    )
    body = {
        "operations": ["GET /orders*", "bad"],
        "names": {"GET /orders": "list"},
        "server": "https://own.example/v2",
        "credentials": {"token": "key"},
    }
    found = send(admin, "POST", f"{SHOP}import/", body).json()
    assert (sorted(found["drafts"]), found["published"]) == (["list", "shop_getOrder"], [])
    assert "leads nowhere" in found["skipped"]["POST /orders"]
    again = send(admin, "POST", f"{SHOP}import/", body).json()
    assert (again["drafts"], len(again["skipped"])) == ([], 3)
    assert not Tool.objects.filter(source="http").exists()
    shown = admin.get(SHOP).json()
    assert (shown["server"], shown["credentials"]) == ("https://own.example/v2", {"token": "key"})
    assert shown["drafts"] == {"GET /orders": "list", "GET /orders/{id}": "shop_getOrder"}
    published = send(admin, "POST", f"{SHOP}publish/").json()
    assert (sorted(published["published"]), published["revision"] > 0) == (["list", "shop_getOrder"], True)
    request = Tool.objects.get(name="list").request
    assert (request["origin"], request["path"]) == ("https://own.example", "/v2/orders")
    assert AuditEvent.objects.filter(action="document.imported", object_key="shop").count() == 1
    assert AuditEvent.objects.filter(action="document.changed", object_key="shop").count() == 1


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({}, 400, "No operation fits"),
        ({"operations": ["GET /nothing"]}, 400, "No operation fits"),
        ({"all": True, "server": "/v1"}, 400, "relative"),
        ({"all": True, "credentials": {"token": "nothing"}}, 400, "no credential"),
    ],
)
def test_import_refuses_bad_choices(
    body: Any, status: int, problem: str, admin: Client, shop: ApiDocument
) -> None:
    answer = send(admin, "POST", f"{SHOP}import/", body)
    assert (answer.status_code, problem in answer.content.decode()) == (status, True), answer.content
    assert not Draft.objects.exists()


@pytest.mark.requirement("INT-28")
def test_server_without_encryption_has_to_be_chosen(admin: Client) -> None:
    plain = [{"url": "http://api.example.com"}]
    storing.receive(data=data(servers=plain), actor=None, prefix="shop")
    refused = send(admin, "POST", f"{SHOP}import/", {"all": True})
    assert (refused.status_code, "not be encrypted" in refused.json()["detail"]) == (422, True)
    body = {"all": True, "server": "http://api.example.com"}
    assert len(send(admin, "POST", f"{SHOP}import/", body).json()["drafts"]) == 3


def test_import_with_a_credential_needs_the_permission_to_view_it(
    shop: ApiDocument, django_user_model: Any
) -> None:
    save_credential(
        actor=None, name="key", kind="bearer", secret={"token": "t"}, origins=["https://api.example.com"]
    )
    editor = member(django_user_model, "view_apidocument", "add_apidocument", "add_tool")
    body = {"operations": ["GET /orders"], "credentials": {"token": "key"}}
    assert send(editor, "POST", f"{SHOP}import/", body).status_code == 403
    assert send(editor, "POST", f"{SHOP}import/", {**body, "publish": True}).status_code == 403
    assert not Draft.objects.exists()
    assert len(send(editor, "POST", f"{SHOP}import/", {"operations": ["GET /orders"]}).json()["drafts"]) == 1


@pytest.mark.requirement("INT-30", "INT-31")
def test_update_lists_differences_and_drafts_accepted_ones(admin: Client, shop: ApiDocument) -> None:
    done = send(admin, "POST", f"{SHOP}import/", {"operations": KEYS, "publish": True}).json()
    assert (len(done["published"]), done["revision"] > 0) == (3, True)
    assert send(admin, "POST", f"{SHOP}fetch/", {"text": data(changed_paths()).decode()}).status_code == 200
    plan = admin.get(f"{SHOP}update/").json()
    changed = {each["key"]: each for each in plan["changes"]}
    assert changed.keys() == set(KEYS)
    assert (plan["added"], changed["DELETE /orders/{id}"]["action"]) == (["GET /new"], "gone")
    body = {"accepted": ["GET /orders/{id}", "GET /new"], "sha256": plan["sha256"]}
    moved = send(admin, "POST", f"{SHOP}update/", {**body, "sha256": "0" * 64})
    assert (moved.status_code, Draft.objects.count()) == (409, 0)
    found = send(admin, "POST", f"{SHOP}update/", body).json()
    assert (len(found["drafts"]), found["skipped"]) == (1, {"GET /new": "It has not changed."})
    again = admin.get(f"{SHOP}update/").json()["changes"]
    assert {each["key"]: each["has_draft"] for each in again} == {
        "GET /orders/{id}": True,
        "GET /orders": False,
        "DELETE /orders/{id}": False,
    }
    assert AuditEvent.objects.filter(action="document.updated", object_key="shop").count() == 1


def test_uploaded_document_has_no_address_to_fetch(admin: Client, shop: ApiDocument) -> None:
    answer = send(admin, "POST", f"{SHOP}fetch/")
    assert (answer.status_code, "no address" in answer.json()["detail"]) == (422, True)


def test_deleted_document_leaves_its_tools(admin: Client, shop: ApiDocument) -> None:
    send(admin, "POST", f"{SHOP}import/", {"operations": ["GET /orders"], "publish": True})
    assert send(admin, "DELETE", SHOP).status_code == 204
    assert (ApiDocument.objects.count(), Tool.objects.filter(source="http").count()) == (0, 1)


def test_hidden_characters_of_a_document_are_escaped(admin: Client) -> None:
    paths = {"/\u202ex": PATHS["/orders"]}
    storing.receive(data=data(paths), actor=None, prefix="shop")
    text = admin.get(f"{SHOP}operations/").content.decode()
    assert "\u202e" not in text
    assert json.loads(text)["count"] == 2
