"""Answers to background calls that are not given by a tool, and the requests and sessions of stored calls.

An answer has the format of the revision that the call used.
"""

from __future__ import annotations

from mcp_app.execution.calls.results import error_result
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.protocol.errors import RequestCancelled, fitted
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.versions import is_modern
from mcp_app.sessions.exchange import Exchange, restored
from mcp_app.sessions.session import LiveSession, TaskSession


def request_of(call: CallRecord) -> bytes:
    """Return the request of a call, without its ``_meta``."""
    return jsonrpc.encode_request(
        call.request_id, "tools/call", {"name": call.tool, "arguments": call.arguments}
    )


def session_of(call: CallRecord) -> LiveSession | Exchange:
    """Return the session of a call as it was when the call was accepted.

    Only the record is needed for this.
    """
    if call.is_core_task:
        return TaskSession(call.session_id, call.session_fields, str(call.id))
    if is_modern(call.session_fields["version"]):
        return restored(call.session_id, call.session_fields)
    return LiveSession(call.session_id, call.session_fields)


def cancelled(call: CallRecord) -> bytes:
    """Return the answer to a call that was cancelled before its code could answer."""
    return jsonrpc.encode_error(fitted(RequestCancelled(), call.session_fields["version"]), call.request_id)


def too_slow(call: CallRecord) -> str:
    """Return the error text for a call that exceeded its timeout."""
    return f"{call.tool} timed out after {call.timeout:g} seconds and was stopped."


def timed_out(call: CallRecord) -> bytes:
    """Return the answer to a call that exceeded its timeout and whose code cannot answer."""
    return failed(call, too_slow(call))


def failed(call: CallRecord, words: str) -> bytes:
    """Return a tool error as the answer to a call, with the reason for the model."""
    result = session_of(call).fit("tools/call", error_result(words))
    return jsonrpc.encode_result(call.request_id, result)
