"""Operators' tasks, from the first page of the admin by visible links and buttons; presses are counted.

Each task is done by the mouse and by the keyboard alone. No step uses an address.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Visit, Visitor, opened_pages, peopled, sign_in
from tests.browser.hands import Keys, Mouse
from tests.clients.raw_http import Mcp
from tests.servers.live import LiveServer, eventually

SLOW: Final = 30_000
MOST_IN_THE_MIDDLE: Final = 3
# One object of each kind that is changed, for each kind of input.
ROWS: Final = """
import json
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.auth.membership import membership_of
from mcp_app.catalogue.changes.services import save_tool_preset, update_entry
from mcp_app.catalogue.documents import importing, storing
from mcp_app.models import Tool
root = get_user_model().objects.get(username="root")
get_user_model().objects.create_user("eve", is_staff=True)
editors = Group.objects.create(name="Editors")
editors.user_set.add(get_user_model().objects.create_user("ann", is_staff=True))
echo, count = (Tool.objects.get(name=name) for name in ("echo", "count"))
keys = {}
for hand in ("mouse", "keys", "first"):
    save_tool_preset(actor=root, name=f"waits_{hand}", preset_of=count, needs_approval=True)
for hand in ("mouse", "keys"):
    for verb in ("switch", "restrict", "approve", "former", "bulk", "team"):
        save_tool_preset(actor=root, name=f"{verb}_{hand}", preset_of=echo, fixed_arguments={"text": "hi"})
    save_tool_preset(actor=root, name=f"secret_{hand}", preset_of=echo, permission="auth.view_group")
    members = membership_of(editors)
    save_tool_preset(actor=root, name=f"editors_{hand}", preset_of=echo, permission=members)
    former = Tool.objects.get(name=f"former_{hand}")
    update_entry(entry=former, actor=root, description="as it was before")
    update_entry(entry=former, actor=root, description="a mistake")
    issue_api_key(user=root, name=f"lost {hand}", actor=root)
    issue_api_key(user=root, name=f"leaked {hand}", actor=root)
    issue_api_key(user=root, name=f"busy {hand}", actor=root)
for hand in ("mouse", "keys"):
    paths = {f"/{name}": {"get": {"operationId": name, "summary": name}} for name in ("a", "b", "c")}
    root_of = {"openapi": "3.1.0", "servers": [{"url": "https://api.example.com"}], "paths": paths}
    data = json.dumps(root_of)
    row = storing.receive(data=data.encode(), actor=root, name=f"books-{hand}", prefix=f"books_{hand}")
    importing.import_operations(row=row, keys=list(storing.document_of(row).places), actor=root, publish=True)
    for name in paths:
        data = data.replace(f'"summary": "{name[1:]}"', f'"summary": "Get {name[1:]}"')
    storing.receive_newer(row=row, data=data.encode(), actor=root)
_, secret = issue_api_key(user=root, name="desk", actor=root)
print(json.dumps(secret))
"""
STORES: Final = {
    "openapi": "3.1.0",
    "info": {"title": "Stores"},
    "servers": [{"url": "https://api.example.com"}],
    "paths": {
        f"/stores/{number}": {
            "get": {"operationId": f"store{number}", "tags": ["even" if number % 2 == 0 else "odd"]}
        }
        for number in range(60)
    },
}


# A flood: a day of calls by others, then a thousand calls by a new key in this minute. The current counts of
# other tasks are deleted first.
FLOOD: Final = """
import json
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.message_log.counts import callers
from mcp_app.models import CallerRollup, Message
eve = get_user_model().objects.get(username="eve")
key, secret = issue_api_key(user=eve, name="flood {hand}")
CallerRollup.objects.filter(span=600, at__gte=timezone.now() - timedelta(hours=1)).delete()
counted = callers.Callers()
for principal, ago, calls in (("loopback", 7_200, 50), (f"user:{{eve.pk}}/key:{{key.pk}}", 0, 1_000)):
    made = Message(
        at=timezone.now() - timedelta(seconds=ago), method="tools/call", outcome="ok", duration_ms=1.0,
        principal=principal, direction="in", kind="request", target="echo",
    )
    for _ in range(calls):
        counted.add(made, made.at.timestamp())
