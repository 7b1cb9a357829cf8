"""Background calls over the API: started once, limited and audited as over MCP, followed to their end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from django.contrib.auth.models import Group
from django.test import Client

from mcp_app import conf
from mcp_app.auth.api_keys import issue_api_key, principal_of_user
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots.current_snapshot import loaded, refresh_now
from mcp_app.catalogue.toolsets.groups import memberships_of
from mcp_app.catalogue.toolsets.services import save_toolset
from mcp_app.execution import long_poll
from mcp_app.execution.services import start_call
from mcp_app.execution.stored import records
from mcp_app.execution.stored.statements import FINISH_UNSTARTED
from mcp_app.limits import current as limits
from mcp_app.limits.services import save_rule
from mcp_app.message_log.counts.refusals import refusal_counts
from mcp_app.message_log.writer import drain_once
from mcp_app.models import AuditEvent, Call, Message, Tool, Toolset
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import Forbidden
from mcp_app.protocol.principal_key import person_of
from mcp_app.protocol.refusals import FAULTS
from mcp_app.streams.blocking import limits as shared
from mcp_app.streams.connections.keys import KEPT
from mcp_app.streams.gateway import Streams
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from mcpsite.redis_server import RedisServer
from tests.integration.api.conftest import ClientOf, send
from tests.racing import at_once
from tests.samples.admin_seed import Seed

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = {"tool": "count", "arguments": {"to": 3}}


@pytest.fixture
def seeded(seeded_anew: Seed) -> Seed:
    return seeded_anew


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of calls whose job was enqueued; the broker is another program."""
    jobs: list[str] = []
    monkeypatch.setattr("celery.current_app.send_task", lambda name, args, **_: jobs.append(args[0]))
    return jobs


@pytest.fixture
def api(client_of: ClientOf, clean_redis: str, settings: Any, queued: list[str]) -> Iterator[Client]:
    """Return an operator's client of a server with Redis and the demo's tools."""
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    mirror()
    refresh_now(force=True)
    yield client_of("operator")
    refresh_now(force=True)


def _start(client: Client, body: Any = None, key: str | None = None) -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    return send(client, "POST", "/api/calls/", COUNT if body is None else body, headers=headers)


def test_call_is_accepted_stored_enqueued_and_audited(api: Client, queued: list[str]) -> None:
    answer = _start(api)
    assert answer.status_code == 202, answer.content
    call = Call.objects.get()
    assert answer["Location"].endswith(f"/api/calls/{call.pk}/")
    assert queued == [str(call.pk)]
    assert (call.state, call.tool, orjson.loads(call.arguments)) == ("accepted", "count", {"to": 3})
    assert call.principal == f"user:{call.user_id}/key:{call.api_key_id}"
    event = AuditEvent.objects.get(action="call.start")
    assert (event.actor_name, event.object_key) == ("the-operator", str(call.pk))
    assert event.detail == {"tool": "count"}


def test_repeated_idempotency_key_returns_the_same_call(api: Client, queued: list[str]) -> None:
    first, second = _start(api, key="once"), _start(api, key="once")
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]
    assert len(queued) == AuditEvent.objects.filter(action="call.start").count() == 1
    assert _start(api, key="twice").json()["id"] != first.json()["id"]
    assert _start(api).json()["id"] != _start(api).json()["id"]


def test_key_reused_with_an_integer_beyond_64_bits_is_refused(api: Client, queued: list[str]) -> None:
    _start(api, key="once")
    body = b'{"tool": "count", "arguments": {"to": %d}}' % 2**70
    headers = {"idempotency-key": "once"}
    answer = api.post("/api/calls/", body, content_type="application/json", headers=headers)
    assert answer.status_code == 422
    assert len(queued) == 1


def test_concurrent_requests_with_one_key_start_one_call(api: Client, queued: list[str]) -> None:
    answers = at_once([partial(_start, api, key="race")] * 4)
    assert Call.objects.count() == len(queued) == 1
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 202]


def test_key_reused_with_other_arguments_is_refused(api: Client, queued: list[str]) -> None:
    _start(api, key="once")
    answer = _start(api, {"tool": "count", "arguments": {"to": 4}}, key="once")
    assert answer.status_code == 422
    assert len(queued) == 1


def test_invented_tool_of_a_reused_key_is_not_counted_as_a_tool(api: Client, queued: list[str]) -> None:
    _start(api, key="once")
    drain_once(SyncMessageQueue.connect())
    Message.objects.all().delete()
    assert _start(api, {"tool": "invented"}, key="once").status_code == 422
    drain_once(SyncMessageQueue.connect())
    (row,) = Message.objects.all()
    assert (row.refusal, row.target) == ("key_reused", "")


