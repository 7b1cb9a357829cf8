"""Writes to the event streams of background calls: stored answers, and fences against earlier attempts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import orjson
from django.db import DatabaseError

from mcp_app import conf
from mcp_app.database.queries import aquery
from mcp_app.execution.background import core_tasks
from mcp_app.execution.background.ended_log import RefusedCall, log_ended, log_refused
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.protocol.errors import McpError
from mcp_app.sessions.quota import keep_answer
from mcp_app.streams.base import StreamFinished, StreamsError
from mcp_app.streams.gateway import Streams

T = TypeVar("T")
# The topic on which ``announce_task`` broadcasts.
TASKS = "task"

log = logging.getLogger("mcp.worker")


async def publish(streams: Streams, call: CallRecord, encoded: bytes) -> bool:
    """Append a stored answer to the call's stream, at most once.

    Return False if the caller must retry later.
    """
    if not await append_answer(streams, call, encoded):
        return False
    await aquery(records.record_published, call.id)
    return True


def publish_now(calls: Iterable[CallRecord], answer: bytes | None = None, *, ended_as: str = "") -> int:
    """Publish stored answers from a thread without an event loop, and return how many were published.

    ``ended_as`` is the outcome that the message log shows for calls that ended without an attempt. Do
    nothing without Redis. While Redis is down, the reaper publishes the answers later. This function
    blocks.
    """

    async def published(streams: Streams) -> int:
        answers = [(call, answer or call.answer, ended_as) for call in calls]
        done = [call.id for call, encoded, _ in answers if await append_answer(streams, call, encoded)]
        await aquery(records.record_published, *done)
        if ended_as:
            await log_ended(streams, answers)
        return len(done)

    return connected(published) or 0


def log_refused_now(call: RefusedCall, refusal: McpError) -> None:
    """Log a refused call from a thread without an event loop. Do nothing without Redis.

    This function blocks.
    """
    if conf.get().message_log:
        connected(lambda streams: log_refused(streams, call, refusal))


def fence_off_now(call: CallRecord, attempt: int) -> None:
    """Fence off earlier attempts from a thread without an event loop. This function blocks."""
    connected(lambda streams: fence_off(streams, call, attempt))


def connected(work: Callable[[Streams], Awaitable[T]]) -> T | None:
    """Run ``work`` with new connections to Redis and return its result, or None without Redis."""
    url = conf.get().redis_url

    async def done() -> T:
        streams = Streams.connect(url)
        await streams.start()
        try:
            return await work(streams)
        finally:
            await streams.close()

    return asyncio.run(done()) if url else None


async def append_answer(streams: Streams, call: CallRecord, encoded: bytes) -> bool:
    """Append a stored answer to the stream without updating the call's row.

    Return False if the caller must retry later.
    """
    try:
        await keep_answer(streams, call.session_id, call.stream, encoded, call.principal)
    except StreamFinished:
        pass  # The session has ended, so its stream may no longer be readable.
    except StreamsError:
        return False
    if call.is_task:
        await announce_task(streams, call)
    if call.is_core_task:
        try:
            await core_tasks.answer_waits(streams, call.id)
        except (DatabaseError, StreamsError):
            return False
    return True


async def announce_task(streams: Streams, call: CallRecord) -> None:
    """Broadcast that a task has changed. Processes with an interest in the task read its row (TASKX-16)."""
    if call.is_core_task:
        await core_tasks.notify_status(streams, call)
        return
    try:
        await streams.hub.publish(TASKS, {"id": str(call.id)})
    except StreamsError:
        log.warning("A change of task %s was not announced", call.id)


async def fence_off(streams: Streams, call: CallRecord, attempt: int) -> None:
    """Prevent earlier attempts from writing to the stream (R5). Call this before ``attempt`` writes to it."""
    with suppress(StreamsError):
        await streams.log.keep(call.session_id, call.stream, fence=attempt)


async def reported_progress(streams: Streams, call: CallRecord) -> float | None:
    """Return the highest progress of earlier attempts, so that progress never decreases (PROG-02)."""
    greatest: float | None = None
    try:
        head = await streams.log.head(call.session_id, call.stream)
        after = 0
        while head is not None and after < head.offset:
            page = await streams.log.read(call.session_id, call.stream, head.epoch, after)
            if not page.events:
                break
            after = page.events[-1].offset
            for event in page.events:
                progress = _progress(event.data)
                if progress is not None and (greatest is None or progress > greatest):
                    greatest = progress
    except StreamsError as error:
        log.warning("Earlier progress of call %s could not be read: %s", call.id, error)
    return greatest


def _progress(data: bytes) -> float | None:
    if b'"notifications/progress"' not in data:
        return None
    message = orjson.loads(data)
    if message.get("method") != "notifications/progress":
        return None
    progress: float = message["params"]["progress"]
    return progress
