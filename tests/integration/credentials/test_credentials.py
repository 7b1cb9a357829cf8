"""Credentials: sealed, bound to origins, write-only, and used in requests (INT-05 to INT-07)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.core.exceptions import ValidationError

from mcp_app.credentials import kinds, services, tokens
from mcp_app.credentials.services import CredentialRefused, delete_credential, save_credential, secrets_for
from mcp_app.egress import Secrets
from mcp_app.models import AuditEvent, Credential, Tool
from tests.servers.web_api import WebApi, web_api
from tests.unit.egress.sites import Heard, response

# Requests read credentials in other threads, which see committed rows only.
stored = pytest.mark.django_db(transaction=True)
checked = pytest.mark.django_db
ORIGIN = "https://api.example.com"
SECRET = "s3cret-0000-value"
AUTH = "Authorization"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget what this process keeps of credentials."""
    yield
    services._opened.clear()
    services._errors_at.clear()
    tokens._kept.clear()


@pytest.fixture
def api(settings: Any) -> Iterator[WebApi]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    with web_api() as found:
        yield found


def saved(kind: str = "bearer", secret: Any = None, **values: Any) -> Credential:
    usual = {"token": SECRET} if kind == "bearer" else secret
    values = {"origins": [ORIGIN], **values}
    return save_credential(actor=None, name="shop", kind=kind, secret=secret or usual, **values)


def used(url: str = f"{ORIGIN}/v1") -> Secrets:
    return asyncio.run(secrets_for("shop", url))


@pytest.mark.parametrize(
    ("kind", "secret", "placement", "found"),
    [
        ("bearer", {"token": "t"}, {}, {"headers": ((AUTH, "Bearer t"),)}),
        (
            "basic",
            {"username": "u", "password": "é"},
            {},
            {"headers": (("Authorization", "Basic dTrDqQ=="),)},
        ),
        ("api_key", {"value": "k"}, {"name": "X-Key"}, {"headers": (("X-Key", "k"),)}),
        (
            "api_key",
            {"value": "k"},
            {"in": "header", "name": "A", "prefix": "Token "},
            {"headers": (("A", "Token k"),)},
        ),
        ("api_key", {"value": "k&"}, {"in": "query", "name": "key"}, {"query": (("key", "k&"),)}),
        ("api_key", {"value": "k"}, {"in": "cookie", "name": "sid"}, {"cookies": (("sid", "k"),)}),
        ("headers", {"headers": {"A": "1", "B": "2"}}, {}, {"headers": (("A", "1"), ("B", "2"))}),
    ],
)
def test_credential_of_each_kind_is_placed(
    kind: str, secret: Any, placement: Any, found: dict[str, Any]
) -> None:
    assert kinds.objection_to(kind, secret, placement) == kinds.objection_to_placement(kind, placement) == ""
    secrets = kinds.placed(kind, secret, placement, "")
    assert {name: getattr(secrets, name) for name in ("headers", "query", "cookies")} == {
        "headers": (), "query": (), "cookies": (), **found,
    }  # fmt: skip


@stored
@pytest.mark.requirement("INT-05")
def test_secret_is_stored_sealed_and_not_in_the_audit_trail() -> None:
    row = saved()
    save_credential(actor=None, credential=row, secret={"token": SECRET + "2"}, scopes="")
    events = [[event.action, json.dumps(event.detail)] for event in AuditEvent.objects.all()]
    assert SECRET not in f"{Credential.objects.values().get()}{events}{row!r}{row}{used()!r}"
    assert [action for action, _ in events] == ["credential.changed", "credential.created"]


@stored
def test_rotated_secret_is_used_over_other_connections() -> None:
    row = saved()
    before = used()
    save_credential(actor=None, credential=row, secret={"token": "new"})
    after = used()
    assert (before.headers[0][1], after.headers[0][1]) == (f"Bearer {SECRET}", "Bearer new")
    assert before.key != after.key


@stored
@pytest.mark.parametrize(
    "url",
    ["https://api.example.com:8443/", "http://api.example.com/", "https://other.example.com/", "https://x/"],
)
@pytest.mark.requirement("INT-05")
def test_credential_is_refused_for_another_origin(url: str) -> None:
    saved()
    with pytest.raises(CredentialRefused, match="not bound"):
        used(url)
    assert services.bound_to("shop", url).startswith("The credential")
    assert services.bound_to("shop", f"{ORIGIN}/a") == ""


