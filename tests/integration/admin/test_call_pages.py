"""Background calls in the admin: list, queues, live page, redaction, cancelling and retrying."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any
from uuid import uuid4

import orjson
import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pydantic import Field
from pytest_django.fixtures import Settings as DjangoSettings

from mcp_app import tool
from mcp_app.admin.calls.callers import client_name
from mcp_app.admin.markup import span
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot_loader import from_code
from mcp_app.database import clock
from mcp_app.execution.services import OPERATOR_TOKEN
from mcp_app.execution.stored.call_record import record
from mcp_app.execution.stored.stored_answers import session_of
from mcp_app.models import AuditEvent, Call, Message, Tool
from mcp_app.protocol.messages import jsonrpc
from mcp_app.streams import Streams
from mcp_app.streams.blocking.presence import Presence
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.integration.admin.test_hostile_text import Page
from tests.samples.admin_seed import HOSTILE, RUNNING, Seed, background_call

LIST = "/admin/mcp_app/call/"


@pytest.fixture
def operator(client_of: ClientOf, seeded: Seed) -> Client:
    """Return a client of staff with the permissions to view and change calls."""
    seeded.viewer.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="mcp_app", codename__in=["view_call", "change_call"]
        )
    )
    return client_of("viewer")


@pytest.fixture
def offered(seeded: Seed) -> Iterator[None]:
    """Serve the seeded tools from this process, and make the seeded call one that ``echo`` accepts."""
    Call.objects.filter(pk=seeded.call.pk).update(arguments='{"text": "hi"}')
    before = current_snapshot.current()
    current_snapshot.refresh_now(force=True)
    yield
    current_snapshot.replace(before)


@pytest.fixture
def with_redis(clean_redis: str, settings: DjangoSettings) -> str:
    """Set ``REDIS_URL`` to the Redis of the tests."""
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    return clean_redis


def _say(url: str, call: Call, *messages: tuple[str, dict[str, Any]]) -> None:
    """Publish events to the call's stream as a worker does."""

    async def write() -> None:
        streams = Streams.connect(url)
        await streams.start()
        for method, params in messages:
            encoded = jsonrpc.encode_notification(method, params)
            await streams.log.append(call.session_id, call.stream, encoded)
        await streams.close()

    asyncio.run(write())


def _live(client: Client, call: Call, after: str = "") -> dict[str, Any]:
    answer = client.get(page("call", "live", call.pk) + f"?after={after}")
    assert answer.status_code == 200
    live: dict[str, Any] = answer.json()
    return live


def _tools(client: Client, query: str) -> list[str]:
    return sorted(call.tool for call in client.get(LIST + query).context["cl"].result_list)


def test_call_list_shows_state_duration_and_progress(root: Client, seeded: Seed) -> None:
    text = "".join(Page(root.get(LIST).content.decode()).read)
    for words in ("12 ms", "3.0 s", "3 of 3", "tool error", "waiting for client", "succeeded", "cancelled"):
        assert words in text, words


def test_tool_error_is_shown_as_one_failed_verdict(root: Client, seeded: Seed) -> None:
    Call.objects.exclude(pk=seeded.call.pk).delete()
    Call.objects.filter(pk=seeded.call.pk).update(state="completed", outcome="tool_error")
    one = page("call", "change", seeded.call.pk)
    for address in (LIST, one):
        text = re.sub(r"\s+", " ", root.get(address).content.decode())
        verdicts = re.findall(
            r'<span class="mcp-badge mcp-badge-(\w+)"(?: data-live-state)?>(\w[\w ]*)</span>', text
        )
        assert [each for each in verdicts if each[1] != "cancelling"] == [("bad", "failed")], address
        assert '<span class="mcp-dim">tool error</span>' in text, address
    assert (_live(root, seeded.call)["state"], _live(root, seeded.call)["tone"]) == ("failed", "bad")
    found = root.get(reverse("mcp_find"), {"q": seeded.call.pk.hex}).content.decode()
    assert "failed" in found
    assert "completed" not in found
    # The filter by state follows what the list shows.
    assert _tools(root, "?state=failed") == ["echo"]
    assert _tools(root, "?state=completed") == []
    # The API reports the stored state.
    assert Call.objects.get().state == "completed"


