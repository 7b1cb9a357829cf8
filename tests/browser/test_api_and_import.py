"""The API's page and the catalogue import in a browser: layout, escaping and requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, looks, picture
from tests.servers.live import LiveServer

SCREENS = [(scheme, width) for scheme in ("light", "dark") for width in (1440, 390)]
IMPORT = "/admin/mcp_app/tool/import/"


def _is_whole(page: Page, name: str) -> None:
    picture(page, name)
    wide, window, pwned = page.evaluate(
        "[document.documentElement.scrollWidth, window.innerWidth, window.pwned ?? null]"
    )
    assert wide <= window, f"{name} is {wide} px wide in a window of {window}"
    assert pwned is None, f"{name} executed stored text"


def test_api_page_sends_requests_and_shows_responses(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/api/docs/")
    for operation in ("tools_list", "messages_list"):
        block = page.locator(f"#{operation}")
        block.locator("summary").first.click()
        block.get_by_role("button", name="Send").click()
        expect(block.locator("[data-status]")).to_contain_text("200")
        expect(block.locator("[data-answer]")).to_contain_text("window.pwned")
    for fields in page.locator("#tools_create, #tools_create details").all():
        fields.locator("> summary").click()
    visitor.drawn()
    for look in looks(page):
        _is_whole(page, f"api-docs-{look}")
        assert seen(page, look.rules) == []
    assert visitor.trouble == []


def test_api_page_sends_changes_with_the_csrf_token(visit: Visit, site: LiveServer) -> None:
    visitor = visit()
    page = visitor.goto("/api/docs/#prompts_create")
    block = page.locator("#prompts_create")
    body = block.get_by_label("Body", exact=True)
    assert json.loads(body.input_value()).keys() == {"name"}
    body.fill(json.dumps({"name": "from_the_page", "template": "Hello"}))
    block.get_by_role("button", name="Send").click()
    expect(block.locator("[data-status]")).to_contain_text("201")
    site.shell("from mcp_app.models import Prompt; Prompt.objects.get(name='from_the_page').delete()")
    assert visitor.trouble == []


def test_api_page_sends_query_and_path_parameters(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/api/docs/#tools_list")
    block = page.locator("#tools_list")
    block.get_by_label("name").fill("echo")
    block.get_by_label("enabled").select_option("true")
    block.get_by_role("button", name="Send").click()
    answer = block.locator("[data-answer]")
    expect(answer).to_contain_text('"echo"')
    found = json.loads(answer.inner_text())["results"]
    assert [each["name"] for each in found] == ["echo"]
    page.goto(f"{visitor.base}/api/docs/#tools_retrieve")
    block = page.locator("#tools_retrieve")
    block.get_by_role("textbox", name="id").fill(str(found[0]["id"]))
    block.get_by_role("button", name="Send").click()
    expect(block.locator("[data-status]")).to_contain_text("200")
    assert visitor.trouble == []


def _document(site: LiveServer) -> dict[str, Any]:
    text = site.shell("from mcp_app.catalogue.transfer import export_catalogue; print(export_catalogue())")
    document: dict[str, Any] = json.loads(text)
    # A prompt that was seeded without the services, which refuse it.
    document["prompts"] = [each for each in document["prompts"] if each["name"] != "summarise"]
    return document


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_import_is_previewed_before_it_is_applied(
    scheme: Any, width: int, visit: Visit, site: LiveServer
) -> None:
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto("/admin/mcp_app/tool/")
    page.click("text=Import…")
    visitor.drawn()
    _is_whole(page, f"import-{scheme}-{width}")
    document = _document(site)
    name = f"imported_{scheme}_{width}"
    document["prompts"].append({"name": name, "source": "admin", "template": "Hi\nthere"})
    page.fill("textarea[name=text]", json.dumps(document))
    page.click("text=Preview changes")
    visitor.drawn()
    assert page.locator(".mcp-badge-good", has_text="added").count() == 1
    _is_whole(page, f"import-plan-{scheme}-{width}")
    page.click("text=Import all changes")
    page.wait_for_selector("text=Imported as revision")
    site.shell(f"from mcp_app.models import Prompt; Prompt.objects.get(name='{name}').delete()")
    assert visitor.trouble == []


def test_invalid_import_file_is_explained(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto(IMPORT)
    page.fill("textarea[name=text]", '{"format": "<svg onload=window.pwned=1>"}')
    page.click("text=Preview changes")
    page.wait_for_selector("text=This is not a catalogue file")
    _is_whole(page, "import-problems")
    assert visitor.trouble == []
