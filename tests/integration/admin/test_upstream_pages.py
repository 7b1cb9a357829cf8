"""Pages, API and command of upstream servers: add, choose tools, publish, changes, permissions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from mcp_app.admin.upstreams import tools_page
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.catalogue.upstreams.entries import entries_of, tools_of
from mcp_app.doctor import Installation
from mcp_app.doctor import upstreams as doctor_check
from mcp_app.models import AuditEvent, Draft, Prompt, Resource, ResourceTemplate, Tool, Upstream
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams import health
from tests.servers.sdk_server import SdkServer, sdk_server
from tests.servers.upstream_state import forget_upstreams

pytestmark = pytest.mark.django_db(transaction=True)
ADD = "admin:mcp_app_upstream_add"
FORM = {"era": "auto", "isolation": "session", "timeout_seconds": "60", "enabled": "on"}


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    yield
    forget_upstreams()


@pytest.fixture
def site() -> Iterator[SdkServer]:
    with sdk_server() as found:
        yield found


@pytest.fixture
def crm(site: SdkServer) -> Upstream:
    row = storing.save_upstream(actor=None, name="crm", url=site.url)
    refreshing.refresh(upstream=row, actor=None)
    row.refresh_from_db()
    return row


def url(view: str, row: Upstream) -> str:
    return reverse(f"admin:mcp_app_upstream_{view}", args=[row.pk])


def client_of(django_user_model: Any, *permissions: str) -> Client:
    person = django_user_model.objects.create_user("person", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(person)
    return client


def messages_of(response: Any) -> str:
    return " ".join(str(each) for each in response.context["messages"])


def states(row: Upstream) -> dict[str, str]:
    row.refresh_from_db()
    return {each["name"]: each["state"] for each in tools_page.context_of(row)["listed"]}


@pytest.mark.requirement("INT-60")
def test_server_is_added_and_its_tools_are_published(admin_client: Client, site: SdkServer) -> None:
    added = admin_client.post(reverse(ADD), {**FORM, "name": "crm", "url": site.url}, follow=True)
    row = Upstream.objects.get()
    assert added.redirect_chain[0][0] == url("change", row)
    assert states(row)["search"] == "new"
    saved = admin_client.post(url("select", row), {"tools": ["search", "steps"]}, follow=True)
    assert "Saved 2 drafts" in messages_of(saved)
    assert (states(row)["search"], states(row)["wait"]) == ("draft", "new")
    published = admin_client.post(url("publish", row), follow=True)
    assert "Published as revision" in messages_of(published)
    assert states(row)["search"] == "published"
    assert {tool.name for tool in tools_of(row).values()} == {"crm_search", "crm_steps"}
    listed = admin_client.get(reverse("admin:mcp_app_upstream_changelist")).content.decode()
    assert "CRM" in listed


def test_button_for_drafts_is_shown_while_an_item_can_be_selected(
    admin_client: Client, crm: Upstream
) -> None:
    def button() -> bool:
        return "mcp-save-drafts" in admin_client.get(url("change", crm)).content.decode()

    assert button()
    listed = tools_page.context_of(crm)["listed"]
    admin_client.post(url("select", crm), {"tools": [each["key"] for each in listed]})
    assert set(states(crm).values()) == {"draft"}
    assert not button()


def test_settings_that_few_servers_need_are_folded_away(admin_client: Client, crm: Upstream) -> None:
    def is_open(text: str) -> bool:
        first, _, more = text.partition("<summary>More settings</summary>")
        assert 'id="id_credential"' in first
        assert 'id="id_timeout_seconds"' in more
        return first.endswith(" open>")

    new = reverse(ADD)
    assert not is_open(admin_client.get(new).content.decode())
    assert not is_open(admin_client.post(new, {**FORM, "name": "", "url": crm.url}).content.decode())
    wrong = {**FORM, "name": "other", "url": crm.url, "timeout_seconds": "0"}
    assert is_open(admin_client.post(new, wrong).content.decode())
    assert is_open(admin_client.get(url("settings", crm)).content.decode())


def test_server_that_cannot_be_reached_is_kept_with_the_reason(admin_client: Client) -> None:
    given = {**FORM, "name": "off", "url": "http://127.0.0.1:9/mcp"}
    added = admin_client.post(reverse(ADD), given, follow=True)
    assert "cannot be reached" in messages_of(added)
    assert Upstream.objects.get().listed is None


def test_wrong_form_is_shown_again_with_its_values(admin_client: Client) -> None:
    given = {**FORM, "name": "Bad Name", "url": "ftp://x", "tool_prefix": "a b"}
    page = admin_client.post(reverse(ADD), given)
    assert {"name", "url", "tool_prefix"} <= page.context["form"].errors.keys()
    assert not Upstream.objects.exists()


def test_wrong_name_is_reported_once(admin_client: Client) -> None:
    page = admin_client.post(reverse(ADD), {**FORM, "name": "Bad Name", "url": "https://a.example/mcp"})
    assert set(page.context["form"].errors) == {"name"}


def test_other_url_forgets_the_last_outcome(admin_client: Client, crm: Upstream) -> None:
    fault = {"state": "refused", "kind": "", "text": "is not there", "at": 1.0}
    shared_values.put(health._name(crm.pk), json.dumps(fault).encode(), 60)
    assert ">failing<" in admin_client.get(url("change", crm)).content.decode()
    given = {**FORM, "url": "https://a.example/mcp", "tool_prefix": "crm", "enabled": ""}
    assert admin_client.post(url("settings", crm), given).status_code == 302
    assert health.of(crm.pk).state == "unknown"


def test_empty_list_states_the_purpose_of_its_rows(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:mcp_app_upstream_changelist")).content.decode()
    assert "An upstream server is another MCP server whose tools are offered here." in page


def test_settings_are_changed_and_name_stays(admin_client: Client, crm: Upstream) -> None:
    given = {**FORM, "url": crm.url, "tool_prefix": "sales", "isolation": "shared", "enabled": ""}
    assert admin_client.post(url("settings", crm), given).status_code == 302
    crm.refresh_from_db()
    assert (crm.name, crm.prefix, crm.isolation, crm.enabled) == ("crm", "sales", "shared", False)


def other_search(text: str) -> str:
    """Search customers. <script>pwned=1</script>\u202e"""
    return text


def test_changes_are_shown_marked_and_published(admin_client: Client, crm: Upstream, site: SdkServer) -> None:
    importing.import_items(upstream=crm, keys=["search"], actor=None, publish=True)
    site.replace("search", other_search)
    site.mcp.remove_tool("steps")
    read = admin_client.post(url("refresh", crm), follow=True)
    assert "1 changed" in messages_of(read)
    page = read.content.decode()
    assert 'data-change="search"' in page
    assert "<script>pwned" not in page
    assert "\u202e" not in page
    assert states(crm)["search"] == "held"
    admin_client.post(url("publish", crm))
    assert states(crm)["search"] == "published"


def test_deleted_server_takes_its_tools_along(admin_client: Client, crm: Upstream) -> None:
    importing.import_items(upstream=crm, keys=["search"], actor=None, publish=True)
    admin_client.post(url("remove", crm))
    assert not Upstream.objects.exists()
    assert not Tool.objects.filter(name="crm_search").exists()


VIEW = ("view_upstream",)
CHANGE = (*VIEW, "change_upstream")


@pytest.mark.parametrize(
    ("permissions", "view", "method", "allowed"),
    [
        ((), "change", "get", False),
        (VIEW, "change", "get", True),
        (VIEW, "settings", "get", False),
        (VIEW, "refresh", "post", False),
        (VIEW, "select", "post", False),
        (VIEW, "publish", "post", False),
        (VIEW, "remove", "post", False),
        (CHANGE, "settings", "get", True),
        (CHANGE, "refresh", "post", False),
        ((*CHANGE, "change_tool"), "refresh", "post", True),
        (CHANGE, "select", "post", False),
        ((*CHANGE, "add_tool"), "select", "post", True),
        ((*CHANGE, "add_tool", "change_tool"), "publish", "post", False),
        ((*CHANGE, "add_tool", "change_tool", "publish_entries"), "publish", "post", True),
        ((*VIEW, "delete_upstream"), "remove", "post", False),
        ((*VIEW, "delete_upstream", "delete_tool"), "remove", "post", True),
        ((*CHANGE, "change_tool"), "refresh", "get", False),
    ],
)
def test_each_page_and_button_needs_its_permission(
    django_user_model: Any,
    permissions: tuple[str, ...],
    view: str,
    method: str,
    allowed: bool,
) -> None:
    row = storing.save_upstream(actor=None, name="off", url="http://127.0.0.1:9/mcp")
    client = client_of(django_user_model, *permissions)
    status = getattr(client, method)(url(view, row)).status_code
    assert (status in (200, 302)) is allowed, status


def test_credentials_are_offered_only_to_users_who_may_see_them(django_user_model: Any) -> None:
    from mcp_app.credentials.services import save_credential

    save_credential(
        actor=None, name="key", kind="bearer", secret={"token": "t"}, origins=["http://127.0.0.1:9"]
    )
    client = client_of(django_user_model, *VIEW, "add_upstream")
    page = client.get(reverse(ADD))
    assert page.context["form"].fields["credential"].choices == [("", "none")]
    given = {**FORM, "name": "x", "url": "http://127.0.0.1:9/mcp", "credential": "key"}
    assert "credential" in client.post(reverse(ADD), given).context["form"].errors


# The API and the command.


def test_api_adds_reads_imports_and_deletes(admin_client: Client, site: SdkServer) -> None:
    kind = "application/json"
    made = admin_client.post("/api/upstreams/", {"name": "crm", "url": site.url}, content_type=kind)
    assert (made.status_code, made.json()["tools"]) == (201, [])
    read = admin_client.post("/api/upstreams/crm/refresh/", content_type=kind)
    assert read.json()["tools"] == 7
    done = admin_client.post("/api/upstreams/crm/tools/", {"tools": ["search", "x"]}, content_type=kind)
    assert (done.json()["drafts"], [*done.json()["skipped"]]) == (["crm_search"], ["x"])
    changed = admin_client.patch("/api/upstreams/crm/", {"enabled": False}, content_type=kind)
    assert changed.json()["enabled"] is False
    found = admin_client.get("/api/upstreams/").json()["results"][0]
    assert {each["name"] for each in found["tools"]} >= {"search", "steps"}
    assert admin_client.delete("/api/upstreams/crm/").status_code == 204
    assert not Draft.objects.exists()


def test_api_names_the_fault_of_a_server(admin_client: Client) -> None:
    storing.save_upstream(actor=None, name="off", url="http://127.0.0.1:9/mcp")
    answer = admin_client.post("/api/upstreams/off/refresh/", content_type="application/json")
    assert (answer.status_code, answer.json()["tools"]) == (200, 0)
    assert "cannot be reached" in answer.json()["problem"]


def test_values_in_the_query_of_a_url_are_not_shown(admin_client: Client) -> None:
    key = "k3y-in-the-address"
    row = storing.save_upstream(actor=None, name="off", url=f"http://127.0.0.1:9/mcp?k={key}&r=eu")
    refreshed = admin_client.post(url("refresh", row), follow=True)
    shown = "http://127.0.0.1:9/mcp?k=[redacted]&r=[redacted]"
    pages = {
        "list": admin_client.get(reverse("admin:mcp_app_upstream_changelist")),
        "page": admin_client.get(url("change", row)),
        "API": admin_client.get("/api/upstreams/off/"),
        "search": admin_client.get(reverse("mcp_find"), {"q": "off", "format": "json"}),
    }
    texts = {name: unescape(answer.content.decode()) for name, answer in pages.items()}
    texts |= {"command": run("list"), "audit": str(AuditEvent.objects.get(action="upstream.created").detail)}
    assert {name: text.count(shown) for name, text in texts.items() if shown not in text} == {}
    texts |= {"health": health.of(row.pk).text, "messages": messages_of(refreshed)}
    texts |= {"doctor": str([*doctor_check.available(Installation())])}
    by_value = admin_client.get(reverse("mcp_find"), {"q": key[:12], "format": "json"}).json()["found"]
    assert [found for found in by_value if found["title"] == "off"] == []
    for words, number in ((key[:12], 0), ("127.0.0.1:9/mcp", 1), ("off", 1)):
        found = admin_client.get(reverse("admin:mcp_app_upstream_changelist"), {"q": words})
        assert found.context["cl"].result_count == number, words
    assert [name for name, text in texts.items() if key in text] == []
    with pytest.raises(ValidationError, match="which is not shown"):
        storing.save_upstream(actor=None, upstream=row, url=shown)


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_upstream", *arguments, stdout=out)
    return out.getvalue()


def test_command_adds_lists_refreshes_and_removes(site: SdkServer) -> None:
    added = run("add", "crm", site.url, "--prefix", "sales", "--tool", "s*", "--publish")
    assert "Published 2 entries of crm" in added
    assert Tool.objects.filter(name="sales_search").exists()
    assert "2 entries" in run("list")
    site.replace("search", other_search)
    assert "1 changed" in run("refresh", "crm")
    assert "Removed crm and 2 entries" in run("remove", "crm")
    assert not Draft.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("refresh", "absent"),
        ("remove", "absent"),
        ("add", "Bad Name", "https://x.example/mcp"),
        ("add", "off", "http://127.0.0.1:9/mcp"),
        ("add", "x", "https://x.example/mcp", "--credential", "absent"),
        ("add", "x", "https://x.example/mcp", "--actor", "nobody"),
    ],
)
def test_command_names_the_problem(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        run(*arguments)


def test_pages_of_imported_prompts_and_resources_are_shown(admin_client: Client, crm: Upstream) -> None:
    listed = {**storing.unpacked(crm.listed), "resourceTemplates": [{"uriTemplate": "n://{id}", "name": "n"}]}
    Upstream.objects.filter(pk=crm.pk).update(listed=storing.packed(listed))
    crm.refresh_from_db()
    keys = ["prompt welcome", "resource notes://all", "template n://{id}"]
    assert importing.import_items(upstream=crm, keys=keys, actor=None).skipped == {}
    for pk in Draft.objects.values_list("pk", flat=True):
        assert (
            admin_client.get(reverse("admin:mcp_app_draft_change", args=[pk]), follow=True).status_code == 200
        )
    importing.publish_pending(upstream=crm, actor=None)
    for kind in (Prompt, Resource, ResourceTemplate):
        model = kind._meta.model_name
        address = reverse(f"admin:mcp_app_{model}_change", args=[kind._default_manager.get().pk])
        assert 'name="request"' in admin_client.get(address).content.decode(), model
    own = services.save_prompt(actor=None, name="own", template="Hello")
    address = reverse("admin:mcp_app_prompt_change", args=[own.pk])
    assert 'name="request"' not in admin_client.get(address).content.decode()


# Operation.


def test_failing_server_is_on_the_first_page_in_the_doctor_and_in_the_search(
    admin_client: Client, clean_redis: str, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    row = storing.save_upstream(actor=None, name="crm", url="https://crm.example.com/mcp")
    fault = {"state": "unavailable", "kind": "timeout", "text": "did not answer in time.", "at": 1.0}
    shared_values.put(health._name(row.pk), json.dumps(fault).encode(), 60)
    reasons = admin_client.get(reverse("admin:mcp_app_message_dashboard")).context["dashboard"].verdict.tasks
    assert (reasons[0].text, reasons[0].url) == ("The upstream server crm is unavailable", url("change", row))
    (finding,) = doctor_check.available(Installation())
    assert (finding.level, finding.text) == ("warning", "the server crm did not answer in time.")
    found = admin_client.get(reverse("mcp_find"), {"q": "crm.exam", "format": "json"}).json()["found"]
    assert ("upstream server", "crm", url("change", row)) in [
        (each["kind"], each["title"], each["url"]) for each in found
    ]
    storing.save_upstream(actor=None, upstream=row, enabled=False)
    assert [*doctor_check.available(Installation())] == []


def test_server_without_requests_is_idle_once_its_lists_were_read(settings: Any, clean_redis: str) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    row = storing.save_upstream(actor=None, name="crm", url="https://crm.example.com/mcp")
    assert "not read yet" in tools_page.health_of(row)["badge"]
    row.listed_at = row.created_at
    assert "idle" in tools_page.health_of(row)["badge"]


def test_doctor_counts_servers_whose_lists_were_never_read(settings: Any, clean_redis: str) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    row = storing.save_upstream(actor=None, name="crm", url="https://crm.example.com/mcp")
    assert [found.text for found in doctor_check.available(Installation())] == [
        "1 upstream server, 1 not read yet"
    ]
    Upstream.objects.filter(pk=row.pk).update(listed_at=row.created_at)
    storing.save_upstream(actor=None, name="hr", url="https://hr.example.com/mcp")
    assert [found.text for found in doctor_check.available(Installation())] == [
        "2 upstream servers, 1 not read yet"
    ]
    Upstream.objects.update(listed_at=row.created_at)
    assert [found.text for found in doctor_check.available(Installation())] == [
        "2 upstream servers, without failures"
    ]


LISTED = {
    "tools": [{"name": "find", "inputSchema": {"type": "object"}}],
    "prompts": [{"name": "ask", "arguments": [{"name": "who"}]}],
    "resources": [{"uri": "far://a", "name": "a"}],
    "resourceTemplates": [{"uriTemplate": "far://{x}", "name": "t"}],
}


@pytest.mark.django_db
def test_entry_of_every_kind_is_opened_and_saved(admin_client: Client) -> None:
    """The pages of prompts, resources and templates of a server failed."""
    row = storing.save_upstream(actor=None, name="far", url="http://127.0.0.1:1/mcp", prefix="far")
    row.listed = storing.packed(LISTED)
    row.save()
    keys = refreshing.listed_items(row)
    importing.import_items(upstream=row, keys=keys, actor=None, publish=True)
    entries = entries_of(row)
    assert len(entries) == 4
    for entry in entries.values():
        page = f"/admin/mcp_app/{entry._meta.model_name}/{entry.pk}/change/"
        form = admin_client.get(page).context["adminform"].form
        values = {name: form[name].value() for name in form.fields}
        posted = {name: "" if value is None else value for name, value in values.items() if value != []}
        answer = admin_client.post(page, {**posted, "title": "Far", "icons": "[]"})
        assert answer.status_code == 302, answer.context["adminform"].form.errors
        stored = type(entry).objects.get(pk=entry.pk)
        assert (stored.title, stored.request["upstream"]) == ("Far", "far")
