"""Fills an installation's database for the walk: ordinary rows, and hostile rows of users.

Runs inside the server's Django (``server.shell``). Hostile texts of clients come from
``corpus_traffic``.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes import drafts, rolling_back, services
from mcp_app.console.line import line_of
from mcp_app.execution.decisions import approve_call, refuse_call
from mcp_app.message_log import rollups
from mcp_app.message_log.rollup_cells import RollupCells
from mcp_app.message_log.traffic import PERIODS
from mcp_app.models import (
    ApiKey,
    AuditEvent,
    Call,
    CatalogueChange,
    Draft,
    Message,
    Prompt,
    Resource,
    ResourceTemplate,
    Session,
    StoredSource,
    Tool,
)
from tests.browser.corpus import integrations
from tests.browser.corpus.planted import planted, planted_schema
from tests.samples.admin_seed import PASSWORD, background_call, call, count_calls, seed
from tests.servers.live import eventually

USER = planted("user.name", 150)


def fill() -> None:
    """Create all rows in a database after ``prepare``."""
    ordinary = seed()
    for period in PERIODS.values():
        count_calls(period)
    root = ordinary.root
    evil = _people(root)
    _entries(root, evil)
    _upstream()
    integrations.fill(root)
    _versions(root, evil)
    _traces(ordinary.session, evil)
    tally = RollupCells()
    for number in range(9):
        tally.add(
            timezone.now().timestamp() - 30 * number, "tools/call", planted("rollup.tool", 128), "error", 9
        )
    rollups.write(tally)


def _people(root: Any) -> Any:
    users = get_user_model().objects
    evil = users.create_superuser(
        USER,
        email="evil@example.com",
        password=PASSWORD,
        first_name=planted("user.first_name", 150),
        last_name=planted("user.last_name", 150),
    )
    Group.objects.create(name=planted("group.name", 150))
    expires = timezone.now() + timedelta(days=3)
    issue_api_key(user=evil, name=planted("key.name", 100), expires_at=expires, actor=evil)
    LogEntry.objects.create(
        user=evil,
        content_type=ContentType.objects.get_for_model(get_user_model()),
        object_id=str(evil.pk),
        object_repr=planted("django_log.object", 200, hidden=False),
        action_flag=CHANGE,
        change_message=planted("django_log.message", hidden=False),
    )
    return evil


def _entries(root: Any, evil: Any) -> None:
    """Create entries that an administrator may store through the services."""
    words: dict[str, Any] = {
        "title": planted("entry.title", 200),
        "description": planted("entry.description"),
    }
    services.save_prompt(
        actor=evil,
        name="planted",
        template=planted("entry.template"),
        arguments=[
            {"name": "a", "title": planted("argument.title"), "description": planted("argument.description")}
        ],
        meta={"example.com/planted": planted("entry.meta")},
        why=planted("change.why", 400),
        **words,
    )
    services.save_tool_preset(
        actor=evil,
        name="planted",
        preset_of=Tool.objects.get(name="hostile_talk"),
        fixed_arguments={"words": planted("preset.value")},
        **words,
    )
    services.save_resource(
        actor=evil,
        uri="notes://planted",  # A text with characters that no address may contain is refused.
        name=planted("entry.name", 200),
        text=planted("entry.text"),
        annotations={"audience": ["user"]},
        **words,
    )
    gone = services.save_prompt(actor=evil, name="gone", template=planted("gone.template"), **words)
    page = services.save_resource(actor=evil, uri="notes://gone", name="gone", text="Gone.", **words)
    preset = services.save_tool_preset(
        actor=evil,
        name="went",
        preset_of=Tool.objects.get(name="hostile_talk"),
        fixed_arguments={"words": "bye"},
        **words,
    )
    code = ResourceTemplate.objects.get(uri_template="demo://greeting/{name}")
    code.missing = True
    code.save()
    services.update_entry(entry=code, actor=evil, **words)
    for entry in (gone, page, preset, code):
        services.delete_entry(entry=entry, actor=evil, why=planted("gone.why", 400))


def _versions(root: Any, evil: Any) -> None:
    """Create drafts, one of them in conflict, and an entry that was changed and rolled back."""
    first = {"template": "Look at {{code}}.\nBe kind.\n", "title": "Check", "arguments": [{"name": "code"}]}
    row = services.save_prompt(actor=root, name="review", **first)
    services.save_prompt(actor=evil, entry=row, template=planted("version.template"), why="as asked")
    rolling_back.roll_back(
        to=CatalogueChange.objects.filter(key="review").earliest("id"),
        actor=evil,
        why=planted("rollback.why", 400),
    )
    row.refresh_from_db()
    drafts.save_draft(
        kind=Prompt,
        actor=evil,
        entry=row,
        template="Look at {{code}}.\nBe short.\n" + planted("draft.template"),
        title=planted("draft.title", 200),
        note=planted("draft.note", 400),
    )
    services.save_prompt(
        actor=evil, entry=row, description=planted("between.description"), why=planted("between.why", 400)
    )
    drafts.save_draft(
        kind=Prompt,
        actor=evil,
        name="weekly_report",
        template=planted("new_draft.template"),
        title=planted("new_draft.title", 200),
        note=planted("new_draft.note", 400),
    )
    job = Tool.objects.get(name="hostile_job")
    services.update_entry(entry=job, actor=root, title="A job", calls_per_minute=500, why="enough for all")
    template = ResourceTemplate.objects.get(uri_template="planted://of/{name}")
    services.update_entry(entry=template, actor=evil, position=3, why=planted("change.why", 400))


def _upstream() -> None:
    """Store hostile definitions as another server would offer them."""
    everything = {
        "source": StoredSource.UPSTREAM,
        "title": planted("upstream.title", 200),
        "description": planted("upstream.description"),
        "meta": {planted("upstream.meta_key"): planted("upstream.meta_value")},
        "icons": [{"src": planted("upstream.icon"), "mimeType": planted("upstream.icon_type")}],
        "definition": {planted("upstream.definition_key"): planted("upstream.definition_value")},
        "definition_hash": "c",
        "reviewed_hash": "d",
        "permission": planted("upstream.permission", 120),
        "code_path": planted("upstream.code_path", 120),
    }
    Tool.objects.create(
        name=planted("upstream.tool", 120),
        input_schema=planted_schema("upstream"),
        output_schema=planted_schema("upstream"),
        annotations={"title": planted("upstream.annotation")},
        queue=planted("upstream.queue", 90),
        **everything,
    )
    words = {"name": planted("upstream.argument", 200), "description": planted("upstream.argument_words")}
    Prompt.objects.create(
        name=planted("upstream.prompt", 120),
        arguments=[words],
        **{**everything, "definition": {**everything["definition"], "arguments": [words]}},
    )
    Resource.objects.create(
        uri="javascript:window.pwned=31//" + planted("upstream.uri", 200),
        name=planted("upstream.name", 120),
        mime_type=planted("upstream.type", 90),
        **everything,
    )
    ResourceTemplate.objects.create(
        uri_template="javascript:" + planted("upstream.template", 200) + "{x}",
        name=planted("upstream.name", 120),
        mime_type=planted("upstream.type", 90),
        **everything,
    )


def _traces(session: Session, evil: Any) -> None:
    """Fill columns that today's code fills with harmless text only; pages must not rely on that."""
    AuditEvent.objects.create(
        actor=evil,
        actor_name=planted("audit.actor", 200),
        action=planted("audit.action", 60),
        object_kind=planted("audit.kind", 40),
        object_key=planted("audit.key", 400),
        detail={planted("audit.detail_key"): planted("audit.detail")},
    )
    call(
        session,
        900,
        kind="request",
        method=planted("message.method", 120),
        request_id=planted("message.request_id", 120),
        target=planted("message.target", 200),
        payload=planted("message.payload"),
        answer=planted("message.answer"),
        process=planted("message.process", 60),
        principal=planted("message.principal", 120),
    )
    call(
        session,
        901,
        payload=planted("message.mangled") + "[" * 4000,
        answer='{"a": [1, "' + planted("message.cut"),
    )
    background_call(
        session.pk,
        901,
        tool=planted("call.tool", 120),
        principal=planted("call.principal", 120),
        request_id=json.dumps(planted("call.request_id")),
        state="failed",
        outcome="error",
        worker=planted("call.worker", 120),
        queue=planted("call.queue", 90),
        message=planted("call.message"),
        progress=1,
        cancel_requested_at=timezone.now(),
        cancel_reason=planted("call.cancel_reason", 200),
        answer=planted("call.answer"),
        meta=json.dumps({planted("call.meta_key"): planted("call.meta")}),
    )
    Session.objects.create(
        id="planted-" + "0" * 24,
        principal=planted("session.principal", 120),
        protocol_version="2025-11-25",
        client_name=planted("session.client", 200),
        client_version=planted("session.version", 100),
        address=planted("session.address", 64),
        created_at=timezone.now() - timedelta(minutes=2),
        last_seen_at=timezone.now(),
        ended_at=timezone.now(),
        end_reason=planted("session.end_reason", 60),
        fields={planted("session.field_key"): planted("session.field")},
    )


