"""Error groups: equal to the log, counted once, bounded for any tool output, deleted with their messages."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.db.models import Sum

from mcp_app.message_log.counts import error_groups
from mcp_app.message_log.writer import drain_once
from mcp_app.models import ErrorGroup, ErrorHour, LogCursor, Message
from tests.unit.sessions.queues import ListQueue, batch, line

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def failed(text: str, number: int = 1, **more: Any) -> list[Any]:
    answer = json.dumps({"result": {"content": [{"type": "text", "text": text}], "isError": True}})
    return line(str(number), outcome="tool_error", answer=answer, **more)


def drain(*batches: bytes) -> None:
    LogCursor.objects.all().delete()
    queue: Any = ListQueue(*batches)
    while queue.batches:
        drain_once(queue)


def counts() -> dict[tuple[str, str], int]:
    return {(group.tool, group.words): group.count for group in ErrorGroup.objects.all()}


def test_similar_errors_of_one_tool_form_one_group_across_batches() -> None:
    now = time.time()
    drain(
        batch(*[failed(f"Order {number} is gone", number, at=now - number * 3_600) for number in range(3)]),
        batch(failed("Order 9 is gone", target="other"), line("5"), line("6", outcome="cancelled")),
    )
    drain(batch(failed("Order 4 is gone", at=now - 7_200), failed("Quite another thing")))
    assert counts() == {
        ("echo", "Order … is gone"): 4, ("other", "Order … is gone"): 1, ("echo", "Quite another thing"): 1,
    }  # fmt: skip
    group = ErrorGroup.objects.get(tool="echo", words="Order … is gone")
    messages = Message.objects.filter(target="echo", answer__contains="is gone")
    assert [group.first_at, group.last_at] == [messages.order_by("at")[0].at, messages.order_by("-at")[0].at]
    assert group.last_id == messages.order_by("-pk")[0].pk
    assert group.example == "Order 4 is gone"
    assert group.hours.aggregate(Sum("count")) == {"count__sum": 4}
    assert group.hours.count() == 3
    assert error_groups.messages_of(group, 10) == list(messages.order_by("-pk").values_list("pk", flat=True))


def test_malformed_batch_is_in_no_group() -> None:
    drain(batch(failed("one"), failed("two", ms="not a number")), batch(failed("three")))
    assert counts() == {("echo", "three"): 1}


def test_groups_are_bounded_in_total_and_per_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_groups, "MOST_OF_TOOL", 3)
    monkeypatch.setattr(error_groups, "MOST_GROUPS", 6)
    words = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op"]
    for tool in ("noisy", "quiet", "last"):
        for word in words:
            drain(batch(failed(f"about {word}", target=tool)))
    assert ErrorGroup.objects.count() <= 6 + 3  # plus the groups without words
    assert counts()["noisy", ""] == len(words) - 3
    assert counts()["quiet", "about ab"] == 1
    assert ErrorGroup.objects.aggregate(Sum("count")) == {"count__sum": 3 * len(words)}


def test_errors_of_methods_are_grouped_without_their_target() -> None:
    answer = '{"error":{"code":-32002,"message":"Resource not found"}}'
    lines = [
        line(str(at), method="resources/read", target=f"notes://{at}", outcome="error", answer=answer)
        for at in range(3)
    ]
    drain(batch(*lines, line("9", method="made/up", outcome="error", answer=answer)))
    found = {(group.method, group.tool): group.count for group in ErrorGroup.objects.all()}
    assert found == {("resources/read", ""): 3, ("other", ""): 1}


def test_groups_and_hours_are_purged_with_their_messages() -> None:
    now = time.time()
    drain(
        batch(failed("old", at=now - 90_000), failed("both", at=now - 90_000)),
        batch(failed("both", at=now), failed("new", at=now)),
    )
    Message.objects.filter(answer__contains='"old"').delete()
    Message.objects.order_by("pk").first().delete()  # type: ignore[union-attr]
    error_groups.purge()
    assert counts() == {("echo", "both"): 2, ("echo", "new"): 1}
    assert ErrorHour.objects.count() == 2
    Message.objects.all().delete()
    error_groups.purge()
    assert (ErrorGroup.objects.count(), ErrorHour.objects.count()) == (0, 0)