@pytest.mark.parametrize(
    ("query", "tools"),
    [
        ("?state=accepted", ["count"]),
        ("?state=cancelled", ["burn"]),
        ("?state=open&q=count", ["count", "count"]),
        ("?state=any&q=count", ["count", "count"]),
        ("?tool=burn", ["burn"]),
        ("?q=web_scr", ["web_scrape"]),
        ("?q=gone-session", [HOSTILE["bidi"]]),
    ],
)
def test_call_list_filters_and_searches(query: str, tools: list[str], root: Client, seeded: Seed) -> None:
    Tool.objects.filter(name="count").update(background=True)
    assert _tools(root, query) == tools


def test_call_list_names_the_client_and_links_its_session(root: Client, seeded: Seed) -> None:
    fields = {**seeded.call.session_fields, "client": '{"name": "claude-code", "version": "2"}'}
    Call.objects.filter(pk=seeded.call.pk).update(session_fields=fields)
    answer = root.get(LIST).content.decode()
    link = re.search(r'<a class="mcp-link" href="([^"]+)">\s*(?:<bdi[^>]*>)?claude-code', answer)
    assert link is not None
    assert link[1] == page("session", "change", seeded.session.pk)
    # A session that does not exist or is not visible to the user: its name without a link.
    gone = Call.objects.get(session_id="gone-session")
    Call.objects.filter(pk=gone.pk).update(session_fields={**fields, "client": '{"name": "elsewhere"}'})
    answer = root.get(LIST).content.decode()
    assert "elsewhere" in answer
    assert "gone-session" not in re.findall(r'href="([^"]+)"', answer)


@pytest.mark.parametrize("said", [None, "", "{", "[]", '{"name": null}', "7"])
def test_missing_client_info_gives_an_empty_name(said: str | None) -> None:
    assert client_name(said) == ""


def test_call_pages_are_titled_background_calls(root: Client, seeded: Seed) -> None:
    listed = root.get(LIST).content.decode()
    assert re.search(r"<title>[^<]*Background calls", listed)
    shown = root.get(page("call", "change", seeded.call.pk)).content.decode()
    assert f"Background call of {seeded.call.tool}" in shown
    assert "Background calls" in shown


def test_call_search_accepts_ids_with_and_without_hyphens(root: Client, seeded: Seed) -> None:
    pk = seeded.running_call.pk
    for words in (str(pk), pk.hex, str(pk)[:13]):
        assert _tools(root, f"?q={words}") == ["count"]


def test_call_list_filters_by_day(root: Client, seeded: Seed) -> None:
    Call.objects.filter(pk=seeded.call.pk).update(accepted_at=timezone.now() - timedelta(days=40))
    month = (timezone.now() - timedelta(days=30)).strftime("%Y-%m-%d 00:00:00+00:00")
    listed = root.get(LIST, {"accepted_at__gte": month}).context["cl"].result_list
    assert seeded.call.pk not in {call.pk for call in listed}
    assert len(listed) == Call.objects.count() - 1


def test_call_list_query_count_is_constant_and_skips_answers(root: Client, seeded: Seed) -> None:
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(LIST).status_code == 200
        return [query["sql"] for query in captured]

    before = queries()
    for number in range(100, 120):
        background_call(seeded.session.pk, number)
    after = queries()
    assert len(after) == len(before)
    assert not [sql for sql in after if '"mcp_app_call"."answer"' in sql]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (-1, "<0.1 ms"),
        (0.0052, "5.2 ms"),
        (0.0124, "12 ms"),
        (3.21, "3.2 s"),
        (245, "4 min 05 s"),
        (7380, "2 h 03 min"),
        (200_000, "2 d"),
    ],
)
def test_span_formats_durations(seconds: float | None, words: str) -> None:
    assert span(None if seconds is None else timedelta(seconds=seconds)) == words


