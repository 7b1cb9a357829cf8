"""Pages of OpenAPI documents: import, choice of operations, drafts, and updates."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from mcp_app.catalogue.documents import importing, storing
from mcp_app.execution.background import celery
from mcp_app.execution.background.celery import BrokerUnavailable
from mcp_app.models import ApiDocument, Draft, Tool
from tests.integration.catalogue.test_openapi_import import PATHS, SEVERAL, changed_paths, data

pytestmark = pytest.mark.django_db
IMPORT = "admin:mcp_app_apidocument_import"


def url(view: str, row: ApiDocument) -> str:
    return reverse(f"admin:mcp_app_apidocument_{view}", args=[row.pk])


@pytest.fixture
def shop() -> ApiDocument:
    return storing.receive(data=data(), actor=None, prefix="shop", url="https://docs.example.com/api.json")


def client_of(django_user_model: Any, *permissions: str) -> Client:
    person = django_user_model.objects.create_user("person", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(person)
    return client


def messages_of(response: Any) -> str:
    return " ".join(str(each) for each in response.context["messages"])


@pytest.mark.parametrize("way", ["file", "text"])
def test_document_is_imported_from_file_or_text(admin_client: Client, way: str) -> None:
    given: Any = SimpleUploadedFile("api.json", data()) if way == "file" else data().decode()
    response = admin_client.post(reverse(IMPORT), {way: given, "tool_prefix": "shop"})
    row = ApiDocument.objects.get()
    assert response.url == url("change", row)  # type: ignore[attr-defined]
    assert (row.name, row.operations) == ("shop", 4)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "Choose one"),
        ({"text": "{}", "url": "https://a.example"}, "Choose one"),
        ({"text": "<html>"}, "a web page"),
        ({"url": "ftp://a.example"}, "begins with https"),
        ({"url": "http://127.0.0.1/x"}, "cannot be fetched"),
        ({"url": "http://127.0.0.1/x"}, "add its address to the setting EGRESS_ALLOW"),
        ({"text": data().decode(), "tool_prefix": "a b"}, "Use letters"),
    ],
)
def test_unusable_document_is_explained_and_not_stored(
    admin_client: Client, given: Any, problem: str
) -> None:
    response = admin_client.post(reverse(IMPORT), given)
    errors = [text for problems in response.context["form"].errors.values() for text in problems]
    assert problem in " ".join(errors)
    assert not ApiDocument.objects.exists()


def test_large_document_is_read_by_a_worker(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "LARGE", 10)
    queued: list[int] = []
    monkeypatch.setattr(celery, "enqueue_document", queued.append)
    admin_client.post(reverse(IMPORT), {"text": data().decode(), "tool_prefix": "shop"})
    row = ApiDocument.objects.get()
    assert (queued, row.state) == ([row.pk], "reading")
    page = admin_client.get(url("change", row))
    assert page.status_code == 200
    assert admin_client.get(url("operations", row)).json() == {"state": "reading", "progress": 0}
    storing.read_incoming(row.pk)
    assert admin_client.get(url("operations", row)).json()["state"] == "ready"


@pytest.mark.requirement("INT-21")
@pytest.mark.django_db(transaction=True)
async def test_document_is_never_read_on_the_event_loop(
    admin_user: Any, async_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[Any] = []
    read = storing._read

    def noted(given: bytes, address: str) -> Any:
        loops.append(asyncio._get_running_loop())
        return read(given, address)

    monkeypatch.setattr(storing, "_read", noted)
    await async_client.aforce_login(admin_user)
    answer = await async_client.post(reverse(IMPORT), {"text": data().decode(), "tool_prefix": "shop"})
    assert (answer.status_code, loops) == (302, [None])


def test_large_document_without_broker_is_not_stored(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pk: int) -> None:
        raise BrokerUnavailable

    monkeypatch.setattr(storing, "LARGE", 10)
    monkeypatch.setattr(celery, "enqueue_document", refuse)
    response = admin_client.post(reverse(IMPORT), {"text": data().decode()})
    assert "broker cannot be reached" in str(response.context["form"].errors)
    assert not ApiDocument.objects.exists()


@pytest.mark.requirement("INT-29")
def test_operations_have_sizes_states_and_problems(admin_client: Client, shop: ApiDocument) -> None:
    importing.import_operations(row=shop, keys=["GET /orders"], actor=None)
    found = admin_client.get(url("operations", shop)).json()
    each = {one["key"]: one for one in found["operations"]}
    assert (each["GET /orders"]["state"], each["GET /orders/{id}"]["state"]) == ("draft", "")
    assert "leads nowhere" in each["POST /orders"]["refused"]
    assert each["GET /orders/{id}"]["tokens"] > 0


def select(client: Client, row: ApiDocument, **given: Any) -> Any:
    usual = {
        "selection": json.dumps({"GET /orders": "", "GET /orders/{id}": "own"}),
        "server": "https://api.example.com",
    }
    return client.post(url("select", row), {**usual, **given}, follow=True)


def test_selected_operations_become_drafts_and_are_published(admin_client: Client, shop: ApiDocument) -> None:
    select(admin_client, shop)
    assert {draft.key for draft in Draft.objects.all()} == {"shop_listOrders", "own"}
    admin_client.post(url("publish", shop))
    assert set(Tool.objects.values_list("name", flat=True)) == {"shop_listOrders", "own"}


@pytest.mark.requirement("INT-28")
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"selection": "{}"}, "Select at least one"),
        ({"selection": "["}, "cannot be read"),
        ({"selection": '{"a": 1}'}, "cannot be read"),
        ({"server": "own", "own_server": "/v1"}, "is relative"),
        ({"server": "http://api.example.com"}, "not encrypted"),
        ({"server": "ftp://a.example"}, "cannot be called"),
    ],
)
def test_unusable_selection_saves_nothing(
    admin_client: Client, shop: ApiDocument, given: Any, problem: str
) -> None:
    assert problem in messages_of(select(admin_client, shop, **given))
    assert not Draft.objects.exists()


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ({}, {"GET /orders": "", "GET /orders/{id}": "own"}),
        ({"plain_http": "1", "selection": '{"POST /orders": "x"}'}, {"POST /orders": "x"}),
        ({"selection": "{}"}, {}),
        ({"selection": "["}, {}),
    ],
)
def test_refused_selection_stays_as_it_was_entered(
    admin_client: Client, shop: ApiDocument, given: dict[str, str], selection: dict[str, str]
) -> None:
    server = "http://api.example.com/v2"
    page = select(admin_client, shop, server="own", own_server=server, **given)
    assert page.status_code == 200
    assert json.loads(page.context["entered"]["selection"]) == selection
    assert (page.context["chosen_server"], page.context["own_server"]) == ("own", server)
    text = page.content.decode()
    assert "data-entered=" in text
    assert ('name="plain_http" value="1" checked' in text) is ("plain_http" in given)
    assert "data-entered=" not in admin_client.get(url("change", shop)).content.decode()


@pytest.mark.requirement("INT-28")
def test_plain_http_server_needs_a_confirmation(admin_client: Client, shop: ApiDocument) -> None:
    select(admin_client, shop, server="own", own_server="http://api.example.com/v1", plain_http="1")
    assert {draft.values["request"]["origin"] for draft in Draft.objects.all()} == {"http://api.example.com"}


@pytest.mark.requirement("INT-31")
def test_some_changes_of_an_update_are_accepted(admin_client: Client, shop: ApiDocument) -> None:
    keys = ["GET /orders", "GET /orders/{id}", "DELETE /orders/{id}"]
    importing.import_operations(row=shop, keys=keys, actor=None, publish=True)
    newer = SimpleUploadedFile("api.json", data(changed_paths()))
    response = admin_client.post(url("fetch", shop), {"file": newer})
    assert response.url == url("update", shop)  # type: ignore[attr-defined]
    page = admin_client.get(url("update", shop))
    assert {each["key"] for each in page.context["changes"]} == set(keys)
    admin_client.post(url("update", shop), {"accepted": keys[:2]})
    assert Draft.objects.count() == 2
    page = admin_client.get(url("update", shop))
    assert {each["key"]: each["waits"] for each in page.context["changes"]} == {
        keys[0]: True, keys[1]: True, keys[2]: False,
    }  # fmt: skip


def test_bad_update_leaves_the_document_in_use(admin_client: Client, shop: ApiDocument) -> None:
    response = admin_client.post(
        url("fetch", shop), {"file": SimpleUploadedFile("a", b"<html>")}, follow=True
    )
    assert "a web page" in messages_of(response)
    shop.refresh_from_db()
    assert (shop.newer, shop.operations) == (None, 4)


def test_deleted_document_leaves_the_list(admin_client: Client, shop: ApiDocument) -> None:
    admin_client.post(url("remove", shop))
    assert not ApiDocument.objects.exists()


VIEW = ("view_apidocument",)


@pytest.mark.parametrize(
    ("permissions", "view", "method", "allowed"),
    [
        ((), "change", "get", False),
        (VIEW, "change", "get", True),
        (VIEW, "operations", "get", True),
        (VIEW, "select", "post", False),
        (VIEW, "publish", "post", False),
        (VIEW, "fetch", "post", False),
        (VIEW, "update", "get", False),
        (VIEW, "remove", "post", False),
        ((*VIEW, "add_apidocument", "add_tool"), "select", "post", True),
        ((*VIEW, "add_apidocument", "add_tool"), "publish", "post", False),
        ((*VIEW, "change_apidocument", "change_tool"), "update", "get", True),
        ((*VIEW, "delete_apidocument"), "remove", "post", True),
        (VIEW, "select", "get", False),
    ],
)
def test_each_page_and_button_needs_its_permission(
    django_user_model: Any,
    shop: ApiDocument,
    permissions: tuple[str, ...],
    view: str,
    method: str,
    allowed: bool,
) -> None:
    client = client_of(django_user_model, *permissions)
    status = getattr(client, method)(url(view, shop)).status_code
    assert (status in (200, 302)) is allowed, status


def test_user_without_publishing_permission_saves_drafts_only(
    django_user_model: Any, shop: ApiDocument
) -> None:
    client = client_of(django_user_model, *VIEW, "add_apidocument", "add_tool")
    select(client, shop)
    assert Draft.objects.count() == 2
    assert client.post(url("publish", shop)).status_code == 403


def test_texts_of_documents_are_marked_on_pages(admin_client: Client) -> None:
    paths = {"/x": {"get": {"summary": "<script>pwned=1</script>"}}}
    hostile = data(paths, info={"title": "<b>T</b>\u202eevil"}, servers=[{"url": "https://a.example/<i>"}])
    admin_client.post(reverse(IMPORT), {"text": hostile.decode()})
    page = admin_client.get(url("change", ApiDocument.objects.get())).content.decode()
    assert "<b>T</b>" not in page
    assert "<i>" not in page
    assert "\u202e" not in page
    assert PATHS


VARIABLES = {"region": {"enum": ["eu", "us"], "default": "eu"}, "scheme": {"enum": ["https", "http"]}}


@pytest.mark.requirement("INT-28")
def test_values_of_server_variables_are_chosen(admin_client: Client) -> None:
    servers = [
        {"url": "https://plain.example"},
        {"url": "{scheme}://{region}.example.com", "variables": VARIABLES},
    ]
    row = storing.receive(data=data(servers=servers), actor=None, prefix="shop")
    page = admin_client.get(url("change", row)).content.decode()
    assert 'name="variable:1:region"' in page
    chosen = {"server": "{scheme}://eu.example.com", "variable:1:region": "us", "variable:1:scheme": "http"}
    assert "not encrypted" in messages_of(select(admin_client, row, **chosen))
    assert "choose one of" in messages_of(
        select(admin_client, row, **{**chosen, "variable:1:region": "mars"})
    )
    assert not Draft.objects.exists()
    select(admin_client, row, **{**chosen, "variable:1:scheme": "https"})
    row.refresh_from_db()
    assert row.server == "https://us.example.com"
    assert {draft.values["request"]["origin"] for draft in Draft.objects.all()} == {row.server}
    assert admin_client.get(url("change", row)).context["own_server"] == row.server


def test_content_type_of_an_operation_is_chosen_on_the_page(admin_client: Client) -> None:
    row = storing.receive(data=data(SEVERAL), actor=None, prefix="shop")
    (shown,) = admin_client.get(url("operations", row)).json()["operations"]
    assert (shown["body"], len(shown["bodies"])) == ("application/json", 3)
    types = json.dumps({"POST /notes": "text/plain"})
    select(admin_client, row, selection='{"POST /notes": ""}', content_types=types)
    assert Draft.objects.get().values["request"]["body"]["content_type"] == "text/plain"


def test_user_who_may_not_see_credentials_leaves_the_chosen_ones(
    django_user_model: Any, shop: ApiDocument
) -> None:
    shop.credentials = {"key": "shop"}
    shop.save()
    client = client_of(django_user_model, "view_apidocument", "add_apidocument", "add_tool", "view_tool")
    given = {"server": "https://other.example.com", "selection": json.dumps({"GET /orders": "orders"})}
    assert client.post(url("select", shop), given).status_code == 302
    shop.refresh_from_db()
    assert (shop.credentials, shop.server) == ({"key": "shop"}, "https://other.example.com")