@stored
def test_missing_expired_and_unreadable_credentials_are_refused(settings: Any) -> None:
    with pytest.raises(CredentialRefused, match="no credential"):
        used()
    row = saved()
    Credential.objects.update(expires_at="2020-01-01T00:00:00Z")
    with pytest.raises(CredentialRefused, match="expired"):
        used()
    Credential.objects.update(expires_at=None)
    services._opened.clear()
    settings.SECRET_KEY = "another-secret-key-of-this-installation-000"
    with pytest.raises(CredentialRefused, match="enter it again"):
        used()
    save_credential(actor=None, credential=row, secret={"token": "again"})
    assert used().headers[0][1] == "Bearer again"


@checked
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Shop!"}, "name"),
        ({"kind": "magic"}, "kind"),
        ({"secret": {"token": ""}}, "secret"),
        ({"secret": {"token": " x"}}, "secret"),
        ({"secret": {"token": "a b"}}, "secret"),
        ({"secret": {"token": "a", "more": "b"}}, "secret"),
        ({"secret": None}, "secret"),
        ({"origins": []}, "origins"),
        ({"origins": ["https://api.example.com/v1"]}, "origins"),
        ({"origins": ["http://api.example.com"]}, "origins"),
        ({"origins": ["https://u:p@api.example.com"]}, "origins"),
        ({"token_url": "https://login.example.com/"}, "token_url"),
        ({"scopes": "a"}, "scopes"),
        ({"placement": {"in": "header", "name": "A"}}, "placement"),
        ({"kind": "api_key", "secret": {"value": "k"}}, "placement"),
        ({"kind": "api_key", "secret": {"value": "k"}, "placement": {"name": "Host"}}, "placement"),
        ({"kind": "headers", "secret": {"headers": {"Host": "x"}}}, "secret"),
        ({"kind": "headers", "secret": {"headers": {"A": "x\r\nB: y"}}}, "secret"),
        ({"kind": "client_credentials", "secret": {"client_id": "a", "client_secret": "b"}}, "token_url"),
    ],
)
def test_refusal_names_the_field(change: dict[str, Any], field: str) -> None:
    values = {"name": "shop", "kind": "bearer", "secret": {"token": "t"}, "origins": [ORIGIN], **change}
    with pytest.raises(ValidationError) as refusal:
        save_credential(actor=None, **values)
    assert list(refusal.value.error_dict) == [field]
    assert not Credential.objects.exists()


@checked
def test_plain_http_is_possible_inside_private_networks_only() -> None:
    row = saved(origins=["http://127.0.0.1:8000/", "http://orders.internal", "http://orders"])
    assert row.origins == ["http://127.0.0.1:8000", "http://orders.internal", "http://orders"]


@checked
@pytest.mark.requirement("INT-07")
def test_changed_origins_demand_the_secret_again() -> None:
    row = saved()
    save_credential(actor=None, credential=row, origins=["https://api.example.com:443/"])
    with pytest.raises(ValidationError) as refusal:
        save_credential(actor=None, credential=row, origins=[ORIGIN, "https://evil.example"])
    assert list(refusal.value.error_dict) == ["secret"]
    assert Credential.objects.get().origins == [ORIGIN]
    save_credential(actor=None, credential=row, origins=["https://b.example"], secret={"token": "t"})
    assert Credential.objects.get().origins == ["https://b.example"]


@checked
def test_name_and_kind_are_fixed_and_a_name_is_unique() -> None:
    row = saved()
    for change in ({"name": "other"}, {"kind": "basic"}):
        with pytest.raises(ValidationError):
            save_credential(actor=None, credential=row, **change)
    with pytest.raises(ValidationError) as refusal:
        saved()
    assert list(refusal.value.error_dict) == ["name"]


@checked
def test_credential_in_use_is_not_deleted() -> None:
    row = saved()
    tool = Tool.objects.create(name="orders", source="http", request={"credential": "shop"})
    with pytest.raises(ValidationError, match=r"shop is used by 1 tool: orders\."):
        delete_credential(credential=row, actor=None)
    assert list(services.tools_with("shop")) == [tool]
    tool.delete()
    delete_credential(credential=row, actor=None)
    assert not Credential.objects.exists()


# OAuth client credentials.


def machine(api: WebApi, **values: Any) -> Credential:
    secret = {"client_id": "id:1", "client_secret": SECRET}
    values = {"origins": [api.origin], "token_url": f"{api.origin}/token", **values}
    return saved("client_credentials", secret, **values)


def issued(token: str = "t1", **more: Any) -> bytes:
    return response(json.dumps({"access_token": token, "token_type": "Bearer", **more}).encode())


def bearer(secrets: Secrets) -> str:
    return secrets.headers[0][1].removeprefix("Bearer ")


@stored
def test_token_is_requested_with_all_parameters_and_kept(api: WebApi) -> None:
    api.answer = lambda heard: issued(expires_in=3_600)
    machine(api, scopes="read write", resource="https://api.example.com", audience="shop")
    assert [bearer(used(f"{api.origin}/v1")) for _ in range(3)] == ["t1"] * 3
    [asked] = api.requests
    assert asked.line == "POST /token HTTP/1.1"
    assert asked.header("authorization") == "Basic aWQlM0ExOnMzY3JldC0wMDAwLXZhbHVl"
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["read write"],
        "resource": ["https://api.example.com"],
        "audience": ["shop"],
    }