def test_queue_box_counts_jobs_calls_and_workers(root: Client, seeded: Seed, with_redis: str) -> None:
    Presence(with_redis).renew("worker@host", ["celery"])
    box = root.get(LIST).context["box"]
    queues = {queue.name: queue for queue in box.queues}
    assert (queues["celery"].jobs, queues["celery"].running, queues["celery"].workers) == (0, 1, 1)
    assert (queues["slow"].waiting, queues["slow"].workers, queues["slow"].orphaned) == (1, 0, True)
    text = root.get(LIST).content.decode()
    assert "worker@host" in text
    assert "no worker" in text


def test_queue_box_reports_when_no_worker_was_seen(root: Client, seeded: Seed, with_redis: str) -> None:
    assert "No worker in the last 15 seconds" in root.get(LIST).content.decode()


@pytest.mark.parametrize(
    ("url", "says"), [("", "Without Redis"), ("redis://127.0.0.1:1/0", "Redis is unavailable")]
)
def test_call_pages_work_without_redis(
    url: str, says: str, root: Client, seeded: Seed, settings: DjangoSettings
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": url}
    assert says in root.get(LIST).content.decode()
    live = _live(root, seeded.running_call)
    assert live["progress"] == {"value": 40, "total": 100, "text": "40 of 100"}
    assert bool(live["note"]) == bool(url)


def test_call_page_redacts_secrets(root: Client, seeded: Seed) -> None:
    text = "".join(Page(root.get(page("call", "change", seeded.call.pk)).content.decode()).read)
    assert '"password": "[redacted]"' in text
    assert "hunter2" not in text
    assert "counted to 3" in text


def test_call_page_redacts_write_only_arguments(root: Client, seeded: Seed) -> None:
    def unlock(pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})]) -> str:
        return pin

    with registry.isolated():
        tool(unlock)
        before = current_snapshot.replace(from_code())
    Call.objects.filter(pk=seeded.call.pk).update(arguments='{"pin": "open-sesame-93"}')
    text = root.get(page("call", "change", seeded.call.pk)).content.decode()
    current_snapshot.replace(before)
    assert "open-sesame-93" not in text
    assert "[redacted]" in text


def test_long_answer_is_truncated_until_requested_whole(root: Client, seeded: Seed) -> None:
    Call.objects.filter(pk=seeded.call.pk).update(answer=orjson.dumps({"text": "word " * 2000}).decode())
    address = page("call", "change", seeded.call.pk)
    cut, whole = root.get(address).content.decode(), root.get(address + "?all=1").content.decode()
    assert "?all=1" in cut
    assert "Show all 10011 characters" in cut
    assert cut.count("word ") < 500
    assert whole.count("word ") >= 2000


def test_live_view_resumes_after_the_last_event(root: Client, seeded: Seed, with_redis: str) -> None:
    call = seeded.running_call
    _say(
        with_redis,
        call,
        ("notifications/message", {"level": "warning", "logger": "count", "data": {"token": "t0p", "n": 1}}),
        ("notifications/progress", {"progressToken": 1, "progress": 41, "total": 100, "message": "at 41"}),
    )
    first = _live(root, call)
    assert first["lines"] == [
        {"level": "warning", "text": '{"token":"[redacted]","n":1}'},
        {"level": "progress", "text": "41 of 100 at 41"},
    ]
    assert first["progress"] == {"value": 41, "total": 100, "text": "41 of 100 at 41"}
    assert (first["over"], first["state"], first["tone"]) == (False, "running", "info")
    assert _live(root, call, first["after"])["lines"] == []
    _say(with_redis, call, ("notifications/message", {"level": "info", "data": HOSTILE["bidi"]}))
    later = _live(root, call, first["after"])
    assert [line["text"] for line in later["lines"]] == [
        "safe⟦U+202E⟧gnp.exe⟦U+202C⟧ and ⟦U+2066⟧isolated⟦U+2069⟧"
    ]
    text = "".join(Page(root.get(page("call", "change", call.pk)).content.decode()).read)
    assert "41 of 100 at 41" in text
    assert "t0p" not in text


def test_live_view_shows_the_wait_for_approval_as_progress_only(
    root: Client, seeded: Seed, with_redis: str
) -> None:
    waiting = {"progressToken": 1, "progress": 1e-9, "message": "Waiting for approval (3 min left)"}
    _say(with_redis, seeded.undecided_call, ("notifications/progress", waiting))
    shown = _live(root, seeded.undecided_call)
    assert shown["lines"] == []
    assert shown["progress"]["text"] == "Waiting for approval (3 min left)"


