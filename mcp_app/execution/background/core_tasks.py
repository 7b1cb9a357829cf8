"""Notifications and answers about tasks, for clients of 2025-11-25.

Each waiting ``tasks/result`` request has a stream for the task's questions and its final answer. Changes of
a task are also sent to the session that created it, on that session's standalone stream. No process waits
for a change: the process that writes a change also publishes it. Each message is sent once, even if the
task is attempted again.
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


async def send_to_session(streams: Streams, call: CallRecord, encoded: bytes) -> None:
    """Send a message to the session that created a task.

    Drop it if the session has ended or Redis is down.
    """
    try:
        await streams.log.append(call.session_fields[MADE_IN], STANDALONE, encoded)
    except StreamFinished:
        pass
    except StreamsError:
        logger.warning("The session of task %s was not notified", call.id)


async def notify_status(streams: Streams, call: CallRecord) -> None:
    """Notify the session that created a task of the task's current status (TASK4-10)."""
    try:
        task = await aquery(client_tasks.load, str(call.id))
    except DatabaseError as error:
        logger.warning("A change of task %s was not announced: %s", call.id, error)
        return
    if task is not None:
        await send_to_session(streams, call, jsonrpc.encode_notification(STATUS_NOTIFICATION, task.core()))


async def answer_waits(streams: Streams, call_id: UUID, log: MessageLog | None = None) -> None:
    """Write the task's answer or its open questions to every stream that waits for the task (TASK4-05).

    Raise DatabaseError or StreamsError if the caller must retry later.
    """
    call = await aquery(records.find, call_id)
    questions = open_questions.requests(call.inputs or {}) if call is not None else {}
    if call is None or not (call.is_finished or questions):
        return
    for wait in await aquery(task_waits.of, call.id):
        if call.is_finished:
            await end(streams, wait, call.principal, answer(call, wait.request_id))
        elif call.is_suspended:
            await _send_questions(streams, call, wait, questions, log)


async def end(streams: Streams, wait: Wait, principal: str = "", encoded: bytes | None = None) -> None:
    """End a wait with the message ``encoded``. The default is the error that the request was cancelled."""
    if encoded is None:
        encoded = jsonrpc.encode_error(RequestCancelled(), wait.request_id)
    with suppress(StreamFinished):  # The session has ended.
        await keep_answer(streams, wait.session_id, wait.stream, encoded, principal)


def answer(call: CallRecord, request_id: str | int) -> bytes:
    """Convert the stored answer of a call to the answer to ``tasks/result``, with the task's id added."""
    # orjson cannot parse integers beyond 64 bits.
    answered = json.loads(call.answer)
    if "error" in answered:
        return jsonrpc.encode({"jsonrpc": "2.0", "id": request_id, "error": answered["error"]})
    return jsonrpc.encode_result(request_id, related(answered["result"], str(call.id)))


def question_of(response_id: str | int) -> tuple[str, str] | None:
    """Split the id of a client's response into the wait's stream and the question's name.

    Return None for others.
    """
    stream, _, name = str(response_id).partition(".")
    return (stream, name) if name and stream.startswith(task_waits.PREFIX) else None


def taken(response: jsonrpc.Response) -> dict[str, Any]:
    """Return a client's result or error in the form in which a task's answers are stored."""
    if response.error is None:
        return response.result or {}
    return {"error": {"code": response.error["code"], "message": str(response.error["message"])[:200]}}


async def withdraw(streams: Streams, call: CallRecord, answered: str, name: str) -> None:
    """Withdraw a question from the other waiting streams once a client has answered it (CAN-08)."""
    for wait in await aquery(task_waits.of, call.id):
        if wait.stream != answered:
            await _append(streams, wait, withdrawal(_id(wait, name)))


async def _send_questions(
    streams: Streams, call: CallRecord, wait: Wait, questions: dict[str, Any], log: MessageLog | None
) -> None:
    client = await _client(streams, wait.session_id)
    for name, question in questions.items():
        method, params = question["method"], question["params"]
        if client is None or not all(getattr(client, needed) for needed in _needed(method, params)):
            continue  # Another session of the same principal may have the capability.
        key = _id(wait, name)
        # Send each question once, because clients display duplicates.
        if await streams.windows.hit(f"asked/{key}", 1, streams.log.limits.ttl):
            encoded = jsonrpc.encode_request(key, method, related(params, str(call.id)))
            await _append(streams, wait, encoded)
            if log is not None:
                log.single(wait.session_id, call.principal, "out", "request", encoded, method, key, call.tool)


async def _client(streams: Streams, session_id: str) -> ClientCapabilities | None:
    """Return a waiting session's capabilities. Return None if it ended or is not initialized (LIFE-04)."""
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
    with suppress(StreamFinished):  # The wait has its answer, or its session has ended.
        await streams.log.append(wait.session_id, wait.stream, encoded)
