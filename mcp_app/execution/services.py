"""Actions of operators and API users on background calls, for synchronous callers. Each action is audited."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Q

from mcp_app import conf
from mcp_app.auth.api_keys import principal_of
from mcp_app.auth.ended import EndedWork
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.current_snapshot import refreshed_view
from mcp_app.catalogue.snapshots.tool_search import NAMES
from mcp_app.catalogue.sources.upstream import left
from mcp_app.execution.admission.gate import admit_now, look
from mcp_app.execution.background import approval
from mcp_app.execution.background.answer_streams import log_refused_now, publish_now
from mcp_app.execution.background.celery import enqueue_new
from mcp_app.execution.background.ended_log import CANCELLED, RefusedCall
from mcp_app.execution.stored import cancelling, pending_approvals, records, request_ids, stored_answers
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.execution.stored.approval_rules import ApprovalRules
from mcp_app.execution.stored.call_record import (
    CallRecord,
    NewCall,
    cancel_broadcast,
    digest,
    record,
    request_key,
    retriers_of,
)
from mcp_app.limits import blocking, current
from mcp_app.metrics import tally
from mcp_app.models import Call, Session, audit, audit_each
from mcp_app.protocol.errors import Forbidden, McpError
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.refusals import Code, refused
from mcp_app.protocol.versions import V2025_11_25, is_modern
from mcp_app.sessions.exchange import CLIENT_RECORD
from mcp_app.sessions.services import end_sessions_of
from mcp_app.sessions.session import MADE_IN, stored_fields
from mcp_app.streams.blocking.announce import announce

# The progress token of calls for which no client asked for progress. It makes progress available to
# operators.
OPERATOR_TOKEN = "operator"  # noqa: S105 - a progress token is no secret


# The request id of a call started by the API, which is the only call in its session.
REQUEST_ID = 1
# Number of calls cancelled in one transaction. On SQLite, no other process can write meanwhile.
CANCEL_SLICE = 200
# The key in a call's meta under which the digest of the API request is stored.
ASKED = "asked"
KEY_REUSED = "This key was used for another call: use a new one."
NO_WORKER = "Without Redis no worker runs background calls."
# Texts of refusals for the API and for operators' pages. The gate's own texts are written for clients.
WORDS_OF_START = {
    Code.UNKNOWN_TOOL: "There is no tool {tool!r} for you.",
    Code.BACKLOG_FULL: "Too many calls are not over: wait for one to end, or stop one.",
}
WORDS_OF_RETRY = {
    Code.UNKNOWN_TOOL: "The tool {tool} is no longer offered.",
    Code.INVALID_ARGUMENTS: "The tool no longer takes these arguments: {words}",
    Code.CALLER_UNKNOWN: "Another user must approve it, but its caller is not known.",
    Code.CREDENTIAL_ENDED: "It would wait for approval, which nobody could give. {words}",
}


class RetryRefused(Exception):
    """Raised if a call cannot be repeated now or at all.

    The text is for the operator, and ``code`` is the gate's.
    """

    def __init__(self, text: str, code: str = "", retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.code = code
        self.retry_after = retry_after


def cancel_call(*, call_id: UUID, actor: Any, reason: str = "cancelled by an administrator") -> bool:
    """Stop a waiting or running call (R8).

    Return False if the call has finished. A waiting call ends at once. The worker of a running call is
    notified by a broadcast after the commit. While Redis is down, the worker notices the change in the row.
    """
    with transaction.atomic():
        call = records.request_cancel_of(call_id, reason)
        if call is None:
            return False
        answer = stored_answers.cancelled(call)
        ended = records.cancel_idle(call, answer)
        _audit(actor, "call.stop", call, {"reason": reason, "was": call.state})
        transaction.on_commit(lambda: _ended([call], answer) if ended else _notify_worker(call, reason))
    return True


def cancel_calls_of(
    principal: str, *, actor: Any, reason: str, connections: Collection[int] | None = None
) -> None:
    """Stop all background calls of a principal, as ``cancel_call`` does.

    With ``connections``, stop only the calls made through these OAuth connections.
    """
    open_ids = cancelling.open_ids_of(principal, connections)
    for first in range(0, len(open_ids), CANCEL_SLICE):
        _cancel_all(open_ids[first : first + CANCEL_SLICE], actor, reason)


def _cancel_all(call_ids: list[UUID], actor: Any, reason: str) -> None:
    with transaction.atomic():
        ended, running = cancelling.cancel_all(call_ids, reason, stored_answers.cancelled)
        details = {str(call.id): {"reason": reason, "was": call.state} for call in (*ended, *running)}
        audit_each(actor=actor, action="call.stop", object_kind="call", details=details)
        for call in running:
            transaction.on_commit(partial(_notify_worker, call, reason))
        if ended:
            transaction.on_commit(lambda: _ended(ended))


def _ended(calls: list[CallRecord], answer: bytes | None = None) -> None:
    publish_now(calls, answer, ended_as=CANCELLED)
    left.cancel_now(str(call.id) for call in calls if call.is_suspended)


def end_work_of(which: Q, principal: str, actor: Any, reason: str) -> EndedWork:
    """Refuse the waiting calls of a credential that ended.

    End the sessions of ``principal`` with the reason, unless ``principal`` is empty.
    """
    refused = approval.refuse_fallen(which, actor=actor)
    sessions = end_sessions_of(principal, actor=actor, reason=reason) if principal else 0
    return EndedWork(sessions, refused)


def cancel_request(
    *, session_id: str, request_id: str | int, actor: Any, reason: str = "cancelled by an administrator"
) -> bool:
    """Stop the work for a request of a session in any process.

    Return False if the request was a background call that has finished. A call that runs in a web process
    has no row, so the stop is only broadcast. The call's answer then shows whether it was still running.
    """
    call = _call_of(session_id, request_id)
    if call is not None:
        return cancel_call(call_id=call.pk, actor=actor, reason=reason)
    key = f"{session_id} {request_id!r}"
    detail = {"session": session_id, "request_id": request_id, "reason": reason}
    with transaction.atomic():
        audit(actor=actor, action="request.stop", object_kind="request", object_key=key, detail=detail)
        payload = {"session": session_id, "request_id": request_id, "reason": reason}
        transaction.on_commit(lambda: announce("cancel", payload))
    return True


def _call_of(session_id: str, request_id: str | int) -> Call | None:
    """Return the background call of a request. For a modern client's record, return the newest open call."""
    found = Call.objects.filter(request_key=request_key(request_id))
    if not session_id.startswith(CLIENT_RECORD):
        return found.filter(session_id=session_id).first()
    client = Session.objects.filter(pk=session_id).first()
    if client is None:
        return None
    newest = found.filter(records.OPEN, principal=client.principal).order_by("-accepted_at")
    return next(
        (call for call in newest[:100] if stored_answers.session_of(record(call)).record_id == session_id),
        None,
    )


