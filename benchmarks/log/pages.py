"""Every page that shows messages, sessions, calls or figures, with filters, at both ends of the log."""

from __future__ import annotations

from urllib.parse import urlencode

from benchmarks.log.fill import BIG, some_time
from benchmarks.log.pages_beside import pages_beside
from mcp_app.admin.long_lists import MOST_LISTED
from mcp_app.models import Call, ErrorGroup, Message, Session

LOG = "/admin/mcp_app/message/"
SESSIONS = "/admin/mcp_app/session/"
CALLS = "/admin/mcp_app/call/"
CONSOLE = "/console/"


def pages() -> dict[str, str]:
    """Return addresses by page name."""
    middle = (Message.objects.latest("pk").pk + Message.objects.earliest("pk").pk) // 2
    message, call = Message.objects.get(pk=middle), Call.objects.order_by("accepted_at").first()
    assert call is not None
    return {
        **{f"first page, {name}": f"/admin/?range={name}" for name in ("hour", "day", "week")},
        **{f"figures, {name}": f"{LOG}dashboard/?range={name}" for name in ("hour", "day", "week")},
        **{
            f"figures by {by}, {period}": f"{LOG}figures/?by={by}&range={period}"
            for by in ("tool", "client", "principal", "time")
            for period in ("hour", "day", "week")
        },
        "errors, new": f"{LOG}errors/",
        "errors, all": f"{LOG}errors/?show=all",
        "errors, most often": f"{LOG}errors/?show=all&order=count",
        "an error": f"{LOG}errors/{_error()}/",
        **_messages(message),
        **_sessions(message),
        **_calls(call),
        **_console(message),
        **pages_beside(message, call),
    }


def _error() -> str:
    group = ErrorGroup.objects.order_by("first_at").first()
    assert group is not None
    return group.pk


def _log(**asked: object) -> str:
    return f"{LOG}?{urlencode(asked)}"


def _live(**asked: object) -> str:
    return f"{CONSOLE}messages/lines.json?{urlencode(asked)}"


def _last(model: type[Call | Session]) -> int:
    return (min(model.objects.count(), MOST_LISTED) + 49) // 50


def _messages(message: Message) -> dict[str, str]:
    """Return pages of the message log; ``message`` is in its middle."""
    middle, day = message.pk, {"since": some_time(100), "until": some_time(76)}
    return {
        "messages": LOG,
        "messages, oldest first": _log(order="oldest"),
        "messages, in the middle": _log(before=middle),
        "messages, at the end": _log(before=200),
        "messages, back to newer": _log(after=middle),
        "messages of a method": _log(method="tools/call"),
        "messages of a method, in the middle": _log(method="ping", before=middle),
        "messages of a tool": _log(target="tool_7"),
        "messages of no tool": _log(target="nothing"),
        "messages that failed": _log(outcome="error"),
        "messages that failed, oldest first": _log(outcome="error", order="oldest"),
        "messages in order": _log(outcome="ok"),
        "messages of a principal": _log(principal="user:1/key:1"),
        "messages with a request id": _log(request_id="4711"),
        "messages out (none)": _log(direction="out"),
        "messages of a tool that failed": _log(target="tool_7", outcome="tool_error"),
        "messages of a method and a principal": _log(method="ping", principal="user:77/key:1"),
        "messages no filter agrees on": _log(method="ping", target="tool_7"),
        "messages no filter agrees on, widely": _log(method="ping", outcome="ok", direction="out"),
        "messages of a client": _log(client="cursor"),
        "messages of no client": _log(client="nobody"),
        "messages behind a figure": _log(
            method="tools/call", target="tool_7", outcome="failed", since=f"{some_time(20)[:13]}:00:00"
        ),
        "messages of a day": _log(**day),
        "messages of a day and a tool": _log(**day, target="tool_7"),
        "messages of a day, oldest first": _log(**day, order="oldest", outcome="error"),
        "messages until long ago": _log(until=some_time(300), method="tools/call"),
        "messages since a minute ago": _log(since=some_time(0.02)),
        "messages of another year": _log(since="2020-01-01T00:00:00", until="2020-02-01T00:00:00"),
        "messages with words": _log(text="a client asked"),
        "messages with words nobody said": _log(text="never said"),
        "messages of a tool with words nobody said": _log(text="never said", target="tool_7"),
        "messages searched by a tool": _log(q="tool:tool_7"),
        "messages searched by a client today": _log(q="client:cursor since:today"),
        "messages searched by words nobody said": _log(q="never-said"),
        "messages searched by all keys": _log(q="tool:tool_7 status:error user:user:1/key:1 ms:>1 since:9d"),
        "a message": f"{LOG}{message.pk}/change/",
    }


