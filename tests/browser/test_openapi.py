"""Operations of an OpenAPI document are chosen by keyboard alone; large documents are read by a worker."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import axe
from tests.browser.conftest import Visit, looks, opened_pages, picture, sign_in
from tests.browser.hands import Keys
from tests.servers.live import LiveServer
from tests.servers.web_api import WebApi, web_api
from tests.unit.egress.sites import Heard, response

NUMBER = 1_200
# The height of the line that stands for left out lines of a difference.
GAP = """() => {
  const gap = Object.assign(document.createElement("span"), { className: "mcp-skip", textContent: "…" });
  document.querySelector(".mcp-diff").append(gap);
  return gap.getBoundingClientRect().height;
}"""


def document(number: int = NUMBER) -> dict[str, Any]:
    """Return a document of many operations, some of which cannot be imported."""
    paths: dict[str, Any] = {}
    for each in range(number):
        kind = ("orders", "customers", "invoices", "<b>hostile</b>\u202e")[each % 4]
        operation: dict[str, Any] = {
            "operationId": f"{kind}/get-{each}",
            "summary": f"Get {kind} of store {each}",
            "tags": [kind],
        }
        if each % 50 == 7:
            operation["parameters"] = [{"$ref": "#/components/parameters/Nothing"}]
        paths[f"/stores/{each}/{kind}/{{id}}"] = {"get" if each % 3 else "post": operation}
    variables = {"scheme": {"enum": ["https", "http"], "default": "https"}}
    servers = [
        {"url": "https://api.example.com/v1"},
        {"url": "http://plain.example.com"},
        {"url": "{scheme}://variable.example.com", "variables": variables},
    ]
    content = {"application/json": {"schema": {"type": "object"}}, "text/csv": {}}
    paths["/stores/0/orders/{id}"]["post"]["requestBody"] = {"content": content}
    paths["/stores/1/customers/{id}"]["get"]["deprecated"] = True
    paths["/stores/3/<b>hostile</b>\u202e/{id}"]["post"]["requestBody"] = {"content": {"application/xml": {}}}
    schemes = {"token": {"type": "http", "scheme": "bearer"}, "mtls": {"type": "mutualTLS"}}
    root = {"openapi": "3.1.0", "info": {"title": "Stores"}, "servers": servers, "paths": paths}
    return {**root, "components": {"securitySchemes": schemes}, "security": [{"token": []}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stores.json"
    path.write_text(json.dumps(document()))
    return path


@pytest.mark.requirement("INT-29")
def test_operations_are_chosen_by_keyboard_alone(visit: Visit, site: LiveServer, file: Path) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/apidocument/import/")
    keys = Keys(page)
    keys.upload(page.locator("#id_file"), file)
    keys.write(page.locator("#id_tool_prefix"), "stores")
    keys.press(page.locator("#mcp-document-form button[type=submit]"))
    expect(page.locator("[data-loaded]")).to_be_attached()
    listed, shown = page.locator("[data-op-list]"), page.locator("[data-op-shown]")
    expect(shown).to_have_text("1,200 of 1,200 operations")
    assert page.locator(".mcp-op-row").count() < 60
    page.locator("body").press("/")
    expect(page.locator("#mcp-op-search")).to_be_focused()
    page.keyboard.type("invoices store 1")
    page.keyboard.press("ArrowDown")
    expect(listed).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(page.locator("[data-op-total]")).to_contain_text("2 selected")
    expect(page.locator("[data-op-many]")).to_be_hidden()
    page.keyboard.press("ControlOrMeta+a")
    expect(page.locator("[data-op-many]")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("/stores/7/")
    page.keyboard.press("Enter")
    expect(page.locator("[data-op-notes] li")).to_contain_text("leads nowhere")
    keys.press(page.locator("[data-op-none]"))
    keys.press(page.locator("[data-op-all]"))
    expect(page.locator("[data-op-total]")).to_contain_text("0 selected")
    page.locator("body").press("/")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("/stores/10/")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Space")
    keys.write(page.locator("#mcp-op-name"), "invoice_of_ten")
    keys.press(page.locator("[data-op-save]"))
    expect(page.locator("#mcp-publish-drafts")).to_be_visible()
    keys.press(page.locator("#mcp-publish-drafts"))
    expect(page.locator("#mcp-publish-drafts")).to_have_count(0)
    assert "invoice_of_ten" in site.shell(
        "from mcp_app.models import Tool; print(list(Tool.objects.values_list('name', flat=True)))"
    )


def test_plain_http_server_asks(visit: Visit, file: Path) -> None:
    page = visit().goto("/admin/mcp_app/apidocument/import/")
    page.locator("#id_file").set_input_files(file)
    page.locator("#mcp-document-form button[type=submit]").click()
    asks = page.locator("[data-op-http]")
    expect(asks).to_be_hidden()
    page.locator("input[name=server][value^='http:']").check()
    expect(asks).to_be_visible()
    page.locator("[data-op-own]").fill("https://other.example.com")
    expect(asks).to_be_hidden()
    page.locator("input[name=server][value*='variable']").check()
    expect(asks).to_be_hidden()
    page.get_by_label("scheme").select_option("http")
    expect(asks).to_be_visible()


def test_selection_and_names_stay_after_an_error(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "few.json"
    file.write_text(json.dumps(document(4)))
    page = visit().goto("/admin/mcp_app/apidocument/import/")
    page.locator("#id_file").set_input_files(file)
    page.locator("#id_tool_prefix").fill("few")
    page.locator("#mcp-document-form button[type=submit]").click()
    total, save = page.locator("[data-op-total]"), page.locator("[data-op-save]")
    # Only operations that the user selects become tools.
    expect(total).to_contain_text("0 selected")
    expect(save).to_be_disabled()
    rows = page.locator(".mcp-op-row")
    for place, facts in enumerate(("", "deprecated · ", "", "application/xml · ")):
        expect(rows.nth(place).locator(".mcp-op-summary")).to_have_text(re.compile(f"^{facts}Get"))
    rows.nth(0).click()
    page.get_by_label("Body").select_option("text/csv")
    rows.nth(0).click()
    rows.nth(1).click()
    expect(page.locator("[data-op-body]")).to_be_hidden()
    page.locator("#mcp-op-name").fill("own_name")
    rows.nth(2).click()
    page.locator("input[name=server][value^='http:']").check()
    save.click()
    expect(page.locator("[data-op-selection][data-entered]")).to_be_attached()
    expect(page.get_by_label("Credential for token", exact=True)).to_be_visible()
    expect(total).to_contain_text("2 selected")
    assert "own_name" in page.locator("[data-op-selection]").input_value()
    rows.nth(0).click()
    expect(page.get_by_label("Body")).to_have_value("text/csv")
    rows.nth(0).click()
    page.locator("input[name=plain_http]").check()
    save.click()
    expect(page.locator("#mcp-publish-drafts")).to_be_visible()
    expect(total).to_contain_text("0 selected")
    expect(save).to_be_disabled()


def test_two_of_three_changes_are_accepted_and_published(
    visit: Visit, site: LiveServer, tmp_path: Path
) -> None:
    code = f"""