def retry_call(*, call_id: UUID, actor: Any) -> UUID:
    """Repeat a finished call as a new call of the same principal, and return the new call's id.

    The new call has no session: it cannot ask questions, and its answer is for the operator. If its tool
    needs approval, it waits for approval again. The gate checks it like any other call of the principal.
    Raise RetryRefused.
    """
    old = records.find(call_id)
    if old is None or not old.is_finished:
        raise RetryRefused("Only a call that is over can be made again.")
    session_id = f"operator-{secrets.token_hex(16)}"
    asked = RefusedCall(session_id, old.principal, old.request_id, old.tool, old.arguments)
    try:
        with _refusals(asked, WORDS_OF_RETRY):
            new = _again(old, session_id, actor)
            with blocking.starting(new.ticket), transaction.atomic():
                call, _ = _accepted(new)
                _audit(actor, "call.retry", old, {"new_call": str(call.id), "tool": old.tool})
                transaction.on_commit(lambda: enqueue_new(call))
    except McpError as refusal:
        raise RetryRefused(refusal.message, refusal.refusal, refusal.retry_after) from None
    return call.id


def _again(old: CallRecord, session_id: str, actor: Any) -> NewCall:
    # Use the current permissions, because the worker will look up the tool with them.
    caller = principal_of(old.principal, old.user_id, old.api_key_id, old.scopes)
    offers = refreshed_view(caller.permissions, old.session_fields.get("path", ENDPOINT))
    fixed = getattr(offers.tool(old.tool), "fixed_arguments", ())
    given = {key: value for key, value in old.arguments.items() if key not in fixed}
    entry, refusal = look(offers, old.tool, given)
    if refusal is not None:
        raise refusal
    current.load_if_old()
    new = new_call(
        entry,
        given,
        Principal(
            old.principal,
            old.principal,
            frozenset(),
            old.user_id,
            old.api_key_id,
            scopes=frozenset(old.scopes.split()),
            connection_id=old.connection_id,
        ),
        session_id=session_id,
        request_id=old.request_id,
        meta={"progressToken": OPERATOR_TOKEN},
        session_fields=_fields_of_retry(old),
        retry_of=old.id,
        retried_by=getattr(actor, "pk", None),
        retried_before=retriers_of(old),
    )
    admit_now(new)
    if new.approval_minutes is not None and (fallen := _fallen(old)):
        blocking.give_back(new.ticket)
        raise refused(Code.CREDENTIAL_ENDED, fallen)
    return new


def _fields_of_retry(old: CallRecord) -> dict[str, str]:
    # There is no client that could be asked, so the session has no capabilities.
    fields = {**old.session_fields, "capabilities": orjson.dumps({}).decode()}
    if not is_modern(fields.get("version", V2025_11_25)):
        fields.pop(MADE_IN, None)  # The new call is not a task: the log has it under its own session.
    return fields


