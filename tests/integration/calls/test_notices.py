"""Notifications by a real worker: a mail arrives, and an unresponsive mail server delays no call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.integration.calls.conftest import CAPABILITIES, Installation, start_call, text_of
from tests.samples.approvals import decide
from tests.servers.live import eventually
from tests.servers.sinks import Mailbox, mail_server

pytestmark = pytest.mark.process

CHOOSE = """
from django.contrib.auth import get_user_model
from mcp_app.notices.channels import choose
boss = get_user_model().objects.create_superuser("chief", "chief@example.com", "x")
choose(user=boss, way="email", kinds=["approvals"])
"""


@contextmanager
def mailing(box: Mailbox) -> Iterator[Installation]:
    """Start a worker with one child; notifications are sent through the mail server."""
    environment = {"EMAIL_URL": f"smtp://127.0.0.1:{box.port}", "PUBLIC_URL": ""}
    with Installation(
        1, settings="tests.ledger_app.settings", env=environment, worker=True, concurrency=1
    ) as server:
        assert isinstance(server, Installation)
        server.shell(CHOOSE)
        yield server


def test_pending_call_is_mailed(nonce: str) -> None:
    with mail_server() as box, mailing(box) as server:
        work_beside_a_mail(server, box, nonce)
        eventually(lambda: box.mails, 20, "the mail")
        [text] = box.texts
        assert "requests approval to run approved_work" in text
        assert "/admin/mcp_app/call/" in text


def test_unresponsive_mail_server_delays_no_call(nonce: str) -> None:
    with mail_server(frozen=True) as box, mailing(box) as server:
        work_beside_a_mail(server, box, nonce)
        assert "child processes to replace" in server.logs()
        assert box.mails == []


def work_beside_a_mail(mailing: Installation, box: Mailbox, nonce: str) -> None:
    """Run a call to its end, and another one that is approved, while a mail is sent."""
    with closing(mailing.mcp(0)) as client:
        client.initialize("2025-11-25", CAPABILITIES)
        with start_call(client, "approved_work", nonce=nonce, steps=1) as waiting:
            eventually(lambda: box.connections, 40, "a connection to the mail server")
            # The job that sends the mail occupies the only child: this call runs in a substitute.
            with start_call(client, "work", via=f"{nonce}b", nonce=f"{nonce}b", steps=1) as other:
                assert text_of(other.messages(30)[-1]).startswith(f"{nonce}b ")
            assert "approved" in decide(mailing, "approve", nonce)
            assert text_of(waiting.messages(30)[-1]).startswith(f"{nonce} ")


def test_mail_redacts_secret_arguments_in_a_fresh_process(
    nonce: str,
) -> None:
    with mail_server(frozen=False) as box:
        environment = {
            "EMAIL_URL": f"smtp://127.0.0.1:{box.port}",
            "PUBLIC_URL": "",
            "NOTIFY_ARGUMENTS": "on",
        }
        settings = "tests.ledger_app.settings"
        with Installation(1, settings=settings, env=environment, worker=True, concurrency=1) as server:
            server.shell(CHOOSE)
            with closing(server.mcp(0)) as client:
                client.initialize("2025-11-25", CAPABILITIES)
                arguments = {"nonce": nonce, "digits": "73194682"}
                with start_call(client, "approved_unlock", **arguments):
                    eventually(lambda: box.mails, 40, "the mail")
        [text] = box.texts
        assert nonce in text
        assert "[redacted]" in text
        assert "73194682" not in text
