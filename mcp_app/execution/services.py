"""What operators do to background calls, for synchronous callers: admin, commands. Each is audited."""

from __future__ import annotations

import secrets
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from mcp_app.auth.principal import EVERYTHING
from mcp_app.catalogue.current import refresh_now
from mcp_app.catalogue.entries import ToolEntry
from mcp_app.execution import records
from mcp_app.execution.attempt_reply import publish_now
from mcp_app.execution.background import new_stream
from mcp_app.execution.call_record import DEFAULT_QUEUE, CallRecord, NewCall, request_key
from mcp_app.execution.celery import hand_on_new
from mcp_app.execution.statements import FINISH_UNSTARTED
from mcp_app.models import Call, audit
from mcp_app.protocol import jsonrpc
from mcp_app.protocol.call_state import UNSTARTED, State
from mcp_app.protocol.errors import RequestCancelled
from mcp_app.streams.announce import announce

# Progress of a call that nobody asked for is kept under this token, for the operator to see.
OPERATOR_TOKEN = "operator"  # noqa: S105 - a progress token is no secret


class RetryRefused(Exception):
    """The call cannot be made again; the text says why, for the operator."""


def cancel_call(*, call_id: UUID, actor: Any, reason: str = "stopped by an operator") -> bool:
    """Stop a call wherever it is, waiting or running (R8); False when it is over.

    A waiting call is over at once. A running one is told by broadcast after the commit, and by its row when
    Redis is away.
    """
    with transaction.atomic():
        call = records.request_cancel_of(call_id, reason)
        if call is None:
            return False
        answer = jsonrpc.encode_error(RequestCancelled(), call.request_id)
        ended = call.state in UNSTARTED and records.finish(
            call.id,
            call.attempt,
            State.CANCELLED,
            "cancelled",
            answer,
            statement=FINISH_UNSTARTED,
        )
        _audit(actor, "call.stop", call, {"reason": reason, "was": call.state})
        transaction.on_commit(lambda: publish_now([call], answer) if ended else _tell_worker(call, reason))
    return True


def cancel_request(
    *, session_id: str, request_id: str | int, actor: Any, reason: str = "stopped by an operator"
) -> bool:
    """Stop whatever runs for a request of a session, in whichever process.

    False when the request was a background call that is over. Of one that runs in a web process nothing is
    stored: it is told by broadcast, and whether it was there shows in its answer.
    """
    found = Call.objects.filter(session_id=session_id, request_key=request_key(request_id))
    call_id = found.values_list("pk", flat=True).first()
    if call_id is not None:
        return cancel_call(call_id=call_id, actor=actor, reason=reason)
    key = f"{session_id} {request_id!r}"
    detail = {"session": session_id, "request_id": request_id, "reason": reason}
    with transaction.atomic():
        audit(actor=actor, action="request.stop", object_kind="request", object_key=key, detail=detail)
        payload = {"session": session_id, "request_id": request_id, "reason": reason}
        transaction.on_commit(lambda: announce("cancel", payload))
    return True


def retry_call(*, call_id: UUID, actor: Any) -> UUID:
    """Make a call that is over again, as a new call of the same principal; returns its id.

    It belongs to no session: nobody is asked anything, and its answer is for the operator. If its tool needs
    approval it waits for that, whatever was decided about the old one. Raises RetryRefused.
    """
    old = records.find(call_id)
    if old is None or not old.is_over:
        raise RetryRefused("Only a call that is over can be made again.")
    entry = refresh_now().tool(old.tool, EVERYTHING)
    if entry is None:
        raise RetryRefused(f"The tool {old.tool} is no longer offered.")
    new = _again(old, entry, actor)
    with transaction.atomic():
        call, _ = records.accept(new)
        _audit(actor, "call.retry", old, {"new_call": str(call.id), "tool": old.tool})
        transaction.on_commit(lambda: hand_on_new(call))
    return call.id


def _again(old: CallRecord, entry: ToolEntry, actor: Any) -> NewCall:
    given = {key: value for key, value in old.arguments.items() if key not in entry.fixed_arguments}
    if problem := entry.check(given):
        raise RetryRefused(f"The tool no longer takes these arguments: {problem}")
    if entry.needs_approval and entry.four_eyes and old.user_id is None:
        raise RetryRefused("It needs four eyes, and who asked is not known: nobody could approve it.")
    return NewCall(
        session_id=f"operator-{secrets.token_hex(16)}",
        request_id=old.request_id,
        principal=old.principal,
        user_id=old.user_id,
        api_key_id=old.api_key_id,
        tool=entry.name,
        arguments={**given, **entry.fixed_arguments},
        meta={"progressToken": OPERATOR_TOKEN},
        # No client is there to be asked, so none of its capabilities is.
        session_fields={**old.session_fields, "capabilities": orjson.dumps({}).decode()},
        stream=new_stream(),
        timeout=entry.timeout,
        max_attempts=1 + entry.retries,
        queue=entry.queue or DEFAULT_QUEUE,
        priority=entry.priority,
        retry_of=old.id,
        retried_by=getattr(actor, "pk", None),
        approval_minutes=entry.approval_minutes if entry.needs_approval else None,
        four_eyes=entry.four_eyes,
    )


def _audit(actor: Any, action: str, call: CallRecord, detail: dict[str, Any]) -> None:
    audit(actor=actor, action=action, object_kind="call", object_key=str(call.id), detail=detail)


def _tell_worker(call: CallRecord, reason: str) -> None:
    announce("cancel", {"session": call.session_id, "request_id": call.request_id, "reason": reason})