from mcp_app.catalogue.documents import importing, storing
data = {json.dumps(json.dumps(document(4)))}.encode()
row = storing.receive(data=data, actor=None, name="three", prefix="three")
keys = list(storing.document_of(row).places)[:3]
importing.import_operations(row=row, keys=keys, actor=None, publish=True)
print(row.pk)
"""
    pk = site.shell(code).strip().splitlines()[-1]
    file = tmp_path / "newer.json"
    file.write_text(json.dumps(document(4)).replace("Get ", "Fetch "))
    visitor = visit()
    page = visitor.goto(f"/admin/mcp_app/apidocument/{pk}/change/")
    keys = Keys(page)
    keys.press(page.locator(".mcp-op-upload > summary"))
    keys.upload(page.locator("#mcp-newer-file"), file)
    keys.press(page.locator(".mcp-op-upload button[type=submit]"))
    accepted = page.locator("input[name=accepted]")
    expect(accepted).to_have_count(3)
    keys.press(accepted.nth(1))
    keys.press(page.locator("#mcp-accept-update"))
    keys.press(page.locator("#mcp-publish-drafts"))
    expect(page.locator("#mcp-publish-drafts")).to_have_count(0)
    visitor.drawn()
    titles = site.shell(
        "from mcp_app.models import Tool;"
        "print(*sorted(Tool.objects.filter(name__startswith='three_').values_list('title', flat=True)))"
    )
    assert (titles.count("Fetch"), titles.count("Get")) == (2, 1)
    assert visitor.trouble == []


LARGE = 2 * 1024 * 1024


class Documents:
    """A document on a web server, and another one that it refers to, which waits for ``open``."""

    def __init__(self, api: WebApi) -> None:
        self.address = f"{api.origin}/openapi.json"
        self.open = threading.Event()
        self.root = document(60)
        # Longer than a document that is read at once.
        self.root["info"]["description"] = "x" * LARGE
        later = {"$ref": "other.json#/parameters/page"}
        self.root["paths"]["/stores/1/customers/{id}"]["get"]["parameters"] = [later]
        api.answer = self.answer

    async def answer(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        found = self.root
        if "other.json" in heard.line:
            await asyncio.to_thread(self.open.wait, 50)
            found = {"parameters": {"page": {"name": "page", "in": "query", "schema": {"type": "integer"}}}}
        writer.write(response(json.dumps(found).encode()))


@pytest.mark.requirement("INT-21", "INT-23")
def test_large_document_of_a_url_is_read_by_a_worker_and_updated(chromium: Browser) -> None:
    environment = {"DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8"}
    with web_api() as api, LiveServer(web_processes=1, worker=True, env=environment) as server:
        server.shell("from tests.samples.admin_seed import people; people()")
        documents, base = Documents(api), f"http://127.0.0.1:{server.port}"
        with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
            visitor = start()
            page = visitor.goto("/admin/mcp_app/apidocument/import/")
            page.fill("#id_url", documents.address)
            page.fill("#id_tool_prefix", "stores")
            page.click("#mcp-document-form button[type=submit]")
            bar = page.locator("progress[data-progress]")
            expect(bar).to_be_visible()
            expect(page.locator("[data-progress-text]")).to_contain_text("%")
            assert axe.seen(page) == []
            picture(page, "openapi-reading")
            documents.open.set()
            expect(page.locator("[data-loaded]")).to_be_attached(timeout=60_000)
            expect(bar).to_have_count(0)
            expect(page.locator("[data-op-shown]")).to_have_text("60 of 60 operations")
            keys = ["GET /stores/1/customers/{id}", "GET /stores/2/invoices/{id}"]
            code = f"""