@pytest.mark.parametrize("after", ["x", "1", "-", "1-", "-1", "1-x", "9" * 50 + "-1", "١-١", "1-1-1", "%00"])
def test_live_view_with_unknown_position_starts_at_the_oldest_event(
    after: str, root: Client, seeded: Seed, with_redis: str
) -> None:
    _say(with_redis, seeded.running_call, ("notifications/message", {"level": "info", "data": "hello"}))
    assert [line["text"] for line in _live(root, seeded.running_call, after)["lines"]] == ["hello"]


def test_live_view_requires_view_permission_and_get(
    client_of: ClientOf, client: Client, root: Client, viewer: Client, seeded: Seed
) -> None:
    address = page("call", "live", seeded.running_call.pk)
    assert viewer.get(address).status_code == 200
    assert client_of("outsider").get(address).status_code == 403
    assert client.get(address).status_code == 302
    assert root.post(address).status_code == 405
    assert root.get(page("call", "live", uuid4())).status_code == 404
    assert root.get(page("call", "live", "no-uuid")).status_code == 404


def test_empty_log_does_not_hide_stored_progress(root: Client, seeded: Seed) -> None:
    text = "".join(Page(root.get(page("call", "change", seeded.running_call.pk)).content.decode()).read)
    assert "40 of 100" in text
    assert "No output yet" in text
    assert "Nothing yet" not in text


def test_finished_call_is_not_polled(root: Client, seeded: Seed) -> None:
    assert "data-live=" in root.get(page("call", "change", seeded.running_call.pk)).content.decode()
    assert "data-live=" not in root.get(page("call", "change", seeded.call.pk)).content.decode()
    assert _live(root, seeded.call)["over"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(14.5, r"1[0-4]\.\d s left"), (-1, "expired"), (600, "expired")]
)
def test_running_call_shows_its_lease(seconds: float, words: str, root: Client, seeded: Seed) -> None:
    call = seeded.running_call
    Call.objects.filter(pk=call.pk).update(lease_until=clock.lease(seconds))
    assert re.fullmatch(words, _live(root, call)["lease"])
    text = "".join(Page(root.get(page("call", "change", call.pk)).content.decode()).read)
    assert re.search(rf"Worker's lease, renewed while it runs\s*{words}", text)
    assert "1970-01" not in text


def test_finished_call_shows_no_lease(root: Client, seeded: Seed) -> None:
    assert _live(root, seeded.call)["lease"] == "–"


def test_stopping_a_running_call_is_requested_once_and_audited(operator: Client, seeded: Seed) -> None:
    call = seeded.running_call
    address = page("call", "stop", call.pk) + "?from_page=1"
    answer = operator.post(address, follow=True)
    assert "The call is being cancelled." in answer.content.decode()
    call.refresh_from_db()
    assert (call.state, call.cancel_reason) == ("running", "cancelled by an administrator")
    assert call.cancel_requested_at is not None
    event = AuditEvent.objects.get(action="call.stop")
    assert (event.object_key, event.actor_id, event.detail["was"]) == (
        str(call.pk), seeded.viewer.pk, "running",
    )  # fmt: skip


def test_stopping_a_waiting_call_cancels_it_and_answers_its_client(operator: Client, seeded: Seed) -> None:
    call = seeded.waiting_call
    operator.post(page("call", "stop", call.pk))
    call.refresh_from_db()
    assert (call.state, call.outcome, call.published) == ("cancelled", "cancelled", False)
    assert orjson.loads(call.answer)["error"]["code"] == -32800


