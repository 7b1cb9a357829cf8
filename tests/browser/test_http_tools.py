"""A tool from a pasted curl line: filled in, previewed, tried, published and called."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, looks, picture, type_json
from tests.clients.raw_http import Mcp
from tests.servers.live import LiveServer
from tests.servers.web_api import WebApi, web_api

SECRET = "s3cret-0000-value"
KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
print(issue_api_key(user=get_user_model().objects.get(username="root"), name="desk")[1])
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[WebApi]:
    with web_api() as api:
        api.says({"orders": [{"id": 7, "total": 12}, {"id": 8, "total": 3}]})
        yield api


def add_arguments(page: Page) -> None:
    """Add two arguments by keyboard alone, remove one, and change the schema as JSON."""
    preview, press = page.locator("[data-http-preview]"), page.keyboard.press
    page.locator("[data-http-add]").focus()
    for name, place in (("page", "q"), ("X-Trace", "h")):
        press("Enter")
        page.keyboard.type(name)
        press("Tab")
        page.keyboard.type(place)
        expect(page.get_by_role("group", name=f"Argument {name}")).to_be_visible()
        expect(preview).to_contain_text({"q": "page={page}", "h": "X-Trace: {X-Trace}"}[place])
        page.locator("[data-http-add]").focus()
    trace = page.get_by_role("group", name="Argument X-Trace")
    trace.get_by_label("remove").focus()
    press("Space")
    expect(preview).not_to_contain_text("X-Trace")
    expect(page.get_by_role("group", name="Argument page").get_by_label("Name")).to_be_focused()
    page.locator("[data-http-json] > summary").click()
    text = page.locator("#id_input_schema").input_value()
    assert json.loads(text)["properties"]["status"]["examples"] == ["paid"]
    type_json(page, "input_schema", text.replace('"page": {', '"page": {"default": 1,').replace("\n", ""))
    expect(page.get_by_role("group", name="Argument page").get_by_label("Default")).to_have_value("1")
    page.locator("[data-http-json] > summary").click()


def test_pasted_curl_line_becomes_a_published_tool(visit_near: Visit, near: LiveServer, shop: WebApi) -> None:
    visitor = visit_near()
    page = visitor.goto("/admin/mcp_app/credential/add/?kind=api_key")
    page.fill("#id_name", "shop")
    page.fill("#id_origins", shop.origin)
    page.fill("#id_value", SECRET)
    page.select_option("#id_place", "header")
    page.fill("#id_place_name", "X-API-Key")
    assert [(str(look), seen(page, look.rules)) for look in looks(page) if seen(page, look.rules)] == []
    picture(page, "credential-add")
    page.click("[name=_save]")
    visitor.drawn()
    expect(page.locator("#result_list, .result-list").first).to_contain_text("shop")

    visitor.goto("/admin/mcp_app/tool/")
    page.locator("a", has_text="HTTP tool").first.click()
    visitor.drawn()
    expect(page.locator("[data-http-preview]")).to_be_hidden()
    body, mode = page.locator("#id_body"), page.locator("#id_body_mode")
    expect(body).to_be_hidden()
    mode.select_option("json")
    body.fill("{}")
    mode.select_option("none")
    # Entered text stays visible.
    expect(body).to_be_visible()
    body.fill("")
    page.fill("#id_paste", f"curl '{shop.origin}/v1/orders?status=open&limit=5' -H 'X-API-Key: {SECRET}'")
    page.uncheck("#id_as_arguments")
    page.click("[name=_fill]")
    visitor.drawn()
    expect(page.locator("#id_address")).to_have_value(f"{shop.origin}/v1/orders?status=open&limit=5")
    assert SECRET not in page.content()

    page.fill("#id_address", f"{shop.origin}/v1/orders?limit=5&status={{status}}")
    expect(page.locator("[data-http-preview]")).to_contain_text("/v1/orders?limit=5&status={status}")
    row = page.get_by_role("group", name="Argument status")
    expect(row.locator("[data-found]")).to_have_text("query")
    row.get_by_label("Description").fill("The state of the orders.")
    row.get_by_label("Example").fill("paid")
    expect(page.locator("[data-http-preview]")).to_contain_text("status=paid")
    add_arguments(page)
    page.select_option("#id_credential", "shop")
    page.fill("#id_name", "list_orders")
    page.fill("#id_description", "List the orders of the shop by their status.")
    page.locator("#mcp-http-answer > summary").click()
    page.fill("#id_mapping", "orders[].{id: id, total: total}")
    type_json(page, "arguments", '{"status": "open & new"}')
    expect(page.locator("[data-http-preview]")).to_contain_text("status=open%20%26%20new")
    page.click("[name=_try]")
    visitor.drawn()
    outcome = page.locator("#mcp-http-outcome")
    expect(outcome).to_have_attribute("data-outcome", "succeeded")
    expect(outcome.locator("[data-sent]")).to_contain_text("X-API-Key: ••••")
    expect(outcome.locator("[data-raw]")).to_contain_text('"orders"')
    expect(outcome.locator("[data-mapped]")).to_contain_text('"total": 12')
    for look in looks(page):
        assert seen(page, look.rules) == [], str(look)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), str(look)
        picture(page, f"http-tool-{look}")
    page.click("[name=_publish]")
    visitor.drawn()
    expect(page.locator("a", has_text="Edit request")).to_be_visible()
    picture(page, "http-tool-published")
    assert visitor.trouble == []

    key = near.shell(KEY).strip().splitlines()[-1]
    client = Mcp.at(near.port, token=key)
    with client.client:
        client.initialize()
        result = client.tool("list_orders", status="paid")["result"]
    assert json.loads(result["content"][0]["text"]) == [{"id": 7, "total": 12}, {"id": 8, "total": 3}]
    assert shop.lines[-1] == "GET /v1/orders?limit=5&status=paid&page=1"
    assert shop.requests[-1].header("x-api-key") == SECRET


def test_arguments_are_edited_as_rows_without_scripts(visit_near: Visit, shop: WebApi) -> None:
    visitor = visit_near(java_script_enabled=False)
    page = visitor.page
    page.goto(f"{visitor.base}/admin/mcp_app/tool/http/")
    page.fill("#id_address", f"{shop.origin}/v1/orders?status={{status}}")
    page.fill("#id_rows-0-name", "limit")
    page.select_option("#id_rows-0-place", "query")
    page.select_option("#id_rows-0-kind", "integer")
    page.fill("#id_arguments", '{"status": "paid", "limit": 3}')
    page.click("[name=_try]")
    expect(page.locator("[data-sent]")).to_contain_text("/v1/orders?status=paid&limit=3")
    expect(page.get_by_role("group", name="Argument status").locator("[data-found]")).to_have_text("query")
    expect(page.get_by_role("group", name="Argument limit").get_by_label("Sent in")).to_have_value("query")
    picture(page, "http-tool-without-scripts")
