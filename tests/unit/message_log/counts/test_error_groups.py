"""Error groups: equal to the log, counted once, bounded for any tool output, deleted with their messages."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db.models import Sum
from django.utils import timezone

from mcp_app.message_log import triage
from mcp_app.message_log.counts import error_groups
from mcp_app.message_log.writer import drain_once
from mcp_app.models import ErrorGroup, ErrorHour, LogCursor, Message, Triage
from mcp_app.observability.incidents import StoredException
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


def test_mistakes_in_the_test_bench_are_not_grouped() -> None:
    bench = {"principal": "user:3/bench/by:1"}
    drain(
        batch(failed("wrong city", 1, **bench), failed("wrong city", 2, principal="user:3")),
        batch(failed("The tool failed unexpectedly (incident 12ab34cd)", 3, **bench)),
    )
    assert sorted(counts().values()) == [1, 1]
    assert Message.objects.count() == 3


def crash(kind: str, *functions: str, own: bool = True, line: int = 42, file: str = "ops/mcp.py") -> str:
    frames = [
        {
            "file": file,
            "line": line,
            "function": function,
            "module": "ops.mcp",
            "own": own,
            "offset": 3,
            "omitted": 0,
        }
        for function in functions
    ]
    return json.dumps({"type": kind, "message": f"no {line}", "frames": frames})


def crashes(*exceptions: str) -> bytes:
    text = "The tool failed unexpectedly (incident 1f2e3d4c)."
    made = orjson.loads(batch(*[failed(text, number) for number, _ in enumerate(exceptions)]))
    made["incidents"] = [[number, f"{number:08x}", exception] for number, exception in enumerate(exceptions)]
    return orjson.dumps(made)


def test_crashes_are_grouped_by_class_and_place() -> None:
    drain(
        crashes(
            crash("ValueError", "customer", line=42),
            crash("ValueError", "customer", line=50),  # The function moved.
            crash("KeyError", "customer"),
            crash("ValueError", "customer", "look_up"),
        )
    )
    found = {(group.words, group.place): group.count for group in ErrorGroup.objects.filter(is_fault=True)}
    assert found == {
        ("ValueError", "ops/mcp.py:customer+3"): 2,
        ("KeyError", "ops/mcp.py:customer+3"): 1,
        ("ValueError", "ops/mcp.py:look_up+3"): 1,
    }
    group = ErrorGroup.objects.get(words="ValueError", place="ops/mcp.py:customer+3")
    raised = StoredException.read(group.exception)
    assert raised is not None
    assert raised.message == "no 50"
    first, second = Message.objects.filter(incident__in=["00000000", "00000001"]).order_by("pk")
    assert error_groups.messages_of(group, 10) == [second.pk, first.pk]


def test_error_without_stored_exception_is_grouped_by_its_text() -> None:
    drain(batch(failed("The tool failed unexpectedly (incident 1f2e3d4c)."), failed("(incident 99aa00bb)")))
    assert [group.place for group in ErrorGroup.objects.all()] == ["", ""]
    key = error_groups.GroupKey("tools/call", "echo", "tool_error", "Order … is gone")
    # Digests of rows that were stored before groups had places.
    assert key.digest == "22cae38a1a4c7c2dd796a808ae7cf912"
    assert key._replace(place="ops/mcp.py:customer+3").digest != key.digest


INTERNAL = '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"The server is stopping."}}'
INVALID = '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown prompt"}}'


@pytest.mark.parametrize(
    ("answer", "refusal", "is_fault"),
    [
        ("Division by zero has no value.", "", False),
        ("echo timed out after 5 seconds and was stopped.", "", True),
        ("The tool's result is too large: 9 bytes, at most 8 are sent.", "", True),
        ("echo was interrupted: the process that ran it is gone.", "", True),
        (INTERNAL, "", True),
        (INVALID, "", False),
        (INVALID, "unknown_tool", False),
        ("text: expected a string", "invalid_arguments", False),
        ("called too often", "rate_limited", False),
        ("the database is away", "unavailable", True),
    ],
)
def test_mistakes_of_callers_are_no_faults(answer: str, refusal: str, is_fault: bool) -> None:
    made = failed(answer) if answer not in (INTERNAL, INVALID) else line("1", outcome="error", answer=answer)
    encoded = orjson.loads(batch(made))
    if refusal:
        encoded["refusals"] = [[0, refusal]]
    drain(orjson.dumps(encoded))
    assert ErrorGroup.objects.get().is_fault == is_fault


@pytest.mark.parametrize("refusal", ["limit_reached", "limit_used_up"])
def test_calls_above_a_limit_are_no_errors(refusal: str) -> None:
    encoded = orjson.loads(batch(failed("The limit bot is reached."), failed("broken")))
    encoded["refusals"] = [[0, refusal]]
    drain(orjson.dumps(encoded))
    assert counts() == {("echo", "broken"): 1}


def test_resolved_error_regresses_only_if_it_happens_again() -> None:
    now = time.time()
    drain(crashes(crash("ValueError", "customer")))
    digest = ErrorGroup.objects.get().pk
    triage.resolve(digest=digest, actor=None)
    late = orjson.loads(crashes(crash("ValueError", "customer")))
    late["lines"][0][2] = now - 60  # Logged before, written afterwards.
    drain(orjson.dumps(late))
    assert ErrorGroup.objects.get().triage == Triage.RESOLVED
    drain(crashes(crash("ValueError", "customer")))
    assert ErrorGroup.objects.get().triage == Triage.REGRESSED
    assert triage.needing_attention(timezone.now() + timedelta(days=9)).get().pk == digest


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


@pytest.mark.parametrize("together", [True, False])
def test_mistakes_do_not_hide_a_fault_in_the_common_group(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    monkeypatch.setattr(error_groups, "MOST_OF_TOOL", 1)
    drain(batch(failed("the first")))
    fault, mistake = failed("echo timed out after 5 seconds and was stopped."), failed("another mistake")
    drain(*([batch(fault, mistake)] if together else [batch(fault), batch(mistake)]))
    group = ErrorGroup.objects.get(words="")
    assert (group.count, group.is_fault) == (2, True)
    assert triage.needing_attention(timezone.now()).get() == group


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
