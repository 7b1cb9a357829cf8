"""Operators' decisions on calls that wait for approval, for synchronous callers. Each decision is audited."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from mcp_app.execution.background import approval
from mcp_app.execution.background.answer_streams import connected, publish_now
from mcp_app.execution.background.celery import enqueue_new
from mcp_app.execution.background.ended_log import log_queued
from mcp_app.execution.stored import pending_approvals, records, stored_answers
from mcp_app.execution.stored.approval_rules import ApprovalRules
from mcp_app.execution.stored.call_record import CallRecord, record
from mcp_app.message_log.log import REFUSED
from mcp_app.models import Call, audit
from mcp_app.protocol.call_state import State
from mcp_app.streams.gateway import Streams


class DecisionRefused(Exception):
    """Raised if a decision is not accepted. The text gives the reason for the operator."""


def approve_call(*, call_id: UUID, actor: Any, reason: str = "") -> None:
    """Approve a waiting call.

    After the commit, the client is notified and the job is queued. Raise DecisionRefused if the call no
    longer waits or if the actor must not decide.
    """
    reason = reason.strip()
    row = _open(call_id)
    rules = ApprovalRules([row])
    if ends := rules.end_of(row):
        _end(row, ends)
        raise DecisionRefused(ends)
    if objection := rules.objection(row, actor):
        raise DecisionRefused(objection)
    four_eyes = rules.four_eyes(row)
    with transaction.atomic():
        approved = pending_approvals.approve(call_id, by=_user_id(actor), reason=reason, four_eyes=four_eyes)
        if approved is None:
            raise DecisionRefused(_late_message(call_id))
        _audit(actor, "call.approve", approved, reason)
        transaction.on_commit(lambda: _start(approved))


def refuse_call(*, call_id: UUID, actor: Any, reason: str) -> None:
    """Refuse a waiting call. Its client gets the reason but not the operator's name.

    Raise DecisionRefused if the call no longer waits or if the reason is empty.
    """
    reason = records.storable(reason.strip(), pending_approvals.LONGEST_REASON)
    if not reason:
        raise DecisionRefused("Enter a reason. The caller sees it.")
    call = record(_open(call_id))
    answer = stored_answers.failed(call, f"{call.tool} was refused by an administrator: {reason}")
    with transaction.atomic():
        if not pending_approvals.refuse(call_id, by=_user_id(actor), reason=reason, answer=answer):
            raise DecisionRefused(_late_message(call_id))
        _audit(actor, "call.refuse", call, reason)
        transaction.on_commit(lambda: publish_now([call], answer, ended_as=REFUSED))


def objection_to(call: Call, actor: Any) -> str:
    """Return the reason why this actor must not approve this call, or ""."""
    return ApprovalRules([call]).objection(call, actor)


def objections(calls: Collection[Call], actor: Any) -> dict[UUID, str]:
    """Return the result of ``objection_to`` for each call by its id. This needs only a few queries."""
    rules = ApprovalRules(calls)
    return {call.pk: rules.objection(call, actor) for call in calls}


def _user_id(actor: Any) -> int | None:
    """Return the actor's primary key, or None for a command."""
    number: int | None = getattr(actor, "pk", None)
    return number


def _open(call_id: UUID) -> Call:
    call = Call.objects.filter(pk=call_id, state=State.APPROVAL_NEEDED).first()
    if call is None:
        raise DecisionRefused(_late_message(call_id))
    return call


def _end(row: Call, reason: str) -> None:
    with transaction.atomic():
        if ended := approval.refuse(row, reason, None):
            transaction.on_commit(lambda: publish_now([ended[0]], ended_as=REFUSED))


def _late_message(call_id: UUID) -> str:
    """Return the message for a decision that came too late. It states what happened to the call."""
    call = Call.objects.select_related("decided_by").filter(pk=call_id).first()
    if call is None:
        return "There is no such call any more."
    if call.approval_until is None:
        return "This call needs no approval."
    if call.decided_at is not None and call.decision != Call.Decision.EXPIRED:
        text = f"has {call.decision} this call already, at {_clock(call.decided_at)}."
        if call.decided_by is None:
            return f"somebody {text} {call.decision_reason}".rstrip()
        return f"{call.decided_by.get_username()} {text}"
    if call.cancel_requested_at is not None:
        return f"The call was cancelled at {_clock(call.cancel_requested_at)}."
    return f"The call could be approved until {_clock(call.approval_until)} only."


def _clock(at: Any) -> str:
    return timezone.localtime(at).strftime("%H:%M:%S")


def _audit(actor: Any, action: str, call: CallRecord, reason: str) -> None:
    detail = {"tool": call.tool, "principal": call.principal, "reason": reason, "four_eyes": call.four_eyes}
    audit(actor=actor, action=action, object_kind="call", object_key=str(call.id), detail=detail)


def _start(call: CallRecord) -> None:
    # First, because messages of the tool must follow the notification, and its answer replaces the mark.
    connected(lambda streams: _announce(streams, call))
    enqueue_new(call)


async def _announce(streams: Streams, call: CallRecord) -> None:
    """Notify the client of an approval, and log that the call waits for a worker."""
    await approval.notify(streams, call, approval.APPROVED, last=True)
    await log_queued(streams, call)