def test_keys_of_other_principals_are_independent(
    api: Client, client_of: ClientOf, queued: list[str]
) -> None:
    assert _start(api, key="once").status_code == 202
    assert _start(client_of("administrator"), key="once").status_code == 202
    assert len(queued) == 2


@pytest.mark.parametrize("key", ["x" * 201, "tab\there", "\u202e"])
def test_invalid_idempotency_key_is_refused(key: str, api: Client) -> None:
    assert _start(api, key=key).status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"tool": "count", "arguments": {"to": "three"}}, 400),
        ({"tool": "count", "arguments": {"to": 3, "more": 1}}, 400),
        ({"tool": "count", "arguments": [3]}, 400),
        ({"tool": "count", "arguments": None}, 400),
        ({"tool": 3}, 404),
        ({"tool": "no-such-tool"}, 404),
        ({"arguments": {}}, 400),
        ({}, 400),
        ([], 400),
        ("count", 400),
    ],
)
def test_invalid_call_is_not_started(body: Any, status: int, api: Client) -> None:
    answer = _start(api, body)
    assert answer.status_code == status, answer.content
    assert not Call.objects.exists()


def test_restricted_tool_is_refused_like_an_unknown_tool(api: Client) -> None:
    Tool.objects.filter(name="count").update(permission="mcp_app.delete_tool")
    refresh_now(force=True)
    assert _start(api).status_code == 404


def stored_toolset(slug: str = "team", **values: Any) -> Toolset:
    members = [{"kind": "tool", "key": "count", "fixed_arguments": {"delay_seconds": 0}}]
    return save_toolset(actor=None, slug=slug, **{"audience": "everyone", "members": members, **values})


@pytest.mark.requirement("TSET-01")
def test_call_in_a_toolset_follows_its_members_arguments_and_limits(api: Client, queued: list[str]) -> None:
    stored_toolset()
    save_rule(actor=None, name="one", who="installation", what="toolset", what_value="team", budget=1)
    limits.load()
    body = {**COUNT, "toolset": "team"}
    sent = {**body, "arguments": {"to": 3, "delay_seconds": 1}}
    assert _start(api, sent).json()["refusal"] == "invalid_arguments"
    assert _start(api, {"tool": "burn", "toolset": "team", "arguments": {"seconds": 1}}).status_code == 404
    made = _start(api, body, key="nightly")
    assert made.status_code == 202, made.content
    call = Call.objects.get(pk=queued[0])
    assert call.session_fields["path"] == "/mcp/team"
    assert _start(api, body, key="nightly").json()["id"] == made.json()["id"]
    assert _start(api, COUNT, key="nightly").status_code == 422
    refused = _start(api, body)
    assert (refused.status_code, refused.json()["refusal"]) == (429, "limit_used_up")
    assert _start(api).status_code == 202
    assert send(api, "POST", f"/api/calls/{call.pk}/cancel/").status_code == 202


@pytest.mark.requirement("TSET-02")
def test_call_in_a_toolset_needs_access_to_it(client_of: ClientOf, api: Client) -> None:
    Group.objects.create(name="Team")
    stored_toolset(audience="groups", permissions=memberships_of(["Team"]))
    stored_toolset("large", searches=True)
    body = {**COUNT, "toolset": "team"}
    stranger = _start(api, body)
    assert (stranger.status_code, "Team" in stranger.json()["detail"]) == (403, True), stranger.content
    assert _start(client_of("superuser"), body).status_code == 202
    assert _start(api, {**COUNT, "toolset": "unknown"}).status_code == 404
    assert _start(api, {**COUNT, "toolset": "No slug"}).status_code == 400
    searching = {"tool": "call_read_tool", "arguments": {"name": "count"}, "toolset": "large"}
    assert _start(api, searching).status_code == 404
    assert _start(api, {**COUNT, "toolset": "large"}).status_code == 202


def test_token_for_one_address_starts_no_call_in_a_toolset(
    api: Client, user_of: Callable[[str], Any]
) -> None:
    stored_toolset()
    bound = replace(principal_of_user(user_of("operator")), path="/mcp")
    with pytest.raises(Forbidden):
        start_call(principal=bound, actor=None, path="/mcp/team", **COUNT)