def test_cancelled_call_names_the_operator_to_operators_only(
    operator: Client, client_of: ClientOf, seeded: Seed
) -> None:
    call = seeded.waiting_call
    answer = operator.post(page("call", "stop", call.pk) + "?from_page=1", follow=True).content.decode()
    assert "The call is cancelled." in answer
    assert len(re.findall(r'mcp-badge-\w+"[^>]*>cancelled<', answer)) == 1
    read = "".join(Page(answer).read)
    assert f"cancelled by an administrator ({seeded.viewer.username})" in read
    # Users with view permission only read the text that the client received.
    seeded.viewer.user_permissions.set(Permission.objects.filter(codename="view_call"))
    read = "".join(Page(client_of("viewer").get(page("call", "change", call.pk)).content.decode()).read)
    assert "cancelled by an administrator" in read
    assert "cancelled by an administrator (" not in read


def test_unpublished_answer_is_reported_only_when_overdue(root: Client, seeded: Seed) -> None:
    def said(finished_ago: float, *, published: bool) -> bool:
        at = timezone.now() - timedelta(seconds=finished_ago)
        Call.objects.filter(pk=seeded.call.pk).update(finished_at=at, published=published)
        return b"data-unsent" in root.get(page("call", "change", seeded.call.pk)).content

    assert not said(0, published=False)
    assert said(60, published=False)
    assert not said(60, published=True)


def test_finished_call_cannot_be_stopped(operator: Client, seeded: Seed) -> None:
    answer = operator.post(page("call", "stop", seeded.call.pk), follow=True)
    assert "The call has already finished." in answer.content.decode()
    assert not AuditEvent.objects.filter(action="call.stop").exists()


def test_bulk_action_stops_calls(operator: Client, seeded: Seed) -> None:
    chosen = [seeded.running_call.pk, seeded.waiting_call.pk, seeded.call.pk]
    answer = operator.post(LIST, {"action": "stop_calls", "_selected_action": chosen}, follow=True)
    assert "Calls cancelled: 2. Already finished: 1." in answer.content.decode()
    finished = {"action": "stop_calls", "_selected_action": [seeded.call.pk]}
    again = operator.post(LIST, finished, follow=True).content.decode()
    assert "Nothing cancelled: the call had already finished." in again


@pytest.mark.usefixtures("offered")
def test_retry_creates_a_call_for_the_same_principal_without_session(operator: Client, seeded: Seed) -> None:
    old = seeded.call
    answer = operator.post(page("call", "retry", old.pk))
    new = Call.objects.get(retry_of=old, session_id__startswith="operator-")
    assert answer["Location"] == page("call", "change", new.pk)
    assert (new.state, new.attempt, new.tool, new.principal) == ("accepted", 0, "echo", old.principal)
    assert new.pk != old.pk
    assert new.stream != old.stream
    assert orjson.loads(new.meta) == {"progressToken": OPERATOR_TOKEN}
    assert new.session_fields["capabilities"] == "{}"
    assert new.session_fields["version"] == old.session_fields["version"]
    event = AuditEvent.objects.get(action="call.retry")
    assert (event.object_key, event.detail["new_call"], event.actor_id) == (
        str(old.pk), str(new.pk), seeded.viewer.pk,
    )  # fmt: skip
    shown = operator.get(page("call", "change", old.pk)).content.decode()
    assert str(new.pk) in shown


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tool": "gone"}, "no longer offered"),
        ({"arguments": '{"txt": 1}'}, "no longer takes these arguments"),
        (RUNNING | {"state": "running"}, "Only a call that is over"),
    ],
)
def test_impossible_retry_is_explained(
    change: dict[str, Any], says: str, operator: Client, seeded: Seed
) -> None:
    Call.objects.filter(pk=seeded.call.pk).update(**change)
    answer = operator.post(page("call", "retry", seeded.call.pk) + "?from_page=1", follow=True)
    assert says in answer.content.decode()
    assert not Call.objects.filter(session_id__startswith="operator-").exists()
    assert not AuditEvent.objects.filter(action="call.retry").exists()


@pytest.mark.usefixtures("offered")
def test_bulk_retry_skips_calls_that_cannot_be_retried(operator: Client, seeded: Seed) -> None:
    chosen = [seeded.call.pk, seeded.running_call.pk]
    answer = operator.post(LIST, {"action": "retry_calls", "_selected_action": chosen}, follow=True)
    text = answer.content.decode()
    assert "New calls: 1." in text
    assert "Unchanged: count" in text


