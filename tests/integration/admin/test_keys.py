"""API keys: the secret is shown once and never stored; keys are revoked, not edited (S14, S21)."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client, override_settings
from django.utils import timezone

from mcp_app.admin.access import EXPIRED_CHOICES
from mcp_app.auth.api_keys import (
    NEVER_ENDS,
    end_expired_keys,
    find_principal,
    issue_api_key,
    revoke_api_key,
)
from mcp_app.database import clock
from mcp_app.message_log.writer import drain_once
from mcp_app.models import ApiKey, AuditEvent, LogCursor, Session
from mcp_app.protocol.scopes import ALL, BASIC
from tests.integration.admin.addresses import page
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed
from tests.unit.sessions.queues import ListQueue, batch, line, opened


def _issue(client: Client, user: Any, name: str = "new laptop", **more: Any) -> Any:
    return client.post(page("apikey", "add"), {"user": user.pk, "name": name, "scopes": ALL, **more})


def _secret(answer: Any) -> str:
    found = re.search(r'id="mcp-secret"[^>]*>(mcp_[\w-]+)<', answer.content.decode())
    assert found
    return found[1]


def test_new_key_page_shows_a_working_secret_and_command(root: Client, seeded: Seed) -> None:
    answer = _issue(root, seeded.viewer)
    secret = _secret(answer)
    text = answer.content.decode()
    assert f"--header &quot;Authorization: Bearer {secret}&quot;" in text
    assert "claude mcp add --transport http" in text
    assert "no-store" in answer["Cache-Control"]
    principal = find_principal(secret)
    assert principal is not None
    assert principal.user_id == seeded.viewer.pk


def test_secret_is_stored_nowhere(root: Client, seeded: Seed) -> None:
    secret = _secret(_issue(root, seeded.viewer))
    key = ApiKey.objects.get(name="new laptop")
    pages = [
        page("apikey", "changelist"),
        page("apikey", "change", key.pk),
        page("auditevent", "changelist"),
        "/admin/",
    ]
    pages += [page("auditevent", "change", event.pk) for event in AuditEvent.objects.all()]
    for address in pages:
        assert secret not in root.get(address).content.decode(), address
    stored = [str(row.__dict__) for model in (ApiKey, AuditEvent, LogEntry) for row in model.objects.all()]
    stored += [str(session.get_decoded()) for session in BrowserSession.objects.all()]
    assert not [row for row in stored if secret in row]
    assert secret not in str(root.cookies)


def test_issuing_and_revoking_keys_is_audited(root: Client, seeded: Seed) -> None:
    _issue(root, seeded.viewer)
    key = ApiKey.objects.get(name="new laptop")
    root.post(page("apikey", "revoke", key.pk))
    done = AuditEvent.objects.filter(object_key=str(key), actor=seeded.root).order_by("id")
    assert [event.action for event in done] == ["api_key.issue", "api_key.revoke"]


def test_revoked_key_stops_working_and_stays_listed(root: Client, seeded: Seed) -> None:
    secret = _secret(_issue(root, seeded.viewer))
    key = ApiKey.objects.get(name="new laptop")
    root.post(page("apikey", "changelist"), {"action": "revoke_keys", "_selected_action": [key.pk]})
    assert find_principal(secret) is None
    listed = root.get(page("apikey", "changelist") + "?state=revoked").context["cl"].result_list
    assert key in listed


def test_new_key_page_shows_scopes_expiry_and_a_revoke_button(root: Client, seeded: Seed) -> None:
    text = _issue(root, seeded.viewer, scopes=["mcp:tools"], lifetime="30").content.decode()
    key = ApiKey.objects.get(name="new laptop")
    assert ">mcp:tools<" in text
    assert str(key.expires_at.year) in text
    assert f'action="{page("apikey", "revoke", key.pk)}?from_page=1"' in text


def test_revoked_key_page_shows_when_and_by_whom(root: Client, seeded: Seed) -> None:
    address = page("apikey", "change", seeded.key.pk)
    assert "field-revoked" not in root.get(address).content.decode()
    said = root.post(page("apikey", "revoke", seeded.key.pk) + "?from_page=1", follow=True).content.decode()
    assert re.search(r"</time> by <bdi[^>]*>root<", said)
    AuditEvent.objects.all()._raw_delete("default")
    assert " by <bdi" not in root.get(address).content.decode()


def test_key_expiry_must_be_in_the_future(root: Client, seeded: Seed) -> None:
    answer = _issue(root, seeded.viewer, expires_at_0="2020-01-01", expires_at_1="00:00:00")
    assert "a key must expire in the future" in answer.content.decode()
    later = timezone.localtime(clock.utcnow() + timedelta(days=2))
    _issue(root, seeded.viewer, expires_at_0=f"{later:%Y-%m-%d}", expires_at_1=f"{later:%H:%M:%S}")
    assert abs(ApiKey.objects.get(name="new laptop").expires_at - later) < timedelta(seconds=2)


@pytest.mark.parametrize("days", ["30", "90", "365", ""])
def test_lifetime_choices_set_the_expiry_and_never_warns(root: Client, seeded: Seed, days: str) -> None:
    answer = _issue(root, seeded.viewer, lifetime=days)
    ends = ApiKey.objects.get(name="new laptop").expires_at
    assert (NEVER_ENDS in answer.content.decode()) == (not days)
    if days:
        assert abs(ends - clock.utcnow() - timedelta(days=int(days))) < timedelta(minutes=1)
    else:
        assert ends is None


def test_key_form_defaults_to_no_user_basic_scopes_and_90_days(root: Client, seeded: Seed) -> None:
    answer = root.get(page("apikey", "add"))
    form = answer.context["adminform"].form
    assert (form["lifetime"].initial, tuple(form["scopes"].initial)) == ("90", BASIC)
    assert re.search(r'<option value=""[^>]*selected', str(form["user"]))
    assert 'id="add_id_user"' in answer.content.decode()
    nobody = root.post(page("apikey", "add"), {"user": "", "name": "new laptop", "scopes": BASIC})
    assert "user" in nobody.context["adminform"].form.errors


def test_key_form_requires_known_scopes(root: Client, seeded: Seed) -> None:
    refused = _issue(root, seeded.viewer, scopes=[])
    assert "scopes" in refused.context["adminform"].form.errors
    unknown = _issue(root, seeded.viewer, scopes=["mcp:everything"])
    assert "scopes" in unknown.context["adminform"].form.errors
    _issue(root, seeded.viewer, scopes=["mcp:tools", "mcp"])
    key = ApiKey.objects.get(name="new laptop")
    assert key.scopes == "mcp mcp:tools"
    assert "mcp mcp:tools" in root.get(page("apikey", "change", key.pk)).content.decode()
    assert AuditEvent.objects.latest("pk").detail["scopes"] == "mcp mcp:tools"


def test_scope_descriptions_refer_to_the_key_user(root: Client) -> None:
    words = unescape(root.get(page("apikey", "add")).content.decode())
    assert "Call tools as the key's user," in words
    assert "with the permissions of the key's user" in words
    assert "as you" not in words


def test_key_name_with_hidden_characters_is_refused(root: Client, seeded: Seed) -> None:
    answer = _issue(root, seeded.viewer, "lap\u202etop")
    assert "Hidden characters are not allowed: lap⟦U+202E⟧top" in answer.content.decode()
    assert not ApiKey.objects.filter(user=seeded.viewer, name__startswith="lap").exists()


def test_staff_may_issue_keys_only_for_themselves(client_of: ClientOf, seeded: Seed) -> None:
    seeded.viewer.user_permissions.add(Permission.objects.get(codename="add_apikey"))
    viewer = client_of("viewer")
    refused = _issue(viewer, seeded.root)
    assert "user" in refused.context["adminform"].form.errors
    assert not ApiKey.objects.filter(name="new laptop").exists()
    assert _secret(_issue(viewer, seeded.viewer))


def test_key_is_not_editable_and_is_deleted_with_its_user(root: Client, seeded: Seed) -> None:
    address = page("apikey", "change", seeded.key.pk)
    assert root.post(address, {"name": "renamed"}).status_code == 403
    assert root.post(page("apikey", "delete", seeded.key.pk), {"post": "yes"}).status_code == 403
    root.post(f"/admin/auth/user/{seeded.viewer.pk}/delete/", {"post": "yes"})
    assert not ApiKey.objects.filter(name="build server").exists()


def test_key_list_filters_by_state(root: Client, seeded: Seed) -> None:
    ApiKey.objects.filter(name="build server").update(expires_at=timezone.now() - timedelta(days=1))
    for state, names in {
        "active": {"laptop"},
        "expired": {"build server"},
        "revoked": {"lost phone"},
    }.items():
        listed = root.get(page("apikey", "changelist") + f"?state={state}").context["cl"].result_list
        assert names <= {key.name for key in listed}
        assert len({"laptop", "build server", "lost phone"} & {key.name for key in listed}) == 1


@pytest.mark.parametrize(("auth", "needed"), [("required", True), ("loopback", False)])
def test_index_shows_connect_command_without_a_secret(
    auth: str, needed: bool, root: Client, seeded: Seed
) -> None:
    with override_settings(MCP={**settings.MCP, "AUTH": auth}):
        text = root.get("/admin/").content.decode()
    assert "claude mcp add --transport http django-mcp http://127.0.0.1:8000/mcp" in text
    assert ("Authorization: Bearer YOUR_API_KEY" in text) == needed


def test_expiring_key_is_marked_and_stays_active(root: Client, seeded: Seed) -> None:
    ApiKey.objects.all().delete()
    now = clock.utcnow()
    for name, days in (("soon", 3), ("later", 30), ("over", -1), ("never", None)):
        ends = None if days is None else now + timedelta(days=days)
        ApiKey.objects.create(user=seeded.viewer, name=name, secret_hash=name, expires_at=ends)
    ApiKey.objects.create(
        user=seeded.viewer, name="taken", secret_hash="t", expires_at=now + timedelta(days=3), revoked_at=now
    )

    def listed(state: str) -> set[str]:
        rows = root.get(page("apikey", "changelist"), {"state": state}).context["cl"].result_list
        return {key.name for key in rows}

    assert listed("expires soon") == {"soon"}
    assert listed("active") == {"soon", "later", "never"}
    rows = root.get(page("apikey", "changelist")).content.decode()
    assert rows.count('<span class="mcp-badge mcp-badge-warn">expires soon</span>') == 1


def _replace(client: Client, key: ApiKey, old_key_ends: str) -> Any:
    return client.post(page("apikey", "replace", key.pk), {"old_key_ends": old_key_ends})


@pytest.mark.parametrize(("ends", "hours"), [("now", 0), ("1h", 1), ("24h", 24)])
def test_replaced_key_ends_at_the_chosen_time(root: Client, seeded: Seed, ends: str, hours: int) -> None:
    old_secret = _secret(_issue(root, seeded.viewer, scopes=["mcp:tools"], lifetime="30"))
    old = ApiKey.objects.get(name="new laptop")
    answer = _replace(root, old, ends)
    secret = _secret(answer)
    new = ApiKey.objects.exclude(pk=old.pk).get(name="new laptop")
    old.refresh_from_db()
    assert (new.user_id, new.scopes, new.issued_by_id) == (seeded.viewer.pk, old.scopes, seeded.root.pk)
    assert abs(new.expires_at - clock.utcnow() - timedelta(days=30)) < timedelta(minutes=1)
    assert find_principal(secret) is not None
    assert (find_principal(old_secret) is not None) == bool(hours)
    if hours:
        assert abs(old.expires_at - clock.utcnow() - timedelta(hours=hours)) < timedelta(minutes=1)
    assert "no-store" in answer["Cache-Control"]
    assert secret not in str([*AuditEvent.objects.values(), *ApiKey.objects.values()])
    (event,) = AuditEvent.objects.filter(action="api_key.replace")
    assert (event.actor, event.object_key, event.detail["new_key"]) == (seeded.root, str(old), str(new))


def test_form_suggests_that_both_keys_are_valid_for_a_day(root: Client, seeded: Seed) -> None:
    text = root.get(page("apikey", "replace", seeded.key.pk)).content.decode()
    assert re.findall(r'name="old_key_ends" value="(\w+)" checked', text) == ["24h"]
    assert re.findall(r'<button [^>]*name="old_key_ends" value="(\w+)"', text) == ["now"]


def test_button_of_a_leaked_key_wins_over_the_suggested_time(root: Client, seeded: Seed) -> None:
    # A browser sends the selected time before the pressed button.
    root.post(page("apikey", "replace", seeded.key.pk), {"old_key_ends": ["24h", "now"]})
    assert ApiKey.objects.get(pk=seeded.key.pk).revoked_at is not None


def test_replaced_key_leads_to_its_successor(root: Client, seeded: Seed) -> None:
    address = page("apikey", "change", seeded.key.pk)
    assert "Replaced by" not in root.get(address).content.decode()
    _replace(root, seeded.key, "24h")
    new = ApiKey.objects.exclude(pk=seeded.key.pk).get(name="laptop")
    successor = page("apikey", "change", new.pk)
    assert f'<a class="mcp-link" href="{successor}">replaced</a>' in root.get(address).content.decode()
    assert "Replaced by" in root.get(address).content.decode()
    assert "Replaced by" not in root.get(successor).content.decode()
    listed = root.get(page("apikey", "changelist")).content.decode()
    assert listed.count(">replaced</a>") == 1
    new.delete()
    assert "Replaced by" not in root.get(address).content.decode()


def test_replaced_key_never_ends_later_than_before(root: Client, seeded: Seed) -> None:
    soon = clock.utcnow() + timedelta(minutes=5)
    ApiKey.objects.filter(pk=seeded.key.pk).update(expires_at=soon)
    _replace(root, seeded.key, "24h")
    assert ApiKey.objects.get(pk=seeded.key.pk).expires_at == soon


def test_key_without_expiry_is_replaced_by_a_key_without_expiry(root: Client, seeded: Seed) -> None:
    _replace(root, seeded.key, "now")
    assert ApiKey.objects.exclude(pk=seeded.key.pk).get(name="laptop").expires_at is None


def test_expired_key_is_replaced_and_stays_expired(root: Client, seeded: Seed) -> None:
    past = clock.utcnow() - timedelta(hours=1)
    ApiKey.objects.filter(pk=seeded.key.pk).update(expires_at=past)
    assert root.get(page("apikey", "replace", seeded.key.pk)).context["choices"] == EXPIRED_CHOICES
    _replace(root, seeded.key, "24h")
    assert ApiKey.objects.get(pk=seeded.key.pk).expires_at == past


@pytest.mark.parametrize("ends", ["", "never", "48h"])
def test_unknown_end_of_the_old_key_changes_nothing(root: Client, seeded: Seed, ends: str) -> None:
    before = ApiKey.objects.count()
    assert _replace(root, seeded.key, ends).context["problems"]
    assert ApiKey.objects.count() == before


def test_revoked_key_is_not_replaced(root: Client, seeded: Seed) -> None:
    revoke_api_key(key=seeded.key)
    before = ApiKey.objects.count()
    assert _replace(root, seeded.key, "now").context["problems"]
    assert ApiKey.objects.count() == before
    shown = root.get(page("apikey", "change", seeded.key.pk)).content.decode()
    assert page("apikey", "replace", seeded.key.pk) not in shown


@pytest.mark.parametrize("old_key_ends", ["now", "1h"])
def test_sessions_name_the_end_of_their_key(root: Client, seeded: Seed, old_key_ends: str) -> None:
    principal = f"user:{seeded.root.pk}/key:{seeded.key.pk}"
    Session.objects.filter(pk=seeded.session.pk).update(principal=principal)
    _replace(root, seeded.key, old_key_ends)
    if old_key_ends == "1h":
        ApiKey.objects.filter(pk=seeded.key.pk).update(expires_at=clock.utcnow() - timedelta(seconds=1))
        end_expired_keys()
    reason = {"now": "API key revoked", "1h": "API key expired"}[old_key_ends]
    assert Session.objects.get(pk=seeded.session.pk).end_reason == reason


def test_sessions_of_a_replaced_key_end_with_it(root: Client, seeded: Seed) -> None:
    principal = f"user:{seeded.root.pk}/key:{seeded.key.pk}"
    Session.objects.filter(pk=seeded.session.pk).update(principal=principal)
    _replace(root, seeded.key, "1h")
    assert end_expired_keys() == 0
    ApiKey.objects.filter(pk=seeded.key.pk).update(expires_at=clock.utcnow() - timedelta(seconds=1))
    assert end_expired_keys() == 1
    assert Session.objects.get(pk=seeded.session.pk).ended_at is not None
    assert end_expired_keys() == 0


def test_key_page_shows_its_addresses_clients_and_calls(root: Client, seeded: Seed) -> None:
    key, _ = issue_api_key(user=seeded.root, name="orion")
    principal = f"user:{seeded.root.pk}/key:{key.pk}"
    facts = [opened("k" * 32, principal=principal, client_name="Orion", address="192.0.2.7")]
    calls = [line(str(at), session="k" * 32, principal=principal) for at in range(2)]
    calls.append(line("3", session="k" * 32, principal=principal, outcome="tool_error"))
    queue: Any = ListQueue(batch(*calls, facts=facts))
    LogCursor.objects.all().delete()
    drain_once(queue)
    use = root.get(page("apikey", "change", key.pk)).context["use"]
    assert [seen.name for seen in use.clients] == ["Orion"]
    assert [seen.name for seen in use.addresses] == ["192.0.2.7"]
    (day,) = use.days
    assert (day.calls, day.failed) == (3, 1)
    assert len(root.get(day.urls["answered"]).context["timeline"].rows) == 3
    assert len(root.get(day.urls["failed"]).context["timeline"].rows) == 1


def test_key_page_hides_use_that_the_reader_may_not_view(client_of: ClientOf, seeded: Seed) -> None:
    seeded.viewer.user_permissions.set(Permission.objects.filter(codename="view_apikey"))
    context = client_of("viewer").get(page("apikey", "change", seeded.key.pk)).context
    assert (context["use"].clients, context["use"].days, context["pages"]) == (None, None, [])
