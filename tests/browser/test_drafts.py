"""Pages of drafts and history: in every look, and by the keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit, picture
from tests.servers.live import LiveServer

SHOWN = """
from django.contrib.auth import get_user_model
from mcp_app.catalogue.changes import drafts, services
from mcp_app.models import CatalogueChange, Draft, Prompt, Tool
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE
root = get_user_model().objects.get(username="root")
text = "You review code.\\n\\nLook at {{code}}.\\nBe kind.\\nName the line of each fault.\\n"
code = [{"name": "code"}]
row = services.save_prompt(actor=root, name="review", template=text, arguments=code, title="Check")
services.save_prompt(actor=root, entry=row, title="Review code", why="as people call it")
new = text.replace("Be kind.", "Be kind and short.\\nBegin with the worst.")
drafts.save_draft(kind=Prompt, actor=root, entry=row, template=new, meta={"example.com/team": "core"},
                  enabled=False, note="answers were too long")
services.save_prompt(actor=root, entry=row, description="For reviewers.", why="nobody knew what it is for")
drafts.save_draft(kind=Prompt, actor=root, name="weekly_report", template="Report on {{week}}.",
                  title="Weekly", arguments=[{"name": "week", "required": True}], note="for the meeting")
echo = Tool.objects.get(name="echo")
drafts.save_draft(kind=Tool, actor=root, entry=echo, title=HOSTILE["bidi"], description=ALL_HOSTILE,
                  note=ALL_HOSTILE[:400])
who = [{"name": "who"}]
gone = services.save_prompt(actor=root, name="farewell", template="Bye, {{who}}.", arguments=who)
services.delete_entry(entry=gone, actor=root, why="nobody used it")
change = CatalogueChange.objects.latest("id").pk
first = CatalogueChange.objects.filter(key="review").earliest("id").pk
print(f"{row.pk} {Draft.objects.get(key='weekly_report').pk} {echo.pk} {change} {first} "
      f"{Draft.objects.get(key='review').pk}")
"""


@pytest.fixture(scope="module")
def pages(site: LiveServer) -> dict[str, str]:
    """Return the pages of drafts and history by a short name."""
    prompt, new, echo, gone, first, draft = site.shell(SHOWN).strip().splitlines()[-1].split()
    base = "/admin/mcp_app"
    return {
        "drafts-list": f"{base}/draft/",
        "drafts-entries": f"{base}/prompt/",
        "drafts-entry": f"{base}/prompt/{prompt}/change/",
        "drafts-edit": f"{base}/prompt/{prompt}/change/?draft={draft}",
        "drafts-new": f"{base}/draft/{new}/change/",
        "drafts-hostile": f"{base}/tool/{echo}/change/",
        "drafts-history": f"{base}/prompt/{prompt}/history/",
        "drafts-roll-back": f"{base}/prompt/roll-back/{first}/",
        "drafts-deleted": f"{base}/prompt/deleted/",
        "drafts-past": f"{base}/prompt/deleted/{gone}/",
        "drafts-restore": f"{base}/prompt/roll-back/{gone}/",
    }


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1440), ("dark", 390), ("dark", 1440), ("light", 390)]
)
def test_draft_pages_fit_and_escape_hostile_text(
    scheme: str, width: int, visit: Visit, pages: dict[str, str]
) -> None:
    visitor = visit(scheme=scheme, width=width)
    for name, path in pages.items():
        page = visitor.goto(path)
        wide, window, pwned = page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth, window.pwned ?? null]"
        )
        picture(page, f"{name}-{scheme}-{width}")
        assert wide <= window, f"{name} is {wide} px wide in a window of {window}"
        assert pwned is None, f"{name} executed stored text"
        assert visitor.trouble == [], name


def test_discarding_a_draft_asks_and_names_the_lost_fields(visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit()
    page = visitor.goto(pages["drafts-new"])
    page.get_by_role("button", name="Discard").click()
    question = page.get_by_role("alertdialog")
    expect(question).to_contain_text("Discard the new prompt weekly_report?")
    picture(page, "drafts-discard-light-1440")
    question.get_by_role("button", name="Keep it").click()
    page = visitor.goto(pages["drafts-entry"])
    page.get_by_role("button", name="Discard").click()
    expect(question).to_contain_text("The changes to enabled, meta, template are deleted permanently")
    question.get_by_role("button", name="Keep it").click()
    page = visitor.goto(pages["drafts-new"])
    page.get_by_role("button", name="Discard").click()
    question.get_by_role("button", name="Discard the draft").click()
    page.wait_for_url("**/admin/mcp_app/draft/")
    expect(page.locator("body")).to_contain_text("Discarded the draft of weekly_report.")
    assert visitor.trouble == []


def test_enter_saves_a_draft_and_never_publishes(visit: Visit, pages: dict[str, str]) -> None:
    visitor = visit()
    page = visitor.goto(pages["drafts-entry"])
    page.fill("#id_title", "Typed")
    page.press("#id_title", "Enter")
    page.wait_for_url("**/admin/mcp_app/prompt/")
    row = page.locator("#result_list tr", has_text="review").filter(has_text="Typed")
    expect(row).to_contain_text("draft")
    assert visitor.trouble == []
