"""Every refusal is a problem (RFC 9457) that tells nothing of the inside; bodies and rates are bounded."""

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
def test_what_is_not_there_is_a_problem_too(path: str, status: int, root: Client) -> None:
    _is_problem(root.get(path), status)


def test_an_address_without_its_slash_leads_on_with_its_query(root: Client) -> None:
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
def test_a_body_that_cannot_be_read_is_refused(
    body: bytes, media_type: str, status: int, root: Client
) -> None:
    _is_problem(root.post("/api/calls/", body, content_type=media_type), status)


def test_another_form_of_answer_is_not_to_be_had(root: Client) -> None:
    _is_problem(root.get("/api/tools/", headers={"accept": "application/xml"}), 406)


def test_a_wrong_host_is_refused_in_the_words_of_the_place(root: Client) -> None:
    answer = root.get("/api/tools/", headers={"host": "evil.example"})
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 400
    assert "json" not in root.get("/admin/", headers={"host": "evil.example"})["Content-Type"]


def test_a_fault_of_ours_is_logged_and_tells_nothing(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> bool:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(sessions, "end_session_now", broken)
    root.raise_request_exception = False
    answer = root.post(f"/api/sessions/{seeded.session.pk}/end/")
    assert "hunter2" not in str(_is_problem(answer, 500))
    assert "hunter2" in caplog.text


def test_a_database_that_is_away_is_a_matter_of_time(
    root: Client, seeded: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> bool:
        raise OperationalError("connection to server at 10.1.2.3 failed")

    monkeypatch.setattr(sessions, "end_session_now", away)
    answer = root.post(f"/api/sessions/{seeded.session.pk}/end/")
    assert "10.1.2.3" not in str(_is_problem(answer, 503))
    assert answer["Retry-After"] == "5"


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_each_principal_has_a_number_of_requests_a_minute(
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


def test_while_redis_is_away_each_process_counts_by_itself(client_of: ClientOf, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "API_REQUESTS_PER_MINUTE": 2, "REDIS_URL": "redis://127.0.0.1:1/0"}
    client = client_of("nobody")
    assert [client.get("/api/").status_code for _ in range(3)] == [200, 200, 429]
    assert counting._own.redis_is_away()


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer mcp_wrong"}])
def test_who_is_not_known_is_counted_by_address(headers: dict[str, str], db: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "API_REFUSALS_PER_MINUTE": 2}

    def ask(address: str) -> int:
        return int(Client(headers=headers, REMOTE_ADDR=address).get("/api/").status_code)

    assert [ask("192.0.2.1") for _ in range(3)] == [401, 401, 429]
    assert ask("192.0.2.2") == 401
    # A whole IPv6 network belongs to one line.
    assert [ask(f"2001:db8::{number}") for number in range(3)] == [401, 401, 429]
    assert ask("2001:db8:0:1::1") == 401
    assert [ask("") for _ in range(3)] == [401, 401, 429]


def test_a_good_key_is_heard_from_an_address_that_is_not(client_of: ClientOf, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "API_REFUSALS_PER_MINUTE": 1}
    assert [Client().get("/api/").status_code for _ in range(2)] == [401, 429]
    assert client_of("nobody").get("/api/").status_code == 200


def test_the_settings_of_the_framework_in_a_host_project_change_nothing(
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
