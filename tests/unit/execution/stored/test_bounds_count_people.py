"""Keys and clients of one user share every limit; other users are not affected (SEC-07)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone
from rest_framework.exceptions import Throttled

from mcp_app.api.throttling import Throttle
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.execution.background.service import Background
from mcp_app.execution.calls.reply import Answered
from mcp_app.execution.stored import pending_approvals, records
from mcp_app.execution.stored.acceptance import new_stream
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.next_call import RunningLimits, TooManyRunning, take
from mcp_app.oauth import connections
from mcp_app.oauth.connections import Consent
from mcp_app.oauth.models import AuthorizationCode, Client, Connection
from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.principal_key import Bound
from mcp_app.streams.base import QuotaExceeded, StreamLimits
from mcp_app.streams.gateway import Streams
from mcp_app.transports.open_streams import Connections
from mcp_app.transports.open_streams import StreamReader as OpenStream
from tests.unit.catalogue.entries import prompt_entry, tool_entry
from tests.unit.execution.attempts import SETTINGS, new_call
from tests.unit.handlers.desk import Desk, offer

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

LIMIT = 2
ME, OTHER_USER = 9_100_001, 9_100_002
# One user: two API keys, three OAuth clients.
CREDENTIALS = [f"user:{ME}/{way}" for way in ("key:1", "key:2", "client:1", "client:2", "client:3")]
OTHER = f"user:{OTHER_USER}/key:3"
# An attempt: returns True if one more item was admitted for a principal.
Attempt = Callable[[str], Awaitable[bool]]
Case = Callable[[Streams, Any], Attempt]


@pytest.fixture(autouse=True)
def _catalogue() -> Iterator[None]:
    before = current_snapshot.current()
    yield
    current_snapshot.replace(before)


async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


def greet(name: str) -> str:
    """Greet."""
    return name


def request(method: str, params: dict[str, Any], **limits: Any) -> Case:
    """Return the case of a request that is refused above a limit, each principal in its own session."""

    def case(streams: Streams, _: Any) -> Attempt:
        offer(
            tools=[tool_entry(hang, 2)],
            prompts=[prompt_entry(greet, completions={"name": ["Ada"]})],
        )
        desk = Desk(streams, **limits)

        async def attempt(key: str) -> bool:
            desk.principal = Principal(key, key, frozenset())
            try:
                await desk.open()
            except TooManyRequests:
                return False
            message = jsonrpc.Request(1, method, params)
            answer = await desk.process.dispatcher.request(desk.asked(), message, b"{}")
            return not (isinstance(answer, Answered) and answer.status == 429)

        return attempt

    return case


def open_background_calls(streams: Streams, _: Any) -> Attempt:
    changed = {"max_open_background_calls_per_principal": LIMIT}
    background = Background(streams, type(SETTINGS)(**{"redis_url": SETTINGS.redis_url, **changed}))

    async def attempt(key: str) -> bool:
        try:
            await background.accept(new_call(principal=key, request_id=key, stream=new_stream()))
        except TooManyRequests:
            return False
        return True

    return attempt


def waiting_approvals(_: Streams, __: Any) -> Attempt:
    def attempt(key: str) -> bool:
        new = new_call(principal=key, request_id=key, stream=new_stream(), approval_minutes=5)
        try:
            pending_approvals.accept(new, LIMIT)
        except TooManyRequests:
            return False
        return True

    return sync_to_async(attempt)


def accepted(key: str) -> CallRecord:
    return records.accept(new_call(principal=key, request_id=key, stream=new_stream()))[0]


def claims(limits: RunningLimits) -> Case:
    """Return the case of calls that wait for a worker and ask their clients when they run."""

    def attempt(key: str) -> bool:
        try:
            begun = take(accepted(key).id, "w", limits)
        except TooManyRunning:
            return False
        if begun is not None:
            records.record_waiting(begun.id, begun.attempt, waiting=True)
        return begun is not None

    return lambda _, __: sync_to_async(attempt)


def turns(_: Streams, __: Any) -> Attempt:
    """Start LIMIT calls of one user, then one of another user, who has the next turn."""
    order: list[str] = []

    def begin(call: CallRecord) -> None:
        begun = take(call.id, "w", RunningLimits())
        assert begun is not None
        order.append(begun.principal)

    def attempt(key: str) -> bool:
        if not order:
            calls = [accepted(credential) for credential in CREDENTIALS]
            for call in calls[:LIMIT]:
                begin(call)
            for call in [accepted(OTHER), *calls[LIMIT:]]:
                begin(call)
        return order.index(key) <= order.index(OTHER)

    return sync_to_async(attempt)


def event_streams(_: Streams, __: Any) -> Attempt:
    held = Connections(LIMIT)

    async def attempt(key: str) -> bool:
        try:
            held.admit(key)
        except TooManyRequests:
            return False
        held.add(OpenStream(key, key, standalone=False, wake=lambda: None))
        return True

    return attempt


def kept_bytes(_: Streams, __: Any) -> Attempt:
    streams = Streams.in_memory(StreamLimits(kept_bytes=LIMIT * 10_000))

    async def attempt(key: str) -> bool:
        try:
            await streams.quota.admit(key)
        except QuotaExceeded:
            return False
        await streams.log.append(key.replace("/", "-").replace(":", "-"), "s", b"x" * 10_000, owner=key)
        return True

    return attempt


def api_requests(_: Streams, settings: Any) -> Attempt:
    settings.MCP = {**settings.MCP, "API_REQUESTS_PER_MINUTE": LIMIT}

    def attempt(key: str) -> bool:
        try:
            return Throttle().allow_request(SimpleNamespace(auth=Principal(key, key, frozenset())), None)  # type: ignore[arg-type]
        except Throttled:
            return False

    return sync_to_async(attempt)


def oauth_connections(_: Streams, __: Any) -> Attempt:
    """Return the case of OAuth connections; above the limit the oldest one ends."""

    @transaction.atomic
    def attempt(key: str) -> bool:
        person, _, way = key.partition("/")
        user = get_user_model().objects.get_or_create(username=person)[0]
        client = Client.objects.get_or_create(name=way, client_id=way)[0]
        consent = Consent(client, user, "http://testserver/mcp", "mcp", "http://127.0.0.1/callback", "c")
        connections.allow(consent, key)
        row = connections.find_code(key, client)
        assert isinstance(row, AuthorizationCode)
        ends = (timezone.now() + timedelta(hours=1)).timestamp()
        connections.exchange(
            row, connections.Pair(access=f"a {key}", refresh=f"r {key}", scope="mcp", ends=ends)
        )
        return not Connection.objects.filter(user=user).exclude(revoked_at=None).exists()

    return sync_to_async(attempt)


CASES: dict[Bound, Case] = {
    Bound.RUNNING_CALLS: request("tools/call", {"name": "hang"}, max_running_calls_per_principal=LIMIT),
    Bound.OPEN_BACKGROUND_CALLS: open_background_calls,
    Bound.RUNNING_BACKGROUND_CALLS: claims(RunningLimits(of_person=LIMIT)),
    Bound.WAITING_APPROVALS: waiting_approvals,
    Bound.HELD_QUESTIONS: claims(RunningLimits(unanswered=LIMIT)),
    Bound.TURNS: turns,
    Bound.SESSIONS: request("ping", {}, max_sessions_per_principal=LIMIT),
    Bound.EVENT_STREAMS: event_streams,
    Bound.KEPT_BYTES: kept_bytes,
    Bound.COMPLETIONS: request(
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}},
        completions_per_minute=LIMIT,
    ),
    Bound.TASK_REQUESTS: request(
        "tasks/get",
        {"taskId": "unknown"},
        core_task_requests_per_minute=LIMIT,
        redis_url=SETTINGS.redis_url,
    ),
    Bound.API_REQUESTS: api_requests,
    Bound.CONNECTIONS: oauth_connections,
}


def test_every_bound_has_case() -> None:
    assert set(CASES) == set(Bound)


@pytest.mark.parametrize("bound", CASES)
async def test_credentials_of_one_user_share_bound_without_affecting_others(
    bound: Bound, streams: Streams, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_LIVE", LIMIT)
    attempt = CASES[bound](streams, settings)
    assert [await attempt(key) for key in CREDENTIALS] == [True] * LIMIT + [False] * (
        len(CREDENTIALS) - LIMIT
    )
    assert await attempt(OTHER)