def _fallen(old: CallRecord) -> str:
    """Return the reason why the credential of a call is no longer valid, or "".

    Its session does not matter.
    """
    row = Call.objects.get(pk=old.id)
    row.session_id = ""  # The new call has no session.
    return ApprovalRules([row]).fallen(row)


def start_call(
    *,
    principal: Principal,
    actor: Any,
    tool: str,
    arguments: dict[str, Any],
    key: str = "",
    address: str = "",
    path: str = ENDPOINT,
) -> tuple[UUID, bool]:
    """Start a tool as a background call of ``principal``, and return the call's id and True if it is new.

    The call is checked and limited like a call from a client. If the principal has already used ``key``,
    return the call that was started with it (R7). The call cannot ask questions, because it has no client.
    ``path`` is that of the server or toolset whose tool is called. Raise McpError: with a code, or Forbidden
    or ServerNotFound for the path.
    """
    session_id = _session_of(principal, key)
    asked = RefusedCall(session_id, principal.key, REQUEST_ID, tool, arguments)
    with _refusals(asked, WORDS_OF_START):
        if key and (present := request_ids.find_request(session_id, REQUEST_ID)):
            return _repeated(present, _asked(path, tool, arguments))
        with current.called_from(address):
            new = _started(principal, session_id, path, tool, arguments)
        with blocking.starting(new.ticket), transaction.atomic():
            call, is_new = _accepted(new)
            if is_new:
                _audit(actor, "call.start", call, {"tool": call.tool})
                transaction.on_commit(lambda: enqueue_new(call))
        if not is_new:
            blocking.give_back(new.ticket)
        return (call.id, True) if is_new else _repeated(call, _asked(path, tool, arguments))


@contextmanager
def _refusals(call: RefusedCall, words: Mapping[Code, str]) -> Iterator[None]:
    """Within this context, count and log refusals of ``call``.

    Replace the texts of those codes in ``words``.
    """
    try:
        yield
    except McpError as error:
        if not error.refusal:
            raise
        code = Code(error.refusal)
        tally.refused(code)
        if (text := words.get(code)) is not None:
            text = text.format(tool=call.tool[:128], words=error.message)
            error = refused(code, text, error.retry_after)
        log_refused_now(call, error)
        raise error from None


def _accepted(new: NewCall) -> tuple[CallRecord, bool]:
    if new.approval_minutes is None:
        return records.accept(new)
    return pending_approvals.accept(new, conf.get().max_waiting_approvals_per_principal)


def _session_of(principal: Principal, key: str) -> str:
    """Return a random session id.

    For a key, return always the same id, so that only one call can exist for it.
    """
    if not key:
        return f"api-{secrets.token_hex(20)}"
    return f"api-{hashlib.sha256(orjson.dumps([principal.key, key])).hexdigest()[:40]}"


def _asked(path: str, tool: str, arguments: dict[str, Any]) -> str:
    """Return the digest of a request."""
    return digest(tool if path == ENDPOINT else f"{path} {tool}", arguments)


def _repeated(call: CallRecord, asked: str) -> tuple[UUID, bool]:
    # Compare the request as it was sent. The fixed arguments of a preset may have changed since.
    if call.meta.get(ASKED) != asked:
        raise refused(Code.KEY_REUSED, KEY_REUSED)
    return call.id, False


def _started(
    principal: Principal, session_id: str, path: str, tool: str, arguments: dict[str, Any]
) -> NewCall:
    settings = conf.get()
    if not settings.redis_url:
        raise refused(Code.UNAVAILABLE, NO_WORKER)
    if principal.path and principal.path != path:
        raise Forbidden("The token is not valid at this toolset: use an API key.")
    view = refreshed_view(principal.permissions, path)
    if view.server.removed or view.server.refusal or view.server.fault:
        raise view.server.absence()
    if view.snapshot.search is not None and tool in NAMES:
        # These tools are for models. Programs call the found tools themselves.
        raise refused(Code.UNKNOWN_TOOL, f"Unknown tool: {tool}")
    entry, refusal = look(view, tool, arguments)
    if refusal is not None:
        raise refusal
    current.load_if_old()
    client = {"name": "api", "version": settings.server.version}
    new = new_call(
        entry,
        arguments,
        principal,
        session_id=session_id,
        request_id=REQUEST_ID,
        session_fields=stored_fields(principal.key, V2025_11_25, client, {}, announced=0, path=path),
        meta={"progressToken": OPERATOR_TOKEN, ASKED: _asked(path, tool, arguments)},
    )
    admit_now(new)
    return new


def _audit(actor: Any, action: str, call: CallRecord, detail: dict[str, Any]) -> None:
    audit(actor=actor, action=action, object_kind="call", object_key=str(call.id), detail=detail)


def _notify_worker(call: CallRecord, reason: str) -> None:
    announce("cancel", cancel_broadcast(call, reason))
