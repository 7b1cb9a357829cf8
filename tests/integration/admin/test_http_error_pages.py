"""Pages for 400 to 500: in the frame of the admin for staff, plain for visitors, JSON below the API."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from django.core.signals import got_request_exception
from django.db import OperationalError
from django.http import HttpRequest
from django.test import AsyncRequestFactory, Client
from django.urls import path

from mcpsite.error_pages import server_error
from mcpsite.urls import handler400, handler403, handler404, handler500, urlpatterns
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]
__all__ = ["handler400", "handler403", "handler404", "handler500"]

HTML = {"Accept": "text/html,*/*;q=0.8"}
SECRET = "the-words-of-the-exception"
FRAME = 'href="/admin/logout/"', 'action="/admin/logout/"'


def broken(request: HttpRequest) -> Any:
    raise RuntimeError(SECRET)


def forbidden(request: HttpRequest) -> Any:
    raise PermissionDenied(SECRET)


def failing_processor(request: HttpRequest) -> dict[str, Any]:
    raise LookupError(SECRET)


urlpatterns = [
    path("broken/", broken),
    path("forbidden/", forbidden),
    path("api/broken/", broken),
    path("api/forbidden/", forbidden),
    *urlpatterns,
]


@pytest.fixture(autouse=True)
def _with_broken_views(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__


def _get(client: Client, address: str, status: int) -> str:
    client.raise_request_exception = False
    answer = client.get(address, headers=HTML)
    assert answer.status_code == status, address
    assert "no-store" in answer["Cache-Control"]
    return answer.content.decode()


def _is_framed(text: str) -> bool:
    return any(part in text for part in FRAME)


@pytest.mark.parametrize(
    ("address", "status", "title"),
    [
        ("/admin/auth/nothing/", 404, "Page not found"),
        ("/nothing/", 404, "Page not found"),
        ("/forbidden/", 403, "Permission denied"),
        ("/broken/", 500, "Server error"),
    ],
)
def test_error_page_is_framed_for_staff_and_plain_for_visitors(
    address: str, status: int, title: str, viewer: Client
) -> None:
    for client, framed in ((viewer, True), (Client(), False)):
        if address.startswith("/admin/") and not framed:
            continue  # Visitors of the admin are redirected to the login.
        text = _get(client, address, status)
        assert title in text
        assert 'href="/admin/"' in text
        assert _is_framed(text) is framed
        # Staff may read why they were denied; nobody may read anything else.
        assert (SECRET in text) is (framed and status == 403)
        assert "mcp_console" not in text


def test_denied_page_names_the_missing_permission(client_of: ClientOf, seeded: Seed) -> None:
    outsider = client_of("outsider")
    for address, label, name in (
        ("/admin/auth/user/", "Can view user", "auth.view_user"),
        ("/admin/auth/user/add/", "Can add user", "auth.add_user"),
        (page("tool", "changelist"), "Can view tool", "mcp_app.view_tool"),
        (page("call", "change", seeded.call.pk), "Can view background call", "mcp_app.view_call"),
        (page("tool", "callers", seeded.echo.pk), "Can view user", "auth.view_user"),
        (page("approval", "changelist"), "Can view background call", "mcp_app.view_call"),
        (page("message", "figures"), "Can view message", "mcp_app.view_message"),
        ("/admin/mcp_app/doctor/", "", "mcp_app.run_doctor"),
        ("/console/", "Can view session", "mcp_app.view_session"),
    ):
        text = _get(outsider, address, 403)
        assert "Missing permission:" in text, address
        assert label in text, address
        assert f"<code>{name}</code>" in text, address


def test_denied_form_of_http_tools_names_the_missing_permission(viewer: Client) -> None:
    text = _get(viewer, page("tool", "http"), 403)
    assert "Missing permission:" in text
    assert "<code>mcp_app.add_tool</code>" in text


def test_permission_that_would_not_open_the_page_is_not_named(viewer: Client, root: Client) -> None:
    # Background calls cannot be added by anybody.
    for client in (viewer, root):
        text = _get(client, page("call", "add"), 403)
        assert "Missing permission" not in text
        assert f'href="{page("call", "changelist")}"' in text


def test_denied_page_links_the_list_only_if_the_user_may_view_it(client_of: ClientOf, seeded: Seed) -> None:
    address = page("tool", "add")
    assert ">Back to tools</a>" not in _get(client_of("outsider"), address, 403)
    seeded.outsider.user_permissions.add(Permission.objects.get(codename="view_tool"))
    shown = _get(client_of("outsider"), address, 403)
    assert f'href="{page("tool", "changelist")}">Back to tools</a>' in shown


def test_scripts_get_the_plain_page(viewer: Client) -> None:
    assert not _is_framed(viewer.get("/admin/auth/nothing/", headers={"Accept": "*/*"}).content.decode())


def test_error_page_survives_a_failing_context_processor(viewer: Client, settings: Any) -> None:
    failing = {"context_processors": [f"{__name__}.failing_processor"]}
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "OPTIONS": failing}]
    for address, status in (("/broken/", 500), ("/nothing/", 404), ("/forbidden/", 403)):
        text = _get(viewer, address, status)
        assert SECRET not in text
        assert not _is_framed(text)
        assert "mcp-card" in text


def test_server_error_needs_no_database(seeded: Seed, django_assert_num_queries: Any) -> None:
    visitor = Client(raise_request_exception=False)
    with django_assert_num_queries(0):
        assert "Server error" in _get(visitor, "/broken/", 500)


def test_unreachable_database_is_not_asked_for_the_page(
    seeded: Seed,
    django_assert_num_queries: Any,
) -> None:
    request: Any = AsyncRequestFactory().get("/", headers=HTML)
    request.user = seeded.root
    try:
        raise OperationalError(SECRET)
    except OperationalError:
        got_request_exception.send(sender=None, request=request)
    with django_assert_num_queries(0):
        text = server_error(request).content.decode()
    assert "Server error" in text
    assert not _is_framed(text)


@pytest.mark.parametrize(
    ("address", "status"), [("/api/nothing/", 404), ("/api/forbidden/", 403), ("/api/broken/", 500)]
)
def test_errors_below_the_api_are_problem_documents(address: str, status: int, viewer: Client) -> None:
    viewer.raise_request_exception = False
    answer = viewer.get(address, headers=HTML)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert SECRET not in answer.content.decode()


def test_expired_form_is_explained(seeded: Seed) -> None:
    text = Client(enforce_csrf_checks=True).post("/admin/login/", {}, headers=HTML).content.decode()
    assert "Form expired" in text
    assert "reload the page" in text
    assert "Django" not in text


def test_unknown_filter_of_a_list_leads_to_the_list(root: Client, seeded: Seed) -> None:
    """The answer was a bare text without a way on."""
    text = _get(root, page("tool", "changelist") + "?foo=bar", 400)
    assert any(part in text for part in FRAME)
    assert f'class="mcp-button" href="{page("tool", "changelist")}"' in text
