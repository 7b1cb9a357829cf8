"""The values of a newly accepted background call, whether a client, an operator or the API made it."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.sources.lookup import named
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored.approved_work import UNDER_FOUR_EYES, covers, work_of
from mcp_app.execution.stored.call_record import DEFAULT_QUEUE, NewCall, stream_of
from mcp_app.limits.limiter import ticket_for
from mcp_app.models import Tool
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.scopes import in_order


def new_stream() -> str:
    """Return the name of a new call's stream."""
    return stream_of(uuid4())


def new_call(
    entry: ToolEntry,
    arguments: dict[str, Any],
    principal: Principal,
    *,
    session_id: str,
    request_id: str | int,
    session_fields: dict[str, str],
    meta: dict[str, Any],
    retry_of: UUID | None = None,
    retried_by: int | None = None,
    retried_before: tuple[str, ...] = (),
    task_seconds: float | None = None,
    inputs: Inputs | None = None,
    counted: bool = False,
    place: int | None = None,
) -> NewCall:
    """Build a call of a tool with checked ``arguments``, under the tool's current limits and approval rule.

    An approval given in an earlier run stays valid as long as the work is the same. ``counted`` is True if
    the limits counted the call before it asked its client, or before its idempotency key was stored.
    """
    whole = {**arguments, **entry.fixed_arguments}
    approval = "" if inputs is None else inputs.approved
    approved = entry.needs_approval and covers(approval, entry, arguments)
    stream, path = new_stream(), session_fields.get("path", ENDPOINT)
    state = "" if inputs is None else inputs.round
    ticket = ticket_for(principal.key, entry, path, holder=stream, state=state, counted=counted)
    return NewCall(
        session_id=session_id,
        request_id=request_id,
        principal=principal.key,
        user_id=principal.user_id,
        api_key_id=principal.api_key_id,
        connection_id=principal.connection_id,
        scopes=in_order(principal.scopes or ()),
        tool=entry.name,
        arguments=whole,
        meta=meta,
        session_fields=session_fields,
        stream=stream,
        timeout=entry.timeout,
        max_attempts=1 + entry.retries,
        queue=entry.queue or DEFAULT_QUEUE,
        priority=entry.priority,
        lane=entry.name if entry.max_running else "",
        retry_of=retry_of,
        retried_by=retried_by,
        retried_before=retried_before,
        approval_minutes=entry.approval_minutes if entry.needs_approval and not approved else None,
        approved=approved,
        work=work_of(entry.identity, whole) if entry.needs_approval else "",
        catalogue_revision=entry.revision if entry.needs_approval else None,
        four_eyes=entry.four_eyes or (approved and approval.endswith(UNDER_FOUR_EYES)),
        task_seconds=task_seconds,
        inputs=None if inputs is None else inputs.stored(),
        ticket=ticket,
        place=place,
        caller_token=principal.caller_token and _token_for(entry, principal),
    )


def _token_for(entry: ToolEntry, principal: Principal) -> str:
    """Return the sealed token of the caller, or "" for tools that never need it."""
    return principal.caller_token if named(Tool, entry.source).uses_caller_token else ""
