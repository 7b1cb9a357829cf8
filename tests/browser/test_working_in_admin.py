"""Manual work of administrators: editing JSON, switching, previewing, copying keys, reading logs."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import seen
from tests.browser.conftest import Visit, picture, type_json
from tests.servers.live import LiveServer


def _add_prompt(page: Page, name: str) -> None:
    page.fill("#id_name", name)
    page.fill("#id_template", "Hello {{who}}, {{nobody}}")


def test_json_errors_appear_beside_the_field_and_keep_the_text(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    page.fill("#id_name", "typed")
    page.fill("#id_template", "Hello {{who}}")
    type_json(page, "arguments", '[{"name" "who"}]')
    # JSON that rows cannot show stays in the editor.
    expect(page.get_by_role("group", name="Argument who")).to_be_hidden()
    page.click("[name=_save]")
    expect(page.locator("body")).to_contain_text("Not valid JSON: line 1, column 10")
    # The typed text is still in the editor and in the field.
    expect(page.locator(".mcp-json-field:has(#id_arguments) .cm-content")).to_contain_text('"name" "who"')
    type_json(page, "arguments", '[{"name": "who", "required": true}]')
    page.click("[name=_save]")
    page.wait_for_url("**/admin/mcp_app/prompt/")
    expect(page.locator("#result_list")).to_contain_text("typed")
    assert visitor.trouble == []


def test_tree_view_writes_the_same_field(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/prompt/add/#definition")
    box = page.locator(".mcp-json-field:has(#id_meta)")
    type_json(page, "meta", '{"com.example/a": 1}')
    box.get_by_role("button", name="tree").click()
    expect(box.locator(".jse-tree-mode")).to_contain_text("com.example/a")
    assert page.locator("#id_meta").input_value().replace(" ", "").replace("\n", "") == '{"com.example/a":1}'
    assert visitor.trouble == []


def test_prompt_is_previewed_without_running_its_markup(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    _add_prompt(page, "previewed")
    page.get_by_role("button", name="Remove nobody").click()
    preview = page.locator("[data-prompt-preview]")
    expect(preview.locator("[data-preview-output]")).to_have_text("Hello {{who}}, {{nobody}}")
    preview.get_by_label("who").fill("<img src=x onerror=window.pwned=7> {{nobody}}")
    expect(preview.locator("[data-preview-output]")).to_have_text(
        "Hello <img src=x onerror=window.pwned=7> {{nobody}}, {{nobody}}"
    )
    assert page.evaluate("window.pwned ?? null") is None
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_prompt_arguments_follow_the_placeholders(scheme: str, width: int, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    name = f"rows_{scheme}"
    page.fill("#id_name", name)
    page.locator("#id_template").press_sequentially("Greet {{who}} in {{lang}} as {{style}}")
    rows = page.locator(".mcp-argument")
    expect(rows).to_have_count(3)
    # Renaming a placeholder renames its unedited row.
    page.fill("#id_template", "Greet {{who}} in {{language}} as {{style}}")
    expect(rows).to_have_count(3)
    who, style = (page.get_by_role("group", name=f"Argument {each}") for each in ("who", "style"))
    who.get_by_label("Description").fill("whom to greet")
    who.get_by_label("required").uncheck()
    style.get_by_role("button", name="Remove style").click()
    page.get_by_role("button", name="Add an argument").click()
    expect(rows.last.get_by_label("Name")).to_be_focused()
    page.keyboard.type("tone")
    expect(page.locator("[data-preview-notice]")).to_contain_text("Missing arguments: style.")
    picture(page, f"argument-rows-{scheme}-{width}")
    # The disclosure marker is beside its word, not at the edge of the form.
    marks = "node => [getComputedStyle(node).listStyleType, getComputedStyle(node, '::after').content]"
    assert page.get_by_text("As JSON").evaluate(marks) == ["disclosure-closed", "none"]
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen(page) == []
    page.fill("#id_template", "Greet {{who}} in {{language}}, {{tone}}")
    visitor.drawn()
    page.click("[name=_save]")
    page.wait_for_url("**/admin/mcp_app/prompt/")
    page.locator("#result_list").get_by_role("link", name=name, exact=True).click()
    visitor.drawn()
    assert json.loads(page.locator("#id_arguments").input_value()) == [
        {"name": "who", "description": "whom to greet", "required": False},
        {"name": "language", "description": "", "required": True},
        {"name": "tone", "description": "", "required": False},
    ]
    page.locator("#id_template").press_sequentially(" {{now}}")
    assert [row.get_attribute("aria-label") for row in rows.all()] == [
        "Argument who", "Argument language", "Argument tone", "Argument now",
    ]  # fmt: skip
    assert visitor.trouble == []


def test_tabs_of_a_form_show_one_section_each(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/add/#access")
    sections = {name: page.locator(f"#{name}") for name in ("text", "access", "limits", "definition")}
    for name in ("access", "limits"):
        page.locator(f"[data-tabs] a[href='#{name}']").click()
        for other, section in sections.items():
            expect(section).to_be_visible(visible=other == name)
    expect(page.locator("[data-tabs] [aria-current]")).to_have_text("Execution")
    assert seen(page) == []
    assert visitor.trouble == []


def test_permissions_are_found_by_words(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/add/")
    page.locator("[data-tabs] a", has_text="Access").click()
    shown = page.locator("#id_permission option:not([hidden])")
    assert shown.count() > 50
    page.locator(".mcp-choice-search").fill("api KEYS delete")
    assert shown.evaluate_all("all => all.map(each => each.value)") == ["", "mcp_app.delete_apikey"]
    page.select_option("#id_permission", "mcp_app.delete_apikey")
    page.locator(".mcp-choice-search").fill("nothing of this name")
    expect(page.locator("#id_permission")).to_have_value("mcp_app.delete_apikey")
    assert shown.count() == 1
    assert seen(page) == []
    assert visitor.trouble == []


def test_error_opens_the_tab_that_has_it(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    page.fill("#id_name", "p")
    page.fill("#id_template", "Hello")
    page.click("[data-tabs] a[href='#definition']")
    type_json(page, "icons", '[{"src": "javascript:x"}]')
    page.click("[data-tabs] a[href='#text']")
    page.click("[name=_save]")
    failed = page.locator("[data-tabs] a[data-errors]")
    expect(failed).to_have_attribute("href", "#definition")
    expect(failed).to_have_attribute("aria-current", "true")
    expect(page.locator("#definition")).to_contain_text("https:")
    assert visitor.trouble == []


def test_single_braces_are_replaced_by_one_press(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/prompt/add/")
    page.fill("#id_template", "Ship {order} to {{who}}")
    page.get_by_role("button", name="Replace with {{order}}").click()
    expect(page.locator("#id_template")).to_have_value("Ship {{order}} to {{who}}")
    expect(page.locator("[data-preview-notice]")).to_be_hidden()
    expect(page.get_by_role("group", name="Argument order")).to_be_visible()
    assert visitor.trouble == []


def test_list_switch_works_in_place_and_keeps_the_filter(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/?source__exact=code")
    switch = page.locator("tr", has_text="add").locator(".mcp-switch")
    expect(switch).to_have_attribute("aria-checked", "true")
    place = switch.bounding_box()
    page.evaluate("window.isSamePage = true")
    switch.click()
    expect(page.locator("body")).to_contain_text("Disabled: add. Clients are notified now.")
    expect(switch).to_have_attribute("aria-checked", "false")
    # The time in the row has changed, and with it a column's width by part of a pixel.
    assert switch.bounding_box() == pytest.approx(place, abs=2.0)
    assert page.evaluate("window.isSamePage")
    page.reload()
    expect(switch).to_have_attribute("aria-checked", "false")
    assert visitor.trouble == []


def test_bulk_action_runs_on_the_selected_rows(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/?q=burn")
    page.locator("tr", has_text="burn").locator("input.action-select").check()
    page.select_option("[name=action]", "enable_entries")
    page.get_by_role("button", name=re.compile("^(apply|go)$", re.IGNORECASE)).first.click()
    expect(page.locator("body")).to_contain_text("Enabled: 1 of 1.")
    assert visitor.trouble == []


def test_issued_key_is_copied_and_reload_issues_no_second_key(visit: Visit, site: LiveServer) -> None:
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.goto("/admin/mcp_app/apikey/add/")
    page.select_option("#id_user", label="root")
    page.fill("#id_name", "from the browser")
    page.click("[name=_save]")
    secret = page.locator("#mcp-secret").inner_text()
    assert secret.startswith("mcp_")
    page.locator("[data-copy=mcp-secret]").click()
    expect(page.locator("[data-copy=mcp-secret]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    expect(page.locator("#mcp-line-1")).to_contain_text(f'--header "Authorization: Bearer {secret}"')
    page.get_by_role("button", name="Revoke key…").click()
    question = page.get_by_role("alertdialog", name=re.compile("disconnected at once"))
    expect(question.get_by_role("button", name="Revoke the key")).to_be_visible()
    question.get_by_role("button", name="Keep it").click()
    page.reload()
    page.wait_for_url("**/admin/mcp_app/apikey/")
    expect(page.locator("#result_list")).to_contain_text("from the browser")
    assert secret not in page.content()
    count = "from mcp_app.models import ApiKey; print(ApiKey.objects.filter(name='from the browser').count())"
    assert site.shell(count).strip().splitlines()[-1] == "1"
    assert visitor.trouble == []


def test_session_log_is_expanded_paged_and_filtered(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto(f"/admin/mcp_app/session/{0:032x}/change/")
    expect(page.locator(".mcp-message")).to_have_count(50)
    page.get_by_role("button", name="Expand all").click()
    expect(page.locator(".mcp-message[open]")).to_have_count(50)
    page.get_by_role("link", name="Older →").click()
    expect(page.locator(".mcp-message")).to_have_count(13)
    page.locator("#mcp-filters summary").click()
    page.fill("[name=method]", "initialize")
    page.locator("#mcp-filters button.mcp-primary").click()
    page.wait_for_url("**/change/?method=initialize")
    expect(page.locator(".mcp-message")).to_have_count(1)
    assert visitor.trouble == []


def test_truncated_payload_is_opened_whole(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto(f"/admin/mcp_app/session/{0:032x}/change/?request_id=63")
    page.locator(".mcp-message summary").click()
    page.get_by_role("link", name=re.compile("Show all")).click()
    page.wait_for_url("**/admin/mcp_app/message/*/change/")
    assert page.locator(".mcp-pre").first.inner_text().count("long ") == 2000
    assert visitor.trouble == []


def test_confirmation_stays_until_answered(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto(f"/admin/mcp_app/session/{0:032x}/change/")
    page.clock.install()
    ending = page.get_by_role("button", name="End session")
    ending.click()
    question = page.get_by_role("alertdialog", name=re.compile("End this session.*Its calls are cancelled"))
    keep = question.get_by_role("button", name="Keep it open")
    expect(keep).to_be_focused()
    expect(ending).to_have_count(0)
    page.clock.fast_forward("10:00:00")
    expect(question.get_by_role("button", name="End the session")).to_be_visible()
    assert seen(page) == []
    # Escape or the other button cancels, and returns the focus to the button.
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(ending).to_be_focused()
    ending.press("Enter")
    keep.press("Enter")
    expect(ending).to_be_focused()
    page.reload()
    expect(ending).to_be_visible()
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_background_call_list_fits_its_page(scheme: str, width: int, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto("/admin/mcp_app/call/")
    picture(page, f"background-calls-{scheme}-{width}")
    wide = "[...document.querySelectorAll('#changelist *')].filter((e) => e.scrollWidth > e.clientWidth + 1"
    scrolls = " && getComputedStyle(e).overflowX !== 'visible' && e.querySelector('#result_list')).length"
    assert page.evaluate(wide + scrolls) == 0
    # Django's admin hides what overflows a cell, so a long verdict lost its first letters.
    cut = """[...document.querySelectorAll("#result_list td .mcp-badge")].filter((badge) =>
      badge.getBoundingClientRect().left < badge.closest("td").getBoundingClientRect().left - 1)"""
    assert page.evaluate(f"{cut}.map((badge) => badge.textContent)") == []
    field = page.locator("#searchbar")
    assert field.evaluate("(e) => e.value === '' && e.scrollWidth <= e.clientWidth")
    assert seen(page) == []
    assert visitor.trouble == []


def test_failed_background_call_has_one_verdict(visit: Visit, site: LiveServer) -> None:
    """A call that ran to its end, and whose result is an error, is failed on every page."""
    made = 'background_call(f"{0:032x}", 7001, tool="divide", outcome="tool_error").pk'
    key = site.shell(f"from tests.samples.admin_seed import *; print({made})").strip().splitlines()[-1]
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/call/?q=divide")
    expect(page.locator("#result_list .mcp-badge")).to_have_text(["failed"])
    page = visitor.goto(f"/admin/mcp_app/call/{key}/change/")
    expect(page.locator("[data-live-state]")).to_have_text("failed")
    expect(page.locator(".mcp-badge-good")).to_have_count(0)
    assert visitor.trouble == []


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_confirmation_dialog_fits_window_and_is_accessible(scheme: str, width: int, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto(f"/admin/mcp_app/session/{0:032x}/change/")
    page.get_by_role("button", name="End session").click()
    expect(page.get_by_role("alertdialog")).to_be_visible()
    picture(page, f"question-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen(page) == []
    assert visitor.trouble == []


def test_session_is_ended_from_its_page(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto(f"/admin/mcp_app/session/{1:032x}/change/")
    page.get_by_role("button", name="End session").click()
    page.get_by_role("button", name="End the session").click()
    expect(page.locator("body")).to_contain_text("The session was ended.")
    expect(page.locator(".mcp-facts")).to_contain_text("(by an administrator)")
    assert visitor.trouble == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_deleted_search_is_restored_by_one_press(
    scheme: str, width: int, visit: Visit, site: LiveServer
) -> None:
    root = (
        "from django.contrib.auth import get_user_model; root = get_user_model().objects.get(username='root')"
    )
    made = f"SavedSearch.objects.get_or_create(user=root, name='{scheme} days', text='tool:echo')"
    site.shell(f"{root}; from mcp_app.models import SavedSearch; {made}")
    visitor = visit(scheme=scheme, width=width)
    page = visitor.goto("/admin/mcp_app/message/searches/")
    row = page.locator(".mcp-saved-row", has_text=f"{scheme} days")
    row.get_by_role("button", name="Delete", exact=True).click()
    row.get_by_role("button", name="Delete search").click()
    expect(page.locator("body")).to_contain_text(f"The search {scheme} days was deleted.")
    expect(row).to_have_count(0)
    visitor.drawn()
    picture(page, f"undo-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen(page) == []
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("body")).to_contain_text(f"The search {scheme} days was restored.")
    expect(row).to_have_count(1)
    assert visitor.trouble == []


def test_drift_is_accepted_by_its_button(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/?drift=yes&q=web_scrape")
    page.get_by_role("link", name="web_scrape").click()
    page.wait_for_url("**/change/*")
    visitor.drawn()
    page.get_by_role("button", name="Accept new definition").click()
    expect(page.locator("body")).to_contain_text("The new definition of web_scrape is accepted.")
    assert page.get_by_role("button", name="Accept new definition").count() == 0
    assert visitor.trouble == []


def test_admin_refuses_framing(visit: Visit, base: str) -> None:
    page = visit().page
    page.set_content(f'<iframe src="{base}/admin/" id="frame"></iframe>')
    page.wait_for_load_state("networkidle")
    assert page.frame_locator("#frame").locator("#nav-sidebar, #id_username").count() == 0


def test_global_search_works_with_and_without_scripts(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/")
    box = page.locator("[data-anything]:visible")
    address = box.get_attribute("href")
    box.click()
    found = page.get_by_role("dialog", name="Search", exact=True)
    found.get_by_role("searchbox").fill("echo")
    expect(found.get_by_role("link").first).to_contain_text("echo")
    page.keyboard.press("Escape")
    expect(found).to_be_hidden()
    page = visitor.goto(f"{address}?q=echo")
    expect(page.get_by_role("link", name="tool echo")).to_be_visible()
    assert visitor.trouble == []


def test_global_search_opens_a_document_section(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/tool/")
    page.keyboard.press("Control+k")
    found = page.get_by_role("dialog", name="Search", exact=True)
    found.get_by_role("searchbox").fill("webhook")
    found.get_by_role("link", name="Webhooks Notifications").click()
    heading = page.get_by_role("heading", name="Webhooks", exact=True)
    expect(heading).to_be_in_viewport()
    assert visitor.trouble == []


def test_shortcuts_focus_the_log_search_and_messages(visit: Visit) -> None:
    visitor = visit()
    for address in ("/admin/mcp_app/message/", f"/admin/mcp_app/session/{0:032x}/change/"):
        page = visitor.goto(address)
        page.keyboard.press("/")
        expect(page.locator("[name=q]")).to_be_focused()
        expect(page.get_by_role("dialog", name="Search", exact=True)).to_have_count(0)
        page.locator("[name=q]").blur()
        page.keyboard.press("m")
        expect(page.locator(".mcp-message > summary").first).to_be_focused()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text(
            "go to the messages of this page"
        )
    page = visitor.goto("/admin/mcp_app/message/?q=duration:5")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("Unknown search term “duration:”")
    width = "part => part.getBoundingClientRect().width"
    assert problem.evaluate(width) >= page.locator("#mcp-filters").evaluate(width)
    page.locator("#mcp-filters summary").click()
    since = page.locator("[name=since]")
    since.fill("2026-11-23 14:05:00")
    assert since.evaluate("field => field.scrollWidth <= field.clientWidth")
    assert visitor.trouble == []


def test_login_page_focuses_the_user_name(chromium: Browser, base: str) -> None:
    page = chromium.new_page()
    page.goto(f"{base}/admin/login/")
    expect(page.locator("#id_username")).to_be_focused()
    page.close()


def test_add_button_names_the_model(visit: Visit) -> None:
    visitor = visit()
    page = visitor.goto("/admin/mcp_app/apikey/")
    picture(page, "apikey-add-button-light-1440")
    page.get_by_role("link", name="Add API key", exact=True).click()
    page.wait_for_url("**/apikey/add/")
    visitor.drawn()
    assert visitor.trouble == []
