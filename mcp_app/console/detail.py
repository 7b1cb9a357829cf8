"""The details of one message in the console: full texts, related messages, links and actions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from django.contrib.admin.utils import quote
from django.urls import reverse

from mcp_app.console.access import SESSIONS
from mcp_app.console.history import related
from mcp_app.console.line import Line
from mcp_app.console.naming import name_lines
from mcp_app.interface.links import call_page, refused_tool, replay_page, tool_page
from mcp_app.interface.summary import text_title
from mcp_app.interface.text import code_point, indented_json, marked, replace_hidden
from mcp_app.message_log.log import PENDING_MARKS
from mcp_app.models import Call, Message
from mcp_app.models.call import calls_of_session
from mcp_app.observability.incidents import StoredException
from mcp_app.protocol.call_state import TERMINAL, shown_state

# Maximum number of characters shown. Larger than any logged payload, even after indentation.
LONGEST_SHOWN = 200_000


def detail(line: Line, user: Any) -> dict[str, Any]:
    """Return everything about one line as JSON data."""
    others = related(line)
    name_lines([line, *others])
    running = line.kind in PENDING_MARKS and not any(_answers(other) for other in others)
    request = request_of(line) if running else None
    return {
        "row": line.row(),
        "blocks": [{"title": title, "text": block(text)} for title, text in _texts(line) if text],
        "related": [other.row() for other in others],
        "request": request if user.has_perm("mcp_app.change_call") else None,
        "links": {
            "session": _session_page(line, user),
            "admin": reverse("admin:mcp_app_message_change", args=[quote(line.pk)]) if line.pk else None,
            "call": call_page(
                user,
                method=line.method,
                session=line.session,
                target=line.target,
                request_id=line.request_id,
                at=datetime.fromtimestamp(line.at, UTC),
            ),
            "replay": replay_page(user, method=line.method, kind=line.kind, target=line.target, pk=line.pk),
            "tool": tool_page(user, method=line.method, target=line.target) or _refused_tool_page(line, user),
        },
    }


def _texts(line: Line) -> list[tuple[str, str]]:
    """Return the texts of a line with their titles. The cause of a failure comes first."""
    raised = StoredException.read(line.exception)
    return [
        ("Exception", raised.text if raised else ""),
        (text_title(line.kind), line.payload),
        ("Response", line.answer),
        ("Requests to other servers", line.outgoing or ""),
    ]


def block(text: str) -> str:
    """Return text as indented JSON, with hidden characters written as ``⟦U+202E⟧``."""
    return replace_hidden(indented_json(text, LONGEST_SHOWN), lambda found: f"⟦{code_point(found)}⟧")


def request_of(line: Line) -> str | None:
    """Return the JSON-RPC id of a running request, encoded as JSON, or None if it is unknown.

    The encoding distinguishes the number 1 from the string "1".
    """
    try:
        message = orjson.loads(line.payload)
    except orjson.JSONDecodeError:
        message = None
    if isinstance(message, dict) and isinstance(found := message.get("id"), (str, int)):
        return orjson.dumps(found).decode()
    # The logged message was truncated and cannot be parsed. If the request is a background call, the id is
    # stored with the call.
    for written in (
        Call.objects.filter(calls_of_session(line.session or ""), tool=line.target)
        .exclude(state__in=TERMINAL)[:50]
        .values_list("request_id", flat=True)
    ):
        if str(orjson.loads(written))[:120] == line.request_id:
            return written
    return None


def _answers(other: Line) -> bool:
    return bool(other.kind == "request" and other.direction == Message.Direction.IN)


def _refused_tool_page(line: Line, user: Any) -> str | None:
    """Return the admin page of a tool that exists although the client got the answer "tool not found".

    Returns None for other answers.
    """
    tool = refused_tool(user, method=line.method, answer=line.answer)
    return reverse("admin:mcp_app_tool_change", args=[tool.pk]) if tool is not None else None


def _session_page(line: Line, user: Any) -> str | None:
    """Return the address of the session's page, or None if the user may not view sessions."""
    if not line.session or not user.has_perm(SESSIONS):
        return None
    return reverse("mcp_console:session", args=[line.session])


def running_calls(session: str) -> list[dict[str, Any]]:
    """Return the unfinished background calls of a session."""
    calls = (
        Call.objects.filter(calls_of_session(session)).exclude(state__in=TERMINAL).order_by("-accepted_at")
    )
    return [
        {
            "request": call.request_id,
            "shown": marked(str(orjson.loads(call.request_id))[:120]),
            "target": marked(call.tool),
            "state": "cancelling" if call.cancel_requested_at else shown_state(call.state),
            "since": (call.started_at or call.accepted_at).timestamp() * 1000,
            "progress": call.progress,
            "total": call.total,
        }
        for call in calls.defer("arguments", "answer", "meta", "session_fields")[:100]
    ]
