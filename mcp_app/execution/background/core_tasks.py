"""Notifications and answers for clients of 2025-11-25 about their tasks.

Each waiting ``tasks/result`` has a stream for the task's questions and its final answer. The session that
created the task is notified of changes on its standalone stream. No process waits: the writer of a change
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
    """Send a message to the session that created a task. Drop it if the session ended or Redis is down."""
    try:
        await streams.log.append(call.session_fields[MADE_IN], STANDALONE, encoded)
    except StreamFinished:
        pass
    except StreamsError:
        logger.warning("The session of task %s was not notified", call.id)


async def tell_status(streams: Streams, call: CallRecord) -> None:
    """Notify the session of a task's current status (TASK4-10)."""
    try:
        task = await aquery(client_tasks.seen, str(call.id))
    except DatabaseError as error:
        logger.warning("A change of task %s was not announced: %s", call.id, error)
        return
    if task is not None:
        await say(streams, call, jsonrpc.encode_notification(STATUS_NOTIFICATION, task.core()))


async def tell_waits(streams: Streams, call_id: UUID, log: MessageLog | None = None) -> None:
    """Write a task's current state to the streams that wait for it: its answer or its questions (TASK4-05).

    Raise DatabaseError or StreamsError if it must be retried later.
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
    """Finish a wait with ``encoded``, by default with the error that the request was cancelled."""
    if encoded is None:
        encoded = jsonrpc.encode_error(RequestCancelled(), wait.request_id)
    with suppress(StreamFinished):  # Its session has ended.
        await keep_answer(streams, wait.session_id, wait.stream, encoded, principal)


def answer(call: CallRecord, request_id: str | int) -> bytes:
    """Return the answer of a call as the answer to ``tasks/result``, with the task's id added."""
    # orjson has no integers beyond 64 bits.
    answered = json.loads(call.answer)
    if "error" in answered:
        return jsonrpc.encode({"jsonrpc": "2.0", "id": request_id, "error": answered["error"]})
    return jsonrpc.encode_result(request_id, related(answered["result"], str(call.id)))


def asked_by(response_id: str | int) -> tuple[str, str] | None:
    """Return the stream of the wait and the name of the question that a response id refers to, or None."""
    stream, _, name = str(response_id).partition(".")
    return (stream, name) if name and stream.startswith(task_waits.PREFIX) else None


def taken(response: jsonrpc.Response) -> dict[str, Any]:
    """Return a client's response, result or error, in the form stored among a task's answers."""
    if response.error is None:
        return response.result or {}
    return {"error": {"code": response.error["code"], "message": str(response.error["message"])[:200]}}


async def withdraw(streams: Streams, call: CallRecord, answered: str, name: str) -> None:
    """Withdraw a question from the other waiting streams once it was answered on one (CAN-08)."""
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
            continue  # Another session of the same principal may be capable.
        key = _id(wait, name)
        # Send each question once: clients display duplicates.
        if await streams.windows.hit(f"asked/{key}", 1, streams.log.limits.ttl):
            encoded = jsonrpc.encode_request(key, method, related(params, str(call.id)))
            await _append(streams, wait, encoded)
            if log is not None:
                log.single(wait.session_id, call.principal, "out", "request", encoded, method, key, call.tool)


async def _client(streams: Streams, session_id: str) -> ClientCapabilities | None:
    """Return the capabilities of a waiting session, or None if it ended or is not initialized (LIFE-04)."""
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
    with suppress(StreamFinished):  # The wait was answered, or its session has ended.
        await streams.log.append(wait.session_id, wait.stream, encoded)