def decide() -> None:
    """Approve one call of the clients and refuse another; the others stay pending."""
    evil = get_user_model().objects.get(username=USER)
    waiting = Call.objects.filter(tool="hostile_gate", state="approval_needed").order_by("accepted_at")
    approved, refused, *_ = waiting
    approve_call(call_id=approved.pk, actor=evil, reason=planted("approval.reason", 400))
    refuse_call(call_id=refused.pk, actor=evil, reason=planted("refusal.reason", 400))


def keys() -> dict[str, Any]:
    """Return the keys of the rows whose pages are visited, by a short name."""
    tools, prompts, changes = Tool.objects, Prompt.objects, CatalogueChange.objects
    gate = Call.objects.filter(tool="hostile_gate")
    jobs = Call.objects.filter(tool="hostile_job")
    users = get_user_model().objects
    # The worker writes the log, and ends cancelled calls, a moment later.
    eventually(jobs.filter(state="cancelled").exists, 60, "the end of a cancelled job")
    eventually(Message.objects.filter(answer__contains="client.error").exists, 60, "the log of the last call")
    deleted = changes.filter(action="deleted")
    live = Message.objects.get(target="hostile_error", payload__contains="request.traceparent")
    return {
        **integrations.keys(),
        "user": users.get(username="viewer").pk,
        "evil": users.get(username=USER).pk,
        "group": Group.objects.order_by("pk").first().pk,  # type: ignore[union-attr]
        "evil_group": Group.objects.latest("pk").pk,
        **{f"tool_{name}": tools.get(name=name).pk for name in TOOLS},
        "tool_upstream": tools.get(code_path__contains="upstream.code_path").pk,
        **{f"prompt_{name}": prompts.get(name=name).pk for name in PROMPTS},
        "prompt_upstream": prompts.get(code_path__contains="upstream.code_path").pk,
        "resource_own": Resource.objects.get(uri="notes://house-rules").pk,
        "resource_planted": Resource.objects.get(uri="notes://planted").pk,
        "resource_code": Resource.objects.get(uri="planted://notes").pk,
        "resource_page": Resource.objects.get(uri="planted://page").pk,
        "resource_upstream": Resource.objects.get(code_path__contains="upstream.code_path").pk,
        "template_code": ResourceTemplate.objects.get(uri_template="planted://of/{name}").pk,
        "template_upstream": ResourceTemplate.objects.get(code_path__contains="upstream.code_path").pk,
        "key_own": ApiKey.objects.get(name="laptop").pk,
        "key_planted": ApiKey.objects.get(name__contains="corpus").pk,
        "session_own": f"{0:032x}",
        "session_planted": "planted-" + "0" * 24,
        "session_live": Session.objects.filter(client_name__contains="client.name").earliest("created_at").pk,
        "message_own": Message.objects.get(request_id="63").pk,
        "message_planted": Message.objects.get(payload__contains="message.payload").pk,
        "message_mangled": Message.objects.get(payload__contains="message.mangled").pk,
        "message_live": Message.objects.get(
            target="hostile_error", payload__contains="request.traceparent"
        ).pk,
        "line_live": line_of(live).key,
        "call_own": Call.objects.get(retry_of=None, tool="echo").pk.hex,
        "call_running": Call.objects.get(tool="count", state="running").pk.hex,
        "call_planted": Call.objects.get(tool__contains="call.tool").pk.hex,
        "call_job": jobs.filter(state="running").latest("accepted_at").pk.hex,
        "call_stopped": jobs.filter(state="cancelled").latest("accepted_at").pk.hex,
        "call_failed": jobs.filter(outcome="tool_error").latest("accepted_at").pk.hex,
        "call_waiting": gate.filter(state="approval_needed").latest("accepted_at").pk.hex,
        "call_approved": gate.get(decision="approved").pk.hex,
        "call_refused": gate.get(decision="refused").pk.hex,
        "audit_planted": AuditEvent.objects.get(action__contains="corpus").pk,
        "audit_own": AuditEvent.objects.filter(action="catalogue.changed").latest("pk").pk,
        "draft": Draft.objects.get(key="review").pk,
        "draft_new": Draft.objects.get(key="weekly_report").pk,
        "change_prompt": changes.filter(key="review").earliest("id").pk,
        "change_tool": changes.filter(key="hostile_job").earliest("id").pk,
        "change_template": changes.filter(key="planted://of/{name}").earliest("id").pk,
        "change_gone": deleted.get(kind="prompt").pk,
        "change_gone_tool": deleted.get(kind="tool").pk,
        "change_gone_resource": deleted.get(kind="resource").pk,
        "change_gone_template": deleted.exclude(kind__in=("prompt", "tool", "resource", "toolset")).get().pk,
    }


TOOLS = ("echo", "web_scrape", "greet_world", "planted", "hostile_results", "hostile_talk", "hostile_error",
         "hostile_job", "hostile_gate")  # fmt: skip
PROMPTS = ("summarise", "code_review", "planted", "review", "hostile_prompt")