def _sessions(message: Message) -> dict[str, str]:
    """Return the list of sessions, and the session of one message."""
    middle, session = message.pk, message.session_id
    return {
        "sessions": SESSIONS,
        "sessions, last page": f"{SESSIONS}?p={_last(Session)}",
        "sessions open": f"{SESSIONS}?state=open",
        "sessions idle": f"{SESSIONS}?state=idle",
        "sessions ended": f"{SESSIONS}?state=ended",
        "sessions of a revision": f"{SESSIONS}?version=2025-06-18",
        "sessions by client": f"{SESSIONS}?q=cursor",
        "sessions by nothing": f"{SESSIONS}?q=nobody",
        "sessions by id": f"{SESSIONS}?q={session}",
        "sessions by last seen": f"{SESSIONS}?o=6",
        "a session": f"{SESSIONS}{session}/change/",
        "a session with a tenth of all": f"{SESSIONS}{BIG}/change/",
        "a session with a tenth of all, in the middle": f"{SESSIONS}{BIG}/change/?before={middle}",
        "a session with a tenth of all, failed": f"{SESSIONS}{BIG}/change/?outcome=cancelled",
        "a session with a tenth of all, a request": f"{SESSIONS}{BIG}/change/?request_id=10",
        "a session with a tenth of all, no such method": f"{SESSIONS}{BIG}/change/?method=nothing",
    }


def _calls(call: Call) -> dict[str, str]:
    """Return the list of calls, and one of them."""
    return {
        "calls": CALLS,
        "calls, last page": f"{CALLS}?p={_last(Call)}",
        "calls not over": f"{CALLS}?state=open",
        "calls that failed": f"{CALLS}?state=failed",
        "calls cancelled (none)": f"{CALLS}?state=cancelled",
        "calls of a tool": f"{CALLS}?q=tool_7",
        "calls by nothing": f"{CALLS}?q=nobody",
        "calls by id": f"{CALLS}?q={call.pk}",
        "a call": f"{CALLS}{call.pk.hex}/change/",
    }


def _console(message: Message) -> dict[str, str]:
    """Return the live console and its initial requests; ``message`` is in the middle of the log."""
    middle, session = message.pk, message.session_id
    return {
        "console": f"{SESSIONS}?live=1",
        "console, sessions": f"{CONSOLE}sessions.json",
        "console, sessions ended": f"{CONSOLE}sessions.json?state=ended",
        "console, sessions of a client": f"{CONSOLE}sessions.json?state=ended&search=cursor",
        "console, sessions of nobody": f"{CONSOLE}sessions.json?state=ended&search=nobody",
        "console, a session": f"{CONSOLE}sessions/{session}/",
        "console, a session now": f"{CONSOLE}sessions/{session}/now.json",
        "console, messages": _live(),
        "console, messages in the middle": _live(before=middle),
        "console, messages of a tool": _live(search="tool:tool_7"),
        "console, messages of a user": _live(search="user:user:1/key:1"),
        "console, messages no key agrees on": _live(search="tool:tool_7 method:ping"),
        "console, messages with words nobody said": _live(search="never-said"),
        "console, messages slower than any": _live(search="ms:>100000s"),
        "console, messages of a client since": _live(search="client:cursor since:2d"),
        "console, messages until long ago": _live(search="until:9d status:error words"),
        "console, messages of a big session": _live(session=BIG),
        "console, messages of a big session that failed": _live(session=BIG, search="status:error"),
        "console, words nobody said in a big session": _live(session=BIG, search="never-said"),
    }