callers.write(counted)
# A caller without messages of the last minutes has stopped.
made.save()
print(json.dumps(secret))
"""


@dataclass
class Operator:
    """An operator on the first page, the input method, and the clients."""

    visitor: Visitor
    hands: Mouse
    server: LiveServer
    orion: Mcp
    secret: str
    folder: Path

    def __post_init__(self) -> None:
        self.page: Page = self.visitor.page
        self.visitor.goto("/admin/")

    @property
    def mine(self) -> str:
        """The suffix of the rows of this input method."""
        return self.hands.name

    def link(self, name: str, exact: bool = True) -> Locator:
        """Return a link by its text; of several, the first visible one.

        Icon names of the skin are text as well.
        """
        words = rf"(^|\s){re.escape(name)}\s*$" if exact else re.escape(name)
        return self.page.locator("a:visible", has_text=re.compile(words)).first

    def tab(self, name: str) -> Locator:
        """Return a tab of an entry's form."""
        return self.page.locator("[data-tabs] a", has_text=name)

    def button(self, name: str, exact: bool = True) -> Locator:
        """Return a button by its text."""
        return self.page.get_by_role("button", name=name, exact=exact).first

    def press(self, what: Locator) -> None:
        """Press it, and wait for the next page."""
        self.page.evaluate("window.isLeft = true")
        self.hands.press(what)
        self.page.wait_for_function("!window.isLeft")
        self.visitor.drawn()

    def follow(self, *names: str) -> None:
        """Follow one link after the other."""
        for name in names:
            self.press(self.link(name))

    def lines(self, words: str) -> Locator:
        """Return the console lines with that text."""
        return self.page.locator("#mcp-lines .mcp-line", has_text=words)

    def offered(self) -> list[str]:
        """Return the names of the tools offered to a client."""
        return [tool["name"] for tool in self.orion.call("tools/list")["result"]["tools"]]

    def client(self, name: str) -> Mcp:
        """Open another client with a new session."""
        return _client(self.server, name, self.secret)


def _client(server: LiveServer, name: str, token: str) -> Mcp:
    made = server.mcp(token=token)
    made.client_name = name
    made.initialize()
    return made


Work = Callable[[Operator], None]
TASKS: Final[dict[str, tuple[int, Work]]] = {}


def task(presses: int) -> Callable[[Work], Work]:
    """Register a task with its maximum number of presses."""

    def note(work: Work) -> Work:
        TASKS[work.__name__] = presses, work
        return work

    return note


@task(0)
def see_whether_all_is_well(at: Operator) -> None:
    verdict = at.page.locator("[data-part=verdict]")
    expect(verdict).to_contain_text("Running")
    expect(verdict).to_contain_text("for approval")
    expect(verdict).to_contain_text("New error in customer")
    expect(verdict).not_to_contain_text("calculate")


@task(2)
def find_why_a_session_failed(at: Operator) -> None:
    at.follow("Sessions", "Orion Desktop 1")
    expect(at.page.locator("h1, title").filter(has_text="Orion Desktop").first).to_be_attached()
    expect(at.page.locator("[data-fact=who]")).to_have_text("root · desk")
    expect(at.lines("Division by zero has no value.").first).to_be_visible(timeout=SLOW)


