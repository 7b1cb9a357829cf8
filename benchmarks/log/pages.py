"""Every page that shows messages, sessions, calls or figures, with filters, at both ends of the log."""

from __future__ import annotations

from urllib.parse import urlencode

from benchmarks.log.fill import BIG, some_time
from mcp_app.admin.long_lists import MOST_LISTED
from mcp_app.models import Call, Message, Session

LOG = "/admin/mcp_app/message/"
SESSIONS = "/admin/mcp_app/session/"
CALLS = "/admin/mcp_app/call/"
CONSOLE = "/console/"


def pages() -> dict[str, str]:
    """Addresses by what they are."""
    middle = (Message.objects.latest("pk").pk + Message.objects.earliest("pk").pk) // 2
    message, call = Message.objects.get(pk=middle), Call.objects.order_by("accepted_at").first()
    assert call is not None
    day = {"since": some_time(100), "until": some_time(76)}

    def last(model: type[Call | Session]) -> int:
        return (min(model.objects.count(), MOST_LISTED) + 49) // 50

    def log(**asked: object) -> str:
        return f"{LOG}?{urlencode(asked)}"

    def live(**asked: object) -> str:
        return f"{CONSOLE}messages/lines.json?{urlencode(asked)}"

    return {
        **{f"first page, {name}": f"/admin/?range={name}" for name in ("hour", "day", "week")},
        **{f"figures, {name}": f"{LOG}dashboard/?range={name}" for name in ("hour", "day", "week")},
        "messages": LOG,
        "messages, oldest first": log(order="oldest"),
        "messages, in the middle": log(before=middle),
        "messages, at the end": log(before=200),
        "messages, back to newer": log(after=middle),
        "messages of a method": log(method="tools/call"),
        "messages of a method, in the middle": log(method="ping", before=middle),
        "messages of a tool": log(target="tool_7"),
        "messages of no tool": log(target="nothing"),
        "messages that failed": log(outcome="error"),
        "messages that failed, oldest first": log(outcome="error", order="oldest"),
        "messages in order": log(outcome="ok"),
        "messages of a principal": log(principal="user:1/key:1"),
        "messages with a request id": log(request_id="4711"),
        "messages out (none)": log(direction="out"),
        "messages of a tool that failed": log(target="tool_7", outcome="tool_error"),
        "messages of a method and a principal": log(method="ping", principal="user:77/key:1"),
        "messages no filter agrees on": log(method="ping", target="tool_7"),
        "messages no filter agrees on, widely": log(method="ping", outcome="ok", direction="out"),
        "messages of a day": log(**day),
        "messages of a day and a tool": log(**day, target="tool_7"),
        "messages of a day, oldest first": log(**day, order="oldest", outcome="error"),
        "messages until long ago": log(until=some_time(300), method="tools/call"),
        "messages since a minute ago": log(since=some_time(0.02)),
        "messages of another year": log(since="2020-01-01T00:00:00", until="2020-02-01T00:00:00"),
        "messages with words": log(text="a client asked"),
        "messages with words nobody said": log(text="never said"),
        "messages of a tool with words nobody said": log(text="never said", target="tool_7"),
        "a message": f"{LOG}{message.pk}/change/",
        "sessions": SESSIONS,
        "sessions, last page": f"{SESSIONS}?p={last(Session)}",
        "sessions open": f"{SESSIONS}?state=open",
        "sessions idle": f"{SESSIONS}?state=idle",
        "sessions ended": f"{SESSIONS}?state=ended",
        "sessions of a revision": f"{SESSIONS}?version=2025-06-18",
        "sessions by client": f"{SESSIONS}?q=cursor",
        "sessions by nothing": f"{SESSIONS}?q=nobody",
        "sessions by id": f"{SESSIONS}?q={message.session_id}",
        "sessions by last seen": f"{SESSIONS}?o=6",
        "a session": f"{SESSIONS}{message.session_id}/change/",
        "a session with a tenth of all": f"{SESSIONS}{BIG}/change/",
        "a session with a tenth of all, in the middle": f"{SESSIONS}{BIG}/change/?before={middle}",
        "a session with a tenth of all, failed": f"{SESSIONS}{BIG}/change/?outcome=cancelled",
        "a session with a tenth of all, a request": f"{SESSIONS}{BIG}/change/?request_id=10",
        "a session with a tenth of all, no such method": f"{SESSIONS}{BIG}/change/?method=nothing",
        "calls": CALLS,
        "calls, last page": f"{CALLS}?p={last(Call)}",
        "calls not over": f"{CALLS}?state=open",
        "calls that failed": f"{CALLS}?outcome=tool_error",
        "calls cancelled (none)": f"{CALLS}?state=cancelled&outcome=cancelled",
        "calls of a tool": f"{CALLS}?q=tool_7",
        "calls by nothing": f"{CALLS}?q=nobody",
        "calls by id": f"{CALLS}?q={call.pk}",
        "a call": f"{CALLS}{call.pk.hex}/change/",
        "console": CONSOLE,
        "console, sessions": f"{CONSOLE}sessions.json",
        "console, sessions ended": f"{CONSOLE}sessions.json?state=ended",
        "console, sessions of a client": f"{CONSOLE}sessions.json?state=ended&search=cursor",
        "console, sessions of nobody": f"{CONSOLE}sessions.json?state=ended&search=nobody",
        "console, a session": f"{CONSOLE}sessions/{message.session_id}/",
        "console, a session now": f"{CONSOLE}sessions/{message.session_id}/now.json",
        "console, messages": live(),
        "console, messages in the middle": live(before=middle),
        "console, messages of a tool": live(search="tool:tool_7"),
        "console, messages of a user": live(search="user:user:1/key:1"),
        "console, messages no key agrees on": live(search="tool:tool_7 method:ping"),
        "console, messages with words nobody said": live(search="never-said"),
        "console, messages slower than any": live(search="ms:>100000s"),
        "console, messages of a big session": live(session=BIG),
        "console, messages of a big session that failed": live(session=BIG, search="status:error"),
        "console, words nobody said in a big session": live(session=BIG, search="never-said"),
    }