def test_stop_and_retry_buttons_require_change_permission(operator: Client, seeded: Seed) -> None:
    seeded.viewer.user_permissions.remove(Permission.objects.get(codename="change_call"))
    for call in (seeded.running_call, seeded.call):
        text = operator.get(page("call", "change", call.pk)).content.decode()
        assert "mcp-stop" not in text
        assert "mcp-retry" not in text


META = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


def test_call_and_message_pages_show_the_trace(root: Client, seeded: Seed) -> None:
    Call.objects.filter(pk=seeded.call.pk).update(meta=orjson.dumps(META).decode())
    logged = orjson.dumps({"method": "tools/call", "params": {"name": "echo", "_meta": META}}).decode()
    type(seeded.message).objects.filter(pk=seeded.message.pk).update(payload=logged)
    for address in (page("call", "change", seeded.call.pk), page("message", "change", seeded.message.pk)):
        text = root.get(address).content.decode()
        assert "<code>4bf92f3577b34da6a3ce929d0e0e4736</code>" in text
        assert "<code>00f067aa0ba902b7</code>" in text


@pytest.mark.parametrize("meta", ['{"traceparent": "<script>"}', '{"traceparent": ["x"]}', "{}"])
def test_call_with_malformed_trace_shows_no_trace(meta: str, root: Client, seeded: Seed) -> None:
    Call.objects.filter(pk=seeded.call.pk).update(meta=meta)
    assert "<dt>Trace</dt>" not in root.get(page("call", "change", seeded.call.pk)).content.decode()


def test_task_call_shows_its_expiry(operator: Client, seeded: Seed) -> None:
    address = page("call", "change", seeded.call.pk)
    assert b"available to its client until" not in operator.get(address).content
    Call.objects.filter(pk=seeded.call.pk).update(task_until="2026-07-29T12:00:00Z")
    assert b"available to its client until 2026-07-29" in operator.get(address).content
    assert b'mcp-badge-plain">task<' in operator.get(LIST).content


def test_core_task_page_links_its_session(root: Client, seeded: Seed) -> None:
    fields = {**seeded.call.session_fields, "session": seeded.session.pk}
    task = background_call(seeded.session.pk, 900)
    Call.objects.filter(pk=task.pk).update(session_id="task-1", session_fields=fields)
    page = root.get(f"{LIST}{task.pk}/change/")
    assert seeded.session.pk in page.context["session_url"]
    assert seeded.session.pk in page.context["messages_url"]
    Call.objects.filter(pk=task.pk).update(session_fields={**fields, "session": "gone"})
    assert root.get(f"{LIST}{task.pk}/change/").context["session_url"] is None


SENT: dict[str, Any] = {
    "number": 1, "method": "POST", "headers": [], "body": "", "sent": 0, "status": 200, "content_type": "",
    "answer": "", "received": 0, "ms": 1.0, "problem": "",
}  # fmt: skip


def _log_request(call: Call, url: str, **more: Any) -> None:
    """Store the message of a call, with one request to another server."""
    fields = {
        "session_id": session_of(record(call)).record_id,
        "principal": call.principal,
        "at": call.finished_at,
        "direction": "in",
        "kind": "request",
        "method": "tools/call",
        "request_id": call.request_id,
        "target": call.tool,
        "outgoing": orjson.dumps([{**SENT, "url": url}]).decode(),
    }
    Message.objects.create(**{**fields, **more})


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_call_shows_its_own_requests_to_other_servers(root: Client, version: str) -> None:
    call = background_call("x-1", 7001)
    call.session_fields = {**call.session_fields, "version": version}
    call.save()
    assert call.finished_at is not None
    _log_request(call, "https://api.example.com/own")
    _log_request(call, "https://api.example.com/reused-id", at=call.finished_at + timedelta(seconds=20))
    _log_request(call, "https://api.example.com/next-day", at=call.finished_at + timedelta(days=1))
    _log_request(call, "https://api.example.com/of-another", principal="user:2/key:2")
    shown = root.get(f"{LIST}{call.pk}/change/").content.decode()
    assert re.findall(r"https://api\.example\.com/[a-z-]+", shown) == ["https://api.example.com/own"]
