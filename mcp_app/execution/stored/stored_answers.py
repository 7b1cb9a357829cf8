"""Answers to background calls that no code gives, and the request and session that each belongs to.

An answer has the form of the revision that its call was made by.
"""

from __future__ import annotations

from mcp_app.execution.calls.results import error_result
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.protocol.errors import RequestCancelled, fitted
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange, restored
from mcp_app.sessions.session import LiveSession, TaskSession


def request_of(call: CallRecord) -> bytes:
    """The request that a call was made by, without its ``_meta``."""
    return jsonrpc.encode_request(
        call.request_id, "tools/call", {"name": call.tool, "arguments": call.arguments}
    )


def session_of(call: CallRecord) -> LiveSession | Exchange:
    """The session of a call as it was when the call was accepted."""
    if call.is_core_task:
        return TaskSession(call.session_id, call.session_fields, str(call.id))
    return restored(call.session_id, call.session_fields)


def cancelled(call: CallRecord) -> bytes:
    """The answer of a call that was stopped before any code could say so."""
    return jsonrpc.encode_error(fitted(RequestCancelled(), call.session_fields["version"]), call.request_id)


def too_slow(call: CallRecord) -> str:
    """Return the error text for a call that took longer than it may."""
    return f"{call.tool} timed out after {call.timeout:g} seconds and was stopped."


def timed_out(call: CallRecord) -> bytes:
    """Return the answer of a call that took longer than it may, where its code cannot give it."""
    return failed(call, too_slow(call))


def failed(call: CallRecord, words: str) -> bytes:
    """An error of the tool, so that the model reads why."""
    session = restored(call.session_id, call.session_fields)
    return jsonrpc.encode_result(call.request_id, session.fit("tools/call", error_result(words)))
