"""Every admin page, light and dark, wide and narrow: nothing broken, nothing executed; pictures are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import node
from tests.browser.axe import program, violations
from tests.browser.conftest import Visit, picture
from tests.live import LiveServer


@pytest.fixture(scope="module")
def pages(site: LiveServer) -> dict[str, str]:
    """Every page by a short name; keys are looked up where the rows are."""
    code = """
import json
from django.contrib.auth import get_user_model
from mcp_app.models import *
for owner, name, text in (("root", "Slow today", "ms:>1s since:today"),
                          ("root", "w" * 80, "status:error " + "x" * 200),
                          ("viewer", "<script>pwned=1</script>", '"<script>pwned=1</script>"')):
    SavedSearch.objects.create(user=get_user_model().objects.get(username=owner), name=name, text=text,
                               shared=owner != "root")
tool, prompt, resource, key = Tool.objects, Prompt.objects, Resource.objects, ApiKey.objects
print(json.dumps({
    "tool": [("code", tool.get(name="echo").pk), ("drift", tool.get(name="web_scrape").pk),
             ("preset", tool.get(name="greet_world").pk), ("hostile", tool.get(source="upstream").pk)],
    "prompt": [("own", prompt.get(name="summarise").pk), ("code", prompt.get(name="code_review").pk)],
    "resource": [("own", resource.get(source="admin").pk), ("code", resource.get(source="code").pk)],
    "resourcetemplate": [("code", ResourceTemplate.objects.get().pk)],
    "apikey": [("own", key.get(name="laptop").pk), ("hostile", key.get(prefix="<b>mcp_x").pk)],
    "session": [("own", f"{0:032x}"), ("hostile", f"{9:032x}")],
    "message": [("own", Message.objects.filter(request_id="63").get().pk),
                ("hostile", Message.objects.filter(kind="<b>x</b>").get().pk)],
    "call": [("own", Call.objects.get(retry_of=None, tool="echo").pk.hex),
             ("running", Call.objects.get(tool="count", state="running").pk.hex),
             ("hostile", Call.objects.get(outcome="error").pk.hex),
             ("undecided", Call.objects.get(tool="discard").pk.hex),
             ("hostile-undecided", Call.objects.get(four_eyes=True).pk.hex)],
    "approval": [],
    "error": [(name, ErrorGroup.objects.filter(words__startswith=words).first().pk)
              for name, words in (("own", "Shelf"), ("hostile", "<script>"))],
    "auditevent": [("hostile", AuditEvent.objects.latest("pk").pk)],
}))
"""
    rows: dict[str, Any] = json.loads(site.shell(code).strip().splitlines()[-1])
    found = {
        "index": "/admin/",
        "index-week": "/admin/?range=week",
        "searches": "/admin/mcp_app/message/searches/",
        "errors": "/admin/mcp_app/message/errors/?show=all",
        **{f"error-{name}": f"/admin/mcp_app/message/errors/{pk}/" for name, pk in rows.pop("error")},
        **{
            f"figures-{by}": f"/admin/mcp_app/message/figures/?by={by}&range=week"
            for by in ("tool", "client", "principal", "time")
        },
        "users": "/admin/auth/user/",
        "groups": "/admin/auth/group/",
        "doctor": "/admin/mcp_app/doctor/",
    }
    for model, named in rows.items():
        found[f"{model}-list"] = f"/admin/mcp_app/{model}/"
        for name, pk in named:
            found[f"{model}-{name}"] = f"/admin/mcp_app/{model}/{pk}/change/"
        if model in ("tool", "prompt", "resource", "apikey"):
            found[f"{model}-add"] = f"/admin/mcp_app/{model}/add/"
    echo, own = f"/admin/mcp_app/tool/{rows['tool'][0][1]}", f"/admin/mcp_app/prompt/{rows['prompt'][0][1]}"
    return found | {
        "tool-history": f"{echo}/history/",
        "tool-bench": f"{echo}/try/",
        "tool-callers": f"{echo}/callers/",
        "tool-deleted": "/admin/mcp_app/tool/deleted/",
        "tool-import": "/admin/mcp_app/tool/import/",
        "prompt-bench": f"{own}/try/",
        "prompt-callers": f"{own}/callers/",
        "prompt-delete": f"{own}/delete/",
        "draft-list": "/admin/mcp_app/draft/",
        "app": "/admin/mcp_app/",
        "password": "/admin/password_change/",
        "console": "/console/",
        "console-messages": "/console/messages/",
        "console-session": f"/console/sessions/{0:032x}/",
    }


@pytest.fixture(scope="module")
def axe() -> bool:
    """Whether pages can be read by axe, whose package may be out of reach."""
    try:
        return bool(program())
    except node.NodeUnavailable:
        return False


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_broken_and_axe_finds_nothing(
    scheme: str, width: int, visit: Visit, pages: dict[str, str], axe: bool
) -> None:
    visitor = visit(scheme=scheme, width=width)
    wrong: dict[str, list[str]] = {}
    for name, path in pages.items():
        page = visitor.goto(path)
        wide, window, pwned = page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth, window.pwned ?? null]"
        )
        picture(page, f"{name}-{scheme}-{width}")
        assert wide <= window, f"{name} is {wide} px wide in a window of {window}"
        assert pwned is None, f"{name} executed stored text"
        assert visitor.trouble == [], name
        if axe and (found := violations(page)):
            wrong[name] = found
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_page_is_not_broken(scheme: Any, base: str, visit: Visit) -> None:
    visitor = visit(scheme=scheme)
    visitor.page.context.clear_cookies()
    page = visitor.goto("/admin/login/")
    picture(page, f"login-{scheme}-1440")
    assert visitor.trouble == []


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_connect_page_is_not_broken_and_copies(scheme: Any, width: int, base: str, visit: Visit) -> None:
    visitor = visit(scheme=scheme, width=width, permissions=["clipboard-read", "clipboard-write"])
    visitor.page.context.clear_cookies()
    page = visitor.goto("/connect/")
    picture(page, f"connect-{scheme}-{width}")
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window, f"{wide} px wide in a window of {window}"
    page.click("[data-copy=endpoint]")
    page.wait_for_selector("[data-copy=endpoint]:text-is('Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == f"{base}/mcp"
    assert visitor.trouble == []


def test_the_connect_page_is_whole_without_scripts(visit: Visit) -> None:
    visitor = visit(width=390, java_script_enabled=False)
    answer = visitor.page.goto(f"{visitor.base}/connect/")
    assert answer is not None
    assert answer.status == 200
    assert visitor.page.locator("pre").count() > 10
    assert visitor.page.locator("button:visible").count() == 0
    assert visitor.trouble == []


def test_text_that_got_into_a_page_as_markup_would_run_nothing(visit: Visit) -> None:
    page = visit().goto("/admin/")
    # No page is reported by the site's policy (above); here it shows that it would.
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<svg onload=window.pwned=3>')")
    assert page.evaluate("window.pwned ?? null") is None


def test_a_viewer_meets_no_button_that_acts(visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit(role="viewer")
    for name in (
        "tool-list",
        "tool-drift",
        "apikey-own",
        "session-own",
        "session-list",
        "call-running",
        "call-own",
        "call-undecided",
        "approval-list",
    ):
        page = visitor.goto(pages[name])
        for selector in (".mcp-switch", "[formaction]", ".mcp-danger", "[name=_save]", "[form=mcp-retry]"):
            assert page.locator(selector).count() == 0, (name, selector)
    assert visitor.trouble == []