def test_rate_limit_is_shared_with_mcp_and_has_a_retry_after(api: Client) -> None:
    Tool.objects.filter(name="count").update(calls_per_minute=2)
    refresh_now(force=True)
    assert [_start(api).status_code for _ in range(2)] == [202, 202]
    refused = _start(api)
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert "2 calls per minute" in refused.json()["detail"]
    (bucket,) = limits.buckets_of(Call.objects.latest("pk").principal, loaded().tools["count"], "/mcp")
    assert shared.lease(bucket.key, bucket.rule.emission, bucket.burst, 1).calls == 0


def test_open_calls_per_principal_are_limited(api: Client, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_OPEN_BACKGROUND_CALLS_PER_PRINCIPAL": 1}
    assert _start(api, key="first").status_code == 202
    assert _start(api).status_code == 429
    assert _start(api, key="first").status_code == 200
    Call.objects.update(state="completed")
    assert _start(api).status_code == 202


def test_storage_quota_refuses_new_calls_of_the_user(api: Client, queued: list[str]) -> None:
    first = _start(api, key="first")
    person = f"user:{Call.objects.get().user_id}"
    with redis.Redis.from_url(conf.get().redis_url, protocol=2) as client:
        client.hset(KEPT[2], person, conf.get().max_kept_bytes_per_principal)
        refused = _start(api)
        assert (refused.status_code, refused["Content-Type"]) == (429, "application/problem+json")
        assert int(refused["Retry-After"]) > 0
        assert "Too much is kept for you" in refused.json()["detail"]
        # A repeated request stores nothing more.
        assert _start(api, key="first").json()["id"] == first.json()["id"]
        assert len(queued) == Call.objects.count() == 1
        client.hdel(KEPT[2], person)
    assert _start(api).status_code == 202


def test_calls_are_refused_while_redis_is_nearly_full(
    api: Client, settings: Any, tmp_path: Path, queued: list[str]
) -> None:
    server = RedisServer(tmp_path / "redis", append_only=False, max_memory="64mb")
    server.start()
    try:
        settings.MCP = {**settings.MCP, "REDIS_URL": server.url}
        assert _start(api).status_code == 202
        with redis.Redis.from_url(server.url, protocol=2) as client:
            for number in range(56):
                client.set(f"large-{number}", b"x" * 1_000_000)
        refused = _start(api)
    finally:
        server.stop()
    assert refused.status_code == 503, refused.content
    assert int(refused["Retry-After"]) > 0
    assert "nearly full" in refused.json()["detail"]
    # Without Redis, the stored call waits for it.
    assert _start(api).status_code == 202


def test_waiting_call_is_cancelled_once(api: Client) -> None:
    call_id = _start(api).json()["id"]
    cancelled = api.post(f"/api/calls/{call_id}/cancel/")
    assert cancelled.status_code == 202
    assert cancelled.json()["state"] == "cancelled"
    assert api.post(f"/api/calls/{call_id}/cancel/").status_code == 409
    assert AuditEvent.objects.filter(action="call.stop", actor_name="the-operator").count() == 1


def test_finished_call_is_retried_with_a_link_to_the_first(api: Client) -> None:
    call_id = _start(api).json()["id"]
    assert api.post(f"/api/calls/{call_id}/retry/").status_code == 409
    api.post(f"/api/calls/{call_id}/cancel/")
    again = api.post(f"/api/calls/{call_id}/retry/")
    assert again.status_code == 202
    assert again.json()["retry_of_id"] == call_id
    assert AuditEvent.objects.filter(action="call.retry").exists()


# In the order of the checks, with the status of a start and of a retry.
REFUSALS = {
    "unknown_tool": (404, 409),
    "invalid_arguments": (400, 409),
    "backlog_full": (429, 429),
    "quota_exceeded": (429, 429),
    "rate_limited": (429, 429),
    "approvals_full": (429, 429),
}


@pytest.fixture
def stopped(api: Client) -> Call:
    """Return a call that can be retried."""
    call = Call.objects.get(pk=_start(api).json()["id"])
    api.post(f"/api/calls/{call.pk}/cancel/")
    return call


def _refuse(code: str, call: Call, settings: Any) -> None:
    """Make the checks refuse calls for a reason, and for all later reasons."""
    later = list(REFUSALS)[list(REFUSALS).index(code) :]
    most = {"MAX_OPEN_BACKGROUND_CALLS_PER_PRINCIPAL": 0} if "backlog_full" in later else {}
    settings.MCP = {**settings.MCP, "MAX_WAITING_APPROVALS_PER_PRINCIPAL": 0, **most}
    limit = 1 if "rate_limited" in later else None
    if "quota_exceeded" in later:
        with redis.Redis.from_url(conf.get().redis_url, protocol=2) as client:
            client.hset(KEPT[2], person_of(call.principal), conf.get().max_kept_bytes_per_principal)
    if "invalid_arguments" in later:
        Call.objects.filter(pk=call.pk).update(arguments='{"to":"three"}')
    gone = "unknown_tool" in later
    Tool.objects.filter(name="count").update(calls_per_minute=limit, needs_approval=True)
    refresh_now(force=True)
    if limit:
        (bucket,) = limits.buckets_of(call.principal, loaded().tools["count"], "/mcp")
        assert shared.lease(bucket.key, bucket.rule.emission, bucket.burst, 1).calls == 1
    if gone:
        Tool.objects.filter(name="count").update(enabled=False)
        refresh_now(force=True)


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("way", ["start", "retry"])
def test_start_and_retry_are_refused_in_one_order(
    way: str, code: str, api: Client, stopped: Call, settings: Any
) -> None:
    """A retry had skipped the checks of rate and backlog."""
    _refuse(code, stopped, settings)
    arguments = orjson.loads(Call.objects.get(pk=stopped.pk).arguments)
    refused = (
        _start(api, {"tool": "count", "arguments": arguments})
        if way == "start"
        else api.post(f"/api/calls/{stopped.pk}/retry/")
    )
    assert refused.json()["refusal"] == code
    assert refused.status_code == REFUSALS[code][way == "retry"]
    assert (int(refused.get("Retry-After", 0)) > 0) == (refused.status_code == 429)
    assert Call.objects.count() == 1


def _texts(answer: dict[str, Any]) -> list[str]:
    """Return the text of an error, or the texts of a tool error."""
    if "error" in answer:
        return [answer["error"]["message"]]
    return [block["text"] for block in answer["result"]["content"]]


@pytest.mark.parametrize("code", ["unknown_tool", "invalid_arguments", "rate_limited", "backlog_full"])
@pytest.mark.parametrize("way", ["start", "retry"])
def test_refused_call_has_one_row_in_the_message_log_with_its_code(
    way: str, code: str, api: Client, stopped: Call, settings: Any
) -> None:
    """Refusals of the API had been counted in the metric only, and were missing in figures and searches."""
    drain_once(SyncMessageQueue.connect())
    Message.objects.all().delete()
    _refuse(code, stopped, settings)
    arguments = orjson.loads(Call.objects.get(pk=stopped.pk).arguments)
    if way == "start":
        fits = code not in ("unknown_tool", "invalid_arguments")
        secret = {} if fits else {"password": "hunter2", "huge": 10**30}
        answer = _start(api, {"tool": "count", "arguments": {**arguments, **secret}})
    else:
        answer = api.post(f"/api/calls/{stopped.pk}/retry/")
    drain_once(SyncMessageQueue.connect())
    (row,) = Message.objects.all()
    assert (row.refusal, row.method, row.principal) == (code, "tools/call", stopped.principal)
    # A call is refused because of its caller, or fails because of the server.
    assert (row.outcome == "refused") == (code not in FAULTS)
    assert (row.kind, row.direction, row.duration_ms) == ("request", "in", None)
    assert row.session_id.startswith("api-" if way == "start" else "operator-")
    assert row.target == ("" if code == "unknown_tool" else "count")
    assert orjson.loads(row.payload)["params"]["name"] == "count"
    assert "hunter2" not in row.payload
    assert answer.json()["detail"] in _texts(orjson.loads(row.answer))
    assert [(found.code, found.calls) for found in refusal_counts(row.at)] == [(code, 1)]


def test_retry_of_a_tool_without_permission_is_refused(api: Client, stopped: Call) -> None:
    """It had been accepted, and failed when a worker looked the tool up."""
    Tool.objects.filter(name="count").update(permission="mcp_app.delete_tool")
    refresh_now(force=True)
    answer = api.post(f"/api/calls/{stopped.pk}/retry/")
    assert (answer.status_code, answer.json()["refusal"]) == (409, "unknown_tool")
    assert Call.objects.count() == 1


def test_secrets_are_shown_only_to_their_caller(client_of: ClientOf, seeded: Seed) -> None:
    api = client_of("operator")
    shown = api.get(f"/api/calls/{seeded.call.pk}/").json()
    assert shown["arguments"] == {"text": "hi", "password": "[redacted]"}
    _, secret = issue_api_key(user=seeded.root, name="mine")
    own = Client(headers={"authorization": f"Bearer {secret}"})
    principal = own.get("/api/").json()["principal"]
    Call.objects.filter(pk=seeded.call.pk).update(principal=principal)
    assert own.get(f"/api/calls/{seeded.call.pk}/").json()["arguments"]["password"] == "hunter2"
    assert api.get(f"/api/calls/{seeded.call.pk}/").json()["arguments"]["password"] == "[redacted]"


async def _say(call: Call, *messages: bytes, answer: bytes = b"") -> None:
    streams = Streams.connect(conf.get().redis_url)
    await streams.start()
    try:
        for message in messages:
            await streams.log.append(call.session_id, call.stream, message)
        if answer:
            await streams.log.finish(call.session_id, call.stream, answer)
    finally:
        await streams.close()


def _progress(number: int) -> bytes:
    params = {"progressToken": "operator", "progress": number, "total": 3, "message": f"{number} of 3"}
    return orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


@pytest.fixture
def said(api: Client) -> Callable[..., Call]:
    """Return a function that publishes progress and the response of a call."""

    def say(call: Call, *messages: bytes, over: bool = False) -> Call:
        answer = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}' if over else b""
        if over:
            assert records.finish(
                call.pk, call.attempt, State.COMPLETED, "ok", answer, statement=FINISH_UNSTARTED
            )
        asyncio.run(_say(call, *messages, answer=answer))
        return call

    return say