@stored
def test_secret_is_sent_in_the_body_if_the_header_is_refused(api: WebApi) -> None:
    def strict(heard: Heard) -> bytes:
        if parse_qs(heard.body.decode()).get("client_secret") == [SECRET] and not heard.header(
            "authorization"
        ):
            return issued()
        return response(b'{"error":"invalid_client"}', status="401 Unauthorized")

    api.answer = strict
    machine(api)
    assert bearer(used(f"{api.origin}/v1")) == "t1"
    assert len(api.requests) == 2


@stored
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (response(b'{"error":"invalid_scope"}', status="400 Bad Request"), r"answered 400 \(invalid_scope\)"),
        (response(json.dumps({"error": SECRET}).encode(), status="500 Oops"), "answered 500"),
        (response(b"<html>", kind="text/html"), "answered 200"),
        (response(b"", "Location: https://evil.example/", status="302 Found"), "answered 302"),
        (response(b'{"access_token":"a","token_type":"mac"}'), "not a bearer token"),
        (response(b'{"access_token":"a\\r\\nb"}'), "not a bearer token"),
    ],
)
def test_refused_token_is_explained_without_the_secret(api: WebApi, answer: bytes, text: str) -> None:
    api.answer = lambda heard: answer
    machine(api)
    with pytest.raises(CredentialRefused, match=text) as refusal:
        used(f"{api.origin}/v1")
    assert SECRET not in str(refusal.value)
    assert SECRET not in str(Credential.objects.values().get())


@stored
def test_refused_token_is_replaced_once_for_all_callers(api: WebApi) -> None:
    numbers = iter(range(1, 100))
    api.answer = lambda heard: issued(f"t{next(numbers)}", expires_in=3_600)
    machine(api)

    async def all_at_once() -> list[str]:
        url = f"{api.origin}/v1"
        first = [await secrets_for("shop", url) for _ in range(5)]
        assert all([await services.refused("shop", each) for each in first])
        return [bearer(each) for each in await asyncio.gather(*(secrets_for("shop", url) for _ in range(5)))]

    assert asyncio.run(all_at_once()) == ["t2"] * 5
    assert len(api.requests) == 2


@stored
def test_token_stored_before_the_lease_is_taken_is_used(
    api: WebApi, clean_redis: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    api.answer = lambda heard: issued(f"t{len(api.requests)}", expires_in=3_600)
    machine(api)
    grant = services._read("shop").grant
    assert grant is not None
    acquire = tokens.shared_values.acquire

    def late(*arguments: Any) -> bool:
        # Another process gets the token between this one's look and its lease.
        monkeypatch.setattr(tokens.shared_values, "acquire", acquire)
        assert asyncio.run(tokens._new(grant)) == "t1"
        return acquire(*arguments)

    monkeypatch.setattr(tokens.shared_values, "acquire", late)
    assert asyncio.run(tokens._new(grant)) == "t1"
    assert len(api.requests) == 1


@stored
def test_processes_share_one_token_request(api: WebApi, clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}

    async def slow(heard: Heard, writer: Any) -> None:
        await asyncio.sleep(0.3)
        writer.write(issued(f"t{len(api.requests)}", expires_in=3_600))

    api.answer = slow
    machine(api)
    grant = services._read("shop").grant
    assert grant is not None

    async def processes() -> list[str]:
        # Each task stands for a process: it asks without what this process keeps.
        return await asyncio.gather(*(tokens._new(grant) for _ in range(4)))

    assert asyncio.run(processes()) == ["t1"] * 4
    assert len(api.requests) == 1
    import redis

    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        stored = b"".join(client.get(key) or b"" for key in client.keys("mcp:shared:*"))
        [left] = [client.pttl(key) for key in client.keys("mcp:shared:*")]
    assert b"t1" not in stored
    assert SECRET.encode() not in stored
    assert 3_500_000 < left <= 3_540_000


@stored
def test_refusals_are_recorded_seldom_and_again_for_a_new_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    row = saved()
    written: list[str] = []
    monkeypatch.setattr(services, "later", lambda write, pk, *text: written.extend(text))
    for status in (401, 401, 403, 403):
        used()
        asyncio.run(services.refused("shop", None, status))
    assert [text[-4:-1] for text in written] == ["401", "403"]
    save_credential(actor=None, credential=row, secret={"token": "new-token-0000"})
    used()
    asyncio.run(services.refused("shop", None, 403))
    assert len(written) == 3
