"""Admin pages and API of credentials. The secret is write-only everywhere (INT-05, INT-07)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client as Browser
from django.urls import reverse

from mcp_app.credentials import services
from mcp_app.models import AuditEvent, Credential, Tool, Upstream

pytestmark = pytest.mark.django_db
ADD = reverse("admin:mcp_app_credential_add")
SECRET = "s3cret-0000-value"
ORIGIN = "https://api.example.com"


@pytest.fixture
def root(client: Browser, django_user_model: Any) -> Browser:
    client.force_login(django_user_model.objects.create_superuser("root", password="x"))
    return client


@pytest.fixture
def shop() -> Credential:
    return services.save_credential(
        actor=None, name="shop", kind="bearer", secret={"token": SECRET}, origins=[ORIGIN]
    )


def opened(row: Credential) -> Any:
    return services._read(row.name).secret


def change(row: Credential) -> str:
    return reverse("admin:mcp_app_credential_change", args=[row.pk])


@pytest.mark.parametrize(
    ("kind", "entered", "secret", "placement"),
    [
        ("bearer", {"token": SECRET}, {"token": SECRET}, {}),
        ("basic", {"username": "u", "password": SECRET}, {"username": "u", "password": SECRET}, {}),
        (
            "api_key",
            {"value": SECRET, "place": "query", "place_name": "key", "lead": "Token"},
            {"value": SECRET},
            {"in": "query", "name": "key", "prefix": "Token "},
        ),
        ("headers", {"headers": "X-A: 1\r\nX-B: b: 2\r\n"}, {"headers": {"X-A": "1", "X-B": "b: 2"}}, {}),
    ],
)
def test_form_of_each_kind_creates_a_credential(
    root: Browser, kind: str, entered: dict[str, str], secret: Any, placement: Any
) -> None:
    page = root.get(f"{ADD}?kind={kind}").content.decode()
    assert all(f'name="{field}"' in page for field in entered)
    given = {"name": "shop", "origins": f"{ORIGIN}/\r\n\r\nhttps://b.example", **entered}
    answer = root.post(f"{ADD}?kind={kind}", given)
    assert answer.status_code == 302
    row = Credential.objects.get()
    assert (row.kind, row.origins, row.placement) == (kind, [ORIGIN, "https://b.example"], placement)
    assert opened(row) == secret
    assert AuditEvent.objects.get().actor_name == "root"


def test_form_of_client_credentials_creates_a_credential(root: Browser) -> None:
    given = {
        "name": "erp", "origins": ORIGIN, "token_url": "https://login.example.com/token", "client_id": "a",
        "client_secret": SECRET, "scopes": "read",
    }  # fmt: skip
    assert root.post(f"{ADD}?kind=client_credentials", given).status_code == 302
    row = Credential.objects.get()
    assert (row.token_url, row.scopes) == (given["token_url"], "read")
    assert opened(row) == {"client_id": "a", "client_secret": SECRET}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "shop", "origins": ORIGIN}, "token"),
        ({"name": "Shop", "origins": ORIGIN, "token": "t"}, "name"),
        ({"name": "shop", "origins": "http://api.example.com", "token": "t"}, "origins"),
        ({"name": "shop", "origins": ORIGIN, "token": "a b"}, "token"),
    ],
)
def test_error_is_shown_beside_its_field(root: Browser, given: dict[str, str], field: str) -> None:
    answer = root.post(ADD, given)
    assert list(answer.context["adminform"].form.errors) == [field]
    assert not Credential.objects.exists()


@pytest.mark.requirement("INT-05")
@pytest.mark.parametrize(
    ("kind", "entered"),
    [
        ("bearer", {"token": SECRET}),
        ("basic", {"username": "u", "password": SECRET}),
        ("api_key", {"value": SECRET}),
        ("headers", {"headers": f"X-A: {SECRET}"}),
        ("headers", {"headers": f"X-A: {SECRET}\nX-B"}),
        ("client_credentials", {"client_id": "a", "client_secret": SECRET}),
    ],
)
def test_refused_form_does_not_repeat_the_secret(root: Browser, kind: str, entered: dict[str, str]) -> None:
    answer = root.post(f"{ADD}?kind={kind}", {"name": "Shop!", "origins": "ftp://a", **entered})
    assert answer.context["adminform"].form.errors
    assert SECRET not in answer.content.decode()


@pytest.mark.requirement("INT-05", "INT-07")
def test_page_does_not_contain_the_secret_and_saving_keeps_it(root: Browser, shop: Credential) -> None:
    Tool.objects.create(name="orders", source="http", request={"credential": "shop"})
    page = root.get(change(shop)).content.decode()
    assert SECRET not in page
    assert reverse("admin:mcp_app_tool_change", args=[Tool.objects.get().pk]) in page
    assert root.post(change(shop), {"origins": ORIGIN, "token": ""}).status_code == 302
    shop.refresh_from_db()
    assert opened(shop) == {"token": SECRET}
    rotated = {"origins": ORIGIN, "token": "new"}
    assert root.post(change(shop), rotated).status_code == 302
    shop.refresh_from_db()
    assert opened(shop) == {"token": "new"}
    page = root.get(reverse("admin:mcp_app_credential_changelist")).content.decode()
    assert "1 tool<" in page


@pytest.mark.requirement("INT-07")
def test_page_names_a_lost_key_and_the_remedy(root: Browser, shop: Credential, settings: Any) -> None:
    listed = reverse("admin:mcp_app_credential_changelist")
    assert "Enter it again" not in root.get(listed).content.decode()
    settings.MCP = {**settings.MCP, "STATE_KEYS": ("another-key-of-this-installation-" * 2,)}
    for page in (listed, change(shop)):
        text = root.get(page).content.decode()
        assert "needs attention" in text
        assert "the key has changed. Enter it again" in text


def test_form_of_a_token_exchange_creates_a_credential(root: Browser) -> None:
    given = {
        "name": "sts",
        "origins": ORIGIN,
        "token_url": "https://login.example.com/token",
        "client_id": "ours",
        "client_secret": SECRET,
        "audience": "crm",
    }
    page = root.get(f"{ADD}?kind=token_exchange").content.decode()
    assert "Swaps the login token of each caller" in page
    assert all(f'name="{field}"' in page for field in given)
    assert root.post(f"{ADD}?kind=token_exchange", given).status_code == 302
    row = Credential.objects.get()
    assert (row.kind, row.audience, opened(row)["client_secret"]) == ("token_exchange", "crm", SECRET)


def test_changed_server_demands_the_secret(root: Browser, shop: Credential) -> None:
    answer = root.post(change(shop), {"origins": "https://evil.example", "token": ""})
    assert list(answer.context["adminform"].form.errors) == ["token"]
    shop.refresh_from_db()
    assert shop.origins == [ORIGIN]


@pytest.mark.parametrize(
    ("model", "values", "used"),
    [
        (Tool, {"source": "http", "request": {"credential": "shop"}}, "1 tool ("),
        (Upstream, {"url": f"{ORIGIN}/mcp", "credential": "shop"}, "1 upstream server ("),
        (Upstream, {"url": f"{ORIGIN}/mcp", "oauth_client": "shop"}, "1 upstream server ("),
    ],
)
def test_page_of_a_credential_in_use_says_why_it_cannot_be_deleted(
    root: Browser, shop: Credential, model: Any, values: dict[str, Any], used: str
) -> None:
    delete = reverse("admin:mcp_app_credential_delete", args=[shop.pk])
    assert delete in root.get(change(shop)).content.decode()
    user = model.objects.create(name="orders", **values)
    page = root.get(change(shop)).content.decode()
    assert delete not in page
    link = reverse(f"admin:mcp_app_{model._meta.model_name}_change", args=[user.pk])
    assert f'{used}<a href="{link}">orders</a>). A credential in use cannot be deleted.' in page
    for answer in (root.get(delete), root.post(delete, {"post": "yes"})):
        assert (answer.status_code, answer["Location"]) == (302, change(shop))
    assert Credential.objects.exists()
    assert "A credential in use cannot be deleted." in root.get(change(shop)).content.decode()
    user.delete()
    assert root.post(delete, {"post": "yes"}).status_code == 302
    assert not Credential.objects.exists()


def test_viewer_sees_no_inputs(client: Browser, django_user_model: Any, shop: Credential) -> None:
    from django.contrib.auth.models import Permission

    user = django_user_model.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_credential"))
    client.force_login(user)
    page = client.get(change(shop)).content.decode()
    assert ORIGIN in page
    assert 'name="token"' not in page
    assert client.post(change(shop), {"origins": ORIGIN, "token": "x"}).status_code == 403


# The API.


def send(root: Browser, method: str, address: str, body: Any = None) -> Any:
    return getattr(root, method)(address, json.dumps(body), content_type="application/json")


@pytest.mark.requirement("INT-05")
def test_api_creates_changes_and_deletes_without_showing_the_secret(root: Browser) -> None:
    body = {"name": "shop", "kind": "bearer", "origins": [ORIGIN], "secret": {"token": SECRET}}
    made = send(root, "post", "/api/credentials/", body)
    assert (made.status_code, made.json()["secret"], made.json()["used_by"]) == (201, None, [])
    shown = root.get("/api/credentials/shop/")
    assert SECRET not in shown.content.decode() + root.get("/api/credentials/").content.decode()
    kept = send(root, "patch", "/api/credentials/shop/", {"expires_at": "2099-01-01T00:00:00Z"})
    assert (kept.status_code, kept.json()["expires_at"]) == (200, "2099-01-01T00:00:00Z")
    refused = send(root, "patch", "/api/credentials/shop/", {"origins": ["https://evil.example"]})
    assert (refused.status_code, list(refused.json()["errors"])) == (400, ["secret"])
    assert opened(Credential.objects.get()) == {"token": SECRET}
    Tool.objects.create(name="orders", source="http", request={"credential": "shop"})
    assert send(root, "delete", "/api/credentials/shop/").status_code == 400
    Tool.objects.all().delete()
    assert send(root, "delete", "/api/credentials/shop/").status_code == 204


def test_api_names_the_tools_and_servers_that_use_a_credential(root: Browser, shop: Credential) -> None:
    def shown() -> Any:
        found = root.get("/api/credentials/shop/").json()
        return found["used_by"], found["used_by_servers"]

    def refusal() -> str:
        (error,) = send(root, "delete", "/api/credentials/shop/").json()["errors"]["name"]
        return str(error)

    assert shown() == ([], [])
    Upstream.objects.create(name="stock", url=f"{ORIGIN}/mcp", credential="shop")
    assert shown() == ([], ["stock"])
    assert refusal() == "shop is used by 1 upstream server: stock."
    for number in range(11):
        Tool.objects.create(name=f"t{number:02}", source="http", request={"credential": "shop"})
    assert shown()[0] == [f"t{number:02}" for number in range(11)]
    names = ", ".join(f"t{number:02}" for number in range(10))
    assert refusal() == f"shop is used by 11 tools: {names}, … and 1 upstream server: stock."


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "S"}, "name"),
        ({"kind": "x"}, "kind"),
        ({"origins": ["x"]}, "origins"),
        ({"secret": {"token": 1}}, "secret"),
        ({"more": 1}, "more"),
    ],
)
def test_api_names_the_field_of_a_refusal(root: Browser, change: dict[str, Any], field: str) -> None:
    body = {"name": "shop", "kind": "bearer", "origins": [ORIGIN], "secret": {"token": SECRET}, **change}
    answer = send(root, "post", "/api/credentials/", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    assert SECRET not in answer.content.decode()
