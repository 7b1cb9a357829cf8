"""S11: hostile text in every field on every page is shown as text, never as markup, within the layout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.urls import resolve
from playwright.sync_api import Browser, FilePayload, expect

from tests.browser.corpus.addresses import addresses, reason
from tests.browser.corpus.conftest import Walk, Walker
from tests.browser.corpus.planted import planted
from tests.browser.corpus.walk import LOOKS, SLOW, SOUGHT, stops
from tests.servers.live import LiveServer

HERE = Path(__file__).resolve().parent
SOURCES = ("rows.py", "integrations.py", "traffic.py", "app/mcp.py", "walk.py", "test_corpus.py")
# Texts of a client in a session, as the console shows them line by line.
SAID = """
  request.id request.tool request.argument_key request.argument_value request.deep request.method
  request.params request.uri request.segment request.prompt request.prompt_key request.city
  request.reference request.completed request.level request.cursor request.token request.meta_key
  request.traceparent request.subscription request.list request.not_an_object
  talk.key talk.value notice.token notice.progress notice.level notice.logger notice.key notice.data
  notice.method notice.params cancel.id cancel.unknown_reason cancel.reason response.id response.key
  response.value response.error answer.value answer.key answer.other answer.meta sample.text
  sample.model sample.stop_reason root.uri root.name client.name client.title client.version
  client.capability client.capability_key error.text result.text progress.message log.data
  log.logger question.message question.title sampling.message job.log job.logger job.error