from mcp_app.catalogue.documents import importing
from mcp_app.models import ApiDocument
done = importing.import_operations(row=ApiDocument.objects.get(), keys={keys}, actor=None, publish=True)
print(done.published, done.skipped)
"""
            assert "['stores_customers_get_1', 'stores_invoices_get_2'] {}" in server.shell(code)
            documents.root["paths"]["/stores/2/invoices/{id}"]["get"]["summary"] = "Fetch an invoice"
            documents.open.clear()
            page.reload()
            page.get_by_role("button", name="Check for updates").click()
            expect(bar).to_be_visible()
            documents.open.set()
            page.get_by_role("link", name="Show changes").click(timeout=60_000)
            expect(page.locator("[data-change]")).to_have_count(1)
            assert visitor.trouble == []
        assert server.trouble() == []


def test_document_pages_fit_in_every_look(visit: Visit, site: LiveServer) -> None:
    small = json.dumps(json.dumps(document(60)))
    newer = json.dumps(json.dumps({**document(59)}))
    code = f"""
from mcp_app.catalogue.documents import importing, storing
from mcp_app.models import ApiDocument, Draft, Tool
ApiDocument.objects.filter(name="look").delete()
Draft.objects.all().delete()
Tool.objects.filter(name__startswith="look_").delete()
row = storing.receive(data={small}.encode(), actor=None, name="look", prefix="look")
keys = list(storing.document_of(row).places)
importing.import_operations(row=row, keys=keys[-2:], actor=None, publish=True)
importing.import_operations(row=row, keys=keys[:2], actor=None)
changed = {newer}.replace("Get orders", "Fetch orders").replace("Get invoices", "Fetch invoices")
storing.receive_newer(row=row, data=changed.encode(), actor=None)
print(row.pk)
"""
    pk = site.shell(code).strip().splitlines()[-1]
    visitor = visit()
    base = "/admin/mcp_app/apidocument"
    pages = {
        "openapi-list": f"{base}/",
        "openapi-import": f"{base}/import/",
        "openapi-operations": f"{base}/{pk}/change/",
        "openapi-update": f"{base}/{pk}/update/",
    }
    for name, path in pages.items():
        page = visitor.goto(path)
        if name == "openapi-operations":
            expect(page.locator("[data-loaded]")).to_be_attached()
        for look in looks(page):
            wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert wide <= window, f"{name} {look}"
            assert axe.seen(page, look.rules) == [], f"{name} {look}"
            picture(page, f"{name}-{look}")
            if name == "openapi-operations" and look.width < 640:
                shown = [cell.inner_text() for cell in page.locator(".mcp-op-row .mcp-op-summary").all()[:4]]
                assert len(set(shown)) == 4
                assert page.locator(".mcp-op-row .mcp-op-summary").first.is_visible()
        if name == "openapi-update":
            assert page.evaluate(GAP) > 10
        assert page.evaluate("window.pwned ?? null") is None