def test_follow_resumes_after_the_last_response(api: Client, said: Callable[..., Call]) -> None:
    call = Call.objects.get(pk=_start(api).json()["id"])
    said(call, _progress(1), _progress(2))
    first = api.get(f"/api/calls/{call.pk}/follow/").json()
    assert [line["text"] for line in first["lines"]] == ["1 of 3", "2 of 3"]
    assert first["over"] is False
    said(call, _progress(3), over=True)
    second = api.get(f"/api/calls/{call.pk}/follow/", {"after": first["after"], "wait": 5}).json()
    assert [line["text"] for line in second["lines"]] == ["3 of 3"]
    assert second["over"] is True
    assert second["call"]["answer"]["result"] == {"content": []}


def test_follow_waits_for_the_next_event_up_to_the_timeout(api: Client, said: Callable[..., Call]) -> None:
    call = Call.objects.get(pk=_start(api).json()["id"])
    started = time.monotonic()
    silent = api.get(f"/api/calls/{call.pk}/follow/?wait=0.6").json()
    assert 0.5 < time.monotonic() - started < 5
    assert (silent["lines"], silent["over"]) == ([], False)
    speaker = threading.Timer(0.3, lambda: said(call, _progress(1)))
    speaker.start()
    started = time.monotonic()
    heard = api.get(f"/api/calls/{call.pk}/follow/?wait=25").json()
    speaker.join()
    assert [line["text"] for line in heard["lines"]] == ["1 of 3"]
    assert time.monotonic() - started < 15


