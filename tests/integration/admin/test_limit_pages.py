"""Pages of limits: add, preview, what is used, which limit holds, reset."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from mcp_app.admin.callers import limit_words
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes.services import save_entry
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.database import clock
from mcp_app.limits import current, usage
from mcp_app.limits.notation import amounts_text
from mcp_app.limits.rules import BUDGET, Bucket, Period
from mcp_app.limits.services import save_rule
from mcp_app.models import AuditEvent, LimitRule, LimitUsage, Message, Tool
from mcp_app.oauth.models import Client as OAuthClient

pytestmark = pytest.mark.django_db
ADD = "admin:mcp_app_limitrule_add"
REQUEST = {"origin": "http://127.0.0.1:1", "method": "GET", "path": "/"}
FORM = {
    "name": "calm", "who": "user", "who_value": "*", "what": "everything", "what_value": "", "rate": "2",
    "rate_period": "hour", "burst": "", "concurrent": "", "budget": "", "budget_unit": "calls",
    "budget_period": "month", "mode": "enforce", "enabled": "on",
}  # fmt: skip


def url(view: str, row: LimitRule) -> str:
    return reverse(f"admin:mcp_app_limitrule_{view}", args=[row.pk])


def client_of(django_user_model: Any, *permissions: str) -> Client:
    person = django_user_model.objects.create_user("person", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(person)
    return client


def test_limit_is_added_by_the_form_and_shown(admin_client: Client, admin_user: Any) -> None:
    added = admin_client.post(reverse(ADD), FORM)
    row = LimitRule.objects.get()
    assert added.url == url("change", row)
    page = admin_client.get(added.url)
    assert page.context["who"] == "each user"
    assert "no-store" in page.headers["Cache-Control"]
    changed = admin_client.post(url("settings", row), {**FORM, "rate": "9", "burst": "3"})
    assert changed.status_code == 302
    row.refresh_from_db()
    assert (row.rate, row.burst, row.updated_by) == (9, 3, admin_user)
    assert admin_client.get(reverse("admin:mcp_app_limitrule_changelist")).status_code == 200


def test_exempt_callers_are_shown_and_kept_by_the_form(admin_client: Client, admin_user: Any) -> None:
    names = [f"user:{admin_user.get_username()}"]
    admin_client.post(reverse(ADD), {**FORM, "exempt": "\n".join(names)})
    row = LimitRule.objects.get()
    assert row.exempt == [f"user:{admin_user.pk}"]
    assert admin_client.get(url("change", row)).context["exempt"] == names[0]
    assert admin_client.get(url("settings", row)).context["form"]["exempt"].value() == names[0]
    preview = admin_client.post(url("settings", row), {**FORM, "exempt": names[0], "preview": "1"})
    assert preview.context["preview"].calls == 0
    assert admin_client.get(reverse("admin:mcp_app_limitrule_changelist")).status_code == 200


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"who_value": "nobody"}, "who_value"),
        ({"who": "group", "who_value": "nobody"}, "who_value"),
        ({"who": "key", "who_value": "999999"}, "who_value"),
        ({"who": "client", "who_value": "999999"}, "who_value"),
        ({"who": "client", "who_value": "claude"}, "who_value"),
        ({"exempt": "user:nobody"}, "exempt"),
        ({"rate": ""}, "rate"),
        ({"name": "A b"}, "name"),
    ],
)
def test_wrong_form_states_the_field(values: dict[str, str], field: str, admin_client: Client) -> None:
    page = admin_client.post(reverse(ADD), {**FORM, **values})
    assert list(page.context["form"].errors) == [field]
    assert not LimitRule.objects.exists()


def test_too_small_number_has_a_plain_message(admin_client: Client) -> None:
    page = admin_client.post(reverse(ADD), {**FORM, "burst": "0"})
    assert page.context["form"].errors == {"burst": ["Enter 1 or more."]}


def test_all_errors_are_shown_at_once(admin_client: Client) -> None:
    wrong = {"name": "", "who_value": "nobody", "rate": "-3", "exempt": "user:nobody"}
    form = admin_client.post(reverse(ADD), {**FORM, **wrong}).context["form"]
    assert set(form.errors) == {"name", "who_value", "rate", "exempt"}
    assert len(form.errors["rate"]) == 1


def test_form_offers_the_names_that_its_user_may_view(
    admin_client: Client, admin_user: Any, django_user_model: Any
) -> None:
    Group.objects.create(name='Ops "& friends')
    key, _ = issue_api_key(user=admin_user, name="laptop")
    client = OAuthClient.objects.create(name="Editor", client_type="public")
    page = admin_client.get(reverse(ADD))
    offered = {each.key: dict(each.names) for each in page.context["form"].offered}
    assert offered["user"] == {admin_user.get_username(): ""}
    assert offered["group"]['Ops "& friends'] == ""
    assert offered["key"] == {str(key.pk): f"laptop of {admin_user}"}
    assert offered["client"] == {str(client.pk): "Editor"}
    text = page.content.decode()
    assert re.search(r'<input [^>]*name="who_value"[^>]* list="mcp-names-user"', text)
    assert f'<option value="{key.pk}" label="laptop of {admin_user}"></option>' in text
    group = admin_client.post(reverse(ADD), {**FORM, "who": "member", "who_value": "x"}).content.decode()
    assert re.search(r'<input [^>]*name="who_value"[^>]* list="mcp-names-group"', group)
    other = client_of(django_user_model, "view_limitrule", "add_limitrule")
    assert other.get(reverse(ADD)).context["form"].offered == []


def test_preview_counts_what_the_last_week_would_have_refused(
    admin_client: Client, django_user_model: Any
) -> None:
    now = clock.utcnow()
    eve = django_user_model.objects.create_user("eve")
    times = [(eve.pk, minutes) for minutes in range(5)] + [(0, 1)] + [(eve.pk, 60 * 24 * 9)]
    for pk, minutes in reversed(times):
        Message.objects.create(
            at=now - timedelta(minutes=minutes + 1), direction="in", kind="request", method="tools/call",
            target="search", outcome="ok", principal=f"user:{pk}/key:1", duration_ms=5.0,
        )  # fmt: skip
    for minutes in reversed(range(3)):
        Message.objects.create(
            at=now - timedelta(minutes=minutes + 1), direction="in", kind="request", method="tools/call",
            target="search", outcome="ok", principal="loopback", duration_ms=5.0,
        )  # fmt: skip
    page = admin_client.post(reverse(ADD), {**FORM, "preview": "1"})
    found = page.context["preview"]
    assert (found.calls, found.refused) == (9, 4)
    assert page.context["subjects"] == [("eve", 3), ("local user", 1)]
    assert not LimitRule.objects.exists()


def test_page_shows_use_refusals_and_limits_that_hold(admin_client: Client, admin_user: Any) -> None:
    each = save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    own = save_rule(
        actor=None, name="own", who="user", who_value=admin_user.get_username(), budget=20, mode="enforce"
    )
    current.load()
    bucket = Bucket(current.rule_of(each), BUDGET, f"user:{admin_user.pk}")
    usage.note_spent(bucket, Period.at("month", clock.utcnow()).start, 7)
    usage.note_refused(bucket)
    usage.store()
    page = admin_client.get(url("change", each))
    (row,) = page.context["fills"]
    assert (row["used"], row["most"], row["percent"], row["refused"]) == (7, 10, 70, 1)
    assert row["refused_at"]
    assert row["name"] == admin_user.get_username()
    page = admin_client.get(url("change", own))
    effects = {found["limit"]: found["instead"] for found in page.context["holding"]}
    assert effects == {"own": "", "each": "own"}
    listed = admin_client.get(reverse("admin:mcp_app_limitrule_changelist"))
    assert [found["limit"] for found in listed.context["refused"]] == ["each"]


def test_operator_resets_and_may_not_change(django_user_model: Any) -> None:
    row = save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    LimitUsage.objects.create(
        rule=row, subject="user:1", measure=BUDGET, period_start=clock.utcnow(), units=9
    )
    operator = client_of(django_user_model, "view_limitrule", "reset_limit")
    assert operator.post(url("reset", row), {"subject": "user:1"}).status_code == 302
    assert not LimitUsage.objects.exists()
    event = AuditEvent.objects.get(action="limit.reset")
    assert (event.actor_name, event.detail) == ("person", {"subject": "user:1"})
    for view, sent in (("settings", FORM), ("remove", {})):
        assert operator.post(url(view, row), sent).status_code == 403
    assert operator.get(url("reset", row)).status_code == 405
    assert LimitRule.objects.exists()


def test_limit_is_deleted_with_its_use(admin_client: Client) -> None:
    row = save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    LimitUsage.objects.create(rule=row, subject="x", measure=BUDGET, period_start=clock.utcnow())
    assert admin_client.post(url("remove", row)).status_code == 302
    assert not LimitUsage.objects.exists()


def test_hostile_names_are_escaped(admin_client: Client) -> None:
    hostile = "<script>x</script>"
    save_rule(actor=None, name="t", who="installation", what="tool", what_value=hostile, rate=1)
    for path in (reverse("admin:mcp_app_limitrule_changelist"), url("change", LimitRule.objects.get())):
        assert hostile not in admin_client.get(path).content.decode()


def test_pages_of_user_and_key_show_what_is_used(admin_client: Client, admin_user: Any) -> None:
    key, _ = issue_api_key(user=admin_user, name="laptop")
    save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    save_rule(actor=None, name="by-key", who="key", who_value=str(key.pk), concurrent=3)
    current.load()
    page = admin_client.get(reverse("admin:auth_user_change", args=[admin_user.pk]))
    assert [row["limit"] for row in page.context["fills"]] == ["each"]
    page = admin_client.get(reverse("admin:mcp_app_apikey_change", args=[key.pk]))
    assert [row["limit"] for row in page.context["fills"]] == ["by-key", "each"]


def test_user_who_may_not_view_limits_sees_none_on_other_pages(django_user_model: Any) -> None:
    client = client_of(django_user_model, "view_user")
    save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    current.load()
    person = django_user_model.objects.get(username="person")
    page = client.get(reverse("admin:auth_user_change", args=[person.pk]))
    assert page.context["fills"] == []


def test_page_of_a_tool_lists_its_limits(admin_client: Client, django_user_model: Any) -> None:
    tool = save_entry(kind=Tool, actor=None, source=HTTP, name="web", request=REQUEST)
    save_rule(actor=None, name="one", who="installation", what="tool", what_value="web", rate=1)
    save_rule(actor=None, name="other", who="installation", what="tool", what_value="x", rate=1)
    current.load()
    address = reverse("admin:mcp_app_tool_change", args=[tool.pk])
    assert [each["name"] for each in admin_client.get(address).context["rules"]] == ["one"]
    page = client_of(django_user_model, "view_tool").get(address)
    assert page.context["rules"] == []


@pytest.mark.parametrize(
    ("who", "value", "words"),
    [
        ("installation", "", "all callers together"),
        ("group", "editors", "members of editors together"),
        ("member", "editors", "each member of editors"),
        ("user", "person", "user person"),
        ("user", "*", "each user"),
        ("key", "*", "each API key"),
        ("client", "7", "OAuth client 7"),
        ("address", "10.0.0.0/8", "address 10.0.0.0/8"),
    ],
)
def test_callers_of_a_limit_are_in_the_words_of_its_form(who: str, value: str, words: str) -> None:
    assert limit_words.callers([LimitRule(who=who, who_value=value)]) == [words]


def test_limit_of_a_key_names_the_key(admin_client: Client, admin_user: Any) -> None:
    key, _ = issue_api_key(user=admin_user, name="laptop")
    row = save_rule(actor=None, name="k", who="key", who_value=str(key.pk), rate=9, rate_period="hour")
    current.load()
    page = admin_client.get(url("change", row))
    assert page.context["who"] == f"API key laptop ({admin_user})"
    assert (page.context["what"], page.context["amounts"]) == ("all tools", "9 calls per hour")
    listed = admin_client.get(reverse("admin:mcp_app_limitrule_changelist"))
    assert page.context["who"] in listed.content.decode()


def test_unused_limit_shows_neither_a_time_nor_other_limits(admin_client: Client, admin_user: Any) -> None:
    name = admin_user.get_username()
    row = save_rule(actor=None, name="own", who="user", who_value=name, budget=20)
    current.load()
    page = admin_client.get(url("change", row))
    assert [(each["refused"], each["refused_at"]) for each in page.context["fills"]] == [(0, "")]
    assert page.context["holding"] == []


def test_pages_of_callers_lead_to_the_form_of_their_limit(admin_client: Client, admin_user: Any) -> None:
    key, _ = issue_api_key(user=admin_user, name="Night job")
    group = Group.objects.create(name="Editors & co")
    tool = save_entry(kind=Tool, actor=None, source=HTTP, name="echo", request=REQUEST)
    name = admin_user.get_username()
    for page, initial in (
        (reverse("admin:auth_user_change", args=[admin_user.pk]), ("user", name, "everything", "", name)),
        (
            reverse("admin:mcp_app_apikey_change", args=[key.pk]),
            ("key", str(key.pk), "everything", "", "night-job"),
        ),
        (
            reverse("admin:auth_group_change", args=[group.pk]),
            ("member", "Editors & co", "everything", "", "editors-co"),
        ),
        (reverse("admin:mcp_app_tool_change", args=[tool.pk]), ("user", "*", "tool", "echo", "echo")),
    ):
        (address,) = re.findall(rf'href="({reverse(ADD)}\?[^"]+)"', admin_client.get(page).content.decode())
        form = admin_client.get(unescape(address)).context["form"]
        fields = ("who", "who_value", "what", "what_value", "name")
        assert tuple(form[field].value() or "" for field in fields) == initial, page


def test_user_who_may_not_add_limits_has_no_link_to_the_form(django_user_model: Any) -> None:
    client = client_of(django_user_model, "view_user", "view_limitrule")
    person = django_user_model.objects.get()
    page = client.get(reverse("admin:auth_user_change", args=[person.pk]))
    assert reverse(ADD) not in page.content.decode()


def test_unknown_values_of_a_link_leave_the_form_empty(admin_client: Client) -> None:
    form = admin_client.get(reverse(ADD), {"who": "x", "who_value": "y" * 151, "name": "A B"}).context["form"]
    assert [form[name].value() or "" for name in ("who", "who_value")] == ["user", ""]


def test_use_of_all_limits_is_listed_the_fullest_first(admin_client: Client, django_user_model: Any) -> None:
    live = reverse("admin:mcp_app_limitrule_parts")
    each = save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    whole = save_rule(actor=None, name="whole", who="installation", budget=10)
    save_rule(actor=None, name="idle", who="installation", budget=10)
    current.load()
    for row, subject, units in ((each, "user:1", 4), (each, "user:2", 9), (whole, "all", 5)):
        bucket = Bucket(current.rule_of(row), BUDGET, subject)
        usage.note_spent(bucket, Period.at("month", clock.utcnow()).start, units)
    usage.note_refused(bucket)
    usage.store()
    answer = admin_client.get(live)
    used = [(row["limit"], row["subject"], row["used"]) for row in answer.context["used"]]
    assert used == [("each", "user:2", 9), ("whole", "all", 5), ("each", "user:1", 4)]
    assert [row["limit"] for row in answer.context["refused"]] == ["whole"]
    assert "no-store" in answer.headers["Cache-Control"]
    one = reverse("admin:mcp_app_limitrule_row_parts", args=[each.pk])
    assert {row["used"] for row in admin_client.get(one).context["fills"]} == {4, 9}
    assert f'data-dashboard="{one}"' in admin_client.get(url("change", each)).content.decode()
    listed = admin_client.get(reverse("admin:mcp_app_limitrule_changelist"))
    assert f'data-dashboard="{live}"' in listed.content.decode()
    assert len(listed.context["used"]) == 3
    stranger = client_of(django_user_model, "view_tool")
    assert [stranger.get(address).status_code for address in (live, one)] == [403, 403]


def test_pages_of_tools_and_clients_show_what_is_used(admin_client: Client) -> None:
    tool = save_entry(kind=Tool, actor=None, source=HTTP, name="search", request=REQUEST)
    client = OAuthClient.objects.create(client_id="c", name="Client")
    rules = [
        save_rule(actor=None, name="calm", who="installation", what="tool", what_value="search", budget=10),
        save_rule(actor=None, name="app", who="client", who_value=str(client.pk), budget=20),
    ]
    current.load()
    for row, subject in zip(rules, ("all", f"client:{client.pk}"), strict=True):
        bucket = Bucket(current.rule_of(row), BUDGET, subject)
        usage.note_spent(bucket, Period.at("month", clock.utcnow()).start, 7)
    usage.store()
    limits = admin_client.get(reverse("admin:mcp_app_tool_change", args=[tool.pk])).context["rules"]
    fills = {each["name"]: each["fill"] for each in limits}
    assert (fills["calm"]["used"], fills["calm"]["most"], fills["calm"]["percent"]) == (7, 10, 70)
    shown = admin_client.get(reverse("admin:mcp_oauth_client_change", args=[client.pk]))
    found = {row["limit"]: row["used"] for row in shown.context["fills"]}
    assert found == {"calm": 7, "app": 7}
    assert 'data-used="7"' in shown.content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 1, "rate_period": "minute"}, "1 call per minute"),
        ({"rate": 1_000, "rate_period": "hour"}, "1,000 calls per hour"),
        ({"concurrent": 1}, "1 concurrent call"),
        ({"budget": 1, "budget_unit": "cost", "budget_period": "month"}, "budget of 1 cost unit per month"),
        ({"budget": 2, "budget_unit": "calls", "budget_period": "day"}, "budget of 2 calls per day"),
    ],
)
def test_amounts_are_in_the_singular_or_plural(changes: dict[str, Any], words: str) -> None:
    assert amounts_text(LimitRule(**changes)) == words
