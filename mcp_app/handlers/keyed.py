"""``tools/call`` with an idempotency key: a repeated request gets the same call (decision 0049)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from django.db import DatabaseError

from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.database.queries import T, aquery, aquery_soon
from mcp_app.execution.admission.checks import unavailable
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.calls import Work
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.results import error_result
from mcp_app.execution.keyed import rows
from mcp_app.execution.keyed.rows import Place
from mcp_app.execution.stored import call_record, client_tasks, records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.handlers import core_tasks, tasks
from mcp_app.handlers.context import Params, RequestContext, Result
from mcp_app.protocol.errors import InvalidRequest, McpError
from mcp_app.protocol.refusals import Code, refused
from mcp_app.streams.base import StreamsError

# The time in which a call must be accepted or answered after its tool has been stopped.
MARGIN_SECONDS: Final = 30.0
# The members of a request that answers questions of 2026-07-28.
ANSWERS: Final = frozenset({"requestState", "inputResponses"})
POLL_SECONDS: Final = (0.1, 0.25, 0.5, 1.0)
# The time after which the database is asked whether a background call has finished.
STREAM_SECONDS: Final = 5.0
LOST: Final = (
    "The first call with this idempotency key was stopped, or its answer is no longer kept. It may have had "
    "effects. Check them before you call the tool with a new key."
)
NOT_RUN: Final = "The first request with this idempotency key did not run: repeat this request."


async def is_known(context: RequestContext, key: str) -> bool:
    """Return True if a request with the key came before. Raise Unavailable."""
    return await _stored(rows.exists, context.principal.key, key)


async def reserve(
    context: RequestContext, entry: ToolEntry, given: Params, params: Params, key: str
) -> Place:
    """Return the row of a request's key. Raise McpError for a key of another call, and Unavailable."""
    settings = context.services.settings
    seconds = min(entry.timeout or settings.tool_timeout_seconds, settings.tool_timeout_max_seconds)
    # A request for a task cannot be answered with a result, so it is another call.
    asked = {"path": context.session.path, "given": given, "task": core_tasks.wanted(context, params)}
    digest = call_record.digest(entry.name, asked)
    principal, seconds = context.principal.key, seconds + MARGIN_SECONDS
    place = await _stored(rows.reserve, principal, key, digest, seconds)
    if place.call_id is None or not ANSWERS.intersection(params):
        return place
    # The first request ended with a question, and this one brings the answer.
    call = await _stored(records.find, place.call_id)
    if call is None or call.is_task or not call.is_finished or not _asks(call):
        return place
    return await _stored(rows.take_over, place, seconds)


async def release(place: Place) -> None:
    """Free the key of a call that did not run. Raise Unavailable."""
    await _stored(rows.release, place.id)


def kept(place: int, work: Work) -> Work:
    """Return ``work`` that keeps its result.

    The key is free again if the call ends with a question or an error of the request.
    """

    async def keeping(call: RunningCall, context: Context) -> dict[str, Any]:
        ended: Callable[[int], None] = rows.lose
        try:
            result = await work(call, context)
            ended = partial(rows.finish, result=result)
        except McpError:
            ended = rows.release
            raise
        finally:
            await aquery(rows.release if call.suspended else ended, place)
        return result

    return keeping


async def repeat(context: RequestContext, params: Params, entry: ToolEntry, place: Place) -> Result:
    """Answer a repeated request: with the kept result, the task, or when the call finishes.

    Raise McpError with OUTCOME_UNKNOWN if the first request's call was lost.
    """
    if place.result is not None:
        return place.result
    _check(place)
    if place.call_id is not None:
        call = await _stored(records.find, place.call_id)
        if call is None:
            raise refused(Code.OUTCOME_UNKNOWN, LOST)
        if call.is_task and core_tasks.wanted(context, params):
            return {"task": client_tasks.created(call).core()}
        if call.is_task and tasks.declared(context):
            return client_tasks.created(call).created()
    settings = context.services.settings
    seconds = settings.tool_timeout_max_seconds
    # Answers to questions belong to the first request.
    plain = {name: params[name] for name in params if name not in ANSWERS}
    context.run(
        plain,
        target=entry.name,
        work=partial(_wait, context, place),
        timeout=seconds,
        on_timeout=lambda: error_result("The call with this idempotency key is still running: repeat later."),
    )
    return None


async def _wait(context: RequestContext, place: Place, *_: Any) -> dict[str, Any]:
    """Return the result of the first request's call when it finishes."""
    pauses = iter(POLL_SECONDS)
    while place.result is None and place.call_id is None:
        _check(place)
        await asyncio.sleep(next(pauses, POLL_SECONDS[-1]))
        found = await _stored(rows.read, place)
        if found is None:
            raise InvalidRequest(NOT_RUN, http_status=200)
        place = found
    if place.result is not None:
        return place.result
    assert place.call_id is not None
    call = await _stored(records.find, place.call_id)
    if call is None:
        raise refused(Code.OUTCOME_UNKNOWN, LOST)
    return await _answer(context, call)


async def _answer(context: RequestContext, call: CallRecord) -> dict[str, Any]:
    """Return the result of a background call when it finishes, or raise its error.

    The database has the answer. The stream of the first request only brings it sooner, and may end before.
    """
    background = context.services.background
    encoded = call.answer if call.is_finished else b""
    while not encoded:
        with suppress(StreamsError):
            start = await background.restore(call)
            encoded = await background.answer(call, start, STREAM_SECONDS)
        if not encoded:
            await asyncio.sleep(POLL_SECONDS[-1])
            found = await _stored(records.find, call.id)
            if found is None:
                raise refused(Code.OUTCOME_UNKNOWN, LOST)
            call, encoded = found, found.answer if found.is_finished else b""
    # orjson cannot parse integers beyond 64 bits.
    answered = json.loads(encoded)
    if "error" in answered:
        error = answered["error"]
        raise McpError(error["message"], code=error["code"], data=error.get("data"))
    result: dict[str, Any] = answered["result"]
    if result.get("resultType") == "complete":
        del result["resultType"]
    return result


def _asks(call: CallRecord) -> bool:
    result = json.loads(call.answer).get("result")
    return result is not None and result.get("resultType") == "input_required"


def _check(place: Place) -> None:
    if place.is_lost:
        raise refused(Code.OUTCOME_UNKNOWN, LOST)


async def _stored(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return await aquery_soon(function, *arguments)
    except DatabaseError as error:
        raise unavailable() from error
