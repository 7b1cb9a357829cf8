"""The notifications page: each user's own choices, limited to what the user may act on."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.core import mail
from django.test import Client, override_settings
from django.urls import reverse

from mcp_app.models import AuditEvent, NotificationChannel
from mcp_app.notices import delivery
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import RAW_MARKUP, Seed

pytestmark = pytest.mark.django_db


def _page(client: Client) -> str:
    answer = client.get(reverse("mcp_notifications"))
    assert answer.status_code == 200
    return answer.content.decode()


def test_notification_choices_depend_on_permissions(root: Client, client_of: ClientOf, seeded: Seed) -> None:
    for words in ("Calls waiting for approval", "New errors", "Unpublished drafts"):
        assert words in _page(root)
    assert "Notifications need the permission to approve calls" in _page(client_of("outsider"))
    forged = {"email": ["approvals"]}
    answer = client_of("outsider").post(reverse("mcp_notifications"), forged)
    assert answer.status_code == 200
    assert not NotificationChannel.objects.exists()
    viewer = client_of("viewer")
    assert 'value="errors"' in _page(viewer)
    assert 'value="approvals"' not in _page(viewer)


def test_notification_choice_is_stored_and_audited(root: Client, seeded: Seed) -> None:
    answer = root.post(
        reverse("mcp_notifications"), {"email": ["approvals", "drafts"], "browser": ["approvals"]}
    )
    assert answer.status_code == 302
    chosen = {row.way: (row.kinds, row.user) for row in NotificationChannel.objects.all() if row.kinds}
    assert chosen == {
        "email": (["approvals", "drafts"], seeded.root), "browser": (["approvals"], seeded.root),
    }  # fmt: skip
    assert AuditEvent.objects.filter(action="notification.choose", actor=seeded.root).exists()
    assert _page(root).count(" checked") == 3
    root.post(reverse("mcp_notifications"), {})
    assert not NotificationChannel.objects.exclude(kinds=[]).exists()


def test_webhook_secret_is_shown_once_and_replaced_on_request(root: Client) -> None:
    choice = {"webhook": ["approvals"], "address": "https://example.com/hook"}
    first = root.post(reverse("mcp_notifications"), choice)
    assert "whsec_" in first.content.decode()
    assert "no-store" in first["Cache-Control"]
    assert "whsec_" not in _page(root)
    assert root.post(reverse("mcp_notifications"), choice).status_code == 302
    again = root.post(reverse("mcp_notifications"), {**choice, "new_secret": "1"})
    assert "whsec_" in again.content.decode()
    assert again.content != first.content


@pytest.mark.parametrize(
    "address", ["", "http://example.com/", "https://example.com:1e3/", "javascript:alert(1)"]
)
def test_invalid_webhook_url_is_refused(address: str, root: Client) -> None:
    answer = root.post(reverse("mcp_notifications"), {"webhook": ["approvals"], "address": address})
    assert 'id="mcp-webhook-error"' in answer.content.decode()
    assert not NotificationChannel.objects.exists()


def test_delivery_error_is_shown_to_its_owner_only(root: Client, viewer: Client, seeded: Seed) -> None:
    root.post(reverse("mcp_notifications"), {"email": ["approvals"]})
    NotificationChannel.objects.filter(way="email").update(
        error=" ".join(RAW_MARKUP), error_at=seeded.call.accepted_at
    )
    assert "latest notification failed" in _page(root)
    assert not [markup for markup in RAW_MARKUP if markup in _page(root)]
    assert "latest notification failed" not in _page(viewer)


def test_notification_mail_escapes_hostile_names(root: Client, seeded: Seed) -> None:
    seeded.root.username = "ada\r\nBcc: x@example.com\u202e"
    seeded.root.email = "root@example.com"
    seeded.root.save()
    type(seeded.undecided_call).objects.filter(state="approval_needed").exclude(
        pk=seeded.undecided_call.pk
    ).delete()
    type(seeded.undecided_call).objects.filter(pk=seeded.undecided_call.pk).update(
        principal=f"user:{seeded.root.pk}", four_eyes=False
    )
    local = "django.core.mail.backends.locmem.EmailBackend"
    with override_settings(EMAIL_BACKEND=local):
        root.post(reverse("mcp_notifications"), {"email": ["approvals"]})
        assert delivery.enqueue_due(delivery.deliver) == 1
    [message] = mail.outbox
    assert "\n" not in message.subject
    assert "\u202e" not in message.subject + str(message.body)
    assert message.bcc == []


def test_notifications_require_a_staff_login(client: Client, seeded: Seed) -> None:
    assert client.get(reverse("mcp_notifications")).status_code == 302
    seeded.outsider.is_staff = False
    seeded.outsider.user_permissions.set(Permission.objects.all())
    seeded.outsider.save()
    client.force_login(seeded.outsider)
    assert client.get(reverse("mcp_notifications")).status_code == 302
    assert client.post(reverse("mcp_notifications"), {"email": ["approvals"]}).status_code == 302
    assert not NotificationChannel.objects.exists()
