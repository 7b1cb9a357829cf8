"""Permissions of admin pages (S22): superuser, viewer, staff without permissions, anonymous."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from mcp_app.models import ApiKey, AuditEvent, Call, Session, Tool
from tests.integration.admin.addresses import forms, lists, page, rows
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed

PRESET = {
    "name": "mine",
    "fixed_arguments": '{"text": "hi"}',
    "enabled": "on",
    "position": "0",
    "icons": "[]",
    "meta": "{}",
}


def stored() -> list[list[Any]]:
    """Return all rows that bulk actions could change."""
    kinds: list[Any] = [Tool, ApiKey, Session, Call, AuditEvent]
    return [list(kind.objects.order_by("pk").values()) for kind in kinds]


def test_superuser_sees_every_page(root: Client, seeded: Seed) -> None:
    for address in ["/admin/", *lists(), *rows(seeded), *forms()]:
        assert root.get(address).status_code == 200, address


def test_viewer_sees_every_page_but_no_add_form(viewer: Client, seeded: Seed) -> None:
    for address in ["/admin/", *lists(), *rows(seeded)]:
        assert viewer.get(address).status_code == 200, address
    for address in forms():
        assert viewer.get(address).status_code == 403, address


def test_staff_without_permissions_see_no_page(client_of: ClientOf, seeded: Seed) -> None:
    outsider = client_of("outsider")
    for address in [*lists(), *rows(seeded), *forms()]:
        assert outsider.get(address).status_code == 403, address


def test_anonymous_requests_redirect_to_login(client: Client, seeded: Seed) -> None:
    for address in [*lists(), *rows(seeded), *forms()]:
        answer = client.get(address)
        assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/admin/login/"), address


def _buttons(seeded: Seed) -> list[str]:
    return [
        page("tool", "switch", seeded.echo.pk),
        page("tool", "accept", seeded.drifted.pk),
        page("apikey", "revoke", seeded.key.pk),
        page("session", "end", seeded.session.pk),
        page("call", "stop", seeded.running_call.pk),
        page("call", "retry", seeded.call.pk),
        page("approval", "approve", seeded.undecided_call.pk),
        page("approval", "refuse", seeded.undecided_call.pk),
    ]


@pytest.mark.parametrize("role", ["viewer", "outsider"])
def test_buttons_require_their_permissions(role: str, client_of: ClientOf, seeded: Seed) -> None:
    client = client_of(role)
    for address in _buttons(seeded):
        assert client.post(address, {"mcp-enabled": "0", "reason": "no"}).status_code == 403, address
    seeded.echo.refresh_from_db()
    seeded.drifted.refresh_from_db()
    seeded.key.refresh_from_db()
    seeded.session.refresh_from_db()
    assert seeded.echo.enabled
    assert seeded.drifted.drifted
    assert seeded.key.usable
    assert seeded.session.ended_at is None
    assert not Call.objects.filter(pk=seeded.running_call.pk, cancel_requested_at__isnull=False).exists()
    assert not Call.objects.filter(retry_of=seeded.call.pk, session_id__startswith="operator-").exists()
    assert Call.objects.get(pk=seeded.undecided_call.pk).state == "approval_needed"


def test_buttons_refuse_get(root: Client, seeded: Seed) -> None:
    for address in _buttons(seeded):
        assert root.get(address).status_code == 405, address


def test_buttons_and_forms_require_the_csrf_token(seeded: Seed) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(seeded.root)
    for address in [*_buttons(seeded), *forms()]:
        assert strict.post(address, {}).status_code == 403, address


def test_viewer_cannot_submit_forms(viewer: Client, seeded: Seed) -> None:
    before = Tool.objects.count()
    assert viewer.post(page("tool", "add"), PRESET | {"preset_of": seeded.echo.pk}).status_code == 403
    assert viewer.post(page("tool", "change", seeded.echo.pk), PRESET).status_code == 403
    assert viewer.post(page("apikey", "add"), {"user": seeded.viewer.pk, "name": "x"}).status_code == 403
    assert Tool.objects.count() == before


@pytest.mark.parametrize(
    ("model", "action"),
    [
        ("tool", "enable_entries"),
        ("tool", "disable_entries"),
        ("tool", "duplicate_entries"),
        ("tool", "delete_selected"),
        ("apikey", "revoke_keys"),
        ("session", "end_sessions"),
        ("call", "stop_calls"),
        ("call", "retry_calls"),
        ("approval", "approve_calls"),
        ("approval", "refuse_calls"),
    ],
)
def test_bulk_actions_are_hidden_from_viewers_and_refused(
    model: str, action: str, viewer: Client, seeded: Seed
) -> None:
    address = page(model, "changelist")
    assert action not in viewer.get(address).content.decode()
    chosen = {
        "tool": seeded.preset,
        "apikey": seeded.key,
        "session": seeded.session,
        "call": seeded.running_call if action == "stop_calls" else seeded.call,
        "approval": seeded.undecided_call,
    }[model]
    verb = action.removesuffix("_calls")
    posted = {"action": action, "_selected_action": [chosen.pk], "post": "yes"}
    before = stored()
    viewer.post(address, {**posted, "decided": verb, "reason": "no"})
    assert stored() == before


@pytest.mark.parametrize("model", ["session", "message", "auditevent", "call", "approval"])
def test_records_are_read_only_for_superusers(model: str, root: Client, seeded: Seed) -> None:
    pk = {
        "session": seeded.session.pk,
        "message": seeded.message.pk,
        "auditevent": AuditEvent.objects.latest("pk").pk,
        "call": seeded.call.pk,
        "approval": seeded.undecided_call.pk,
    }[model]
    assert root.get(page(model, "add")).status_code == 403
    assert root.post(page(model, "delete", pk), {"post": "yes"}).status_code == 403
    assert "delete_selected" not in root.get(page(model, "changelist")).content.decode()


def test_session_page_hides_messages_without_permission(client_of: ClientOf, seeded: Seed) -> None:
    seeded.viewer.user_permissions.remove(*seeded.viewer.user_permissions.filter(codename="view_message"))
    page_text = client_of("viewer").get(page("session", "change", seeded.session.pk)).content.decode()
    assert "You may not read messages." in page_text
    assert "tools/call" not in page_text


def test_admin_pages_forbid_framing(root: Client) -> None:
    assert root.get(page("tool", "changelist"))["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("path", ["/admin/", "/admin/login/", "/admin/mcp_app/tool/", "/nothing/"])
def test_csp_forbids_foreign_and_inline_scripts(root: Client, path: str) -> None:
    policy = dict(part.strip().split(" ", 1) for part in root.get(path)["Content-Security-Policy"].split(";"))
    assert policy["script-src"] == "'self' 'unsafe-eval'"
    assert policy["default-src"] == policy["form-action"] == "'self'"
    assert policy["object-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
