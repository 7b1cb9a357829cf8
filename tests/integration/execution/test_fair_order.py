"""Fair order of calls: a backlog of one principal delays another principal by at most one turn."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_app.execution.stored import fair_order, pending_approvals, records, statements, task_records
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.execution.stored.next_call import RunningLimits, TooManyRunning, take
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from tests.racing import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

NONE = RunningLimits()


def new(principal: str, **changed: Any) -> NewCall:
    values: dict[str, Any] = {
        "session_id": uuid4().hex,
        "request_id": 1,
        "principal": principal,
        "user_id": None,
        "api_key_id": None,
        "tool": "work",
        "arguments": {},
        "meta": {},
        "session_fields": {"version": "2025-11-25"},
        "stream": f"call-{uuid4().hex}",
        "timeout": 60,
    }
    return NewCall(**values | changed)


def accepted(principal: str = "a", **changed: Any) -> UUID:
    return records.accept(new(principal, **changed))[0].id


def begun(job: UUID, limits: RunningLimits = NONE) -> CallRecord:
    call = take(job, "w", limits)
    assert call is not None
    return call


def order(jobs: list[UUID], limits: RunningLimits = NONE) -> str:
    """Return the principals of the calls that the jobs start, in order."""
    return "".join(begun(job, limits).principal for job in jobs)


def finish(call: CallRecord) -> None:
    assert records.finish(call.id, call.attempt, State.COMPLETED, "ok", b"{}")


def test_call_behind_100_of_another_principal_starts_second() -> None:
    jobs = [accepted("a") for _ in range(100)]
    assert order(jobs[:1]) == "a"
    late = accepted("b")
    assert order(jobs[1:4]) == "baa"
    assert records.find(late).state == State.RUNNING  # type: ignore[union-attr]


def test_two_principals_with_backlogs_alternate() -> None:
    jobs = [accepted("a") for _ in range(20)] + [accepted("b") for _ in range(5)]
    assert order(jobs)[:10].count("b") == 5


def test_principal_served_alone_keeps_its_share_later() -> None:
    for _ in range(30):
        finish(begun(accepted("a")))
    jobs = [accepted(principal) for principal in "bbbbbaaaaa"]
    assert order(jobs)[:6].count("a") >= 2


def test_sending_calls_one_by_one_gets_no_more_turns_than_a_backlog() -> None:
    jobs = [accepted("a") for _ in range(20)]
    served = ""
    for job in jobs:
        accepted("b")
        served += order([job])
    assert 9 <= served.count("b") <= 11


def test_higher_priority_goes_first_without_aging_lower_calls() -> None:
    jobs = [accepted("a") for _ in range(10)]
    for _ in range(50):
        urgent = accepted("c", priority=5)
        assert begun(jobs[0]).id == urgent
    accepted("b")
    assert "b" in order(jobs[:2])


def test_job_starts_calls_of_its_own_queue_only() -> None:
    slow, fast = accepted("a", queue="gpu"), accepted("b")
    assert begun(slow).id == slow
    assert take(slow, "w", NONE) is None
    assert begun(fast).id == fast


def test_job_of_a_finished_or_unknown_call_starts_nothing() -> None:
    job = accepted()
    finish(begun(job))
    assert take(job, "w", NONE) is None
    assert take(uuid4(), "w", NONE) is None


def test_released_call_restarts_before_later_calls() -> None:
    lost = begun(accepted("a", max_attempts=2))
    jobs = [accepted("a"), accepted("b")]
    Call.objects.filter(pk=lost.id).update(lease_until=lost.accepted_at)
    assert records.release(lost.id, lost.attempt)
    assert begun(jobs[0]).id == lost.id


def test_cancelled_calls_do_not_delay_their_principal() -> None:
    first = [accepted("b") for _ in range(4)]
    for _ in range(50):
        call = records.find(accepted("a"))
        assert call is not None
        assert records.cancel_idle(call, b"{}")
    assert "a" in order([accepted("a"), *first][:3])


def test_approved_call_is_ordered_like_a_new_call() -> None:
    """Otherwise many simultaneous approvals would start before all other calls."""
    held = [pending_approvals.accept(new("a", approval_minutes=10), 100)[0].id for _ in range(10)]
    jobs = [accepted("b") for _ in range(6)]
    assert order(jobs[:3]) == "bbb"
    for call in held:
        assert pending_approvals.approve(call, by=None, reason="")
    assert order([*jobs[3:], *held])[:6].count("b") >= 2


def test_resumed_tasks_are_ordered_like_new_calls() -> None:
    tasks = [begun(accepted("a", task_seconds=600)) for _ in range(10)]
    kept = {"open": {"name": {"key": "name", "request": {}}}, "responses": {}, "remembered": {}, "used": []}
    for task in tasks:
        assert task_records.suspend(task.id, task.attempt, kept)
    jobs = [accepted("b") for _ in range(6)]
    assert order(jobs[:3]) == "bbb"
    for task in tasks:
        assert task_records.answer(task.id, {"name": {"action": "accept"}})
    assert order([*jobs[3:], *(task.id for task in tasks)])[:6].count("b") >= 2


def test_full_tool_blocks_neither_other_tools_nor_other_principals() -> None:
    limits = RunningLimits({"slow": 1})
    jobs = [accepted("a", tool="slow", lane="slow") for _ in range(20)]
    running = begun(jobs[0], limits)
    others = [accepted("b") for _ in range(30)]
    for job in others:
        finish(begun(job, limits))
    accepted("b", tool="slow", lane="slow")
    with pytest.raises(TooManyRunning):
        take(jobs[1], "w", limits)
    finish(running)
    assert begun(jobs[1], limits).principal == "b"


def test_changing_a_limit_strands_no_waiting_call() -> None:
    before, after = [accepted() for _ in range(3)], [accepted(lane="work") for _ in range(3)]
    limits = RunningLimits({"work": 2})
    assert order([before[0], after[0]], limits) == "aa"
    with pytest.raises(TooManyRunning) as full:
        take(after[1], "w", limits)
    assert full.value.waiting == 4
    assert order([*before[1:], *after[1:]]) == "aaaa"
    assert take(after[0], "w", NONE) is None


def test_principal_at_its_limit_is_skipped_until_a_call_finishes() -> None:
    limits = RunningLimits(of_person=2)
    jobs = [accepted("a") for _ in range(5)]
    running = [begun(job, limits) for job in jobs[:2]]
    with pytest.raises(TooManyRunning) as full:
        take(jobs[2], "w", limits)
    assert (full.value.call.principal, full.value.waiting) == ("a", 3)
    accepted("b")
    assert begun(jobs[2], limits).principal == "b"
    finish(running[0])
    assert begun(jobs[3], limits).principal == "a"


def test_principal_with_unanswered_questions_starts_no_more_calls() -> None:
    limits = RunningLimits(unanswered=2)
    jobs = [accepted("a") for _ in range(5)]
    asking = [begun(job, limits) for job in jobs[:3]]
    for call in asking[:2]:
        records.record_waiting(call.id, call.attempt, waiting=True)
    with pytest.raises(TooManyRunning):
        take(jobs[3], "w", limits)
    accepted("b")
    assert begun(jobs[3], limits).principal == "b"
    records.record_waiting(asking[0].id, asking[0].attempt, waiting=False)
    assert begun(jobs[4], limits).principal == "a"


def test_turns_without_a_startable_call_name_each_waiting_call() -> None:
    """A call that no turn names looks like one whose job was lost, and each sweep would enqueue another
    job.
    """
    limits = RunningLimits(of_person=1)
    jobs = [accepted("a") for _ in range(4)]
    begun(jobs[0], limits)
    put_off = []
    for _ in jobs[1:]:
        with pytest.raises(TooManyRunning) as full:
            take(jobs[1], "w", limits)
        put_off.append(full.value.call.id)
        records.record_enqueued(full.value.call.id)
    assert sorted(put_off) == sorted(jobs[1:])


def test_weighted_group_gets_proportionally_more_turns(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "BACKGROUND_WEIGHTS": ["crew=3"]}
    heavy = get_user_model().objects.create_user("heavy")
    heavy.groups.add(Group.objects.create(name="crew"))
    jobs = [accepted("a") for _ in range(30)] + [accepted("b", user_id=heavy.pk) for _ in range(30)]
    assert 28 <= order(jobs[:40]).count("b") <= 30


STEPS = st.lists(st.one_of(st.sampled_from("abc"), st.none()), max_size=80)


@given(STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_services_of_two_waiting_principals_differ_by_two_at_most(
    steps: list[str | None],
) -> None:
    """The theorem of start-time fair queueing for weights of one."""
    Call.objects.all().delete()
    jobs: list[UUID] = []
    waiting: Counter[str] = Counter()
    # Services of each principal since both principals of the pair have been waiting.
    since: dict[frozenset[str], Counter[str]] = {}
    pairs = [frozenset("ab"), frozenset("bc"), frozenset("ac")]
    for step in steps:
        if step is not None:
            jobs.append(accepted(step))
            waiting[step] += 1
        elif jobs:
            served = begun(jobs.pop()).principal
            waiting[served] -= 1
            for counts in since.values():
                counts[served] += 1
        for pair in pairs:
            if all(waiting[principal] for principal in pair):
                one, other = pair
                counts = since.setdefault(pair, Counter())
                assert abs(counts[one] - counts[other]) <= 2, steps
            else:
                since.pop(pair, None)


def test_choosing_a_call_among_10000_scans_no_table() -> None:
    sample = Call.objects.get(pk=accepted("a"))
    fields = {field.attname: getattr(sample, field.attname) for field in Call._meta.concrete_fields}
    del fields["id"]
    tags = count(1)
    rows = (
        Call(**{**fields, "session_id": uuid4().hex, "stream": uuid4().hex, "start_tag": float(next(tags))})
        for _ in range(10_000)
    )
    Call.objects.bulk_create(rows, batch_size=500)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    late = accepted("b")
    assert begun(late).principal == "a"
    assert begun(late).id == late
    for plan in _plans(late):
        assert "SCAN mcp_app_call\n" not in f"{plan}\n", plan
        assert "Seq Scan" not in plan, plan
        assert "Sort" not in plan, plan
        assert "TEMP B-TREE" not in plan, plan


def _plans(job: UUID) -> list[str]:
    vendor = connection.vendor
    values = {"queue": "celery", "lane": "", "priority": 0, "person": "a", "step": 1.0, "unanswered": 4}
    lock = "FOR UPDATE SKIP LOCKED" if vendor == "postgresql" else ""
    key = Call._meta.pk.get_db_prep_value(job, connection)
    found = []
    for sql in (
        statements.NEXT.format(lock=lock, waiting=statements.WAITING, asking=statements.ASKING)[1:-1],
        f"SELECT {fair_order.start_tag_sql(vendor)}",
    ):
        with connection.cursor() as cursor:
            explain = "EXPLAIN " if vendor == "postgresql" else "EXPLAIN QUERY PLAN "
            cursor.execute(explain + sql, {**values, "id": key})
            found.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
    return found


@pytest.mark.django_db(transaction=True)
def test_concurrent_jobs_start_each_call_once() -> None:
    jobs = [accepted(principal) for principal in "aaaabbbb"]
    claims = at_once([partial(take, job, "w", NONE) for job in jobs])
    assert sorted(str(claim.id) for claim in claims) == sorted(map(str, jobs))


@pytest.mark.django_db(transaction=True)
def test_concurrently_accepted_calls_get_consecutive_turns() -> None:
    at_once([partial(accepted, "a") for _ in range(8)])
    tags = sorted(Call.objects.values_list("start_tag", flat=True))
    assert tags == [float(number) for number in range(8)]
