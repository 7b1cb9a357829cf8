"""Calls that wait for approval: notifying their clients and ending waits without a decision."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import Q

from mcp_app.execution.background.answer_streams import connected, publish, publish_now
from mcp_app.execution.background.ended_log import CANCELLED, Ended, log_ended
from mcp_app.execution.stored import pending_approvals, records, stored_answers
from mcp_app.execution.stored.approval_rules import ApprovalRules, waiting
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.pending_approvals import Waiting
from mcp_app.execution.stored.statements import FINISH_UNSTARTED
from mcp_app.message_log.log import REFUSED
from mcp_app.models import Call, audit
from mcp_app.protocol import downlevel
from mcp_app.protocol.call_state import State
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.logging import at_least
from mcp_app.protocol.messages.progress import waiting_progress
from mcp_app.streams.base import StreamFinished, StreamsError
from mcp_app.streams.gateway import Streams

# The shortest time between two notifications. Sweeps are some seconds apart, so it is 15 to 20 seconds.
REMIND_SECONDS = 15.0
APPROVED = "Approved"

log = logging.getLogger("mcp.approval")


def notice(call: CallRecord | Waiting, words: str) -> bytes | None:
    """Build a notification with this text: progress if the client asked for progress, else a log message.

    Return None if the client accepts neither. The progress values are far below those that the tool will
    report.
    """
    token = call.meta.get("progressToken")
    method = "notifications/message" if token is None else "notifications/progress"
    if token is not None:
        # Both times are from the database's clock. Progress must not decrease, and any process may send the
        # next reminder.
        waited = ((call.read_at or call.accepted_at) - call.accepted_at).total_seconds()
        params = {"progressToken": token, "progress": waiting_progress(waited), "message": words}
    elif (level := call.session_fields.get("log_level", "info")) and at_least("info", level):
        # Without a log level, the client did not ask for log messages (LOG-03).
        params = {"level": "info", "logger": call.tool, "data": words}
    else:
        return None
    fitted = downlevel.message(method, params, call.session_fields["version"])
    return None if fitted is None else jsonrpc.encode_notification(method, fitted)


async def notify(streams: Streams, call: CallRecord | Waiting, words: str, *, last: bool = False) -> None:
    """Send a notification on the stream of a waiting call, or drop it if that is impossible.

    The ``last`` notification is written with the fence of the first attempt, so that a late reminder cannot
    follow it.
    """
    encoded = notice(call, words)
    if encoded is None:
        return
    try:
        await streams.log.append(call.session_id, call.stream, encoded, fence=int(last))
    except StreamFinished:
        pass  # The call has been decided, or its session has ended.
    except StreamsError:
        log.warning("The client of a waiting call was not notified: %s", words)


def sweep() -> int:
    """End calls that waited too long or that can no longer be approved, and return how many were ended.

    Remind the clients of the other calls. The sweep also finds calls whose broadcast was lost, and calls
    that were changed directly in the database.
    """
    ended = [*_expired(), *_orphaned(), *_refused()]
    # A client without a progress token is notified only once. Comments on its stream keep the connection
    # alive.
    reminded = [call for call in pending_approvals.to_remind(REMIND_SECONDS) if "progressToken" in call.meta]
    if ended or reminded:
        connected(lambda streams: _notify_all(streams, ended, reminded))
    return len(ended)


def _expired() -> list[Ended]:
    ended = []
    for call in pending_approvals.overdue():
        encoded = stored_answers.failed(call, f"{call.tool} was not run: the call was not approved in time.")
        with transaction.atomic():
            if not pending_approvals.expire(call.id, encoded):
                continue
            detail = {"tool": call.tool, "principal": call.principal}
            audit(
                actor=None, action="call.expire", object_kind="call", object_key=str(call.id), detail=detail
            )
        log.warning("Call %s (%s) expired without a decision", call.id, call.tool)
        ended.append((call, encoded, REFUSED))
    return ended


def _orphaned() -> list[Ended]:
    ended = []
    for call in pending_approvals.orphaned():
        encoded = stored_answers.cancelled(call)
        records.request_cancel_of(call.id, "the session ended")
        if records.finish(
            call.id, call.attempt, State.CANCELLED, "cancelled", encoded, statement=FINISH_UNSTARTED
        ):
            ended.append((call, encoded, CANCELLED))
    return ended


def refuse_fallen(which: Q, *, actor: Any) -> int:
    """Refuse the calls in ``which`` whose credential is no longer valid, and return how many were refused.

    Call this in the transaction that revokes the credential. Clients get their answers after the commit.
    """
    calls = list(waiting().filter(which))
    rules = ApprovalRules(calls)
    ended = [end for call in calls if (reason := rules.fallen(call)) and (end := refuse(call, reason, actor))]
    if ended:
        transaction.on_commit(lambda: publish_now([call for call, _, _ in ended], ended_as=REFUSED))
    return len(ended)


def _refused() -> list[Ended]:
    """Refuse the waiting calls that can no longer be approved."""
    calls = list(waiting().order_by("approval_until"))
    rules, ended = ApprovalRules(calls), list[Ended]()
    for call in calls:
        reason = rules.fallen(call) or (rules.touched(call) and rules.changed(call))
        if reason and (end := refuse(call, reason, None)):
            ended.append(end)
    return ended


def refuse(call: Call, reason: str, actor: Any) -> Ended | None:
    """Refuse a waiting call that can no longer be approved. Return None if it has been decided meanwhile."""
    found = records.find(call.pk)
    if found is None:
        return None
    encoded = stored_answers.failed(found, f"{found.tool} was not run. {reason}")
    with transaction.atomic():
        if not pending_approvals.refuse(found.id, by=None, reason=reason, answer=encoded):
            return None
        detail = {"tool": found.tool, "principal": found.principal, "reason": reason}
        audit(actor=actor, action="call.refuse", object_kind="call", object_key=str(found.id), detail=detail)
    log.warning("Call %s (%s) was refused: %s", found.id, found.tool, reason)
    return replace(found, answer=encoded), encoded, REFUSED


async def _notify_all(streams: Streams, ended: Collection[Ended], reminded: Iterable[Waiting]) -> None:
    for over, encoded, _ in ended:
        await publish(streams, over, encoded)
    if ended:
        await log_ended(streams, ended)
    for call in reminded:
        await notify(streams, call, pending_approvals.waiting_words(call))
