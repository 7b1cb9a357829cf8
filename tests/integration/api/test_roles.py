"""Logins and keys, methods without a route, changed permissions (S22); all routes:

tests/integration/roles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from mcp_app.api.urls import urlpatterns
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.models import ApiKey, AuditEvent, Call, Prompt, Resource, ResourceTemplate, Session, Tool
from tests.integration.api.conftest import ClientOf, send
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


NOWHERE = "^.*$"


@pytest.fixture(autouse=True)
def _unlimited(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "API_REQUESTS_PER_MINUTE": 0, "API_REFUSALS_PER_MINUTE": 0}


def routes() -> Iterator[tuple[str, str]]:
    """Yield each route of the URLconf with each method of its view."""
    for pattern in urlpatterns:
        view: Any = pattern.callback
        methods = getattr(view, "actions", None) or [
            name for name in view.cls.http_method_names if hasattr(view.cls, name)
        ]
        yield from ((str(pattern.pattern), name.upper()) for name in methods if name != "head")


@pytest.fixture
def addresses(seeded: Seed) -> Callable[[str], str]:
    """Return the address of a route with the row of its requests."""
    rows = {
        "tools": seeded.preset.pk,
        "prompts": seeded.own_prompt.pk,
        "resources": seeded.own_resource.pk,
        "templates": seeded.template.pk,
        "sessions": seeded.session.pk,
        "messages": seeded.message.pk,
        "calls": seeded.running_call.pk,
        "keys": seeded.key.pk,
        "audit": AuditEvent.objects.latest("pk").pk,
    }

    def find(route: str) -> str:
        kind = route.partition("/")[0]
        return "/api/" + re.sub(r"<\w+:\w+>", str(rows.get(kind)), route)

    return find


def stored() -> list[list[Any]]:
    """Return all rows that the API could change. The use of a key is recorded for refused requests too."""
    kinds: list[Any] = [Tool, Prompt, Resource, ResourceTemplate, Session, Call, AuditEvent]
    rows = [list(kind.objects.order_by("pk").values()) for kind in kinds]
    return [*rows, list(ApiKey.objects.order_by("pk").values("pk", "name", "revoked_at"))]


@pytest.mark.parametrize("role", ["anonymous", "nobody", "superuser"])
def test_other_methods_are_refused_and_change_nothing(
    role: str, client_of: ClientOf, addresses: Callable[[str], str]
) -> None:
    client, taken = client_of(role), set(routes())
    before = stored()
    for route in {route for route, _ in taken if route != NOWHERE}:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            if (route, method) in taken:
                continue
            answer = send(client, method, addresses(route), {} if method != "OPTIONS" else None)
            if role == "anonymous":
                assert answer.status_code in (401, 302), (method, route)
            else:
                assert answer.status_code == 405, (method, route, answer.content)
    assert stored() == before


def test_admin_login_has_the_permissions_of_its_user(seeded: Seed, user_of: Callable[[str], Any]) -> None:
    client = Client()
    client.force_login(user_of("operator"))
    assert client.get("/api/tools/").status_code == 200
    assert send(client, "POST", f"/api/sessions/{seeded.session.pk}/end/", {}).status_code == 200
    assert send(client, "POST", f"/api/tools/{seeded.echo.pk}/disable/", {}).status_code == 403


def test_login_requires_the_csrf_token_for_changes(seeded: Seed) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(seeded.root)
    assert client.get("/api/sessions/").status_code == 200
    refused = client.post(f"/api/sessions/{seeded.session.pk}/end/")
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["detail"]
    assert Session.objects.get(pk=seeded.session.pk).ended_at is None
    client.get("/api/docs/")
    token = client.cookies["csrftoken"].value
    done = send(client, "POST", f"/api/sessions/{seeded.session.pk}/end/", {}, headers={"x-csrftoken": token})
    assert done.status_code == 200


def test_login_from_another_origin_is_refused(seeded: Seed) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(seeded.root)
    client.get("/api/docs/")
    headers = {"x-csrftoken": client.cookies["csrftoken"].value, "origin": "https://evil.example"}
    assert send(client, "POST", f"/api/sessions/{seeded.session.pk}/end/", headers=headers).status_code == 403
    assert "Access-Control-Allow-Origin" not in client.get("/api/", headers=headers)


def test_key_has_the_current_permissions_of_its_user(seeded: Seed) -> None:
    _, secret = issue_api_key(user=seeded.viewer, name="mine")
    client = Client(headers={"authorization": f"Bearer {secret}"})
    assert client.get("/api/tools/").status_code == 200
    seeded.viewer.user_permissions.clear()
    assert client.get("/api/tools/").status_code == 403
    seeded.viewer.is_active = False
    seeded.viewer.save()
    assert client.get("/api/tools/").status_code == 401


def test_change_permission_includes_view(seeded: Seed) -> None:
    permissions = type(seeded.viewer.user_permissions.first()).objects
    seeded.outsider.user_permissions.add(permissions.get(codename="change_tool"))
    _, secret = issue_api_key(user=seeded.outsider, name="mine")
    client = Client(headers={"authorization": f"Bearer {secret}"})
    assert client.get("/api/tools/").status_code == 200
    assert client.get("/api/prompts/").status_code == 403
