"""A limit is previewed, added and watched by keyboard alone, in every look."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser import axe
from tests.browser.conftest import Visit, looks, picture
from tests.browser.hands import Keys
from tests.servers.live import LiveServer

# Another process admits two calls of a user, and refuses one.
USED = """
from mcp_app.limits import current, usage
from mcp_app.limits.rules import RATE, Bucket
from mcp_app.models import LimitRule
from mcp_app.streams.blocking import limits
bucket = Bucket(current.rule_of(LimitRule.objects.get(name="calm")), RATE, "user:1")
limits.lease(bucket.key, bucket.rule.emission, bucket.burst, 2)
usage.note_refused(bucket)
usage.store()
"""
# The group of a limit is deleted. The limit exempts the visitor.
LOST = """
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from mcp_app.limits.services import save_rule
group = Group.objects.create(name="Interns")
visitor = get_user_model().objects.get(pk=1).get_username()
save_rule(actor=None, name="lost", who="group", who_value="Interns", rate=1, exempt=[f"user:{visitor}"])
group.delete()
"""


def test_limit_is_added_and_its_use_shown_by_keyboard_alone(visit_near: Visit, near: LiveServer) -> None:
    visitor = visit_near()
    page = visitor.goto("/admin/mcp_app/limitrule/")
    keys = Keys(page)
    keys.press(page.locator("#mcp-add-limit"))
    keys.write(page.locator("#id_name"), "calm")
    keys.write(page.locator("#id_who_value"), "*")
    keys.write(page.locator("#id_rate"), "2")
    page.locator("#id_rate_period").select_option("day")
    keys.press(page.locator("#mcp-preview-limit"))
    expect(page.locator("#mcp-limit-preview")).to_be_visible()
    for look in looks(page):
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"limit-form-{look}")
    keys.press(page.locator("#mcp-limit-form button[type=submit]:not([name])"))
    expect(page.locator("#mcp-limit-settings")).to_be_visible()
    near.shell(USED)
    # The page fetches the use again without being loaded anew.
    used = page.locator("tr[data-subject='user:1'][data-measure=rate][data-used='2']")
    expect(used).to_have_count(1, timeout=30_000)
    for look in looks(page):
        wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window, str(look)
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"limit-{look}")
    near.shell(LOST)
    page.goto(page.url.rsplit("/", 3)[0] + "/")
    page.get_by_role("link", name="lost").click()
    expect(page.locator("#mcp-limit-problem")).to_be_visible()
    expect(page.locator("tr[data-subject]")).to_have_count(0)
    for look in looks(page):
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"limit-lost-{look}")
    page.locator("#mcp-limit-settings").click()
    expect(page.locator("#id_exempt")).to_have_value(re.compile("user:.+"))
    page.go_back()
    page.go_back()
    expect(page.locator("[data-part=used] tr[data-subject='user:1']")).to_have_count(1)
    for look in looks(page):
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"limits-{look}")
    page.goto(page.url.partition("/admin/")[0] + "/admin/auth/user/1/change/")
    expect(page.locator("tr[data-subject='user:1'][data-used='2']")).to_have_count(1)
    for look in looks(page):
        assert axe.seen(page, look.rules) == [], str(look)
        picture(page, f"limit-user-{look}")
    for name in ("calm", "lost"):
        near.manage("mcp_limit", "remove", name)
    assert visitor.trouble == []
