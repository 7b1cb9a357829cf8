"""Seed rows: a realistic catalogue and traffic, and values that a hostile client or user could store."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone

from mcp_app.auth.api_keys import issue_api_key, revoke_api_key
from mcp_app.message_log import rollups
from mcp_app.message_log.counts import callers, error_groups
from mcp_app.message_log.pages import ERRORS
from mcp_app.message_log.rollup_cells import RollupCells
from mcp_app.message_log.traffic import PERIODS, Period
from mcp_app.models import (
    ApiKey,
    AuditEvent,
    Call,
    CatalogueChange,
    ErrorGroup,
    Message,
    Prompt,
    Resource,
    ResourceTemplate,
    Session,
    StoredSource,
    Tool,
)
from tests.samples.approved_work import bound, guarded_tool

PASSWORD = "correct horse battery staple"

# Each is harmful if interpreted as markup, reorders or hides text, or contains terminal escape sequences.
HOSTILE = {
    "script": "<script>window.pwned=1</script>",
    "image": '"><img src=x onerror=window.pwned=2>',
    "svg": "<svg/onload=window.pwned=3>",
    "attribute": "' autofocus onfocus=window.pwned=4 x='",
    "breakout": "</script></textarea></pre></title><script>window.pwned=5</script>",
    "template": "{{7*7}}{% load static %}${7*7}",
    "url": "javascript:window.pwned=6",
    "bidi": "safe\u202egnp.exe\u202c and \u2066isolated\u2069",
    "ansi": "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "hidden": "zero\u200bwidth\ufeff\U000e0041tag",
    "lines": "first\r\n2026-11-20 ERROR forged line",
    "long": "unbroken" * 20,
}
ALL_HOSTILE = " | ".join(HOSTILE.values())
# Strings that must never appear unescaped in a page.
RAW_MARKUP = ("<script>window.pwned", "<img src=x", "<svg/onload", "onfocus=window.pwned=4 x=''")
RAW_HIDDEN = "\u202e\u202c\u2066\u2069\x1b\x07\u200b\ufeff\U000e0041"


@dataclass(frozen=True, slots=True)
class Seed:
    """The rows that tests access by name."""

    root: Any
    viewer: Any
    outsider: Any
    echo: Tool
    drifted: Tool
    preset: Tool
    code_prompt: Prompt
    own_prompt: Prompt
    own_resource: Resource
    template: ResourceTemplate
    key: ApiKey
    session: Session
    hostile_session: Session
    message: Message
    hostile_message: Message
    call: Call
    running_call: Call
    waiting_call: Call
    hostile_call: Call
    undecided_call: Call


def people() -> tuple[Any, Any, Any]:
    """Return a superuser, a staff user with view permissions only, and a staff user without permissions."""
    users = get_user_model().objects
    root = users.create_superuser("root", "root@example.com", PASSWORD)
    viewer = users.create_user("viewer", password=PASSWORD, is_staff=True)
    viewer.user_permissions.set(
        Permission.objects.filter(content_type__app_label="mcp_app", codename__startswith="view_")
    )
    outsider = users.create_user("outsider", password=PASSWORD, is_staff=True)
    return root, viewer, outsider


def _schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _code_tool(name: str, description: str, schema: dict[str, Any], **more: Any) -> Tool:
    definition = {"name": name, "description": description, "inputSchema": schema}
    return Tool.objects.create(
        name=name,
        source=StoredSource.CODE,
        input_schema=schema,
        definition=definition,
        definition_hash="a" * 64,
        reviewed_hash=more.pop("reviewed_hash", "a" * 64),
        code_path=f"mcp_app.contrib.demo.mcp.{name}",
        **more,
    )


def _tools() -> tuple[Tool, Tool, Tool]:
    echo = _code_tool("echo", "Gives the same text back.", _schema(text="string"))
    _code_tool("add", "Adds two integers.", _schema(a="integer", b="integer"), calls_per_minute=60)
    _code_tool("burn", "Uses processor time.", _schema(seconds="number"), background=True, enabled=False)
    _code_tool("gone", "Its code was removed.", _schema(), missing=True)
    scrape = _code_tool(
        "web_scrape",
        "Reads a page.",
        _schema(url="string", format="string"),
        permission="mcp_app.view_tool",
        reviewed_hash="b" * 64,
        title="Read a web page",
    )
    old = {"definition": {**scrape.definition, "description": "Fetches a page."}, "definition_hash": "b" * 64}
    CatalogueChange.objects.create(
        revision=1, kind="tool", key="web_scrape", action="mirror", before=None, after=old
    )
    preset = Tool.objects.create(
        name="greet_world",
        source=StoredSource.ADMIN,
        preset_of=echo,
        fixed_arguments={"text": "Hello, world"},
        title="Greet the world",
        description="Says hello.",
        input_schema=_schema(),
    )
    return echo, scrape, preset


def _prompts() -> tuple[Prompt, Prompt]:
    arguments = [{"name": "code", "required": True}, {"name": "language", "required": False}]
    code = Prompt.objects.create(
        name="code_review",
        source=StoredSource.CODE,
        arguments=arguments,
        code_path="mcp_app.contrib.demo.mcp.code_review",
        definition={"name": "code_review", "description": "Reviews code.", "arguments": arguments},
    )
    own = Prompt.objects.create(
        name="summarise",
        source=StoredSource.ADMIN,
        title="Summarise a text",
        description="Short and plain.",
        template="Summarise for {{audience}}:\n\n{{text}}\n\n{{unknown}} stays.",
        arguments=[
            {"name": "audience", "description": "Who reads it", "required": True},
            {"name": "text", "required": True},
        ],
    )
    return code, own


def _resources() -> tuple[Resource, ResourceTemplate]:
    Resource.objects.create(
        uri="server://info",
        name="info",
        source=StoredSource.CODE,
        mime_type="application/json",
        definition={"uri": "server://info", "name": "info", "mimeType": "application/json"},
    )
    own = Resource.objects.create(
        uri="notes://house-rules",
        name="House rules",
        source=StoredSource.ADMIN,
        mime_type="text/plain",
        text="Be kind.\n" * 3,
    )
    template = ResourceTemplate.objects.create(
        uri_template="demo://greeting/{name}",
        name="greeting",
        source=StoredSource.CODE,
        mime_type="text/plain",
        definition={"uriTemplate": "demo://greeting/{name}", "name": "greeting"},
    )
    return own, template


def _session(number: int, user: Any, **more: Any) -> Session:
    started = timezone.now() - timedelta(minutes=7 * number)
    fields = {
        "id": f"{number:032x}",
        "principal": f"user:{user.pk}/key:1",
        "user": user,
        "protocol_version": "2025-11-25",
        "client_name": "claude-code",
        "client_version": "2.1.0",
        "address": "127.0.0.1",
        "created_at": started,
        "last_seen_at": started + timedelta(minutes=5),
        "fields": {"version": "2025-11-25"},
    } | more
    return Session.objects.create(**fields)


def call(session: Session | None, number: int, **more: Any) -> Message:
    """Create one ``tools/call`` with its response, ``number`` seconds after a fixed time."""
    payload = {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}},
    }
    answer = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "hi"}]}}
    fields = {
        "session": session,
        "at": datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(seconds=number),
        "direction": "in",
        "kind": "request",
        "method": "tools/call",
        "request_id": str(number),
        "target": "echo",
        "outcome": "ok",
        "payload": json.dumps(payload),
        "answer": json.dumps(answer),
        "duration_ms": 1.5 + number,
        "principal": session.principal if session else "anonymous",
        "process": "host:1",
    } | more
    return Message.objects.create(**fields)


BACKGROUND_ARGUMENTS = {"text": "hi", "password": "hunter2"}


def background_call(session_id: str, number: int, **more: Any) -> Call:
    """Create a background call of a session, completed unless ``more`` overrides it."""
    at = timezone.now() - timedelta(minutes=number)
    # Ids of rows go on after tests that emptied the tables.
    key = ApiKey.objects.order_by("pk").first()
    principal = f"user:{key.user_id}/key:{key.pk}" if key is not None else "user:1/key:1"
    answer = {
        "jsonrpc": "2.0",
        "id": number,
        "result": {"content": [{"type": "text", "text": "counted to 3"}]},
    }
    fields = {
        "session_id": session_id,
        "request_id": json.dumps(number),
        "request_key": f"{number:064x}",
        "principal": principal,
        "tool": "echo",
        "arguments": json.dumps(BACKGROUND_ARGUMENTS),
        "digest": "d" * 64,
        "session_fields": {
            "version": "2025-11-25",
            "principal": principal,
            "created": "1790000000.0",
            "client": "{}",
            "capabilities": '{"elicitation": {}}',
        },
        "stream": f"call-{number:018x}",
        "state": "completed",
        "outcome": "ok",
        "attempt": 1,
        "timeout": 60,
        "accepted_at": at,
        "enqueued_at": at,
        "started_at": at + timedelta(milliseconds=12),
        "finished_at": at + timedelta(seconds=3),
        "worker": "host:77",
        "answer": json.dumps(answer),
        "published": True,
    } | more
    return Call.objects.create(**fields)


RUNNING: dict[str, Any] = {"finished_at": None, "outcome": "", "answer": "", "published": False}


def undecided_call(session_id: str, number: int, **more: Any) -> Call:
    """Create a call that is pending approval for longer than any test runs."""
    now = timezone.now()
    fields = {
        "state": "approval_needed",
        "attempt": 0,
        "started_at": None,
        "enqueued_at": None,
        "worker": "",
        "approval_until": now + timedelta(hours=20),
        "reminded_at": now + timedelta(hours=20),
        **RUNNING,
    }
    # Calls of deleted users do not wait for approval.
    fields |= more if "user" in more else {"principal": "loopback", **more}
    arguments = json.loads(fields["arguments"]) if "arguments" in fields else BACKGROUND_ARGUMENTS
    name = fields.get("tool", "echo")
    tool = Tool.objects.filter(name=name).first() or guarded_tool(name)
    return background_call(session_id, number, **bound(arguments, tool) | fields)


def _background_calls(session: Session, hostile: Session) -> tuple[Call, Call, Call, Call, Call]:
    done = background_call(session.pk, 1)
    background_call(
        session.pk, 2, state="failed", outcome="tool_error", attempt=3, max_attempts=3, retry_of=done
    )
    background_call(session.pk, 3, outcome="tool_error", tool="web_scrape")
    running = background_call(
        session.pk,
        4,
        tool="count",
        state="running",
        # No worker renews it, and without a lease the sweep of a live server would treat the call as lost.
        lease_until=None,
        progress=40,
        total=100,
        message="40 of 100",
        **RUNNING,
    )
    waiting = background_call(
        session.pk,
        5,
        tool="count",
        state="accepted",
        attempt=0,
        started_at=None,
        worker="",
        queue="slow",
        **RUNNING,
    )
    background_call(
        session.pk,
        6,
        tool="burn",
        state="cancelled",
        outcome="cancelled",
        cancel_requested_at=timezone.now(),
        cancel_reason="the person pressed stop",
    )
    hostile_call = background_call(
        hostile.pk,
        7,
        tool=ALL_HOSTILE[:128],
        principal=ALL_HOSTILE[:120],
        request_id=json.dumps(HOSTILE["script"]),
        arguments=json.dumps(HOSTILE, ensure_ascii=False),
        answer=json.dumps({"error": {"code": -32603, "message": ALL_HOSTILE}}, ensure_ascii=False),
        outcome="error",
        state="failed",
        worker=HOSTILE["image"],
        queue=HOSTILE["breakout"][:100],
        message=ALL_HOSTILE,
        progress=3,
        cancel_requested_at=timezone.now(),
        cancel_reason=ALL_HOSTILE[:200],
    )
    background_call(
        "gone-session", 8, tool=HOSTILE["bidi"], state="running", progress=1, message=ALL_HOSTILE,
        queue=HOSTILE["script"], **RUNNING,
    )  # fmt: skip
    undecided = undecided_call(
        session.pk,
        9,
        tool="discard",
        arguments=json.dumps({"book": "Dune", "token": "hunter2", "shelves": [1, 2, 3]}),
        user=session.user,
    )
    undecided_call(
        session.pk,
        10,
        tool=ALL_HOSTILE[100:228],
        principal=ALL_HOSTILE[:120],
        arguments=json.dumps(HOSTILE, ensure_ascii=False),
        four_eyes=True,
    )
    return done, running, waiting, hostile_call, undecided


def _traffic(session: Session) -> Message:
    first = call(session, 1, method="initialize", target="", payload='{"method":"initialize"}')
    for number in range(2, 60):
        call(session, number)
    call(session, 60, outcome="tool_error", target="web_scrape")
    call(
        session,
        61,
        outcome="error",
        code=-32602,
        answer='{"error":{"code":-32602,"message":"Unknown tool: nope"}}',
    )
    call(
        session,
        62,
        method="notifications/progress",
        kind="notification",
        direction="out",
        outcome="",
        answer="",
        duration_ms=None,
        request_id="",
        target="",
        skipped=3,
    )
    call(session, 63, payload=json.dumps({"params": {"arguments": {"text": "long " * 2000}}}))
    return first


def hostile_traffic(user: Any) -> tuple[Session, Message]:
    session = _session(
        9,
        user,
        client_name=ALL_HOSTILE[:200],
        client_version=HOSTILE["bidi"],
        principal=HOSTILE["image"],
        address=HOSTILE["script"],
        end_reason=HOSTILE["svg"],
        ended_at=timezone.now(),
        fields={name: text for name, text in HOSTILE.items() if name != "ansi"},
    )
    message = call(
        session,
        100,
        method=HOSTILE["breakout"],
        request_id=HOSTILE["attribute"],
        target=HOSTILE["bidi"],
        payload=json.dumps({"text": ALL_HOSTILE}, ensure_ascii=False),
        answer=ALL_HOSTILE,
        process=HOSTILE["image"],
        kind="<b>x</b>",
        principal=HOSTILE["hidden"],
    )
    call(session, 101, payload="[" * 4000, answer="x" * 9000, method=HOSTILE["url"], target=HOSTILE["long"])
    Tool.objects.create(
        name=HOSTILE["script"],
        source=StoredSource.UPSTREAM,
        title=ALL_HOSTILE[:200],
        description=ALL_HOSTILE,
        input_schema=HOSTILE,
        definition=HOSTILE | {"title": ALL_HOSTILE},
        permission=HOSTILE["image"],
        code_path=HOSTILE["svg"],
        definition_hash="c",
        reviewed_hash="d",
    )
    Prompt.objects.create(
        name=HOSTILE["image"],
        source=StoredSource.UPSTREAM,
        title=HOSTILE["bidi"],
        description=ALL_HOSTILE,
        definition=HOSTILE,
        arguments=[HOSTILE],
    )
    Resource.objects.create(
        uri=HOSTILE["url"],
        name=HOSTILE["script"],
        source=StoredSource.UPSTREAM,
        title=HOSTILE["svg"],
        definition=HOSTILE,
        mime_type=HOSTILE["image"],
    )
    AuditEvent.objects.create(
        actor=user,
        actor_name=HOSTILE["script"],
        action=HOSTILE["svg"],
        object_kind=HOSTILE["attribute"],
        object_key=ALL_HOSTILE[:500],
        detail=HOSTILE,
    )
    CatalogueChange.objects.create(
        revision=2,
        kind="tool",
        key="echo",
        action="<i>update</i>"[:20],
        before={"title": "old"},
        after=HOSTILE,
    )
    ApiKey.objects.create(user=user, name=ALL_HOSTILE[:100], prefix="<b>mcp_x", secret_hash="f" * 64)
    return session, message


def count_calls(period: Period, every: int = 1) -> None:
    """Count calls as the drain does: busy days, quiet nights, a slow tool, a tool that often fails.

    ``every``: count at every n-th point of the period only, with the same total.
    """
    tally, called = RollupCells(), callers.Callers()
    chance = random.Random(7)
    tools = {"echo": 0.9, "web_scrape": 420, "count": 2600, "add": 0.6, ALL_HOSTILE[:128]: 12}
    for moment in period.starts(timezone.now())[::-every]:
        at = moment.timestamp()
        busy = 4 + 3 * math.sin(at / 86_400 * 2 * math.pi) + chance.random() * 2
        for tool, typical in tools.items():
            for _ in range(every * int(busy * chance.random() * (3 if tool == "echo" else 0.6))):
                bad = chance.random() < (0.12 if tool == "web_scrape" else 0.01)
                outcome = "tool_error" if bad else "cancelled" if chance.random() < 0.01 else "ok"
                took = typical * chance.lognormvariate(0, 0.6)
                tally.add(at, "tools/call", tool, outcome, took)
                # The seeded sessions, including the hostile one.
                who = chance.choice(
                    [(0, "user:1/key:1"), (1, "user:2/key:2"), (60, "loopback"), (9, HOSTILE["svg"])]
                )
                called.add(
                    Message(method="tools/call", outcome=outcome, duration_ms=took,
                            session_id=f"{who[0]:032x}", principal=who[1]), at,
                )  # fmt: skip
    rollups.write(tally)
    callers.write(called)


def group_errors() -> None:
    """Group errors as the drain does: the seeded ones, hostile ones, and errors that occur every hour."""
    errors = error_groups.Errors()
    failed = list(Message.objects.filter(outcome__in=ERRORS))
    words = ("Shelf 12 of 'north hall' is full: 3 books are left", ALL_HOSTILE, "word " * 60)
    for number, said in enumerate(words):
        answer = json.dumps({"result": {"content": [{"type": "text", "text": said}], "isError": True}})
        failed += [
            call(None, 1_000 + number * 100 + at, outcome="tool_error", answer=answer,
                 at=timezone.now() - timedelta(hours=at),
                 target=("web_scrape", ALL_HOSTILE[:128])[number % 2])
            for at in range(0, 90, number + 1)
        ]  # fmt: skip
    for number, kind in enumerate(("ValueError", f"app.{ALL_HOSTILE[:60]}")):
        exception = {
            "type": kind, "message": ALL_HOSTILE,
            "frames": [{"file": "shop/mcp.py", "line": 42, "function": ALL_HOSTILE[:80], "module": "shop.mcp",
                        "own": True, "offset": 2, "omitted": number}],
        }  # fmt: skip
        failed.append(
            call(None, 2_000 + number, outcome="tool_error", target="web_scrape", incident=f"{number:08x}",
                 exception=json.dumps(exception), at=timezone.now() - timedelta(hours=number))
        )  # fmt: skip
    for message in failed:
        errors.add(message)
    noted = error_groups.Errors()
    noted.merge(errors)
    error_groups.write(noted)
    ErrorGroup.objects.exclude(tool="echo").update(first_at=timezone.now() - timedelta(hours=3))


def seed() -> Seed:
    """Store all rows. Requires an empty, migrated database."""
    root, viewer, outsider = people()
    echo, drifted, preset = _tools()
    code_prompt, own_prompt = _prompts()
    own_resource, template = _resources()
    key, _ = issue_api_key(user=root, name="laptop", actor=root)
    issue_api_key(
        user=viewer, name="build server", expires_at=timezone.now() + timedelta(days=30), actor=root
    )
    revoked, _ = issue_api_key(user=viewer, name="lost phone", actor=root)
    revoke_api_key(key=revoked, actor=root)
    session = _session(0, root)
    _session(1, viewer, client_name="Visual Studio Code", protocol_version="2025-06-18")
    _session(
        60,
        viewer,
        client_name="cursor",
        protocol_version="2025-03-26",
        ended_at=timezone.now(),
        end_reason="DELETE",
    )
    message = _traffic(session)
    count_calls(PERIODS["hour"], every=4)
    Session.objects.filter(pk=session.pk).update(messages_logged=session.messages.count())
    hostile_session, hostile_message = hostile_traffic(root)
    return Seed(
        root,
        viewer,
        outsider,
        echo,
        drifted,
        preset,
        code_prompt,
        own_prompt,
        own_resource,
        template,
        key,
        session,
        hostile_session,
        message,
        hostile_message,
        *_background_calls(session, hostile_session),
    )
