"""Errors: problem documents (RFC 9457) without internals, and limits of bodies and rates."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from mcp_app.api import sessions
from mcp_app.streams.blocking import counting
from tests.integration.api.conftest import ClientOf, send
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.django_db


def _is_problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Cache-Control"] == "no-store"
    told: dict[str, Any] = answer.json()
    assert told["type"] == "about:blank"
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    return told


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/nothing/", 404),
        ("/api/tools/0/", 404),
        ("/api/tools/99999999999999999999999/", 404),
        ("/api/tools/x/", 404),
        ("/api/calls/1/", 404),
        ("/api/calls/00000000-0000-0000-0000-000000000000/", 404),
        ("/api/sessions/nobody/", 404),
        ("/api/sessions/a%00b/", 404),
        ("/api/messages/-1/", 404),
        ("/api/../admin/", 404),
        ("/api/docs/x", 404),
    ],
)
def test_unknown_path_returns_a_problem(path: str, status: int, root: Client) -> None:
    _is_problem(root.get(path), status)


def test_path_without_slash_redirects_with_its_query(root: Client) -> None:
    answer = root.get("/api/tools?limit=1")
    assert (answer.status_code, answer["Location"]) == (308, "/api/tools/?limit=1")
    assert Client().get("/api/tools").status_code == 401


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"tool": NaN}', "application/json", 400),
        (b'{"tool": "a", "tool": "b"}', "application/json", 400),
        (b"[" * 5000, "application/json", 400),
        (b'{"tool": "\\ud800"}', "application/json", 400),
        (b'{"tool": "a\\u0000"}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"9" * 5000, "application/json", 400),
        (b"tool=echo", "application/x-www-form-urlencoded", 415),
        (b"tool: echo", "application/yaml", 415),
        (b"{}", "text/plain", 415),
        (b'{"tool": "' + b"x" * (4 * 1024 * 1024) + b'"}', "application/json", 413),
    ],
)
def test_unreadable_body_is_refused(body: bytes, media_type: str, status: int, root: Client) -> None:
    _is_problem(root.post("/api/calls/", body, content_type=media_type), status)


def test_unsupported_accept_header_returns_406(root: Client) -> None:
    _is_problem(root.get("/api/tools/", headers={"accept": "application/xml"}), 406)


def test_wrong_host_returns_a_problem_only_below_the_api(root: Client) -> None:
    answer = root.get("/api/tools/", headers={"host": "evil.example"})
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 400
    assert "json" not in root.get("/admin/", headers={"host": "evil.example"})["Content-Type"]


def test_internal_error_is_logged_and_hides_details(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> bool:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(sessions, "end_session_now", broken)
    root.raise_request_exception = False
    answer = root.post(f"/api/sessions/{seeded.session.pk}/end/")
    assert "hunter2" not in str(_is_problem(answer, 500))
    assert "hunter2" in caplog.text


def test_database_outage_returns_503_with_retry_after(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> bool:
        raise OperationalError("connection to server at 10.1.2.3 failed")

    monkeypatch.setattr(sessions, "end_session_now", away)
    answer = root.post(f"/api/sessions/{seeded.session.pk}/end/")
    assert "10.1.2.3" not in str(_is_problem(answer, 503))
    assert answer["Retry-After"] == "5"


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_requests_per_principal_are_limited(
    store: str, client_of: ClientOf, settings: Any, clean_redis: str
) -> None:
    url = clean_redis if store == "redis" else ""
    settings.MCP = {**settings.MCP, "API_REQUESTS_PER_MINUTE": 3, "REDIS_URL": url}
    client, other = client_of("nobody"), client_of("auditor")
    assert [client.get("/api/").status_code for _ in range(2)] == [200, 200]
    assert client.get("/api/tools/").status_code == 403
    refused = client.get("/api/")
    _is_problem(refused, 429)
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert other.get("/api/").status_code == 200


def test_each_process_counts_requests_without_redis(client_of: ClientOf, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "API_REQUESTS_PER_MINUTE": 2, "REDIS_URL": "redis://127.0.0.1:1/0"}
    client = client_of("nobody")
    assert [client.get("/api/").status_code for _ in range(3)] == [200, 200, 429]
    assert counting._own.redis_is_away()


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer mcp_wrong"}])
def test_unauthenticated_requests_are_limited_by_address(
    headers: dict[str, str], db: None, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "API_REFUSALS_PER_MINUTE": 2}

    def ask(address: str) -> int:
        return int(Client(headers=headers, REMOTE_ADDR=address).get("/api/").status_code)

    assert [ask("192.0.2.1") for _ in range(3)] == [401, 401, 429]
    assert ask("192.0.2.2") == 401
    # An IPv6 network counts as one address.
    assert [ask(f"2001:db8::{number}") for number in range(3)] == [401, 401, 429]
    assert ask("2001:db8:0:1::1") == 401
    assert [ask("") for _ in range(3)] == [401, 401, 429]


def test_valid_key_works_from_a_limited_address(client_of: ClientOf, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "API_REFUSALS_PER_MINUTE": 1}
    assert [Client().get("/api/").status_code for _ in range(2)] == [401, 429]
    assert client_of("nobody").get("/api/").status_code == 200


def test_rest_framework_settings_of_the_project_are_ignored(
    client: Client, root: Client, settings: Any
) -> None:
    settings.REST_FRAMEWORK = {
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"],
        "EXCEPTION_HANDLER": "rest_framework.views.exception_handler",
    }
    _is_problem(client.get("/api/tools/"), 401)
    assert root.get("/api/tools/")["Content-Type"] == "application/json"
    _is_problem(send(root, "POST", "/api/keys/", {}), 400)
