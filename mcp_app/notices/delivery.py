"""Delivery of notifications.

A thread finds channels with new tasks, and a job sends the notifications. Tasks are recorded as sent only
after sending. If a process dies between the two steps, the notification is sent twice and never lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Final

from django.db import DatabaseError, close_old_connections

from mcp_app.database import clock
from mcp_app.database.forking import undivided
from mcp_app.interface.text import marked
from mcp_app.models import NotificationChannel
from mcp_app.notices import mail, webhook
from mcp_app.notices.attention import Attention, for_person, page_of_choices, present

POLL_SECONDS: Final = 5.0
# Minimum number of seconds between two notifications through a channel. The second one covers all tasks since
# the first.
PAUSE_SECONDS: Final = 60.0
MOST_TRIES: Final = 5
# Minimum time between two test notifications. They are sent while the user waits for the page.
TEST_PAUSE: Final = timedelta(seconds=10)
MOST_CHANNELS: Final = 500
# Maximum number of keys of sent tasks that a channel stores. Older tasks are included, because they may
# appear again.
MOST_KEPT: Final = 1_000
BY_JOB: Final = (NotificationChannel.Way.EMAIL, NotificationChannel.Way.WEBHOOK)

log = logging.getLogger("mcp.notices")


def run_forever(stop: threading.Event, enqueue: Callable[[int], bool]) -> None:
    """Look for new tasks until ``stop`` is set. Retries when the database or the broker is unavailable."""
    while not stop.wait(POLL_SECONDS):
        try:
            with undivided():  # The thread runs in a worker's main process, which forks.
                enqueue_due(enqueue)
        except DatabaseError as error:
            log.warning("Notifications are postponed: %s", error)
        except Exception:
            log.exception(
                "The search for notifications failed"
            )  # If this thread ended, no notifications would be sent.
        finally:
            close_old_connections()


def enqueue_due(enqueue: Callable[[int], bool]) -> int:
    """Queue a job for each channel that has new tasks. Return the number of jobs."""
    due = NotificationChannel.objects.filter(way__in=BY_JOB, due_at__lte=clock.now())
    channels = list(due.exclude(kinds=[]).select_related("user")[:MOST_CHANNELS])
    if not channels:
        return 0
    needs = present({kind for channel in channels for kind in channel.kinds})
    return sum(
        bool(_unsent(channel, needs)) and _claim(channel) and enqueue(channel.pk) for channel in channels
    )


def deliver(channel_id: int) -> bool:
    """Send the new tasks of a channel. Returns True if a notification was sent."""
    channel = NotificationChannel.objects.select_related("user").filter(pk=channel_id).first()
    if channel is None or not channel.kinds:
        return False
    needs = present(set(channel.kinds))
    unsaid = _unsent(channel, needs)
    if not unsaid:
        return False
    try:
        _send(channel, unsaid)
    except Exception as error:  # noqa: BLE001 - a project's way for mail may raise anything; its owner reads it
        _failed(channel, needs, error)
        return False
    _record_sent(channel, needs, sent_at=clock.now(), error="", error_at=None)
    return True


def send_test(*, user: Any, way: str) -> str:
    """Send a test notification through a stored channel immediately. Returns the error message, or ""."""
    channel = NotificationChannel.objects.select_related("user").filter(user=user, way=way).first()
    if (
        way not in BY_JOB
        or channel is None
        or (way == NotificationChannel.Way.WEBHOOK and not channel.address)
    ):
        return "Save the settings first."
    now = clock.utcnow()
    if any(at and at > now - TEST_PAUSE for at in (channel.sent_at, channel.error_at)):
        return "A notification was sent just now. Wait a few seconds."
    mine = NotificationChannel.objects.filter(pk=channel.pk, address=channel.address)
    test = Attention(
        "test", f"test:{now.timestamp()}", "This is a test. No action is needed.", page_of_choices()
    )
    try:
        _send(channel, [test])
    except Exception as error:  # noqa: BLE001 - as above
        words = _reason(error)
        mine.update(error=words, error_at=clock.now())
        return words
    mine.update(sent_at=clock.now(), error="", error_at=None)
    return ""


def _send(channel: NotificationChannel, needs: Sequence[Attention]) -> None:
    if channel.way == NotificationChannel.Way.EMAIL:
        mail.send(channel.user.email, needs)
    else:
        webhook.send(channel.address, channel.secret, needs)


def _reason(error: Exception) -> str:
    return marked(f"{error}" or type(error).__name__)[:300]


def _unsent(channel: NotificationChannel, needs: Collection[Attention]) -> list[Attention]:
    delivered = set(channel.told)
    fresh = [need for need in needs if need.kind in channel.kinds and need.key not in delivered]
    return for_person(channel.user, fresh) if fresh else []


def _claim(channel: NotificationChannel) -> bool:
    """Return True if this process may queue the job. If several workers try, only one succeeds."""
    mine = NotificationChannel.objects.filter(pk=channel.pk, due_at=channel.due_at)
    return bool(mine.update(due_at=clock.now(PAUSE_SECONDS)))


def _record_sent(channel: NotificationChannel, needs: Collection[Attention], **more: object) -> None:
    now = [need.key for need in needs]
    before = [key for key in channel.told if key not in set(now)]
    kept = [*now, *before][:MOST_KEPT]
    due = clock.now(PAUSE_SECONDS)
    # The filter makes this do nothing if the user has changed the choice since.
    same = NotificationChannel.objects.filter(pk=channel.pk, kinds=channel.kinds, address=channel.address)
    same.update(told=kept, tries=0, due_at=due, **more)


def _failed(channel: NotificationChannel, needs: Collection[Attention], error: Exception) -> None:
    """Schedule a retry with exponential backoff. After the last retry, the tasks are recorded as sent."""
    words = _reason(error)
    log.warning("A notification by %s for user %s failed: %s", channel.way, channel.user_id, words)
    said = {"error": words, "error_at": clock.now()}
    if channel.tries + 1 >= MOST_TRIES:
        _record_sent(channel, needs, **said)
        return
    pause = PAUSE_SECONDS * 2**channel.tries
    same = NotificationChannel.objects.filter(pk=channel.pk, kinds=channel.kinds, address=channel.address)
    same.update(tries=channel.tries + 1, due_at=clock.now(pause), **said)
