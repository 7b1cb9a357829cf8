"""What clients of 2025-11-25 are sent about their tasks, by whichever process knows it first.

Each waiting ``tasks/result`` has a stream that receives the task's questions and its end; the session that
made the task is notified of changes on its standalone stream. No process waits: the writer of a change
publishes it, each message once even if the attempt is repeated.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

import orjson
from django.db import DatabaseError

from mcp_app.database.queries import aquery
from mcp_app.execution.questions import open_questions
from mcp_app.execution.stored import client_tasks, records, task_waits
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.task_waits import Wait
from mcp_app.message_log.log import MessageLog
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.errors import RequestCancelled
from mcp_app.protocol.features import sampling
from mcp_app.protocol.features.tasks import STATUS_NOTIFICATION, related
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.client_requests import withdrawal
from mcp_app.sessions.quota import keep_answer
from mcp_app.sessions.session import MADE_IN, STANDALONE
from mcp_app.streams.base import SessionEnded, StreamFinished, StreamsError
from mcp_app.streams.gateway import Streams

logger = logging.getLogger("mcp.tasks")


async def say(streams: Streams, call: CallRecord, encoded: bytes) -> None:
    """Send a message to the session that made a task, which may be over; shed when that cannot be."""
    try:
        await streams.log.append(call.session_fields[MADE_IN], STANDALONE, encoded)
    except StreamFinished:
        pass
    except StreamsError:
        logger.warning("The session of task %s was not notified", call.id)


async def tell_status(streams: Streams, call: CallRecord) -> None:
    """Say how a task is now (TASK4-10)."""
    try:
        task = await aquery(client_tasks.seen, str(call.id))
    except DatabaseError as error:
        logger.warning("A change of task %s was not announced: %s", call.id, error)
        return
    if task is not None:
        await say(streams, call, jsonrpc.encode_notification(STATUS_NOTIFICATION, task.core()))


async def tell_waits(streams: Streams, call_id: UUID, log: MessageLog | None = None) -> None:
    """Write the current state to the streams that wait for a task: its end, or its questions (TASK4-05).

    Raises DatabaseError and StreamsError: try again later.
    """
    call = await aquery(records.find, call_id)
    questions = open_questions.requests(call.inputs or {}) if call is not None else {}
    if call is None or not (call.is_over or questions):
        return
    for wait in await aquery(task_waits.of, call.id):
        if call.is_over:
            await end(streams, wait, call.principal, answer(call, wait.request_id))
        elif call.is_suspended:
            await _ask(streams, call, wait, questions, log)


async def end(streams: Streams, wait: Wait, principal: str = "", encoded: bytes | None = None) -> None:
    """Give a wait its answer; without one, that it is waited for no longer."""
    if encoded is None:
        encoded = jsonrpc.encode_error(RequestCancelled(), wait.request_id)
    with suppress(StreamFinished):  # Its session is over.
        await keep_answer(streams, wait.session_id, wait.stream, encoded, principal)


def answer(call: CallRecord, request_id: str | int) -> bytes:
    """What the call was answered, as the answer to a ``tasks/result``: the same, with the task's id."""
    # Not by orjson, which has no integers beyond 64 bits.
    answered = json.loads(call.answer)
    if "error" in answered:
        return jsonrpc.encode({"jsonrpc": "2.0", "id": request_id, "error": answered["error"]})
    return jsonrpc.encode_result(request_id, related(answered["result"], str(call.id)))


def asked_by(response_id: str | int) -> tuple[str, str] | None:
    """The stream of a wait and the name of the task's question, which a response is about."""
    stream, _, name = str(response_id).partition(".")
    return (stream, name) if name and stream.startswith(task_waits.PREFIX) else None


def taken(response: jsonrpc.Response) -> dict[str, Any]:
    """A client's response as a task keeps it among its answers; an error is one, too."""
    if response.error is None:
        return response.result or {}
    return {"error": {"code": response.error["code"], "message": str(response.error["message"])[:200]}}


async def withdraw(streams: Streams, call: CallRecord, answered: str, name: str) -> None:
    """A question was answered on one stream: on the others it is asked no longer (CAN-08)."""
    for wait in await aquery(task_waits.of, call.id):
        if wait.stream != answered:
            await _append(streams, wait, withdrawal(_id(wait, name)))


async def _ask(
    streams: Streams, call: CallRecord, wait: Wait, questions: dict[str, Any], log: MessageLog | None
) -> None:
    client = await _client(streams, wait.session_id)
    for name, question in questions.items():
        method, params = question["method"], question["params"]
        if client is None or not all(getattr(client, needed) for needed in _needed(method, params)):
            continue  # Another session of the same principal may be able to.
        key = _id(wait, name)
        # What is asked twice would be shown twice.
        if await streams.windows.hit(f"asked/{key}", 1, streams.log.limits.ttl):
            encoded = jsonrpc.encode_request(key, method, related(params, str(call.id)))
            await _append(streams, wait, encoded)
            if log is not None:
                log.single(wait.session_id, call.principal, "out", "request", encoded, method, key, call.tool)


async def _client(streams: Streams, session_id: str) -> ClientCapabilities | None:
    """What the session of a wait can be asked; None when it is over, or not confirmed (LIFE-04)."""
    try:
        fields = await streams.sessions.load(session_id)
    except SessionEnded:
        return None
    if fields is None or fields.get("initialized") != "1":
        return None
    return ClientCapabilities.parse(orjson.loads(fields["capabilities"]), fields["version"])


def _needed(method: str, params: dict[str, Any]) -> tuple[str, ...]:
    if method == "elicitation/create":
        return ("elicitation_url",) if params.get("mode") == "url" else ("elicitation_form",)
    return sampling.needed_capabilities(params) if method == "sampling/createMessage" else ("roots",)


def _id(wait: Wait, name: str) -> str:
    return f"{wait.stream}.{name}"


async def _append(streams: Streams, wait: Wait, encoded: bytes) -> None:
    with suppress(StreamFinished):  # It was answered, or its session is over.
        await streams.log.append(wait.session_id, wait.stream, encoded)