def test_follow_returns_at_once_without_a_free_slot(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    call_id = _start(api).json()["id"]
    monkeypatch.setattr(long_poll, "_places", threading.BoundedSemaphore(1))
    assert long_poll._places.acquire(blocking=False)
    started = time.monotonic()
    assert api.get(f"/api/calls/{call_id}/follow/?wait=30").json()["over"] is False
    assert time.monotonic() - started < 10


def test_follow_returns_when_the_process_stops(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_poll, "_stopping", threading.Event())
    call_id = _start(api).json()["id"]
    stopper = threading.Timer(0.3, long_poll.stop)
    stopper.start()
    started = time.monotonic()
    assert api.get(f"/api/calls/{call_id}/follow/?wait=30").json()["over"] is False
    stopper.join()
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    "query", ["wait=31", "wait=-1", "wait=x", "wait=nan", "after=x", "after=1", "since=1"]
)
def test_follow_with_invalid_parameters_returns_400(query: str, api: Client) -> None:
    call_id = _start(api).json()["id"]
    assert api.get(f"/api/calls/{call_id}/follow/?{query}").status_code == 400


def test_follow_returns_no_lines_while_redis_is_unavailable(
    root: Client, seeded: Seed, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": "redis://127.0.0.1:1/0"}
    answer = root.get(f"/api/calls/{seeded.running_call.pk}/follow/")
    assert answer.status_code == 200
    assert answer.json()["lines"] == []
    assert root.get(f"/api/calls/{seeded.running_call.pk}/").json()["progress"] == 40