"""
# Fields that no page shows, with the reason; they are planted because they must break nothing.
NOWHERE = {
    "refused, or no part of a message": """header.authorization header.baggage header.origin header.request_id
        header.session header.user_agent header.version body.not_json request.batch request.jsonrpc
        request.odd_id request.string_params
        login.user_agent login.password import.file""",
    "a secret": "credential.client credential.secret",
    "not asked for on any page": """client.icon_type response.data upstream.meta_key upstream.meta_value
        document.description document.scheme_words operation.header operation.default
        django_log.object job.result import.key import.value import.format import.not_json""",
    "kept for the worker": "call.meta call.meta_key call.request_id",
}


def test_every_address_is_visited_or_known_not_to_be_a_page(keys: dict[str, Any]) -> None:
    walked = set()
    for stop in stops(keys):
        found = resolve(stop.path.partition("?")[0])
        walked.add(found.view_name or "None")
    served = {name for name, _ in addresses()}
    assert sorted(name for name in served - walked if not reason(name)) == []
    assert sorted(name for name in walked if reason(name)) == []


def test_addresses_that_are_not_pages_return_no_html(walk: Walk, keys: dict[str, Any]) -> None:
    visitor = walk()
    visitor.goto("/admin/")
    known = {"session": keys["session_own"], "call": keys["call_own"], "message": keys["message_own"]}
    for name, route in addresses():
        if not reason(name) or name in ("admin:login", "admin:logout"):
            continue
        model = re.search(r"mcp_app/(\w+)/", route)
        key = known.get(model[1] if model else "session", keys["tool_echo"])
        path = re.sub(r"<[^>]+>", str(key), route).replace("^", "").replace(".*$", "x")
        if "(?P" in path:
            continue
        answer = visitor.page.request.get(f"{visitor.base}/{path}?s={SOUGHT}&q={SOUGHT}", max_redirects=0)
        if reason(name) in ("a part of a page", "has an empty history"):
            assert not re.search(r"<\w[^<>]* data-corpus=", answer.text()), path
            continue
        html = answer.headers.get("content-type", "").startswith("text/html")
        assert not (html and answer.status == 200), (name, path)
        if answer.status == 200:
            assert answer.headers["x-content-type-options"] == "nosniff", path


@pytest.mark.parametrize(("scheme", "widths"), LOOKS)
def test_hostile_text_on_every_page_stays_text(
    scheme: str, widths: tuple[int, ...], walk: Walk, keys: dict[str, Any]
) -> None:
    visitor = walk(scheme, widths[0])
    found = [fault for stop in stops(keys) for fault in visitor.visit(stop, widths, scheme)]
    assert found == []


def test_console_shows_every_message_of_a_hostile_session_as_text(walk: Walk, keys: dict[str, Any]) -> None:
    visitor = walk()
    read: set[str] = set()
    # One job is still running, and would add a progress line every second.
    for search in ("-tool:hostile_job", "tool:hostile_job -method:notifications/progress"):
        page = visitor.goto(f"/console/sessions/{keys['session_live']}/?search={quote(search)}")
        lines = page.locator("#mcp-lines .mcp-line")
        expect(lines.first).to_be_visible(timeout=SLOW)
        lines.last.locator(".mcp-line-pin").click()
        for key in lines.evaluate_all("all => all.map(each => each.dataset.key)"):
            page.evaluate("key => document.querySelector(`[data-key='${key}']`).click()", key)
            page.wait_for_function(
                "key => document.getElementById('mcp-detail').dataset.shown === key", arg=key
            )
            visitor.seen_more()
        assert visitor.faults("console") == []
        read |= visitor.read
    assert sorted(set(SAID.split()) - read) == []


def test_import_preview_and_problems_show_hostile_text_as_text(walk: Walk, server: LiveServer) -> None:
    visitor = walk()
    words = {
        "title": planted("import.title", 200),
        "description": planted("import.description", 900),
        "template": planted("import.template", 900),
    }
    exported = server.shell(
        "from mcp_app.catalogue.transfer import export_catalogue; print(export_catalogue())"
    )
    document = json.loads(exported)
    document["prompts"] = [{"name": "imported", "source": "admin", **words}]
    document["tools"] = document["resources"] = document["templates"] = []
    wrong = {
        planted("import.key", 300): planted("import.value", 300),
        "format": planted("import.format", 300),
    }
    refused = {**document, "prompts": [{"name": planted("import.name", 120), "source": "admin", **words}]}
    for content, shown in (
        (document, "import.title import.description import.template"),
        (refused, "import.name"),
        (wrong, ""),
        (planted("import.not_json"), ""),
    ):
        page = visitor.goto("/admin/mcp_app/tool/import/")
        text = content if isinstance(content, str) else json.dumps(content)
        file = {"name": planted("import.file", 120), "mimeType": "text/html", "buffer": text.encode()}
        page.set_input_files("[type=file]", [FilePayload(**file)])
        page.click("text=Preview changes")
        page.wait_for_selector("[aria-label=Problems], [aria-label='Preview'], .mcp-wrong, .mcp-note-bad")
        visitor.drawn()
        assert visitor.faults("import", shown) == []


def test_failed_login_shows_hostile_names_as_text(chromium: Browser, server: LiveServer) -> None:
    context = chromium.new_context(user_agent=planted("login.user_agent", 300, hidden=False))
    visitor = Walker(context.new_page(), f"http://127.0.0.1:{server.ports[0]}")
    page = visitor.goto(f"/admin/login/?next=/admin/{SOUGHT}")
    attempts = 0
    while "Too many failed logins" not in page.title():
        attempts += 1
        page.fill("#id_username", planted("login.name", 150))
        page.fill("#id_password", planted("login.password"))
        page.click("[type=submit]")
        visitor.drawn()
        visitor.seen_more()
    assert attempts == 10
    # The browser itself logs the refused request (429).
    visitor.trouble = [each for each in visitor.trouble if "429" not in each]
    assert visitor.faults("sign-in", "login.name") == []
    context.close()
    server.manage("axes_reset")


def test_every_planted_field_is_checked() -> None:
    planting = re.compile(r'planted(?:_uri)?\(\s*f?"([a-z_.]+)"')
    sources = [(HERE / name).read_text() for name in SOURCES]
    fields = {field for source in sources for field in planting.findall(source)}
    words = " ".join(planting.sub("", source) for source in sources)
    looked_for = set(re.findall(r"[a-z_]+\.[a-z_]+", words))
    assert len(fields) > 150
    assert sorted(fields - looked_for) == []