@task(2)
def follow_a_session_live(at: Operator) -> None:
    at.follow("Sessions", "Orion Desktop 1")
    expect(at.page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
    for number in range(40):
        at.orion.tool("echo", text=f"{at.mine} {number}")
    newest = at.lines(f"{at.mine} 39")
    expect(newest).to_be_visible(timeout=SLOW)
    expect(newest).to_be_in_viewport()


@task(4)
def cancel_a_running_call(at: Operator) -> None:
    asked = {"name": "count", "arguments": {"to": 600, "delay_seconds": 0.1}, "_meta": {"progressToken": "p"}}
    with closing(at.client(f"Vega {at.mine}")) as vega, vega.open_call("tools/call", asked) as stream:
        at.follow("Sessions", f"Vega {at.mine} 1")
        at.hands.press(at.page.locator("#mcp-running").get_by_role("button", name="Cancel"))
        at.hands.press(at.button("Cancel the call"))
        assert "error" in stream.messages(60)[-1]


@task(4)
def end_a_session(at: Operator) -> None:
    with closing(at.client(f"Lyra {at.mine}")) as lyra:
        at.follow("Sessions", f"Lyra {at.mine} 1")
        at.hands.press(at.page.locator("#mcp-end"))
        at.hands.press(at.button("End the session"))
        expect(at.page.locator("#mcp-state")).to_have_text("ended")
        assert lyra.post(lyra.request_message("ping")).status == 404


@task(2)
def find_slow_calls_of_a_tool(at: Operator) -> None:
    at.follow("Log")
    at.hands.write(at.page.locator("#mcp-search"), "tool:count ms:>1s kind:request")
    expect(at.lines("count").first).to_be_visible(timeout=SLOW)
    expect(at.lines("echo")).to_have_count(0)


@task(2)
def read_a_request_beside_its_answer(at: Operator) -> None:
    at.follow("Log")
    at.hands.pick_line(at.lines("Division by zero").last)
    texts = at.page.locator(".mcp-texts > div")
    expect(texts).to_have_count(2)
    for text in texts.all():
        expect(text).to_be_visible(timeout=SLOW)
    tops = texts.evaluate_all("texts => texts.map(text => text.getBoundingClientRect().top)")
    assert tops[0] == tops[1]


@task(4)
def replay_a_call_in_the_bench(at: Operator) -> None:
    at.follow("Log")
    at.hands.pick_line(at.lines("Division by zero").last)
    at.press(at.link("Replay…"))
    at.hands.press(at.button("Run"))
    expect(at.page.locator("[data-bench-comparison]")).to_be_visible(timeout=SLOW)


@task(4)
def find_why_a_customer_got_an_error_and_repeat_the_call(at: Operator) -> None:
    at.press(at.link("KeyError: 'C-9'", exact=False))
    why = at.page.locator("[data-failure] pre").first
    expect(why).to_contain_text("KeyError: 'C-9'")
    expect(why).to_contain_text("tests/browser/crash_app/mcp.py:")
    expect(why).to_contain_text("in name_of")
    at.hands.press(at.page.locator(".mcp-message summary").first)
    at.press(at.link("View message", exact=False))
    expect(at.page.locator("[data-failure] pre")).to_contain_text("KeyError: 'C-9'")
    at.press(at.link("Replay…"))
    expect(at.page.get_by_label("number", exact=False).first).to_have_value("C-9")


@task(1)
def tell_two_crashes_of_one_tool_apart(at: Operator) -> None:
    at.follow("Errors")
    rows = at.page.locator(".mcp-errors tbody tr", has_text="customer")
    expect(rows).to_have_count(2)
    for kind in ("ValueError", "KeyError"):
        expect(rows.filter(has_text=kind)).to_have_count(1)
    assert "hunter2" not in at.page.content()


@task(6)
def make_a_preset(at: Operator) -> None:
    at.follow("Tools", "count", "Add preset")
    at.hands.write(at.page.locator("#id_name"), f"three_{at.mine}")
    editor = at.page.locator(".mcp-json-field:has(#id_fixed_arguments) .cm-content")
    at.hands.write(editor, '{"to": 3}')
    at.press(at.button("Save"))
    eventually(lambda: f"three_{at.mine}" in at.offered(), 20, "the preset is offered")


@task(7)
def make_a_tool_from_a_curl_line(at: Operator) -> None:
    at.follow("Tools", "Add HTTP tool")
    at.hands.write(at.page.locator("#id_paste"), "curl 'https://api.example.com/v1/orders?state=open'")
    at.press(at.page.locator("[name=_fill]"))
    at.hands.write(at.page.locator("#id_name"), f"orders_{at.mine}")
    at.press(at.page.locator("[name=_publish]"))
    at.press(at.page.locator("[name=_untried]"))
    eventually(lambda: f"orders_{at.mine}" in at.offered(), 20, "the tool is offered")


@task(11)
def import_two_operations_found_by_tag_and_search(at: Operator) -> None:
    file = at.folder / "stores.json"
    file.write_text(json.dumps(STORES))
    at.follow("OpenAPI documents", "Import an OpenAPI document")
    at.hands.upload(at.page.locator("#id_file"), file)
    at.hands.write(at.page.locator("#id_tool_prefix"), at.mine)
    at.press(at.page.locator("#mcp-document-form button[type=submit]"))
    expect(at.page.locator("[data-loaded]")).to_be_attached()
    at.hands.write(at.page.locator("#mcp-op-search"), "stores/4")
    at.hands.choose(at.page.locator("#mcp-op-tag"), "even (30)")
    if isinstance(at.hands, Keys):
        at.hands.reach(at.page.locator("[data-op-list]"))
        for key in ("Space", "ArrowDown", "Space"):
            at.page.keyboard.press(key)
    else:
        for number in range(2):
            at.hands.press(at.page.locator(".mcp-op-row").nth(number))
    expect(at.page.locator("[data-op-total]")).to_contain_text("2 selected")
    at.press(at.page.locator("[data-op-save]"))
    at.press(at.page.locator("#mcp-publish-drafts"))
    names = {f"{at.mine}_store4", f"{at.mine}_store40"}
    eventually(lambda: names <= {*at.offered()}, 20, "the operations are offered")


@task(5)
def accept_two_of_three_changes_of_a_document(at: Operator) -> None:
    at.follow("OpenAPI documents", f"books-{at.mine}", "Show changes")
    changes = at.page.locator("[data-change]")
    expect(changes).to_have_count(3)
    at.hands.press(changes.nth(1).locator("[name=accepted]"))
    at.press(at.page.locator("#mcp-accept-update"))
    drafts = f"""
from mcp_app.models import Draft
print(sorted(Draft.objects.filter(key__startswith="books_{at.mine}").values_list("key", flat=True)))
"""
    assert at.server.shell(drafts).strip().endswith(f"['books_{at.mine}_a', 'books_{at.mine}_c']")


@task(3)
def write_a_prompt_with_arguments(at: Operator) -> None:
    at.press(at.page.locator("a[href='/admin/mcp_app/prompt/add/']"))
    at.hands.write(at.page.locator("#id_name"), f"greet_{at.mine}")
    at.hands.write(at.page.locator("#id_template"), "Greet {{who}} in {{language}}.")
    expect(at.page.get_by_role("group", name="Argument language")).to_be_visible()
    at.press(at.button("Save"))

    def arguments() -> list[str]:
        found = at.orion.call("prompts/list")["result"]["prompts"]
        mine = [each for each in found if each["name"] == f"greet_{at.mine}"]
        return [argument["name"] for each in mine for argument in each.get("arguments", [])]

    eventually(lambda: arguments() == ["who", "language"], 20, "the prompt is offered with its arguments")


@task(3)
def write_a_resource(at: Operator) -> None:
    at.press(at.page.locator("a[href='/admin/mcp_app/resource/add/']"))
    at.hands.write(at.page.locator("#id_uri"), f"terms-{at.mine}")
    expect(at.page.get_by_role("status").filter(has_text=f"resource://terms-{at.mine}")).to_be_visible()
    at.hands.write(at.page.locator("#id_text"), "Be kind.")
    at.press(at.button("Save"))
    _reads(at, f"resource://terms-{at.mine}", "Be kind.")


@task(3)
def upload_a_resource(at: Operator) -> None:
    file = at.folder / "terms.txt"
    file.write_text("Be kind, too.")
    at.press(at.page.locator("a[href='/admin/mcp_app/resource/add/']"))
    at.hands.write(at.page.locator("#id_uri"), f"docs://upload-{at.mine}")
    at.hands.upload(at.page.locator("#id_file"), file)
    at.press(at.button("Save"))
    _reads(at, f"docs://upload-{at.mine}", "Be kind, too.")


def _reads(at: Operator, uri: str, text: str) -> None:
    eventually(lambda: "result" in at.orion.call("resources/read", {"uri": uri}), 20, "the resource is there")
    assert at.orion.call("resources/read", {"uri": uri})["result"]["contents"][0]["text"] == text


@task(2)
def disable_a_tool(at: Operator) -> None:
    assert f"switch_{at.mine}" in at.offered()
    at.follow("Tools")
    at.hands.press(at.page.locator("tr", has_text=f"switch_{at.mine}").locator(".mcp-switch"))
    expect(at.page.locator("body")).to_contain_text(f"Disabled: switch_{at.mine}. Clients are notified now.")
    eventually(lambda: f"switch_{at.mine}" not in at.offered(), 20, "clients are not offered it")


@task(3)
def undo_a_switch(at: Operator) -> None:
    at.follow("Tools")
    switch = at.page.locator("tr", has_text=f"approve_{at.mine}").locator(".mcp-switch")
    at.hands.press(switch)
    eventually(lambda: f"approve_{at.mine}" not in at.offered(), 20, "clients are not offered it")
    at.hands.press(at.button("Undo"))
    expect(at.page.locator("[data-switched]")).to_contain_text(f"Undone. Enabled: approve_{at.mine}.")
    expect(switch).to_have_attribute("aria-checked", "true")
    expect(switch).to_be_focused()
    eventually(lambda: f"approve_{at.mine}" in at.offered(), 20, "clients are offered it again")


@task(5)
def publish_a_draft_of_a_description(at: Operator) -> None:
    name = {"mouse": "get_timestamp", "keys": "calculate"}[at.mine]
    at.follow("Tools", name)
    words = at.page.locator("#id_description")
    in_code = words.get_attribute("placeholder") or ""
    at.hands.write(words, f"In force by {at.mine}")
    at.press(at.button("Save as draft"))
    # The field contains the text in effect: that from code.
    expect(at.page.locator(".mcp-draft")).to_contain_text(in_code.splitlines()[0][:40])
    at.press(at.button("Publish"))
    _is_described(at, name, f"In force by {at.mine}")


@task(5)
def roll_back_a_description(at: Operator) -> None:
    at.follow("Tools", f"former_{at.mine}", "History")
    at.press(at.link("Roll back to this revision…"))
    at.press(at.button("Roll back"))
    _is_described(at, f"former_{at.mine}", "as it was before")


def _is_described(at: Operator, name: str, words: str) -> None:
    def description() -> str:
        found = {tool["name"]: tool for tool in at.orion.call("tools/list")["result"]["tools"]}
        return str(found[name]["description"])

    eventually(lambda: description() == words, 20, f"clients read {words!r}")


@task(5)
def require_approval(at: Operator) -> None:
    at.follow("Tools", f"approve_{at.mine}")
    at.hands.press(at.tab("Access"))
    at.hands.press(at.page.locator("#id_needs_approval"))
    at.press(at.button("Save"))
    expect(at.page.locator("body")).to_contain_text("was changed successfully")


@task(2)
def approve_a_call(at: Operator) -> None:
    asked = {"name": f"waits_{at.mine}", "arguments": {"to": 1}}
    with closing(at.client("Deneb")) as deneb, deneb.open_call("tools/call", asked) as stream:
        at.press(at.link("for approval", exact=False))
        expect(at.page.locator("#result_list")).to_contain_text(f"waits_{at.mine}")
        at.press(at.button(f"Approve waits_{at.mine}"))
        expect(at.page.locator("body")).to_contain_text("was approved.")
        assert "result" in stream.messages(60)[-1]


# The reason is written into the field that has the focus.
@task(6)
def approve_three_calls_and_refuse_one(at: Operator) -> None:
    asked = [{"name": f"waits_{at.mine}", "arguments": {"to": number}} for number in (1, 2, 3, 4)]
    with closing(at.client("Deneb")) as deneb, ExitStack() as opened:
        streams = [opened.enter_context(deneb.open_call("tools/call", each)) for each in asked]
        at.press(at.link("for approval", exact=False))
        cards = at.page.locator("[data-decision]", has_text=f"waits_{at.mine}")
        for number in (4, 3, 2):
            expect(cards).to_have_count(number)
            at.press(at.button(f"Approve waits_{at.mine}"))
        at.hands.press(at.button(f"Refuse waits_{at.mine}"))
        at.hands.write(at.page.locator("dialog[open] textarea"), "needs a photo")
        at.press(at.button("Refuse"))
        expect(cards).to_have_count(0)
        results = [stream.messages(60)[-1]["result"] for stream in streams]
    assert sorted(result.get("isError", False) for result in results) == [False, False, False, True]
    assert "needs a photo" in str(results)


@task(5)
def restrict_a_tool_to_a_group(at: Operator) -> None:
    at.follow("Tools", f"restrict_{at.mine}")
    at.hands.press(at.tab("Access"))
    at.hands.choose(at.page.locator("#id_permission"), "members of Editors")
    at.press(at.button("Save"))
    row = at.page.locator("tr", has_text=f"restrict_{at.mine}")
    expect(row).to_contain_text("members of Editors")


@task(7)
def restrict_two_tools_to_a_group_at_once(at: Operator) -> None:
    at.follow("Tools")
    names = [f"bulk_{at.mine}", f"team_{at.mine}"]
    for name in names:
        at.hands.press(at.page.locator("tr", has_text=name).locator("input.action-select"))
    at.hands.choose(at.page.locator("select[name=action]"), "Change who can use it…")
    at.press(at.page.locator("#changelist-form button[name=index]").first)
    at.hands.choose(at.page.locator("#id_permission"), "members of Editors")
    at.press(at.button("Change"))
    for name in names:
        expect(at.page.locator("tr", has_text=name)).to_contain_text("members of Editors")
    eventually(lambda: not set(names) - set(at.offered()), 20, "a superuser is offered them")


@task(8)
def give_a_team_its_toolset(at: Operator) -> None:
    at.follow("Toolsets", "Add toolset")
    at.hands.write(at.page.locator("#id_slug"), f"team-{at.mine}")
    at.hands.press(at.tab("Entries"))
    at.hands.press(at.page.locator("input[value='tool echo']"))
    at.hands.press(at.tab("Access"))
    at.hands.press(at.page.locator("input[name=groups][value=Editors]"))
    at.press(at.button("Add toolset"))
    expect(at.page.locator("tr[data-entry='tool echo']")).to_be_visible()


@task(6)
def limit_the_calls_of_one_client_to_100_an_hour(at: Operator) -> None:
    at.follow("API keys", f"busy {at.mine}", "Add limit")
    at.hands.write(at.page.locator("#id_rate"), "100")
    at.hands.choose(at.page.locator("#id_rate_period"), "hour")
    at.press(at.button("Save"))
    facts = at.page.locator(".mcp-facts")
    expect(facts).to_contain_text(f"API key busy {at.mine} (root)")
    expect(facts).to_contain_text("100 calls per hour")


@task(6)
def limit_each_member_of_a_group(at: Operator) -> None:
    at.follow("Groups", "Editors", "Add limit")
    at.hands.write(at.page.locator("#id_name"), f"editors-{at.mine}")
    at.hands.write(at.page.locator("#id_rate"), "10")
    at.press(at.button("Save"))
    expect(at.page.locator(".mcp-facts")).to_contain_text("each member of Editors")


@task(3)
def see_that_a_member_can_use_a_tool(at: Operator) -> None:
    at.follow("Tools", f"editors_{at.mine}", "Who can use it")
    row = at.page.locator("tr", has=at.page.get_by_role("rowheader", name="ann", exact=True))
    expect(row).to_contain_text("by the group Editors")


@task(3)
def see_that_other_users_cannot_use_a_tool(at: Operator) -> None:
    at.follow("Tools", f"editors_{at.mine}", "Who can use it")
    row = at.page.locator("tr", has=at.page.get_by_role("rowheader", name="eve", exact=True))
    expect(row).to_contain_text("not a member of Editors")


@task(2)
def see_the_tools_of_a_group(at: Operator) -> None:
    at.follow("Groups", "Editors")
    row = at.page.locator("[aria-labelledby=mcp-offered-title] tr", has_text=f"editors_{at.mine}")
    expect(row).to_contain_text("members of Editors")


@task(3)
def see_why_somebody_cannot_use_a_tool(at: Operator) -> None:
    at.follow("Tools", f"secret_{at.mine}", "Who can use it")
    row = at.page.locator("tr", has=at.page.get_by_role("rowheader", name="eve", exact=True))
    expect(row).to_contain_text("no permission auth.view_group")


@task(3)
def see_what_a_person_does_not_see_and_why(at: Operator) -> None:
    at.follow("Users", "eve", "Tools they can use")
    row = at.page.locator("tr", has_text=f"secret_{at.mine}")
    expect(row).to_contain_text("no permission auth.view_group")


# One press selects the user of the key, for whom there is no default.
@task(4)
def issue_a_key_that_ends(at: Operator) -> None:
    at.press(at.link("Add API key"))
    at.hands.choose(at.page.locator("#id_user"), "root")
    at.hands.write(at.page.locator("#id_name"), f"new {at.mine}")
    expect(at.page.locator("#id_lifetime")).to_have_value("90")
    at.press(at.button("Save"))
    expect(at.page.locator("#mcp-secret")).to_contain_text("mcp_")


@task(4)
def revoke_a_key(at: Operator) -> None:
    at.follow("API keys", f"lost {at.mine}")
    at.hands.press(at.page.locator("[data-sure]"))
    at.press(at.button("Revoke the key"))
    expect(at.page.locator("body")).to_contain_text("was revoked")


@task(4)
def replace_a_leaked_key(at: Operator) -> None:
    at.follow("API keys", f"leaked {at.mine}", "Replace key…")
    at.press(at.button("Replace and revoke now"))
    expect(at.page.locator("#mcp-secret")).to_contain_text("mcp_")
    expect(at.page.locator("[data-old-key]")).to_contain_text("revoked")


@task(3)
def stop_a_flood_by_one_client(at: Operator) -> None:
    secret = json.loads(at.server.shell(FLOOD.format(hand=at.mine)).strip().splitlines()[-1])
    with closing(_client(at.server, "Report Bot", secret)) as bot:
        at.page.reload()
        at.press(at.link(f"eve · flood {at.mine} has made", exact=False))
        expect(at.page.locator("[data-caller-use]")).to_contain_text("1,000")
        at.hands.press(at.page.locator("[data-sure]"))
        at.press(at.button("Revoke the key"))
        expect(at.page.locator("body")).to_contain_text("was revoked")
        assert bot.post(bot.request_message("ping")).status == 401


@task(4)
def download_the_calls_of_each_client_this_week(at: Operator) -> None:
    at.follow("Figures", "Last 7 days", "By client")
    with at.page.expect_download() as got:
        at.hands.press(at.link("Download CSV"))
    assert got.value.suggested_filename.startswith("calls-by-client-")
    rows = list(csv.DictReader(Path(got.value.path()).read_text().splitlines()))
    (orion,) = [row for row in rows if row["Client"] == "Orion Desktop"]
    assert float(orion["Total time (s)"]) > 0
    assert int(orion["Data (bytes)"]) > 0
    assert orion["From"] < orion["To"]
    assert orion["Time zone"]


@task(3)
def download_the_calls_of_one_client_this_week(at: Operator) -> None:
    at.follow("Orion Desktop", "Last 7 days")
    with at.page.expect_download() as got:
        at.hands.press(at.link("Download CSV"))
    rows = list(csv.DictReader(Path(got.value.path()).read_text().splitlines()))
    assert {row["Client"] for row in rows} == {"Orion Desktop"}
    assert [row["User"] for row in rows] == ["root · desk"]


@task(5)
def export_and_see_what_an_import_would_change(at: Operator) -> None:
    at.follow("Tools")
    with at.page.expect_download() as got:
        at.hands.press(at.link("Export JSON"))
    file = at.folder / "catalogue.json"
    file.write_text(Path(got.value.path()).read_text().replace("a mistake", "no mistake"))
    at.press(at.link("Import…"))
    at.hands.upload(at.page.locator("input[type=file]"), file)
    at.press(at.button("Preview changes"))
    expect(
        at.page.get_by_role("button", name="Import all changes").or_(at.page.get_by_text("No changes"))
    ).to_be_visible()


@task(1)
def see_what_each_worker_does(at: Operator) -> None:
    at.follow("Figures")
    expect(at.page.get_by_role("heading", name="Workers")).to_be_visible()
    expect(at.page.locator("[data-name='Running now']").first).to_be_visible()


@task(2)
def examine_the_installation(at: Operator) -> None:
    at.follow("Doctor")
    at.hands.press(at.button("Run checks"))
    expect(at.page.locator("[data-doctor-result]")).to_be_visible(timeout=SLOW)


@task(2)
def connect_a_program(at: Operator) -> None:
    at.follow("Connect a client")
    at.hands.press(at.link("Cursor"))
    expect(at.page.locator("#cursor")).to_be_in_viewport()
    expect(at.page.locator("#cursor a.mcp-primary")).to_be_visible()


@task(2)
def read_the_p95_of_this_week(at: Operator) -> None:
    at.follow("Figures", "Last 7 days")
    row = at.page.locator("tr", has=at.page.get_by_role("rowheader", name="count", exact=True))
    expect(row.locator("[data-name=p95]")).to_contain_text("s")


@task(7)
def save_a_search_and_open_it_again(at: Operator) -> None:
    at.follow("Log")
    at.hands.write(at.page.locator("#mcp-search"), "tool:calculate status:error")
    expect(at.page.locator("#mcp-hits")).to_contain_text("match", timeout=SLOW)
    at.hands.press(at.page.locator("summary", has_text="Save this search"))
    at.hands.write(at.page.locator("#mcp-search-name"), f"wrong sums {at.mine}")
    at.press(at.button("Save"))
    expect(at.page.locator("#mcp-search")).to_have_value("tool:calculate status:error")
    at.follow("Log", f"wrong sums {at.mine}")
    expect(at.page.locator("#mcp-search")).to_have_value("tool:calculate status:error")
    expect(at.lines("Division by zero has no value.").first).to_be_visible(timeout=SLOW)


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """Start one server for all tasks, with their rows."""
    with peopled(web_processes=1, settings="tests.browser.crash_settings", crashes=True) as live:
        yield live


@pytest.fixture(scope="module")
def secret(server: LiveServer) -> str:
    """Return the key of the clients; the rows are created with it."""
    found: str = json.loads(server.shell(ROWS).strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def orion(server: LiveServer, secret: str) -> Iterator[Mcp]:
    """Return a client with a failed call, a slow call and a pending call."""
    with closing(_client(server, "Orion Desktop", secret)) as made:
        made.tool("calculate", expression="1/0")
        made.tool("customer", number="nine")
        made.tool("customer", number="C-9")
        made.tool("count", to=3, delay_seconds=0.4)
        with made.open_call("tools/call", {"name": "waits_first", "arguments": {"to": 2}}) as waits:
            waits.cut()
        made.tool("echo", text="stored")
        stored = "from mcp_app.models import ErrorGroup; print(ErrorGroup.objects.count())"
        eventually(lambda: server.shell(stored).strip().endswith("3"), 60, "the errors are stored")
        yield made


@pytest.fixture(scope="module")
def visit_here(chromium: Browser, server: LiveServer, secret: str) -> Iterator[Visit]:
    """Return a factory of pages as the superuser."""
    base = f"http://127.0.0.1:{server.port}"
    with opened_pages(chromium, base, {"root": sign_in(chromium, base, "root")}) as start:
        yield start


@pytest.mark.parametrize("hands", [Mouse, Keys], ids=lambda hands: hands.name)
@pytest.mark.parametrize("name", TASKS)
def test_task_is_done_from_the_first_page_within_its_presses(
    name: str,
    hands: type[Mouse],
    server: LiveServer,
    orion: Mcp,
    secret: str,
    visit_here: Visit,
    tmp_path: Path,
) -> None:
    most, work = TASKS[name]
    visitor = visit_here()
    at = Operator(visitor, hands(visitor.page), server, orion, secret, tmp_path)
    work(at)
    # The keyboard reaches a field that the mouse has to press; other presses are equal.
    assert at.hands.presses <= most, f"{name} took {at.hands.presses} presses"
    assert visitor.trouble == []
    visitor.page.context.close()


def test_half_of_the_tasks_take_three_presses_or_fewer() -> None:
    assert len(TASKS) >= 24
    assert median_low(presses for presses, _ in TASKS.values()) <= MOST_IN_THE_MIDDLE


def test_question_mark_shows_the_keyboard_shortcuts(visit_here: Visit) -> None:
    visitor = visit_here()
    page = visitor.goto("/admin/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("search field of this page")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    visitor.goto("/admin/mcp_app/message/?live=1")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("select the next or previous message")
    page.keyboard.press("Escape")
    assert visitor.trouble == []
