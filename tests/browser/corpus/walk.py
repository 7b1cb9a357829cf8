"""Every page of the site, and the planted fields that it must show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from tests.browser.conftest import Visitor
from tests.browser.corpus.planted import planted

ADMIN = "/admin/mcp_app"
# Typed into every search field; the page must show it.
SOUGHT = quote(planted("query.search", 120) + "\u202e")
# A scheme, and the widths at which a page is examined. A walk takes minutes: `make browser` uses one look.
LOOKS = [
    ("light", (1440,)),
    pytest.param("light", (390,), marks=pytest.mark.every_look),
    pytest.param("dark", (390, 1440), marks=pytest.mark.every_look),
]
SLOW = 30_000
NAMES = "user.first_name user.last_name"
ASKED_OR_OVER = """() => document.querySelector(".mcp-bench-question .mcp-primary")
  || !["connecting", "running"].includes(document.querySelector("[data-bench-state]").textContent)"""


@dataclass(frozen=True)
class Stop:
    """A page to examine. ``then`` acts on it; ``shows`` are fields that must be readable afterwards."""

    name: str
    path: str
    shows: str = ""
    then: Callable[[Visitor], None] | None = None
    status: int = 200


def _console(visitor: Visitor) -> None:
    expect(visitor.page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)


def _console_ended(visitor: Visitor) -> None:
    expect(visitor.page.locator("#mcp-connection")).to_have_text("ended")


def _console_messages(visitor: Visitor) -> None:
    """Wait until the list is live, and open the newest message."""
    _console(visitor)
    lines = visitor.page.locator("#mcp-lines .mcp-line")
    expect(lines.first).to_be_visible(timeout=SLOW)
    lines.last.click()
    expect(visitor.page.locator("#mcp-detail .mcp-pre").first).to_be_visible()


def _console_sessions(visitor: Visitor) -> None:
    _console(visitor)
    expect(visitor.page.locator("#mcp-rows tr").first).to_be_visible()


def _console_deep(visitor: Visitor) -> None:
    _console(visitor)
    expect(visitor.page.locator("#mcp-detail .mcp-pre").first).to_be_visible(timeout=SLOW)
    expect(visitor.page.locator("#mcp-lines .mcp-chosen")).to_be_in_viewport()


def _examined(visitor: Visitor) -> None:
    visitor.page.locator(".mcp-examine button").click()
    visitor.page.wait_for_selector("[data-doctor-result]", timeout=60_000)


def _api(visitor: Visitor) -> None:
    block = visitor.page.locator("#tools_list")
    block.locator("summary").first.click()
    block.get_by_role("button", name="Send").click()
    expect(block.locator("[data-answer]")).to_contain_text("results")


def _unfolded(visitor: Visitor) -> None:
    """Open every message of a timeline, at most the newest twenty: a page must not grow without limit."""
    visitor.page.evaluate(
        "for (const each of [...document.querySelectorAll('details')].slice(0, 20)) each.open = true"
    )


def _operations(visitor: Visitor) -> None:
    """Wait until the operations are loaded, and show the details of each."""
    expect(visitor.page.locator("[data-loaded]")).to_be_attached()
    visitor.page.locator("[data-op-list]").focus()
    for key in ("Home", "ArrowDown"):
        visitor.page.keyboard.press(key)
        visitor.seen_more()


def _ran(state: str) -> Callable[[Visitor], None]:
    """Return a function that runs the bench and answers its requests."""

    def run(visitor: Visitor) -> None:
        page = visitor.page
        page.get_by_role("button", name="Run", exact=True).click()
        while True:
            page.wait_for_function(ASKED_OR_OVER)
            answer = page.locator(".mcp-bench-question .mcp-primary")
            if not answer.count():
                break
            before = page.locator(".mcp-bench-question").inner_text()
            visitor.seen_more()
            answer.click()
            page.wait_for_function(
                "before => document.querySelector('.mcp-bench-question')?.innerText !== before", arg=before
            )
        expect(page.locator("[data-bench-state]")).to_have_text(state)
        page.locator("[data-bench-wire] summary").click()
        page.get_by_role("button", name="Copy as curl / Python").click()
        expect(page.locator("[data-bench-snippets] pre").first).to_be_visible()
        for button in page.locator("[data-bench-output] .mcp-bench-switched > button").all():
            visitor.seen_more()
            button.click()

    return run


def _completed(visitor: Visitor) -> None:
    visitor.page.get_by_label("city").press_sequentially(planted("prompt.completion", 100)[:3])
    expect(visitor.page.locator(".mcp-bench-suggestions button").first).to_be_visible()


def stops(keys: dict[str, Any]) -> list[Stop]:
    """Return all pages."""
    return [
        *_first(),
        *_entries(keys),
        *_versions(keys),
        *_traffic(keys),
        *_other_servers(keys),
        *_toolsets(keys),
        *_limits(keys),
        *_people(keys),
        *_console_pages(keys),
    ]


def plain(stop: Stop) -> bool:
    """Return True if a page is the project's or contains its text; Django's own user pages are unchanged."""
    return not stop.path.startswith(("/admin/auth/", "/admin/password_change/", "/api/", "/connect/"))


def _first() -> Iterator[Stop]:
    yield Stop("index", "/admin/", "rollup.tool")
    yield Stop("index-week", "/admin/?range=week", "rollup.tool")
    yield Stop("app", "/admin/mcp_app/")
    for model in ("tool", "prompt", "session", "message", "call", "draft", "auditevent", "apikey"):
        yield Stop(f"unknown-{model}", f"{ADMIN}/{model}/{SOUGHT}/change/", "query.search")
    yield Stop("password", "/admin/password_change/")
    yield Stop("password-done", "/admin/password_change/done/")
    for model in ("mcp_app/externalidentity", "mcp_oauth/client", "mcp_oauth/connection"):
        name = model.rpartition("/")[2]
        yield Stop(f"{name}-list", f"/admin/{model}/")
        yield Stop(f"unknown-{name}", f"/admin/{model}/{SOUGHT}/change/", "query.search")
    yield Stop("client-add", "/admin/mcp_oauth/client/add/")
    for page in ("mcp_find", "mcp_notifications", "mcp_zone"):
        yield Stop(page, f"{reverse(page)}?q={SOUGHT}")
    yield Stop("document", "/find/documents/index.md")
    yield Stop("doctor", f"{ADMIN}/doctor/")
    yield Stop("doctor-result", f"{ADMIN}/doctor/", "key.name", _examined)
    yield Stop("import", f"{ADMIN}/tool/import/")
    yield Stop("api-docs", "/api/docs/", "", _api)
    yield Stop("second-factor", "/accounts/second-factor/")
    yield Stop("second-factor-set-up", "/accounts/second-factor/set-up/")
    yield Stop("connect", "/connect/")


def _entries(keys: dict[str, Any]) -> Iterator[Stop]:
    upstream = "upstream.title upstream.description"
    edited = {
        "tool": {
            "echo": "",
            "web_scrape": "",
            "greet_world": "",
            "planted": "entry.title entry.description preset.value",
            "hostile_results": "tool.title tool.description tool.schema_title tool.property_title",
            "hostile_gate": "gate.title",
            "upstream": f"{upstream} upstream.tool upstream.schema_title upstream.annotation "
            "upstream.definition_key upstream.definition_value upstream.queue upstream.permission "
            "upstream.icon upstream.icon_type",
        },
        "prompt": {
            "summarise": "",
            "code_review": "",
            "planted": "entry.title entry.description entry.template entry.meta argument.title",
            "hostile_prompt": "prompt.title prompt.description",
            "upstream": f"{upstream} upstream.prompt upstream.argument",
        },
        "resource": {
            "own": "",
            "planted": "entry.title entry.description entry.name entry.text",
            "code": "resource.title resource.description",
            "upstream": f"{upstream} upstream.uri upstream.name upstream.type",
        },
        "template": {
            "code": "template.title template.description",
            "upstream": f"{upstream} upstream.template upstream.name upstream.type",
        },
    }
    listed = {
        "tool": "upstream.tool upstream.title tool.title",
        "prompt": "upstream.prompt upstream.title prompt.title draft.title",
        "resource": "upstream.uri upstream.title entry.title",
        "template": "upstream.template upstream.title",
    }
    for kind, named in edited.items():
        model = {"template": "resourcetemplate"}.get(kind, kind)
        yield Stop(f"{kind}-list", f"{ADMIN}/{model}/", listed[kind].replace(" draft.title", ""))
        yield Stop(f"{kind}-sought", f"{ADMIN}/{model}/?q={SOUGHT}", "query.search")
        yield Stop(f"{kind}-deleted", f"{ADMIN}/{model}/deleted/")
        if kind != "template":
            yield Stop(f"{kind}-add", f"{ADMIN}/{model}/add/")
        callers = f"{ADMIN}/{model}/{keys[f'{kind}_{next(iter(named))}']}/callers/"
        yield Stop(f"{kind}-callers", f"{callers}?q={SOUGHT}")
        for name, shown in named.items():
            yield Stop(f"{kind}-{name}", f"{ADMIN}/{model}/{keys[f'{kind}_{name}']}/change/", shown)
            if name in ("planted", "upstream", "code"):
                yield Stop(f"{kind}-{name}-history", f"{ADMIN}/{model}/{keys[f'{kind}_{name}']}/history/")
    yield Stop("tool-echo-history", f"{ADMIN}/tool/{keys['tool_echo']}/history/")
    yield Stop("prompt-delete", f"{ADMIN}/prompt/{keys['prompt_planted']}/delete/")
    yield Stop("tool-delete", f"{ADMIN}/tool/{keys['tool_planted']}/delete/")
    yield Stop("resource-delete", f"{ADMIN}/resource/{keys['resource_planted']}/delete/", "")
    yield from _benches(keys)


def _benches(keys: dict[str, Any]) -> Iterator[Stop]:
    def bench(kind: str, name: str, shown: str = "", state: str = "", query: str = "") -> Stop:
        model = {"template": "resourcetemplate"}.get(kind, kind)
        path = f"{ADMIN}/{model}/{keys[f'{kind}_{name}']}/try/{query}"
        return Stop(
            f"bench-{kind}-{name}{'-ran' if state else ''}", path, shown, _ran(state) if state else None
        )

    yield bench("tool", "echo")
    yield bench("tool", "upstream", "upstream.tool upstream.property_title upstream.property_description")
    yield bench(
        "tool",
        "hostile_results",
        "tool.property_title tool.enum_name tool.schema_property tool.property_default result.text "
        "result.markdown result.json_key result.json_value result.image_type result.audio_type "
        "result.file_text result.file_type result.file_markdown result.link_name result.link_title "
        "result.link_uri result.link_description result.structured_key result.structured_value "
        "result.meta user.name",
        "succeeded",
    )
    yield bench(
        "tool",
        "hostile_talk",
        "progress.message log.data log.logger log.key log.value question.message question.title "
        "question.description question.default question.enum question.enum_name question.url "
        "question.url_message sampling.message sampling.system_prompt bench.argument",
        "succeeded",
        "?arguments="
        + quote('{"words": "' + planted("bench.argument", 50, hidden=False).replace('"', "") + '"}'),
    )
    yield bench("tool", "hostile_error", "error.text", "failed")
    yield Stop(
        "bench-replayed",
        f"{ADMIN}/tool/{keys['tool_hostile_error']}/try/?message={keys['message_live']}",
        "request.argument_key request.argument_value error.text",
        _ran("failed"),
    )
    yield Stop(
        "bench-prompt-completed",
        f"{ADMIN}/prompt/{keys['prompt_hostile_prompt']}/try/",
        "prompt.completion",
        _completed,
    )
    yield bench("prompt", "planted", "argument.title argument.description")
    yield bench(
        "prompt", "hostile_prompt", "prompt.text", "succeeded", "?arguments=%7B%22city%22%3A%22Bern%22%7D"
    )
    yield bench("prompt", "upstream", "upstream.argument upstream.argument_words")
    yield bench("resource", "code", "resource.text", "succeeded")
    yield bench("resource", "page", "", "succeeded")
    yield bench("resource", "upstream", "upstream.uri")
    yield bench("template", "code", "template.text", "succeeded", "?arguments=%7B%22name%22%3A%22Ada%22%7D")
    yield bench("template", "upstream", "upstream.template")


def _versions(keys: dict[str, Any]) -> Iterator[Stop]:
    prompt = keys["prompt_review"]
    yield Stop("draft-list", f"{ADMIN}/draft/", "draft.note new_draft.note")
    yield Stop("draft-list-sought", f"{ADMIN}/draft/?q={SOUGHT}")
    yield Stop("draft-entry", f"{ADMIN}/prompt/{prompt}/change/", "draft.title draft.template draft.note")
    yield Stop("draft-edit", f"{ADMIN}/prompt/{prompt}/change/?draft={keys['draft']}", "between.description")
    yield Stop(
        "draft-new", f"{ADMIN}/draft/{keys['draft_new']}/change/", "new_draft.title new_draft.template"
    )
    history = "version.template rollback.why between.description between.why user.name"
    yield Stop("history", f"{ADMIN}/prompt/{prompt}/history/", history)
    yield Stop(
        "history-planted", f"{ADMIN}/prompt/{keys['prompt_planted']}/history/", "change.why entry.template"
    )
    yield Stop("roll-back", f"{ADMIN}/prompt/roll-back/{keys['change_prompt']}/")
    yield Stop("tool-roll-back", f"{ADMIN}/tool/roll-back/{keys['change_tool']}/")
    yield Stop("template-roll-back", f"{ADMIN}/resourcetemplate/roll-back/{keys['change_template']}/")
    for model, kind in (("tool", "tool"), ("resource", "resource"), ("resourcetemplate", "template")):
        change = keys[f"change_gone_{kind}"]
        yield Stop(f"{kind}-past", f"{ADMIN}/{model}/deleted/{change}/", "gone.why entry.title")
        if kind != "template":  # Templates come from code alone, so a deleted one cannot be added again.
            yield Stop(f"{kind}-restore", f"{ADMIN}/{model}/roll-back/{change}/", "gone.why")
    yield Stop("deleted", f"{ADMIN}/prompt/deleted/", "user.name")
    yield Stop("past", f"{ADMIN}/prompt/deleted/{keys['change_gone']}/", "gone.template gone.why")
    yield Stop("restore", f"{ADMIN}/prompt/roll-back/{keys['change_gone']}/", "gone.template")


def _traffic(keys: dict[str, Any]) -> Iterator[Stop]:
    yield Stop(
        "session-list", f"{ADMIN}/session/", "client.name client.version session.client session.principal"
    )
    yield Stop("session-sought", f"{ADMIN}/session/?q={SOUGHT}", "query.search")
    yield Stop("session-own", f"{ADMIN}/session/{keys['session_own']}/change/")
    yield Stop(
        "session-planted",
        f"{ADMIN}/session/{keys['session_planted']}/change/",
        "session.client session.version session.principal session.address session.end_reason "
        "session.field_key session.field",
    )
    yield Stop(
        "session-live",
        f"{ADMIN}/session/{keys['session_live']}/change/",
        "client.name client.title client.version",
        _unfolded,
    )
    yield Stop("message-list", f"{ADMIN}/message/", "", _unfolded)
    yield Stop("message-narrowed", f"{ADMIN}/message/?target={SOUGHT}&principal={SOUGHT}", "query.search")
    yield Stop("message-own", f"{ADMIN}/message/{keys['message_own']}/change/")
    yield Stop(
        "message-planted",
        f"{ADMIN}/message/{keys['message_planted']}/change/",
        "message.method message.request_id message.target message.payload message.answer "
        "message.process message.principal",
    )
    yield Stop(
        "message-mangled", f"{ADMIN}/message/{keys['message_mangled']}/change/", "message.mangled message.cut"
    )
    yield Stop(
        "message-live",
        f"{ADMIN}/message/{keys['message_live']}/change/",
        "request.id request.argument_key request.argument_value request.traceparent error.text",
    )
    for page in ("figures", "errors", "searches"):
        yield Stop(page, f"{ADMIN}/message/{page}/?range=week&show=all")
    for by in ("tool", "client", "principal"):
        limit = {"tool": "client", "client": "principal", "principal": "client"}[by]
        yield Stop(f"figures-{by}", f"{ADMIN}/message/figures/?range=week&by={by}&{limit}={SOUGHT}")
    yield Stop("unknown-error", f"{ADMIN}/message/errors/{'0' * 32}/")
    yield Stop("unknown-saved-search", f"{ADMIN}/message/searches/0/")
    yield from _calls(keys)
    yield Stop("audit-list", f"{ADMIN}/auditevent/", "audit.actor audit.action audit.key user.name")
    yield Stop(
        "audit-planted",
        f"{ADMIN}/auditevent/{keys['audit_planted']}/change/",
        "audit.actor audit.action audit.kind audit.key audit.detail_key audit.detail",
    )
    yield Stop("audit-own", f"{ADMIN}/auditevent/{keys['audit_own']}/change/")


def _calls(keys: dict[str, Any]) -> Iterator[Stop]:
    def page(name: str, shown: str = "", then: Any = None) -> Stop:
        return Stop(f"call-{name}", f"{ADMIN}/call/{keys[f'call_{name}']}/change/", shown, then)

    yield Stop("call-list", f"{ADMIN}/call/", "call.tool call.principal")
    yield Stop("call-sought", f"{ADMIN}/call/?q={SOUGHT}", "query.search")
    yield page("own")
    yield page("running")
    yield page("job", "job.progress job.argument_key job.argument")
    yield page("stopped", "cancel.reason")
    yield page("failed", "job.error job.log")
    yield page(
        "planted",
        "call.tool call.principal call.worker call.queue call.message call.cancel_reason call.answer",
    )
    yield page("approved", "approval.reason gate.result user.name")
    yield page("refused", "refusal.reason")
    yield page("waiting", "job.argument")
    waiting = keys["call_waiting"]
    yield Stop("approval-list", f"{ADMIN}/approval/", "job.argument_key")
    yield Stop("approval-refused", f"{ADMIN}/approval/?decision=refused")
    yield Stop("approval", f"{ADMIN}/approval/{waiting}/change/", "job.argument")


def _other_servers(keys: dict[str, Any]) -> Iterator[Stop]:
    credential, document = keys["credential"], keys["document"]
    yield Stop("credential-list", f"{ADMIN}/credential/", "credential.error")
    yield Stop("credential-add", f"{ADMIN}/credential/add/")
    yield Stop(
        "credential", f"{ADMIN}/credential/{credential}/change/", "credential.audience credential.error"
    )
    yield Stop("credential-delete", f"{ADMIN}/credential/{keys['credential_unused']}/delete/")
    yield Stop("credential-history", f"{ADMIN}/credential/{credential}/history/")
    page = f"{ADMIN}/apidocument/{document}"
    yield Stop("document-list", f"{ADMIN}/apidocument/", "document.title document.failed")
    yield Stop("document-import", f"{ADMIN}/apidocument/import/")
    yield Stop(
        "document-operations",
        f"{page}/change/",
        "document.title document.server document.scheme operation.tag operation.summary operation.refused "
        "operation.id",
        _operations,
    )
    yield Stop("document-history", f"{page}/history/")
    yield Stop("document-update", f"{page}/update/", "operation.changed")
    failed = f"{ADMIN}/apidocument/{keys['document_failed']}"
    yield Stop("document-failed", f"{failed}/change/", "document.failed document.problem document.url")
    yield Stop("tool-http-add", f"{ADMIN}/tool/http/")
    yield Stop("tool-http", f"{ADMIN}/tool/{keys['tool_http']}/change/", "operation.summary")
    yield Stop(
        "tool-http-request",
        f"{ADMIN}/tool/{keys['tool_http']}/http/",
        "operation.parameter",
    )
    server = f"{ADMIN}/upstream/{keys['upstream_server']}"
    yield Stop("upstream-list", f"{ADMIN}/upstream/", "remote.server")
    yield Stop("upstream-add", f"{ADMIN}/upstream/add/")
    yield Stop("upstream-configuration", f"{ADMIN}/upstream/configuration/")
    yield Stop(
        "upstream",
        f"{server}/change/",
        "remote.server remote.instructions remote.description remote.unpublished remote.changed "
        "remote.prompt remote.resource remote.template",
    )
    yield Stop("upstream-settings", f"{server}/settings/")
    yield Stop("upstream-history", f"{server}/history/")
    account = f"{ADMIN}/userconnection/{keys['user_connection']}/change/"
    yield Stop("user-connections", f"{ADMIN}/userconnection/")
    yield Stop("user-connection", account, "account.problem account.scope account.issuer")
    yield Stop(
        "tool-proxied",
        f"{ADMIN}/tool/{keys['tool_proxied']}/change/",
        "remote.title remote.description remote.note remote.schema_title remote.property_title",
    )


def _toolsets(keys: dict[str, Any]) -> Iterator[Stop]:
    base, shown = f"{ADMIN}/toolset", "toolset.title toolset.instructions"
    page = f"{base}/{keys['toolset']}"
    yield Stop("toolset-list", f"{base}/", "toolset.title")
    yield Stop("toolset-add", f"{base}/add/")
    yield Stop("toolset-tokens", f"{base}/tokens/")
    yield Stop("toolset", f"{page}/change/", "toolset.title")
    yield Stop("toolset-edit", f"{page}/edit/", f"{shown} member.title member.description")
    yield Stop("toolset-history", f"{page}/history/", f"{shown} toolset.why")
    yield Stop("toolset-roll-back", f"{base}/roll-back/{keys['toolset_change']}/")
    yield Stop("toolset-deleted", f"{base}/deleted/")
    yield Stop("toolset-past", f"{base}/deleted/{keys['toolset_deleted']}/", "toolset.title")
    yield Stop("toolset-restore", f"{base}/roll-back/{keys['toolset_deleted']}/")


def _limits(keys: dict[str, Any]) -> Iterator[Stop]:
    page, shown = f"{ADMIN}/limitrule/{keys['limit']}", "limit.user limit.tool"
    yield Stop("limit-list", f"{ADMIN}/limitrule/", shown)
    yield Stop("limit-add", f"{ADMIN}/limitrule/add/")
    yield Stop("limit", f"{page}/change/", shown)
    yield Stop("limit-settings", f"{page}/settings/", shown)
    yield Stop("limit-history", f"{page}/history/")


def _people(keys: dict[str, Any]) -> Iterator[Stop]:
    yield Stop("key-list", f"{ADMIN}/apikey/", "key.name user.name")
    yield Stop("key-add", f"{ADMIN}/apikey/add/")
    yield Stop("key-own", f"{ADMIN}/apikey/{keys['key_own']}/change/")
    yield Stop("key-planted", f"{ADMIN}/apikey/{keys['key_planted']}/change/", "key.name user.name")
    yield Stop("key-replace", f"{ADMIN}/apikey/{keys['key_planted']}/replace/", "key.name user.name")
    for model, own, planted_key, shown in (
        ("user", "user", "evil", "user.name"),
        ("group", "group", "evil_group", "group.name"),
    ):
        base = f"/admin/auth/{model}"
        yield Stop(f"{model}-list", f"{base}/", shown)
        yield Stop(f"{model}-add", f"{base}/add/")
        yield Stop(f"{model}-own", f"{base}/{keys[own]}/change/")
        yield Stop(f"{model}-planted", f"{base}/{keys[planted_key]}/change/", shown)
        yield Stop(f"{model}-delete", f"{base}/{keys[planted_key]}/delete/", shown)
        yield Stop(f"{model}-history", f"{base}/{keys[planted_key]}/history/", shown)
    yield Stop("user-named", f"/admin/auth/user/{keys['evil']}/change/", NAMES)
    yield Stop("user-log", f"/admin/auth/user/{keys['evil']}/history/", "django_log.message")
    yield Stop("user-app", "/admin/auth/")
    yield Stop("user-password", f"/admin/auth/user/{keys['evil']}/password/", "user.name")


def _console_pages(keys: dict[str, Any]) -> Iterator[Stop]:
    live = f"/console/sessions/{keys['session_live']}/"
    yield Stop("console", "/console/", "client.name", _console_sessions)
    yield Stop("console-session", live, "client.name", _console_messages)
    yield Stop("console-sought", f"{live}?search={SOUGHT}", "query.search", _console)
    yield Stop(
        "console-deep",
        f"/console/messages/?message={keys['line_live']}",
        "request.argument_key",
        _console_deep,
    )
    yield Stop("console-messages", "/console/messages/", "", _console_messages)
    ended = f"/console/sessions/{keys['session_planted']}/"
    yield Stop("console-planted", ended, "session.client", _console_ended)
    unknown = f"/console/sessions/{SOUGHT.replace('/', '')}/"
    yield Stop("console-unknown", unknown, "query.search", status=404)
