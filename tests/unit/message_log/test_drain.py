"""Log batches reach the database exactly once and in order, despite crashes and malformed content."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.message_log import session_ends
from mcp_app.message_log.retention import close_idle_sessions
from mcp_app.message_log.writer import BATCHES, IDLE_SECONDS, YIELD_SECONDS, drain_once, run_forever
from mcp_app.models import LogCursor, Message, Session
from mcp_app.streams.base import StreamsUnavailable
from tests.unit.sessions.queues import ListQueue, batch, line, opened

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

SESSION = "s" * 32


class Crash(BaseException):
    """A simulated crash of the worker."""


def drain(queue: Any) -> int:
    return drain_once(queue)


def stored() -> list[str]:
    return list(Message.objects.order_by("id").values_list("request_id", flat=True))


def test_lines_are_stored_in_order_with_all_fields() -> None:
    at = time.time()
    told = line("1", at=at, outcome="tool_error", payload="p", answer="a")
    queue = ListQueue(batch(told, line("2"), skipped=3))
    assert drain(queue) == 1
    first, second = Message.objects.order_by("id")
    assert (first.request_id, second.request_id) == ("1", "2")
    assert (first.method, first.target) == ("tools/call", "echo")
    assert (first.kind, first.direction) == ("request", "in")
    assert (first.payload, first.answer, first.outcome, first.duration_ms) == ("p", "a", "tool_error", 1.5)
    assert (first.principal, first.process, first.session_id) == ("loopback", "host:1", None)
    assert abs(first.at - datetime.fromtimestamp(at, UTC)) < timedelta(milliseconds=1)
    assert (first.skipped, second.skipped) == (3, 0)
    assert queue.batches == []


def test_refusal_code_is_stored_with_its_line() -> None:
    drain(ListQueue(batch(line("1"), line("2"), refusals=[[1, "rate_limited"]])))
    found = Message.objects.order_by("id").values_list("request_id", "refusal")
    assert list(found) == [("1", None), ("2", "rate_limited")]


def test_empty_queue_causes_no_query() -> None:
    with connection.execute_wrapper(_refuse):
        assert drain(ListQueue()) == 0


def _refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    raise AssertionError(sql)


def test_long_queue_is_drained_in_bounded_steps() -> None:
    queue = ListQueue(*[batch(line(str(number))) for number in range(BATCHES * 2 + 1)])
    assert [drain(queue), drain(queue), drain(queue), drain(queue)] == [BATCHES, BATCHES, 1, 0]
    assert stored() == [str(number) for number in range(BATCHES * 2 + 1)]


@pytest.mark.parametrize("step", ["depth", "read", "trim"])
def test_crash_at_queue_loses_and_repeats_nothing(step: str) -> None:
    queue = ListQueue(batch(line("1")), batch(line("2"), facts=[opened()]))

    def die(reached: str) -> None:
        if reached == step:
            raise Crash

    queue.fault = die
    with pytest.raises(Crash):
        drain(queue)
    assert stored() == (["1", "2"] if step == "trim" else [])
    queue.fault = lambda _: None
    queue.add(batch(line("3")))
    while queue.batches:
        drain(queue)
    assert stored() == ["1", "2", "3"]


def test_written_but_untrimmed_batch_is_trimmed_by_next_worker() -> None:
    queue = ListQueue(batch(line("1")))

    def die(step: str) -> None:
        if step == "trim":
            raise Crash

    queue.fault = die
    with pytest.raises(Crash):
        drain(queue)
    queue.fault = lambda _: None
    assert drain(queue) == 0
    assert (queue.batches, stored()) == ([], ["1"])


def test_crash_at_any_statement_loses_and_repeats_nothing() -> None:
    LogCursor.objects.create(pk=1)
    died = statement = 0
    while True:
        Message.objects.all().delete()
        Session.objects.all().delete()
        LogCursor.objects.update(last_id="0-0")
        queue = ListQueue(batch(line("1", session=SESSION), facts=[opened()]), batch(line("2")), b"poison")
        if not _dies_at(statement, lambda queue=queue: drain(queue)):
            break
        died += 1
        drain(queue)
        assert stored() == ["1", "2", ""]
        assert Session.objects.count() == 1
        assert queue.batches == []
        statement += 1
    assert died > 8


def _dies_at(number: int, work: Callable[[], object]) -> bool:
    seen = 0

    def die(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen > number:
            raise Crash
        return execute(sql, params, many, context)

    with connection.execute_wrapper(die):
        try:
            work()
        except Crash:
            return True
    return False


def test_two_workers_store_each_line_once_in_order() -> None:
    queue = ListQueue(*[batch(line(str(number))) for number in range(60)])
    found: list[BaseException] = []

    def work() -> None:
        try:
            while queue.batches:
                drain(queue)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            found.append(error)
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert found == []
    assert stored() == [str(number) for number in range(60)]


POISON = {
    "invalid JSON": b"\xff{",
    "not a batch": b"[1, 2]",
    "lines not a list": orjson.dumps({"process": "p", "skipped": 2, "facts": []}),
    "malformed line": orjson.dumps({"process": "p", "skipped": 2, "facts": [], "lines": [[1], [2]]}),
    "time out of range": batch(line("x", at=1e30), line("y"), skipped=2),
    "malformed time": batch(line("x", at="soon"), line("y"), skipped=2),
    "non-string text": batch(line("x", payload=None), line("y"), skipped=2),
    "incomplete fact": batch(line("x"), line("y"), facts=[{"fact": "session.opened"}], skipped=2),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_poison_batch_is_marked_as_skipped_and_later_batches_are_stored(
    poison: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    queue = ListQueue(batch(line("1")), poison, batch(line("2")))
    assert drain(queue) == 3
    assert stored() == ["1", "", "2"]
    mark = Message.objects.get(kind="skipped")
    assert mark.skipped == (4 if b'"lines"' in poison else 0)
    assert "2-0" in caplog.text
    assert queue.batches == []


def test_unknown_fact_is_ignored() -> None:
    drain(ListQueue(batch(line("1"), facts=[{"fact": "from.the.future", "at": 1.0}, opened()])))
    assert stored() == ["1"]
    assert Session.objects.count() == 1


def test_nul_characters_are_stored_as_symbol() -> None:
    nul = "a\x00b"
    texts = {"method": nul, "target": nul, "payload": nul, "answer": nul}
    drain(ListQueue(batch(line(nul, **texts), facts=[opened(client_name=nul, client_version=nul)])))
    found = Message.objects.get()
    kept = {found.method, found.request_id, found.target, found.payload, found.answer}
    assert kept == {Session.objects.get().client_name} == {"a\N{SYMBOL FOR NULL}b"}


def test_repeated_opened_fact_creates_one_session() -> None:
    drain(ListQueue(batch(facts=[opened(), opened(client_name="other")])))
    row = Session.objects.get()
    assert (row.client_name, row.principal, row.ended_at) == ("tests", "loopback", None)


def test_messages_stored_before_their_session_are_counted() -> None:
    early = batch(line("2", session=SESSION), line("3", session=SESSION))
    drain(ListQueue(early, batch(line("1", session=SESSION), line("x"), facts=[opened()])))
    assert Session.objects.get().messages_logged == 3


def test_session_of_deleted_user_is_stored_without_user() -> None:
    user = get_user_model().objects.create_user("ada")
    kept = get_user_model().objects.create_user("bob")
    facts = [opened("a" * 32, user=user.pk), opened("b" * 32, user=kept.pk)]
    user.delete()
    queue = ListQueue(batch(line("1"), facts=facts))
    drain(queue)
    assert list(Session.objects.order_by("id").values_list("user_id", flat=True)) == [None, kept.pk]
    assert (stored(), queue.batches) == (["1"], [])


def test_facts_update_session_in_order() -> None:
    now = time.time()
    facts = [
        opened(at=now - 100),
        {"fact": "session.changed", "at": now - 90, "session": SESSION, "fields": {"log_level": "error"}},
        {"fact": "session.seen", "at": now - 80, "sessions": [SESSION, "unknown"]},
        {"fact": "session.ended", "at": now - 70, "session": SESSION, "reason": "r" * 99},
        {"fact": "session.ended", "at": now, "session": SESSION, "reason": "again"},
        {"fact": "session.changed", "at": now, "session": "unknown", "fields": {}},
    ]
    drain(ListQueue(batch(facts=facts)))
    row = Session.objects.get()
    assert row.fields == {"version": "2025-11-25", "log_level": "error"}
    assert (row.last_seen_at.timestamp(), row.end_reason) == (pytest.approx(now - 80), "r" * 60)
    assert row.ended_at is not None
    assert row.ended_at.timestamp() == pytest.approx(now - 70)


def test_only_client_messages_update_last_seen() -> None:
    now = time.time()
    fact = opened(at=now - 100)
    drain(ListQueue(batch(line("1", session=SESSION, at=now - 50, direction="out"), facts=[fact])))
    assert Session.objects.get().last_seen_at.timestamp() == pytest.approx(now - 100)
    queue = ListQueue()
    queue.add(batch(line("2", session=SESSION, at=now - 40), line("3", session=SESSION, at=now - 30)))
    queue.add(batch(line("4", session=SESSION, at=now - 60)))
    drain(queue)
    assert Session.objects.get().last_seen_at.timestamp() == pytest.approx(now - 30)


def test_session_whose_end_is_stored_before_its_beginning_is_ended() -> None:
    now = time.time()
    end = {"fact": "session.ended", "at": now, "session": SESSION, "reason": "r", "principal": "loopback"}
    early = batch(line("1", session=SESSION), facts=[end])
    drain(ListQueue(early, batch(line("2", session=SESSION), facts=[opened(at=now - 5)])))
    row = Session.objects.get()
    assert (row.client_name, row.protocol_version, row.messages_logged) == ("tests", opened()["version"], 2)
    assert (row.end_reason, row.fields) == ("r", opened()["fields"])
    assert row.ended_at is not None
    assert row.ended_at.timestamp() == pytest.approx(now)
    assert row.created_at.timestamp() == pytest.approx(now - 5)


def test_end_of_a_session_without_a_record_is_stored_once() -> None:
    at = datetime.now(UTC)
    assert not session_ends.store(SESSION, "r", at, "")
    assert not Session.objects.exists()
    assert session_ends.store(SESSION, "first", at, "loopback")
    assert not session_ends.store(SESSION, "second", at, "loopback")
    assert Session.objects.get().end_reason == "first"


@pytest.mark.parametrize("how", ["message", "opened", "seen"])
def test_session_ended_as_idle_reopens_when_client_returns(how: str) -> None:
    now = time.time()
    client = "client-" + "a" * 40
    drain(ListQueue(batch(facts=[opened(client, at=now - 9_000, fields={})])))
    assert close_idle_sessions() == 1
    back = {
        "message": batch(line("1", session=client, at=now)),
        "opened": batch(facts=[opened(client, at=now, fields={})]),
        "seen": batch(facts=[{"fact": "session.seen", "at": now, "sessions": [client]}]),
    }
    queue = ListQueue()
    queue.add(back[how])
    drain(queue)
    row = Session.objects.get()
    assert (row.ended_at, row.end_reason) == (None, "")
    assert row.created_at.timestamp() == pytest.approx(now - 9_000)
    assert row.last_seen_at.timestamp() == pytest.approx(now)


def test_late_message_does_not_reopen_deliberately_ended_session() -> None:
    now = time.time()
    facts = [
        opened(at=now - 9_000),
        {"fact": "session.ended", "at": now - 70, "session": SESSION, "reason": "ended by the client"},
        opened("t" * 32, at=now - 9_000),
    ]
    drain(ListQueue(batch(facts=facts)))
    assert close_idle_sessions() == 1
    late = line("1", session=SESSION, at=now), line("2", session="t" * 32, at=now, direction="out")
    queue = ListQueue()
    queue.add(batch(*late, facts=[opened(at=now)]))
    drain(queue)
    reasons = Session.objects.exclude(ended_at=None).order_by("id").values_list("end_reason", flat=True)
    assert list(reasons) == ["ended by the client", "idle"]


def test_key_use_is_stored() -> None:
    user = get_user_model().objects.create_user("ada")
    key, _ = issue_api_key(user=user, name="laptop")
    facts = [{"fact": "key.used", "at": 0, "keys": {str(key.pk): 1_700_000_000.0, "999999": 1.0}}]
    drain(ListQueue(batch(facts=facts)))
    key.refresh_from_db()
    assert key.last_used_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_drain_resumes_after_redis_and_database_outage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mcp_app.message_log.writer.RETRY_SECONDS", 0.0)
    monkeypatch.setattr("mcp_app.message_log.writer.IDLE_SECONDS", 0.0)
    stop = threading.Event()
    queue = ListQueue(batch(line("1")))
    faults = [StreamsUnavailable("away"), None, "database"]

    def trouble(step: str) -> None:
        if step == "trim":
            stop.set()
        fault = faults.pop(0) if faults else None
        if fault == "database":
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM no_such_table")
        elif fault is not None:
            raise fault

    queue.fault = trouble
    monkeypatch.setattr("mcp_app.message_log.writer.SyncMessageQueue.connect", lambda: queue)
    run_forever(stop)
    assert stored() == ["1"]
    assert len([record for record in caplog.records if "postponed" in record.getMessage()]) == 2


class Pauses(threading.Event):
    """Records the pauses of the drain, and stops it after some."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.count = count

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout or 0.0)
        return len(self.asked) > self.count


def test_drain_pauses_between_transactions_for_other_writers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcp_app.message_log.writer.WRITE_SECONDS", -1.0)
    queue = ListQueue()
    for number in range(3):
        queue.add(batch(line(str(number))))
    monkeypatch.setattr("mcp_app.message_log.writer.SyncMessageQueue.connect", lambda: queue)
    pauses = Pauses(4)
    run_forever(pauses)
    assert stored() == ["0", "1", "2"]
    given = YIELD_SECONDS.get(connection.vendor, 0.0)
    assert pauses.asked == [0.0, given, given, given, IDLE_SECONDS]
    # Longer than the longest sleep of SQLite between attempts to get its lock.
    assert YIELD_SECONDS["sqlite"] > 0.1
