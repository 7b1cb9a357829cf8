"""Notifications by mail and webhook: recipients, frequency, redaction and delivery errors."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.test import override_settings

from mcp_app.credentials.services import save_credential
from mcp_app.database import clock
from mcp_app.models import ApiKey, AuditEvent, Call, Credential, Draft, NotificationChannel
from mcp_app.notices import delivery
from mcp_app.notices.attention import APPROVALS, CREDENTIALS, DRAFTS, ERRORS, KEYS, STUCK, present
from mcp_app.notices.channels import choose
from mcp_app.notices.delivery import send_test
from tests.samples.admin_seed import Seed, undecided_call
from tests.servers.sinks import Mailbox, Posts, mail_server, web_server

pytestmark = pytest.mark.postgres
BACKEND = "django.core.mail.backends.smtp.EmailBackend"


def mcp(**changed: Any) -> Any:
    """Override settings of ``MCP``."""
    public = {"PUBLIC_URL": "https://mcp.example.com", "EGRESS_ALLOW": ("127.0.0.0/8",)}
    return override_settings(MCP={**settings.MCP, **public, **changed})


@pytest.fixture
def box() -> Iterator[Mailbox]:
    """Start a mail server and configure it."""
    with (
        mail_server() as server,
        mcp(),
        override_settings(EMAIL_BACKEND=BACKEND, EMAIL_HOST="127.0.0.1", EMAIL_PORT=server.port),
    ):
        yield server


@pytest.fixture
def posts() -> Iterator[Posts]:
    """Start a webhook receiver."""
    with web_server() as server, mcp():
        yield server


@pytest.fixture
def decider(seeded: Seed) -> Any:
    """Create staff with an address and the permissions to view and decide calls."""
    seeded.viewer.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="mcp_app", codename__in=["view_call", "decide_call"]
        )
    )
    seeded.viewer.email = "decider@example.com"
    seeded.viewer.save()
    return seeded.viewer


def look() -> int:
    """Run one iteration of the thread, with its jobs executed immediately."""
    return delivery.enqueue_due(delivery.deliver)


def later() -> None:
    """Advance the time of waiting notifications and retries."""
    NotificationChannel.objects.update(due_at=clock.utcnow() - timedelta(seconds=1))


def test_one_mail_lists_and_links_all_pending_calls(box: Mailbox, decider: Any, seeded: Seed) -> None:
    other = undecided_call(
        seeded.session.pk, 70, tool="burn", user=seeded.root, arguments='{"all": "hunter2"}'
    )
    assert look() == 0
    choose(user=decider, way="email", kinds=[APPROVALS])
    assert look() == 1
    [text] = box.texts
    assert f"https://mcp.example.com/admin/mcp_app/call/{other.pk}/change/" in text
    assert f"/call/{seeded.undecided_call.pk}/change/" in text
    assert "requests approval to run burn" in text
    assert "hunter2" not in text
    assert "Dune" not in text
    assert box.mails[0]["To"] == "decider@example.com"
    later()
    assert look() == 0
    assert len(box.mails) == 1


def test_tasks_within_a_minute_are_sent_together(box: Mailbox, decider: Any, seeded: Seed) -> None:
    choose(user=decider, way="email", kinds=[APPROVALS])
    assert look() == 1
    for number in range(80, 90):
        undecided_call(seeded.session.pk, number, tool="burn", user=seeded.root)
        assert look() == 0
    later()
    assert look() == 1
    assert len(box.mails) == 2
    assert "10 items need your attention" in box.mails[1]["Subject"]


def test_arguments_are_sent_only_if_configured_and_redacted(box: Mailbox, decider: Any) -> None:
    with mcp(NOTIFY_ARGUMENTS=True):
        choose(user=decider, way="email", kinds=[APPROVALS])
        assert look() == 1
    [text] = box.texts
    assert "Dune" in text
    assert "hunter2" not in text


def test_only_users_who_may_decide_are_notified(box: Mailbox, seeded: Seed, decider: Any) -> None:
    seeded.outsider.email = "outsider@example.com"
    seeded.outsider.save()
    for person in (seeded.outsider, decider):
        choose(user=person, way="email", kinds=[APPROVALS, ERRORS, DRAFTS])
    Draft.objects.create(kind="tool", key="secret-plan")
    assert look() == 1
    assert {mail["To"] for mail in box.mails} == {"decider@example.com"}
    assert "secret-plan" not in box.texts[0]
    seeded.undecided_call.__class__.objects.filter(state="approval_needed").delete()
    changes = ({"is_active": False}, {"is_staff": False}, {"is_active": True, "is_staff": True})
    for number, changed in enumerate(changes, 70):
        vars(decider).update(changed)
        decider.save()
        later()
        call = undecided_call(seeded.session.pk, number, user=decider, four_eyes=True)
        assert look() == 0  # Nor are requesters notified of their own four-eyes calls.
        call.delete()


def test_webhook_signature_is_verifiable(posts: Posts, decider: Any, seeded: Seed) -> None:
    secret = choose(user=decider, way="webhook", kinds=[APPROVALS], address=posts.url)
    assert secret.startswith("whsec_")
    assert secret not in NotificationChannel.objects.get().secret
    assert look() == 1
    [(headers, body)] = posts.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, "sha256")
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert f"call:{seeded.undecided_call.pk}" in {need["key"] for need in json.loads(body)["needs"]}
    assert b"hunter2" not in body
    assert b"Dune" not in body
    assert AuditEvent.objects.filter(action="notification.choose").count() == 1


def test_failed_webhook_is_retried_and_its_error_shown(posts: Posts, decider: Any) -> None:
    posts.status = 500
    choose(user=decider, way="webhook", kinds=[APPROVALS], address=posts.url)
    for _ in range(delivery.MOST_TRIES):
        assert look() == 0
        later()
    assert len(posts.requests) == delivery.MOST_TRIES
    assert len({headers["webhook-id"] for headers, _ in posts.requests}) == 1
    channel = NotificationChannel.objects.get()
    assert channel.error == "The address responded with status 500."
    assert look() == 0  # Given up; the next task is sent again.
    assert len(posts.requests) == delivery.MOST_TRIES
    posts.status = 200
    choose(user=decider, way="webhook", kinds=[APPROVALS], address=f"{posts.url}/2")
    assert NotificationChannel.objects.get().error == ""


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://user:pw@example.com/",
        "https://",
        "x",
        "https://a:b/",
    ],
)
def test_unsafe_webhook_address_is_refused(address: str, decider: Any) -> None:
    from mcp_app.notices.webhook import objection_to

    assert objection_to(address)


def test_webhook_to_an_internal_address_needs_permission(posts: Posts, decider: Any) -> None:
    choose(user=decider, way="webhook", kinds=[APPROVALS], address=posts.url)
    with mcp(EGRESS_ALLOW=()):
        assert look() == 0
    assert posts.requests == []
    assert NotificationChannel.objects.get().error


def test_unresponsive_mail_server_is_recorded_as_an_error(
    decider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.notices.mail.SECONDS", 0.2)
    with (
        mail_server(frozen=True) as server,
        override_settings(EMAIL_BACKEND=BACKEND, EMAIL_HOST="127.0.0.1", EMAIL_PORT=server.port),
    ):
        choose(user=decider, way="email", kinds=[APPROVALS])
        assert look() == 0
    assert "timed out" in NotificationChannel.objects.get().error


def test_concurrent_workers_send_once(box: Mailbox, decider: Any) -> None:
    choose(user=decider, way="email", kinds=[APPROVALS])
    queued: list[int] = []

    def hand_on(channel_id: int) -> bool:
        queued.append(channel_id)
        delivery.enqueue_due(hand_on)
        return True

    assert delivery.enqueue_due(hand_on) == 1
    assert len(queued) == 1
    # A duplicate job sends nothing either.
    assert delivery.deliver(queued[0])
    assert not delivery.deliver(queued[0])
    assert len(box.mails) == 1


def test_drafts_and_new_errors_are_sent_to_their_reviewers(box: Mailbox, seeded: Seed) -> None:
    from mcp_app.models import ErrorGroup

    now = clock.utcnow()
    ErrorGroup.objects.create(
        digest="d", method="tools/call", tool="burn", outcome="error", words="of hunter2", example="x",
        is_fault=True, first_at=now, last_at=now, first_id=1, last_id=1, count=1,
    )  # fmt: skip
    Draft.objects.create(kind="tool", key="later")
    seeded.root.email = "root@example.com"
    seeded.root.save()
    choose(user=seeded.root, way="email", kinds=[ERRORS, DRAFTS])
    assert look() == 1
    [text] = box.texts
    assert "New error in burn" in text
    assert "Unpublished draft of tool later" in text
    assert "hunter2" not in text


def test_stuck_calls_and_expiring_keys_are_sent_once_to_permitted_users(
    box: Mailbox, decider: Any, seeded: Seed
) -> None:
    now = clock.utcnow()
    Call.objects.filter(pk=seeded.running_call.pk).update(
        lease_until=clock.lease(-timedelta(minutes=3).total_seconds())
    )
    Call.objects.filter(pk=seeded.waiting_call.pk).update(accepted_at=now - timedelta(minutes=16))
    ApiKey.objects.filter(pk=seeded.key.pk).update(expires_at=now + timedelta(days=13), revoked_at=None)
    for user in (seeded.root, decider):
        choose(user=user, way="email", kinds=[STUCK, KEYS])
    assert look() == 1
    [text] = box.texts
    assert f"Stuck call of {seeded.running_call.tool}: its worker was lost" in text
    assert f"Stuck call of {seeded.waiting_call.tool}: waiting for a worker for 15 minutes" in text
    assert f"API key {seeded.key.name} expires on" in text
    assert f"https://mcp.example.com/admin/mcp_app/apikey/{seeded.key.pk}/change/" in text
    later()
    assert look() == 0


def test_refused_credential_is_sent_once_a_day_until_it_is_replaced(box: Mailbox, seeded: Seed) -> None:
    row = save_credential(
        actor=None, name="shop", kind="bearer", secret={"token": "t"}, origins=["https://a.example"]
    )
    choose(user=seeded.root, way="email", kinds=[CREDENTIALS])
    assert look() == 0
    refused = Credential.objects.filter(pk=row.pk)
    refused.update(last_error="A server refused it with status 401.", last_error_at=clock.utcnow())
    assert look() == 1
    [text] = box.texts
    assert "Another server refused the credential shop" in text
    assert f"https://mcp.example.com/admin/mcp_app/credential/{row.pk}/change/" in text
    later()
    assert look() == 0
    refused.update(last_error_at=clock.utcnow() - timedelta(days=1, minutes=1))
    assert present([CREDENTIALS]) == []
    row.refresh_from_db()
    save_credential(actor=None, credential=row, secret={"token": "new"})
    row.refresh_from_db()
    assert (row.last_error, row.last_error_at) == ("", None)


def test_test_mail_is_sent_at_once_and_leaves_pending_tasks(box: Mailbox, decider: Any) -> None:
    assert send_test(user=decider, way="email") == "Save the settings first."
    choose(user=decider, way="email", kinds=[APPROVALS])
    assert send_test(user=decider, way="email") == ""
    assert "Wait a few seconds" in send_test(user=decider, way="email")
    [text] = box.texts
    assert "This is a test" in text
    assert "https://mcp.example.com/notifications/" in text
    assert look() == 1
    assert len(box.texts) == 2


def test_webhook_test_reports_delivery_errors(posts: Posts, decider: Any) -> None:
    choose(user=decider, way="webhook", kinds=[], address=posts.url)
    posts.status = 500
    assert send_test(user=decider, way="webhook") == "The address responded with status 500."
    assert NotificationChannel.objects.get().error == "The address responded with status 500."
    NotificationChannel.objects.update(error_at=clock.utcnow() - delivery.TEST_PAUSE)
    posts.status = 200
    assert send_test(user=decider, way="webhook") == ""
    assert NotificationChannel.objects.get().error == ""


@pytest.mark.parametrize("way", ["browser", "webhook", "pigeon"])
def test_channel_without_an_address_cannot_be_tested(way: str, decider: Any) -> None:
    assert send_test(user=decider, way=way) == "Save the settings first."
